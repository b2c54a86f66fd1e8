//! Tests of `compute-federation interpreter`: a self-signed certificate, slow clients, and restarts during calls.

use std::fs;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use harness::ports;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::client::{TlsConnection, get, issue, review};
use crate::{WITHIN, command};

/// A running replica of the interpreter.
pub(crate) struct Interpreter {
    process: Child,
    pub(crate) port: u16,
    pub(crate) health: u16,
}

impl Interpreter {
    pub(crate) async fn start(directory: &TempDir, args: &[&str]) -> Self {
        let (port, health) = (ports::reserve().unwrap(), ports::reserve().unwrap());
        let process = command()
            .args(["interpreter", "--bind-address=localhost"])
            .arg(format!("--port={port}"))
            .arg(format!("--cert-dir={}", directory.path().display()))
            .arg(format!("--health-probe-bind-address=localhost:{health}"))
            .args(args)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ready = async {
            while get(health, "/readyz").await.map_or(0, |(status, _)| status) != 200 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WITHIN, ready).await.expect("not ready");
        Self {
            process,
            port,
            health,
        }
    }

    /// Returns the ID of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// Returns the status of a health probe.
    pub(crate) async fn healthz(&self) -> io::Result<u16> {
        Ok(get(self.health, "/healthz").await?.0)
    }

    /// Sends SIGTERM, as a rolling update does. Returns the exit code.
    async fn terminate(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.process.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        timeout(WITHIN, self.process.wait())
            .await
            .expect("it goes on")
            .unwrap()
            .code()
    }

    /// Returns the resident memory of the process in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory_field("VmRSS:")
    }

    /// Returns the largest resident memory of the process so far, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        self.memory_field("VmHWM:")
    }

    /// Returns the nice value and the CPU time, in nanoseconds, of each thread of this name.
    pub(crate) fn threads(&self, name: &str) -> Vec<(i32, u64)> {
        let directory = format!("/proc/{}/task", self.process.id().unwrap());
        let mut threads = Vec::new();
        for thread in fs::read_dir(directory).unwrap() {
            let file =
                |name| fs::read_to_string(thread.as_ref().unwrap().path().join(name)).unwrap();
            // proc_pid_stat(5): the name is in parentheses, and field 19 is the nice value.
            let stat = file("stat");
            let (front, behind) = stat.rsplit_once(')').unwrap();
            if front.ends_with(&format!("({name}")) {
                let nice = behind.split_whitespace().nth(16).unwrap().parse();
                let ran = file("schedstat").split_whitespace().next().unwrap().parse();
                threads.push((nice.unwrap(), ran.unwrap()));
            }
        }
        threads
    }

    fn memory_field(&self, name: &str) -> usize {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap())).unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        resident
            .trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            << 10
    }
}

fn call() -> Vec<u8> {
    review("InterpretReplica", "WorkloadDeployment")
}

