//! `limits.md`: the flags that limit the webhook server. `cargo xtask docs` reads the fixed limits from the sources and
//! adds them.

use clap::CommandFactory;

use super::flags::default;
use super::page::{Page, Section, code};
use crate::args::CommandLine;

/// The flags of the webhook server, each with the effect and the reason of its limit.
const BOUNDS: [(&str, &str); 14] = [
    (
        "max-body",
        "Largest body of a request, in bytes. A larger body is answered with 413.",
    ),
    (
        "max-bytes-in-flight",
        "Bytes of all requests that are being read or answered, counted separately for the interpreter and for admission. From its decoding until its answer, a request of admission counts nine times, because the decoded object needs more memory. Further requests are answered with 429.",
    ),
    (
        "max-requests",
        "Requests at a time, counted separately for the interpreter and for admission. A request does not count while its body takes longer than 250 ms to arrive, or while it waits for access reviews. Further requests are answered with 429.",
    ),
    (
        "request-timeout",
        "Time for a request whose caller sends no `timeout`, and the maximum for all requests. From the `timeout` of a caller, 250 ms are reserved for the answer. A body that arrives later is answered with 408.",
    ),
    (
        "max-connections",
        "Connections at a time. Further connections wait in the backlog of the socket.",
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
        "Time for which an answer may wait until its client reads it. Then the connection is closed.",
    ),
    (
        "idle-timeout",
        "Time after which a connection without a request is closed. It must be longer than the 90 s after which Karmada closes its idle connections.",
    ),
    (
        "max-connection-age",
        "Age at which a connection is closed, plus or minus 20 %. Its requests in flight then have `--drain-timeout`.",
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
        "Time for requests in flight when the process stops, or when their connection is idle or too old.",
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
            "A 429 is sent at once, with `Retry-After: 1`. Karmada's client repeats the request within its deadline. If an object cannot \
             be interpreted, the answer is not an HTTP error. The answer contains the problem, and the log names the object and the \
             field once for each problem.",
        ],
    );
    Page {
        file: "limits.md",
        title: "Limits",
        sections: vec![server.table(["flag", "default", "meaning"], rows)],
    }
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
