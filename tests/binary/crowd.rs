//! Crowds of clients that hold connections of the webhook server: they send nothing, do not end their handshakes, do
//! not read their answers, or do not send their bodies. When the server closes a connection, its client opens another
//! one.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use fuzz::hostile;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::WITHIN;
use crate::client::{Http2Client, TlsConnection, connect_from, issue, review, tls};
use crate::interpreter::Interpreter;

/// Time for which a crowd holds its connections. It is longer than each time limit of a connection, so the server
/// closes every connection at least once.
const TIME: Duration = Duration::from_secs(90);
/// Pause of a client before it connects again. The server closes most connections at once, because one address has only
/// a part of the slots. Without the pause, the clients and not the server would need all CPU time.
const PAUSE: Duration = Duration::from_secs(5);
/// Time between the first connections of two clients.
const APART: Duration = Duration::from_millis(5);
/// Pause of a client between two bytes.
const DRIP: Duration = Duration::from_millis(500);
/// Requests of one client that does not read its answers.
const UNREAD: usize = 32;
/// Requests of one client at a time on an HTTP/2 connection.
const STREAMS: usize = 250;
/// The well-behaved client.
const CALLER: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

/// How a client holds a connection.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// Sends nothing.
    Silence,
    /// Sends its handshake one byte at a time.
    Handshake,
    /// Sends requests and reads no answer.
    Answers,
    /// Sends its body one byte at a time.
    Body,
    /// Sends trailers of requests that were answered, and reads no answer.
    Trailers,
    /// Sends the frames of a header block that never ends.
    Headers,
}

impl Hold {
    const ALL: [Self; 6] = [
        Self::Silence,
        Self::Handshake,
        Self::Answers,
        Self::Body,
        Self::Trailers,
        Self::Headers,
    ];

    /// Holds one connection until the server closes it.
    async fn hold(
        self,
        from: Ipv4Addr,
        port: u16,
        trusted: &CertificateDer<'static>,
    ) -> io::Result<()> {
        let mut stream = connect_from(from, port).await?;
        match self {
            Self::Silence => until_closed(&mut stream).await,
            Self::Handshake => {
                // The header of a TLS record of 512 bytes.
                stream.write_all(&[22, 3, 1, 2, 0]).await?;
                drip(&mut stream).await
            }
            Self::Answers => {
                let mut client = Http2Client::over(stream, trusted, 0).await?;
                let mut unread = Vec::new();
                while unread.len() < UNREAD {
                    let posted = client.post(review("InterpretReplica", "WorkloadDeployment"));
                    unread.push(posted.await.map_err(io::Error::other)?);
                }
                client.closed().await;
                Ok(())
            }
            Self::Trailers => {
                let mut client = Http2Client::over(stream, trusted, 0).await?;
                let mut unread = Vec::new();
                while unread.len() < STREAMS {
                    let posted = client.post_with_trailers();
                    unread.push(posted.await.map_err(io::Error::other)?);
                }
                client.closed().await;
                Ok(())
            }
            Self::Headers => {
                let mut stream = tls(stream, trusted, &["h2"]).await?;
                stream.write_all(&endless_headers()).await?;
                until_closed(&mut stream).await
            }
            Self::Body => {
                let mut stream = tls(stream, trusted, &[]).await?;
                let head =
                    "POST /interpret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&vec![b' '; 50_000]).await?;
                drip(&mut stream).await
            }
        }
    }
}

/// Returns the start of an HTTP/2 connection, and the frames of a header block that never ends.
fn endless_headers() -> Vec<u8> {
    const PAYLOAD: usize = 16 << 10;
    let frame = |kind: u8, stream: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len())
            .unwrap_or_default()
            .to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, stream], payload].concat()
    };
    // A field whose name has 100,000 bytes (RFC 7541, 6.2.2 and 5.1).
    let mut start = vec![b'n'; PAYLOAD];
    start[..5].copy_from_slice(&[0x00, 0x7f, 0xa1, 0x8c, 0x06]);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, &[]));
    bytes.extend(frame(1, 1, &start));
    for _ in 0..5 {
        bytes.extend(frame(9, 1, &[b'n'; PAYLOAD]));
    }
    bytes
}

