//! The end of HTTP/1.1 connections: at their age, and after an answer to a request whose body was not read.

use super::*;

/// Longest time for any step. It only ends a failing test.
const WITHIN: Duration = Duration::from_secs(20);

/// Starts a server that answers without reading the body.
async fn server(limits: Limits) -> (TestServer, CertificateDer<'static>, TempDir) {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    (start_with(directory.path(), limits).await, der, directory)
}

/// Reads until the server closes the connection.
async fn read_to_end(stream: &mut TlsStream<TcpStream>) -> String {
    let mut received = String::new();
    let read = tokio::time::timeout(WITHIN, stream.read_to_string(&mut received)).await;
    read.expect("the connection does not end").unwrap();
    received
}

/// A client may have sent its next request when the server closes an idle connection. The client cannot know whether
/// the request was received.
#[tokio::test]
async fn an_idle_connection_that_is_too_old_answers_one_more_request() {
    let age = Duration::from_millis(50);
    let limits = Limits {
        age,
        ..Limits::default()
    };
    let (server, der, _directory) = server(limits).await;
    let mut stream = connect(&server, &der).await.unwrap();
    // The connection is idle for longer than its age with the largest deviation. If the server closed it, the read
    // would return.
    let closed = tokio::time::timeout(4 * age, stream.read(&mut [0; 16])).await;
    assert!(
        closed.is_err(),
        "the idle connection was closed: {closed:?}"
    );
    let answer = get(&mut stream).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_closed_when_it_has_been_idle() {
    let limits = Limits {
        age: Duration::from_millis(50),
        idle: Duration::from_secs(2),
        ..Limits::default()
    };
    let (server, der, _directory) = server(limits).await;
    let mut stream = connect(&server, &der).await.unwrap();
    get(&mut stream).await;
    assert_eq!(read_to_end(&mut stream).await, "");
}

/// The client reads only after it has written its whole body. A reset would make its write fail, and could discard the
/// answer.
#[tokio::test]
async fn a_client_whose_body_is_not_read_gets_its_answer_and_no_reset() {
    const BODY: usize = 2 << 20;
    let limits = Limits {
        linger: WITHIN,
        ..Limits::default()
    };
    let (server, der, _directory) = server(limits).await;
    let mut stream = connect(&server, &der).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..BODY >> 14 {
        stream.write_all(&[b' '; 1 << 14]).await.unwrap();
        stream.flush().await.unwrap();
        // The server answers meanwhile.
        tokio::task::yield_now().await;
    }
    let answer = read_to_end(&mut stream).await;
    assert!(answer.ends_with("hello"), "{answer}");
    // Otherwise the client could send its next request on this connection.
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}

/// A client must not hold a connection by sending without end.
#[tokio::test]
async fn the_server_discards_only_a_part_of_a_body_that_is_not_read() {
    let forever = Duration::from_mins(10);
    for (what, linger, chunk) in [
        ("time", Duration::from_millis(50), 1),
        ("size", forever, 1 << 14),
    ] {
        let limits = Limits {
            linger,
            ..Limits::default()
        };
        let (server, der, _directory) = server(limits).await;
        let mut stream = connect(&server, &der).await.unwrap();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = vec![b' '; chunk];
        let sent = async {
            while stream.write_all(&chunk).await.is_ok() && stream.flush().await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        let sent = tokio::time::timeout(WITHIN, sent).await;
        sent.unwrap_or_else(|_| panic!("the server has no limit of {what}"));
    }
}
