//! Clients that hold memory of the webhook server: they do not read their answers, or do not send their bodies.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::join_all;
use harness::ports;
use http::StatusCode;
use http_body_util::BodyExt;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::WITHIN;
use crate::client::{Http2Client, TlsConnection, connect_from, get, issue, review};
use crate::interpreter::Interpreter;

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

fn call() -> Vec<u8> {
    review("InterpretReplica", "WorkloadDeployment")
}

#[tokio::test]
async fn unread_answers_hold_capacity_until_their_client_is_gone() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let metrics_port = ports::reserve().unwrap();
    // One source address may use 1.5 MiB for small requests, and each of them counts at least 8 KiB.
    let args = [
        "--max-bytes-in-flight=16777216".to_owned(),
        format!("--metrics-bind-address=localhost:{metrics_port}"),
    ];
    let args = args.each_ref().map(String::as_str);
    let server = Interpreter::start(&directory, &args).await;
    let mut client = Http2Client::connect(address(1), server.port, &trusted, 0)
        .await
        .unwrap();
    let mut unread = Vec::new();
    let refused = loop {
        let response = timeout(WITHIN, client.post(call())).await.unwrap().unwrap();
        if response.status() != StatusCode::OK {
            break response.status();
        }
        unread.push(response);
        assert!(unread.len() < 240, "unread answers are not counted");
    };
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    assert!(unread.len() > 150, "{}", unread.len());
    let in_flight = async |count: usize| {
        let line = format!("compute_federation_interpreter_requests_in_flight {count}");
        let (_, metrics) = get(metrics_port, "/metrics").await.unwrap();
        metrics.lines().any(|found| found == line)
    };
    assert!(in_flight(unread.len()).await);
    // Another source address still gets answers.
    let mut other = Http2Client::connect(address(2), server.port, &trusted, 65_535)
        .await
        .unwrap();
    let answer = other.post(call()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body().collect().await.unwrap();

    drop((unread, client));
    let freed = async {
        while !in_flight(0).await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, freed)
        .await
        .expect("the capacity is not freed");
    let mut client = Http2Client::connect(address(1), server.port, &trusted, 0)
        .await
        .unwrap();
    let answer = client.post(call()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn idle_clients_of_one_address_do_not_make_a_call_fail() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let args = ["--max-connections=64"];
    let server = Interpreter::start(&directory, &args).await;
    let mut idle = Vec::new();
    for _ in 0..128 {
        idle.push(connect_from(address(2), server.port).await.unwrap());
    }
    let mut connection = TlsConnection::open(server.port, &trusted).await.unwrap();
    for _ in 0..50 {
        idle.push(connect_from(address(2), server.port).await.unwrap());
        let (status, _) = connection.post("/interpret", &call()).await.unwrap();
        assert_eq!(status, 200);
    }
    // Probes have slots of their own, and the longest idle client of them goes too.
    assert_eq!(server.healthz().await.unwrap(), 200);
    for _ in 0..128 {
        idle.push(connect_from(address(2), server.health).await.unwrap());
    }
    assert_eq!(server.healthz().await.unwrap(), 200);
}

/// Karmada's client retries only after a 429, so it must be able to read the 429 although it has not sent its whole
/// body yet. The server discards up to 8 MiB for up to 3 s.
#[tokio::test]
async fn a_client_that_sends_its_body_before_it_reads_gets_the_429() {
    const BODY: usize = 2 << 20;
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    // Large bodies have 4 MiB. Two source addresses may have half of it each.
    let args = ["--max-bytes-in-flight=33554432", "--request-timeout=10m"];
    let server = Interpreter::start(&directory, &args).await;
    let head =
        format!("POST /interpret HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY}\r\n\r\n");
    let mut unfinished = Vec::new();
    for host in [2, 3] {
        let stream = connect_from(address(host), server.port).await.unwrap();
        let mut client = TlsConnection::over(stream, &trusted).await.unwrap();
        client.send(head.as_bytes()).await.unwrap();
        client.send(&vec![b' '; BODY - 1]).await.unwrap();
        unfinished.push(client);
    }
    let body = vec![b' '; BODY];
    let refused = async {
        loop {
            let mut client = TlsConnection::open(server.port, &trusted).await.unwrap();
            let (status, _) = client.post("/interpret", &body).await.unwrap();
            if status == 429 {
                return;
            }
        }
    };
    timeout(WITHIN, refused).await.expect("no 429");

    let stream = connect_from(address(4), server.port).await.unwrap();
    let mut client = TlsConnection::over(stream, &trusted).await.unwrap();
    client.send(head.as_bytes()).await.unwrap();
    for part in body.chunks(16 << 10) {
        client.send(part).await.unwrap();
    }
    let answer = timeout(WITHIN, client.read_to_end()).await;
    let answer = answer.expect("the connection stays open").unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
}

/// Clients take the memory that they can get, and give it back. The bound is that of docs/reference/limits.md.
#[tokio::test]
#[ignore = "takes a minute and much memory: cargo xtask test soak"]
async fn memory_stays_within_its_bound() {
    const BYTES: usize = 64 << 20;
    const CONNECTIONS: u8 = 4;
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let args = [
        format!("--max-bytes-in-flight={BYTES}"),
        "--max-connections=1024".to_owned(),
        "--request-timeout=5s".to_owned(),
    ];
    let args = args.each_ref().map(String::as_str);
    let server = Interpreter::start(&directory, &args).await;
    let idle = server.memory();
    let mut peak = idle;
    let mut held = Vec::new();
    // Unread answers: several source addresses, each with connections that use all their streams.
    for host in 2..10 {
        for _ in 0..CONNECTIONS {
            let mut client = Http2Client::connect(address(host), server.port, &trusted, 0)
                .await
                .unwrap();
            let mut unread = Vec::new();
            for _ in 0..200 {
                unread.extend(client.post(call()).await.ok());
            }
            peak = peak.max(server.memory());
            held.push((client, unread));
        }
    }
    // Large bodies: each is valid, and most of it is one text.
    let text = "x".repeat(3 << 20);
    let large = String::from_utf8(call()).unwrap();
    let large = large.replacen(
        "{\"request\":",
        &format!("{{\"y\":\"{text}\",\"request\":"),
        1,
    );
    let senders = (10..26).map(|host| {
        let (body, trusted) = (large.clone().into_bytes(), trusted.clone());
        let port = server.port;
        tokio::spawn(async move {
            let mut client = Http2Client::connect(address(host), port, &trusted, 0)
                .await
                .unwrap();
            let mut unread = Vec::new();
            for _ in 0..10 {
                unread.extend(client.post(body.clone()).await.ok());
            }
            (client, unread)
        })
    });
    let senders: Vec<_> = senders.collect();
    while senders.iter().any(|sender| !sender.is_finished()) {
        peak = peak.max(server.memory());
        sleep(Duration::from_millis(5)).await;
    }
    let senders = join_all(senders).await;
    println!("idle {} MiB, peak {} MiB", idle >> 20, peak >> 20);
    assert!(peak <= idle + BYTES + BYTES / 2 + (64 << 20), "{peak}");
    assert_eq!(server.healthz().await.unwrap(), 200);
    // The capacity is free again after the clients are gone.
    drop((held, senders));
    let mut other = Http2Client::connect(address(30), server.port, &trusted, 65_535)
        .await
        .unwrap();
    let answered = async {
        while other.post(call()).await.unwrap().status() != StatusCode::OK {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, answered).await.expect("calls still fail");
}

/// The memory of a process can contain Secrets of customers.
#[tokio::test]
async fn no_core_dump_is_written() {
    let directory = TempDir::new().unwrap();
    issue(directory.path());
    let server = Interpreter::start(&directory, &[]).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let core = limits
        .lines()
        .find(|it| it.starts_with("Max core file size"));
    let values: Vec<_> = core.unwrap().split_whitespace().skip(4).take(2).collect();
    assert_eq!(values, ["0", "0"], "{limits}");
}