async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
    let mut chunk = [0; 1024];
    while stream.read(&mut chunk).await? > 0 {}
    Ok(())
}

async fn drip(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> io::Result<()> {
    let mut chunk = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut chunk) => if read? == 0 { return Ok(()) },
            () = sleep(DRIP) => stream.write_all(b" ").await?,
        }
    }
}

/// Keeps this many clients connected, an equal part of them with each kind of [`Hold`]. The crowd ends when the value
/// is dropped.
fn crowd(count: u16, addresses: u16, port: u16, trusted: &CertificateDer<'static>) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for index in 0..count {
        let [high, low] = (index % addresses).to_be_bytes();
        let from = Ipv4Addr::new(127, 2, high, low);
        let hold = Hold::ALL[usize::from(index) % Hold::ALL.len()];
        let trusted = trusted.clone();
        crowd.spawn(async move {
            sleep(APART * u32::from(index)).await;
            loop {
                // An error means that the server has closed the connection.
                let _ = hold.hold(from, port, &trusted).await;
                sleep(PAUSE).await;
            }
        });
    }
    crowd
}

/// Calls the server all the time, and returns the number of calls and the failures. As Karmada's client does, it uses a
/// connection for many calls, until an answer has `Connection: close`. A failed call is not repeated, because a client
/// cannot know whether the server has received it.
async fn call_for(
    time: Duration,
    port: u16,
    trusted: &CertificateDer<'static>,
) -> (usize, Vec<String>) {
    let body = review("InterpretReplica", "WorkloadDeployment");
    let (begin, mut calls, mut failures) = (Instant::now(), 0, Vec::new());
    let mut idle: Option<TlsConnection> = None;
    while begin.elapsed() < time {
        calls += 1;
        // Each tenth call uses a new connection.
        if calls % 10 == 0 {
            idle = None;
        }
        let called = timeout(WITHIN, async {
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => TlsConnection::over(connect_from(CALLER, port).await?, trusted).await?,
            };
            let (status, _) = connection.post("/interpret", &body).await?;
            idle = Some(connection).filter(|connection| !connection.closes);
            io::Result::Ok(status)
        });
        match called.await {
            Ok(Ok(200)) => {}
            failed => failures.push(format!("call {calls}: {failed:?}")),
        }
        sleep(Duration::from_millis(5)).await;
    }
    (calls, failures)
}

/// The bound is that of docs/reference/limits.md. A crowd of one address must not fail a call of another address. A
/// crowd of many addresses takes the capacity of all requests, so calls are answered with 429; this test only prints
/// how many.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and many connections: cargo xtask test soak"]
async fn four_thousand_connections_stay_within_the_memory_and_those_of_one_address_fail_no_call() {
    const BYTES: usize = 64 << 20;
    for addresses in [1, 4096] {
        let directory = TempDir::new().unwrap();
        let trusted = issue(directory.path());
        let args = [format!("--max-bytes-in-flight={BYTES}")];
        let server = Interpreter::start(&directory, &args.each_ref().map(String::as_str)).await;
        let idle = server.memory();
        let crowd = crowd(4096, addresses, server.port, &trusted);
        let (calls, failures) = call_for(TIME, server.port, &trusted).await;
        let peak = server.peak_memory();
        println!(
            "{addresses} addresses: idle {} MiB, peak {} MiB, {} of {calls} calls failed",
            idle >> 20,
            peak >> 20,
            failures.len()
        );
        assert_eq!(server.healthz().await.unwrap(), 200);
        assert!(peak <= idle + BYTES + BYTES / 2 + (64 << 20), "{peak}");
        assert!(addresses > 1 || failures.is_empty(), "{failures:#?}");
        drop(crowd);
    }
}

