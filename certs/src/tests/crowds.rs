//! More connections than the server has slots, and clients that do not read or send.

use std::net::SocketAddr;

use futures::FutureExt;
use http_body_util::BodyExt;
use rustls::ClientConnection;
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

use super::*;
use crate::Shares;

/// Longest time for any step. It only ends a failing test.
const WITHIN: Duration = Duration::from_secs(20);

/// SETTINGS with INITIAL_WINDOW_SIZE 0 (RFC 9113, 6.5), so that the server may not send the data of an answer.
const NO_WINDOW: &[u8] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00";
/// HEADERS of stream 1 with END_STREAM: `GET https:/` from the static table of RFC 7541.
const GET: &[u8] = b"\x00\x00\x03\x01\x05\x00\x00\x00\x01\x82\x87\x84";

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_in_time_loses_its_connection() {
    let limits = Limits {
        write: Duration::from_millis(100),
        ..Limits::default()
    };
    let said = [PREFACE.as_bytes(), NO_WINDOW, GET].concat();
    assert_ends(limits, "h2", &said).await;
}

#[tokio::test]
async fn the_longest_idle_connection_goes_when_all_slots_are_taken() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let server = start_with(directory.path(), limits).await;
    let mut first = connect(&server, &der).await.unwrap();
    get(&mut first).await;
    let mut second = connect(&server, &der).await.unwrap();
    get(&mut second).await;
    let third = tokio::time::timeout(Duration::from_secs(20), async {
        get(&mut connect(&server, &der).await.unwrap()).await
    });
    third.await.expect("the third connection waits for ever");
    assert_eq!(first.read(&mut [0; 16]).await.unwrap_or(0), 0);
    get(&mut second).await;
}

/// A server without TLS. A request for a path with `block` is answered when the test allows it. Other requests are
/// answered when their body has arrived. Each request for another path than `/` adds a permit to `entered`.
struct Crowded {
    address: SocketAddr,
    entered: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

impl Crowded {
    async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (entered, released) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let gates = (Arc::clone(&entered), Arc::clone(&released));
        let service = service_fn(move |request: Request<RequestBody>| {
            let (entered, released) = gates.clone();
            async move {
                if request.uri().path() != "/" {
                    entered.add_permits(1);
                }
                if request.uri().path().contains("block") {
                    released.acquire().await.unwrap().forget();
                }
                let _ = request.into_body().collect().await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
            }
        });
        tokio::spawn(serve(
            listener,
            Acceptor::Plain,
            service,
            limits,
            Metrics::default(),
            Shutdown::default(),
        ));
        Self {
            address,
            entered,
            released,
        }
    }

    /// Connects from the address `127.0.0.<host>`, and sends `text`.
    async fn say(&self, host: u8, text: &str) -> TcpStream {
        let mut stream = connect_from(host, self.address).await;
        // The server may already have closed the connection.
        let _ = stream.write_all(text.as_bytes()).await;
        stream
    }

