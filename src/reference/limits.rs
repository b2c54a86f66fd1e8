//! `limits.md`: the flags that limit the webhook server. `cargo xtask docs` reads the fixed limits from the sources,
//! and adds them to the page.

use clap::CommandFactory;

use super::flags::default;
use super::page::{Page, Section, code};
use crate::args::CommandLine;

/// The flags of the webhook server, each with the effect and the reason of its limit.
const BOUNDS: [(&str, &str); 15] = [
    (
        "max-body",
        "Largest body of a request, in bytes. A larger body is answered with 413. A body is never larger than 1/16 of `--max-bytes-in-flight`, or 1/32 if admission is served.",
    ),
    (
        "max-bytes-in-flight",
        "Memory of all requests, in bytes. Interpreter and admission have half each. Without admission, the interpreter has all of it. Further requests are answered with 429. See [Memory](#memory).",
    ),
    (
        "max-requests",
        "Requests at a time, counted separately for the interpreter and for admission. A request of the interpreter counts until it is answered, or until its body has taken 250 ms to arrive. A request of admission counts until its body has arrived. Further requests are answered with 429.",
    ),
    (
        "request-timeout",
        "Time for a request whose caller sends no `timeout`, and the maximum for all requests. From the `timeout` of a caller, 250 ms are reserved for the answer. If the body has not arrived completely within the time, the answer is 408.",
    ),
    (
        "max-connections",
        "Connections at a time. See [Connections](#connections).",
    ),
    (
        "max-connections-per-address",
        "Connections of one source address at one port. All IPv6 addresses of a /64 network count as one. If unset, a quarter of the connections of the port. Requests of admission that wait for access reviews use at most three quarters of this number. A requester has at most a quarter of it, and a project half of what other projects leave of the three quarters. Further requests are answered with 429.",
    ),
    (
        "max-requests-per-connection",
        "Requests at a time on one HTTP/2 connection.",
    ),
    ("handshake-timeout", "Time for a TLS handshake."),
    (
        "header-timeout",
        "Time for the first bytes of a connection, and for the header of an HTTP/1.1 request.",
    ),
    (
        "write-timeout",
        "Time for which an answer may wait until its client reads it. Then the connection is closed, at the latest after one and a half times this time.",
    ),
    (
        "idle-timeout",
        "Time after which a connection without a request is closed. It must be longer than the 90 s after which Karmada closes its idle connections.",
    ),
    (
        "max-connection-age",
        "Age at which a connection ends, plus or minus 20 %. On HTTP/2, the client gets a GOAWAY, and requests in flight have `--drain-timeout`. On HTTP/1.1, the next answer has `Connection: close`; an idle connection stays open until `--idle-timeout`, because a request may be on its way.",
    ),
    (
        "certificate-poll",
        "Interval at which the certificate files are read.",
    ),
    (
        "shutdown-delay",
        "Time for which new connections are still served after SIGTERM, while `/readyz` already fails.",
    ),
    (
        "drain-timeout",
        "Time that requests in flight have to finish when the process stops, or when their connection is closed because it is too old or only waits for its client.",
    ),
];

pub(super) fn page() -> Page {
    let command = CommandLine::command();
    let rows = BOUNDS.map(|(flag, meaning)| {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(flag));
        vec![
            code(&format!("--{flag}")),
            arg.map(default).unwrap_or_default(),
            meaning.to_owned(),
        ]
    });
    let server = Section::named(
        "Webhook server",
        [
            "The manager and `compute-federation interpreter` have these flags. The defaults rarely need a change.",
            "A request with a body of up to 32 KiB gets a 429 at once, unless it is larger than 8 KiB and has more than 2,048 values. Any other request gets it after at most 1 s of waiting in all. If access reviews were made, the request waits for a CPU until its deadline. The 429 has `Retry-After: 1`. Karmada's \
             client repeats the request within its deadline. If an object cannot be interpreted, the answer is not an HTTP \
             error. The answer contains the problem, and the log names the object and the field once for each problem.",
        ],
    );
    Page {
        file: "limits.md",
        title: "Limits",
        sections: vec![
            server.table(["flag", "default", "meaning"], rows),
            memory(),
            connections(),
        ],
    }
}