/// Flags for a pod of 128 MiB (docs/reference/limits.md).
const SMALL_POD: [&str; 3] = [
    "--max-bytes-in-flight=33554432",
    "--max-body=2097152",
    "--max-connections=96",
];

/// Sends each hostile body of 2 MiB from four addresses at a time. Returns the number of answers.
async fn send_hostile(port: u16, trusted: &CertificateDer<'static>) -> usize {
    let mut answered = 0;
    for hostile in hostile::interpretations(2 << 20) {
        let mut senders = JoinSet::new();
        for low in 1..=4 {
            let (body, trusted) = (hostile.body.clone(), trusted.clone());
            let from = Ipv4Addr::new(127, 3, 0, low);
            senders.spawn(async move {
                let stream = connect_from(from, port).await?;
                let mut connection = TlsConnection::over(stream, &trusted).await?;
                connection.post("/interpret", &body).await
            });
        }
        let sent = timeout(6 * WITHIN, senders.join_all()).await;
        let sent: Vec<io::Result<_>> = sent.expect("a call hangs");
        answered += sent.iter().flatten().count();
    }
    answered
}

/// The test reads the peak of the resident memory, so it needs no memory cgroup. It does not see the memory of the
/// kernel for sockets.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_128_mib_survives_hostile_bodies() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let server = Interpreter::start(&directory, &SMALL_POD).await;
    let idle = server.memory();
    let answered = send_hostile(server.port, &trusted).await;
    let peak = server.peak_memory();
    println!("idle {} MiB, peak {} MiB", idle >> 20, peak >> 20);
    assert!(answered > 0, "{answered}");
    assert!(peak <= 128 << 20, "{peak}");
}

/// Threads of a low priority decode large bodies, and not those that serve connections.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_have_threads_of_their_own() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let server = Interpreter::start(&directory, &SMALL_POD).await;
    let ran = |name| server.threads(name).iter().map(|(_, ran)| ran).sum::<u64>();
    send_hostile(server.port, &trusted).await;
    let (large, serving) = (ran("large bodies"), ran("webhooks"));
    println!("large bodies {large} ns, webhooks {serving} ns");
    assert!(large > serving, "{large} {serving}");
    let threads = server.threads("large bodies");
    assert!(threads.iter().all(|(nice, _)| *nice == 10), "{threads:?}");
}

/// The frames of an unfinished header block are in no limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_block_of_several_frames_ends_its_connection() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let server = Interpreter::start(&directory, &[]).await;
    let stream = connect_from(CALLER, server.port).await.unwrap();
    let mut stream = tls(stream, &trusted, &["h2"]).await.unwrap();
    let bytes = endless_headers();
    let (start, headers) = bytes.split_at(24 + 9);
    stream.write_all(start).await.unwrap();
    // The server has accepted the start of the connection if it sends its settings.
    stream.read_exact(&mut [0; 9]).await.unwrap();
    // An error means that the server has closed the connection.
    let _ = stream.write_all(headers).await;
    // A server that waits for the rest of the block closes the connection after 40 s.
    let closed = timeout(WITHIN, until_closed(&mut stream)).await;
    assert!(closed.is_ok(), "the connection is still open");
}

/// As `a_pod_of_128_mib_survives_hostile_bodies`, beside a crowd of clients.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes many connections: cargo xtask test soak"]
async fn a_pod_of_128_mib_survives_hostile_bodies_and_connections() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let server = Interpreter::start(&directory, &SMALL_POD).await;
    let idle = server.memory();
    let crowd = crowd(1024, 256, server.port, &trusted);
    let answered = send_hostile(server.port, &trusted).await;
    let peak = server.peak_memory();
    println!(
        "idle {} MiB, peak {} MiB, {answered} answered",
        idle >> 20,
        peak >> 20
    );
    assert_eq!(server.healthz().await.unwrap(), 200);
    assert!(answered > 0, "{answered}");
    assert!(peak <= 128 << 20, "{peak}");
    drop(crowd);
}
