//! Tests that the webhook server answers while the other servers are busy, and the reverse.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use axum::routing::get;
use rustix::process::getpriority_process;

use super::*;

/// Longest time for an answer. It only ends a failing test.
const WITHIN: Duration = Duration::from_secs(20);

/// Sends a request, without use of a runtime.
fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn assert_answered(mut stream: TcpStream) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("no answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A handler that blocks its thread until the test releases it.
struct Gate {
    enter: Sender<()>,
    entered: Receiver<()>,
    release: Sender<()>,
    released: Arc<Mutex<Receiver<()>>>,
}

impl Gate {
    fn new() -> Self {
        let (enter, entered) = mpsc::channel();
        let (release, released) = mpsc::channel();
        Self {
            enter,
            entered,
            release,
            released: Arc::new(Mutex::new(released)),
        }
    }

    fn router(&self) -> Router {
        let (enter, released) = (self.enter.clone(), Arc::clone(&self.released));
        let block = get(async move || {
            enter.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        });
        Router::new()
            .route("/block", block)
            .route("/", get(async || ()))
    }

    /// Blocks a thread of a server.
    fn block(&self, address: SocketAddr) -> TcpStream {
        let stream = send(address, "/block");
        self.entered.recv_timeout(WITHIN).unwrap();
        stream
    }
}

#[tokio::test]
async fn large_bodies_have_threads_of_a_low_priority() {
    let servers = Servers::default();
    let runtime = servers.long_work_runtime().unwrap();
    let waits = runtime.spawn(std::future::pending::<()>());
    let others = servers.runtimes();
    let alive = |of: &Handle| of.metrics().num_alive_tasks();
    assert_eq!(others.lock().unwrap().iter().map(alive).sum::<usize>(), 1);
    let thread = runtime.spawn(async {
        let name = std::thread::current().name().map(str::to_owned);
        (name, getpriority_process(None).unwrap())
    });
    let expected = (Some("large bodies".to_owned()), LONG_WORK_NICE);
    assert_eq!(thread.await.unwrap(), expected);
    assert!(webhooks::long_work_max() < runtime.metrics().num_workers());
    waits.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn webhooks_and_probes_answer_while_a_thread_of_the_other_is_busy() {
    let servers = Servers::default();
    let (webhook_gate, probe_gate) = (Gate::new(), Gate::new());
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (webhooks, probes) = (listen().await, listen().await);
    let (webhook_address, probe_address) =
        (webhooks.local_addr().unwrap(), probes.local_addr().unwrap());
    let port = WebhookPort {
        what: "webhooks",
        listener: webhooks,
        router: webhook_gate.router(),
        limits: Limits::default(),
    };
    servers
        .serve_webhooks(vec![port], &Acceptor::Plain, &Metrics::default())
        .unwrap();
    servers.serve_operators("probes", probes, Acceptor::Plain, probe_gate.router());

    let blocked = webhook_gate.block(webhook_address);
    assert_answered(send(probe_address, "/"));
    webhook_gate.release.send(()).unwrap();
    assert_answered(blocked);

    let blocked = probe_gate.block(probe_address);
    assert_answered(send(webhook_address, "/"));
    probe_gate.release.send(()).unwrap();
    assert_answered(blocked);
    servers.tasks.stop().cancel();
    assert_eq!(servers.tasks.ended().await, None);
}