    async fn get(&self, host: u8, path: &str) -> TcpStream {
        self.say(host, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .await
    }

    /// Sends a request, and waits until its handler waits.
    async fn block(&self, host: u8, path: &str) -> TcpStream {
        let stream = self.get(host, path).await;
        let entered = tokio::time::timeout(WITHIN, self.entered.acquire()).await;
        entered
            .expect("the handler does not begin")
            .unwrap()
            .forget();
        stream
    }
}

async fn connect_from(host: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Returns whether the server answers. Returns false if it closes the connection.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let mut received = Vec::new();
    let read = async {
        while !received.ends_with(b"hello") {
            match stream.read_buf(&mut received).await {
                Ok(1..) => {}
                _ => return false,
            }
        }
        true
    };
    tokio::time::timeout(WITHIN, read)
        .await
        .expect("neither an answer nor an end")
}

#[tokio::test]
async fn a_busy_connection_keeps_its_slot_and_a_new_one_is_refused_if_all_are_busy() {
    let server = Crowded::start(Limits {
        connections: 2,
        ..Limits::default()
    })
    .await;
    let mut busy = server.block(1, "/block").await;
    let mut idle = server.get(1, "/").await;
    assert!(is_answered(&mut idle).await);
    let mut second = server.block(1, "/block").await;
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(!is_answered(&mut server.get(1, "/").await).await);
    server.released.add_permits(2);
    assert!(is_answered(&mut busy).await);
    assert!(is_answered(&mut second).await);
    assert!(is_answered(&mut server.get(1, "/").await).await);
}

#[tokio::test]
async fn a_connection_that_waits_for_its_client_goes_before_a_call_is_refused() {
    let server = Crowded::start(Limits {
        connections: 2,
        ..Limits::default()
    })
    .await;
    let part = "POST /part HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1";
    let dripping = [server.say(2, part).await, server.say(2, part).await];
    let begun = tokio::time::timeout(WITHIN, server.entered.acquire_many(2)).await;
    begun.expect("the requests do not begin").unwrap().forget();
    let call = async { while !is_answered(&mut server.get(3, "/").await).await {} };
    tokio::time::timeout(WITHIN, call)
        .await
        .expect("calls fail");
    drop(dripping);
}

#[tokio::test]
async fn one_source_address_takes_only_its_part_of_the_slots() {
    let server = Crowded::start(Limits {
        connections: 8,
        connections_per_address: 2,
        ..Limits::default()
    })
    .await;
    let mut busy = server.block(2, "/block").await;
    let mut idle = server.get(2, "/").await;
    assert!(is_answered(&mut idle).await);
    let other = server.get(3, "/").await;
    // The third connection of the address ends its own idle one.
    let mut second = server.block(2, "/block").await;
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(!is_answered(&mut server.get(2, "/").await).await);
    assert!(is_answered(&mut server.get(3, "/").await).await);
    server.released.add_permits(2);
    assert!(is_answered(&mut busy).await && is_answered(&mut second).await);
    drop(other);
}

#[tokio::test]
async fn the_connections_of_one_share_leave_the_other_share_its_slots() {
    let shares = Shares {
        count: 2,
        of: |uri| usize::from(uri.path().starts_with("/b")),
    };
    let server = Crowded::start(Limits {
        connections: 8,
        shares: Some(shares),
        ..Limits::default()
    })
    .await;
    // Two slots are for new connections, and each share has three.
    let mut busy = Vec::new();
    for host in [1, 2, 3] {
        busy.push(server.block(host, "/a/block").await);
    }
    assert!(!is_answered(&mut server.get(4, "/a").await).await);
    for host in [1, 2, 3] {
        busy.push(server.block(host, "/b/block").await);
    }
    assert!(!is_answered(&mut server.get(4, "/b").await).await);
    // Connections without a request use only the slots of new connections.
    let silent = [server.say(5, "").await, server.say(5, "").await];
    server.released.add_permits(6);
    for stream in &mut busy {
        assert!(is_answered(stream).await);
    }
    assert!(is_answered(&mut server.get(4, "/a").await).await);
    assert!(is_answered(&mut server.get(4, "/b").await).await);
    drop(silent);
}

#[tokio::test]
async fn new_connections_of_one_address_do_not_end_those_of_another() {
    let shares = Shares {
        count: 1,
        of: |_| 0,
    };
    // Four slots are for new connections, and one source address may have four connections.
    let server = Crowded::start(Limits {
        connections: 16,
        connections_per_address: 4,
        shares: Some(shares),
        ..Limits::default()
    })
    .await;
    let mut slow = server.say(2, "").await;
    let mut crowd = Vec::new();
    for _ in 0..4 {
        crowd.push(server.say(1, "").await);
    }
    // The oldest connection is that of the other address.
    let ended = tokio::time::timeout(WITHIN, crowd[0].read(&mut [0; 16])).await;
    let ended = ended.expect("the crowd has all slots").unwrap_or(0);
    assert_eq!(ended, 0);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(is_answered(&mut slow).await);
}

#[tokio::test]
async fn unread_answers_of_one_source_address_are_limited_until_its_client_is_gone() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let limits = Limits {
        requests: 8,
        ..Limits::default()
    };
    let server = start_with(directory.path(), limits).await;
    let request = |stream: u8| {
        let mut frame = GET.to_vec();
        frame[8] = stream;
        frame
    };
    let settings = [PREFACE.as_bytes(), NO_WINDOW].concat();
    for _ in 0..2 {
        let said = [settings.clone(), request(1), request(3), request(5)].concat();
        let mut client = connect_for(&server, &der, "h2").await.unwrap();
        client.write_all(&said).await.unwrap();
        // Two requests are answered, and the third is reset.
        let mut answered = 0;
        let reset = async {
            loop {
                let header = read_frame(&mut client).await;
                match header[3] {
                    1 => answered += 1,
                    3 => return header[8],
                    _ => {}
                }
            }
        };
        let reset = tokio::time::timeout(WITHIN, reset).await;
        assert_eq!(reset.expect("no request is reset"), 5);
        assert_eq!(answered, 2);
    }
}