/// Explains what counts against `--max-bytes-in-flight`, and what does not.
fn memory() -> Section {
    let counted = [
        (
            "small: 1/8",
            "For each request with a body of up to 32 KiB: 8 KiB, the body, and the answer until the client has read it.",
        ),
        (
            "large: 1/8",
            "The same for each larger request. If the size of the body is not known in advance, its buffer counts.",
        ),
        (
            "decoding: 3/4",
            "For the decoded form of a body: 12 times the size of the body. For admission also 200 bytes for each list element, at most 12 MiB; each character `,` or `[` of the body counts as a list element. A large body waits for this memory for up to 1 s. A body of the interpreter of up to 8 KiB, or of up to 32 KiB with at most 2,048 values, does not count, because a thread decodes and answers it at once.",
        ),
    ];
    let rows = counted.map(|(part, counts)| vec![part.to_owned(), counts.to_owned()]);
    let text = [
        "The bytes of interpreter and admission are divided as follows. One source address can use at most three quarters of \
         `small` and of `large`. It can use at most three quarters of what other source addresses leave of `small`. The rest of `large` is enough for a body of nearly `--max-body` from another source address. Only the answer to the single request of a source address may use more.",
    ];
    Section::named("Memory", text).table(["part", "what counts"], rows)
}

/// Explains which connections are closed, and what a connection holds besides its requests.
fn connections() -> Section {
    Section::named(
        "Connections",
        [
            "A new connection has one of the slots for new connections, a quarter of `--max-connections`. Its first request moves \
             it to the slots of its protocol: interpreter and admission have half of the rest each. With \
             `webhookServer.interpreterPort`, each of the two ports has half of `--max-connections`. When all slots of a part, or \
             of a source address, are taken, the connection that has been idle longest is closed. Among the new connections, it is \
             one of the source address that has most of them. A connection is idle if it has no request, or if it has only waited for its client for 1 s. If no connection is idle, the new connection is closed.",
            "At most three times `--max-requests` requests exist at a time, and at most one for every 16 KiB of `--max-bytes-in-flight`. \
             A refused request counts too, until its answer is read. Further requests are reset. On HTTP/2, at most 64 answers that \
             came before the body of their request wait for their client, a quarter of them to one source address; further such answers have no text. Health probes and the metrics server have 64 connections each, and do not use the threads of the webhook server.",
            "A connection holds, besides what counts above: on HTTP/1.1 a read buffer of 12 KiB; on HTTP/2 up to 64 KiB that no \
             handler has read yet; for TLS up to 16 KiB in each direction, and up to 64 KiB for the first message of a client; and its state: together at most 128 KiB. \
             For a client that sends and does not read, the kernel holds up to 384 KiB more in its socket buffers, which also count as memory of a container. \
             So plan 512 KiB for each of `--max-connections`, one and a half times `--max-bytes-in-flight`, and 32 MiB for the process itself. Example: for a pod with a memory limit of 128 MiB, set \
             `--max-bytes-in-flight=33554432`, `--max-connections=96`, and `--max-body=2097152`, or `1048576` if admission is served. At its start, the process starts itself \
             again with `MIMALLOC_PURGE_DELAY=10`, unless the environment has this variable. The allocator then returns freed memory after 10 ms; with its default of 1 s, \
             large requests one after the other would need more memory than this rule says. Where memory is plentiful, set it to `1000`: a call with the status \
             of 1,000 cells then needs about a quarter less CPU time.",
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flag_of_the_webhook_server_is_listed_once() {
        let command = CommandLine::command();
        let flags = command
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some("Webhook server"))
            .filter_map(|arg| arg.get_long());
        let flags: BTreeSet<_> = flags.collect();
        assert_eq!(
            BOUNDS
                .map(|(flag, _)| flag)
                .into_iter()
                .collect::<BTreeSet<_>>(),
            flags
        );
        assert_eq!(BOUNDS.len(), flags.len());
    }
}