#[tokio::test]
async fn a_self_signed_interpreter_prints_its_registration_closes_stdout_and_serves() {
    let port = ports::reserve().unwrap();
    let mut process = command()
        .args(["interpreter", "--self-signed", &format!("--port={port}")])
        .args([format!("--url=https://localhost:{port}/interpret")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut printed = String::new();
    let mut stdout = process.stdout.take().unwrap();
    let end = stdout.read_to_string(&mut printed);
    timeout(WITHIN, end)
        .await
        .expect("stdout does not end")
        .unwrap();
    let registration: Value = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!(
        registration["kind"],
        "ResourceInterpreterWebhookConfiguration"
    );
    let config = &registration["webhooks"][0]["clientConfig"];
    assert_eq!(config["url"], format!("https://localhost:{port}/interpret"));
    let bundle = STANDARD
        .decode(config["caBundle"].as_str().unwrap())
        .unwrap();
    let trusted = CertificateDer::from_pem_slice(&bundle).unwrap();
    let mut connection = TlsConnection::open(port, &trusted).await.unwrap();
    let (status, body) = connection.post("/interpret", &call()).await.unwrap();
    assert_eq!(status, 200);
    assert!(body.contains("\"replicas\":3"), "{body}");
    assert!(process.try_wait().unwrap().is_none());
}

/// The server limits the time for handshakes, headers and bodies. It must still answer other requests while thousands
/// of requests are slow.
#[tokio::test]
async fn slow_clients_do_not_hold_up_calls() {
    const EACH: usize = 700;
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let server = Interpreter::start(
        &directory,
        &[
            "--handshake-timeout=3s",
            "--header-timeout=3s",
            "--request-timeout=4s",
        ],
    )
    .await;
    let idle = server.memory();
    // Sends the first byte. The kernel retransmits this byte until the server has accepted the connection, even if the
    // backlog overflows.
    let half_open = join_all((0..EACH).map(|_| async {
        let mut stream = TcpStream::connect(("localhost", server.port)).await?;
        stream.write_all(&[22]).await?;
        Ok(stream)
    }))
    .await;
    let mut half_open: Vec<_> = half_open.into_iter().collect::<io::Result<_>>().unwrap();
    let mut slow = Vec::new();
    for start in [
        &b"POST /interpret HTT"[..],
        b"POST /interpret HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
    ] {
        for _ in 0..EACH {
            let mut connection = TlsConnection::open(server.port, &trusted).await.unwrap();
            connection.send(start).await.unwrap();
            slow.push(connection);
        }
    }
    let taken = server.memory() - idle;
    assert!(
        taken / (3 * EACH) < 100 << 10,
        "{taken} bytes for {} connections",
        3 * EACH
    );
    let call = call();
    for _ in 0..50 {
        let mut connection = TlsConnection::open(server.port, &trusted).await.unwrap();
        let answer = timeout(Duration::from_secs(3), connection.post("/interpret", &call));
        assert_eq!(answer.await.expect("held up").unwrap().0, 200);
    }
    // The server closes all slow connections.
    let closed = join_all(slow.iter_mut().map(TlsConnection::closed));
    timeout(WITHIN, closed)
        .await
        .expect("slow connections stay open");
    for stream in &mut half_open {
        let end = timeout(WITHIN, stream.read(&mut [0; 16])).await;
        assert_eq!(end.expect("half-open connections stay").unwrap_or(0), 0);
    }
}

/// Starts a load balancer and returns its port. Like a Service, the load balancer passes each new connection to a ready
/// replica.
async fn balance(replicas: Arc<tokio::sync::Mutex<Vec<(u16, u16)>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut next = 0;
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let known = replicas.lock().await.clone();
            let mut chosen = None;
            for offset in 0..known.len() {
                let (port, health) = known[(next + offset) % known.len()];
                if get(health, "/readyz")
                    .await
                    .is_ok_and(|(status, _)| status == 200)
                {
                    chosen = Some(port);
                    break;
                }
            }
            next += 1;
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("localhost", chosen?)).await.ok()?;
                tokio::io::copy_bidirectional(&mut client, &mut server)
                    .await
                    .ok()
            });
        }
    });
    port
}

#[tokio::test]
async fn a_rolling_restart_of_two_replicas_loses_no_call() {
    let directory = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let args = ["--shutdown-delay=500ms"];
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Interpreter::start(&directory, &args).await);
    }
    let addresses = |replicas: &[Interpreter]| {
        replicas
            .iter()
            .map(|r| (r.port, r.health))
            .collect::<Vec<_>>()
    };
    let known = Arc::new(tokio::sync::Mutex::new(addresses(&replicas)));
    let port = balance(Arc::clone(&known)).await;
    let (stop, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, answered, trusted) =
                (Arc::clone(&stop), Arc::clone(&answered), trusted.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let mut connection = TlsConnection::open(port, &trusted).await?;
                    while !connection.closes && !stop.load(Ordering::Relaxed) {
                        let (status, body) =
                            connection.post("/interpret?timeout=3s", &call()).await?;
                        assert_eq!(status, 200, "{body}");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok::<_, io::Error>(())
            })
        })
        .collect();
    for _ in 0..2 {
        let before = answered.load(Ordering::Relaxed);
        let old = replicas.remove(0);
        assert_eq!(old.terminate().await, Some(0));
        replicas.push(Interpreter::start(&directory, &args).await);
        *known.lock().await = addresses(&replicas);
        assert!(
            answered.load(Ordering::Relaxed) > before,
            "calls go on meanwhile"
        );
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap().expect("a call was lost");
    }
}