/// Begins a TLS handshake, and does not continue it.
async fn stall(host: u8, server: &TestServer, trusted: &CertificateDer<'static>) -> TcpStream {
    let name = ServerName::try_from("localhost").unwrap();
    let config = client_config(trusted, "http/1.1");
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let mut stream = connect_from(host, server.address).await;
    stream.write_all(&hello).await.unwrap();
    stream
}

#[tokio::test]
async fn slow_handshakes_of_one_source_address_give_way_to_others() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let limits = Limits {
        handshake: Duration::from_mins(10),
        ..Limits::default()
    };
    let server = start_with(directory.path(), limits).await;
    let mut stalled = Vec::new();
    for _ in 0..17 {
        stalled.push(stall(1, &server, &der).await);
    }
    let ends = stalled.iter_mut().map(|stream| {
        async move { while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {} }.boxed()
    });
    let ((), ended, rest) = tokio::time::timeout(WITHIN, futures::future::select_all(ends))
        .await
        .expect("none of the 17 handshakes ends");
    assert!(
        ended < 16,
        "the handshake that waited is the one that ended"
    );
    drop(rest);
    let call = tokio::time::timeout(WITHIN, connect(&server, &der)).await;
    get(&mut call.expect("no turn").unwrap()).await;
}

/// Without a window, the client does not take the data of an answer. The trailers of a request that was answered early
/// stay in memory until it does, so only some of these answers have data.
#[tokio::test]
async fn trailers_that_nobody_reads_are_kept_for_few_requests() {
    const REQUESTS: u32 = 200;
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let server = start_with(directory.path(), Limits::default()).await;
    let mut client = connect_for(&server, &der, "h2").await.unwrap();
    client.write_all(PREFACE.as_bytes()).await.unwrap();
    client.write_all(NO_WINDOW).await.unwrap();
    for number in 0..REQUESTS {
        client.write_all(&begun(1 + 2 * number)).await.unwrap();
    }
    client.flush().await.unwrap();
    let (mut with_data, mut without) = (0, 0);
    while with_data + without < REQUESTS {
        let frame = tokio::time::timeout(WITHIN, read_frame(&mut client));
        let header = frame.await.expect("the server does not answer");
        if header[3] == HEADERS {
            match header[4] & END_STREAM {
                0 => with_data += 1,
                _ => without += 1,
            }
        }
    }
    // One source address has a quarter of 64.
    assert_eq!((with_data, without), (16, REQUESTS - 16));
}

/// Types and flags of frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// Returns HEADERS of a stream without END_STREAM: `POST https:/` from the static table of RFC 7541.
fn begun(stream: u32) -> Vec<u8> {
    let mut frame = b"\x00\x00\x03\x01\x04".to_vec();
    frame.extend(stream.to_be_bytes());
    frame.extend(b"\x83\x87\x84");
    frame
}

/// Reads a frame. Returns its header.
async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> [u8; 9] {
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.unwrap();
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.unwrap();
    header
}
