//! More connections than the server has slots, and clients that do not read or send.

use super::*;

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
