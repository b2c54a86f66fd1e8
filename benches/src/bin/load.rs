//! A load generator with two modes. Closed loop: each connection sends the next request as soon as it has received the
//! answer. Open loop (`--rate`): requests start at a constant rate, and the latencies of the answers are measured.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use benches::percentile;
use bytes::Bytes;
use clap::Parser;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sends requests to a server on loopback over HTTP/1.1 and TLS. Prints the CPU time of both sides, or with --rate the
/// latency of the answers.
#[derive(Parser)]
struct Args {
    /// Port of the server.
    #[arg(long)]
    port: u16,
    /// Process ID of the server, whose CPU time is measured.
    #[arg(long)]
    pid: u32,
    /// CA of the server's certificate.
    #[arg(long)]
    ca: PathBuf,
    /// Path and query of each request.
    #[arg(long)]
    path: String,
    /// File with the body of each request.
    #[arg(long)]
    body: PathBuf,
    /// Name of the user in the body. With --users, other connections replace it by other names: the server limits what
    /// one user may do at a time.
    #[arg(long)]
    user: Option<String>,
    /// Number of users. Each connection has one of them.
    #[arg(long, default_value_t = 1, requires = "user")]
    users: usize,
    /// Send only one request, and write its answer to this file.
    #[arg(long)]
    answer: Option<PathBuf>,
    /// Number of connections.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// CPU time of the server for which the closed loop measures, in milliseconds, after half a second to warm up.
    #[arg(long, default_value_t = 1000)]
    cpu_milliseconds: u64,
    /// Requests per second. Needs --seconds.
    #[arg(long, requires = "seconds")]
    rate: Option<f64>,
    /// Time for which requests are sent at the rate, in seconds.
    #[arg(long)]
    seconds: Option<f64>,
}

/// Time limit of a measurement.
const AT_MOST: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct LoadClient {
    address: SocketAddr,
    tls: TlsConnector,
    path: Arc<str>,
    body: Bytes,
    answered: Arc<AtomicU64>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&args.ca)?)?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = LoadClient {
        address: (Ipv4Addr::LOCALHOST, args.port).into(),
        tls: TlsConnector::from(Arc::new(config)),
        path: args.path.as_str().into(),
        body: fs::read(&args.body).context("--body")?.into(),
        answered: Arc::default(),
    };
    if let Some(file) = args.answer {
        let answer = client.call(&mut client.connect().await?).await?;
        return fs::write(file, answer).context("--answer");
    }
    if let (Some(rate), Some(seconds)) = (args.rate, args.seconds) {
        return at_rate(&client, &args, rate, Duration::from_secs_f64(seconds)).await;
    }
    let mut connections = JoinSet::new();
    for connection in 0..args.connections {
        connections.spawn(client.of(&args, connection).keep_busy());
    }
    let measured = measure(&args, &client.answered);
    tokio::select! {
        // A connection task ends only with an error.
        Some(ended) = connections.join_next() => ended?,
        measured = measured => measured,
    }
}

async fn measure(args: &Args, answered: &AtomicU64) -> anyhow::Result<()> {
    // The measurement starts when every connection has been used.
    while answered.load(Ordering::Relaxed) < args.connections as u64 {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(500)).await;
    let own = std::process::id();
    let now = || {
        anyhow::Ok((
            answered.load(Ordering::Relaxed),
            benches::cpu_time(args.pid)?,
            benches::cpu_time(own)?,
            Instant::now(),
        ))
    };
    let (requests_before, server_before, client_before, begin) = now()?;
    let enough = server_before + Duration::from_millis(args.cpu_milliseconds);
    while benches::cpu_time(args.pid)? < enough && begin.elapsed() < AT_MOST {
        sleep(Duration::from_millis(50)).await;
    }
    let (requests, server, client, end) = now()?;
    println!(
        "{}",
        json!({
            "requests": requests - requests_before,
            "server_cpu": server.saturating_sub(server_before).as_secs_f64(),
            "client_cpu": client.saturating_sub(client_before).as_secs_f64(),
            "seconds": end.duration_since(begin).as_secs_f64(),
        })
    );
    Ok(())
}

impl LoadClient {
    /// Returns the client of a connection: its requests are those of the connection's user.
    fn of(&self, args: &Args, connection: usize) -> Self {
        let mut client = self.clone();
        let user = connection % args.users.max(1);
        if let (Some(name), 1..) = (&args.user, user) {
            let body = String::from_utf8_lossy(&self.body);
            let quoted = |name: &str| format!("\"{name}\"");
            let own = quoted(&format!("{name}-{user}"));
            client.body = body.replace(&quoted(name), &own).into();
        }
        client
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn call(&self, sender: &mut SendRequest<Full<Bytes>>) -> anyhow::Result<Bytes> {
        let request = Request::post(&*self.path)
            .header(header::HOST, "127.0.0.1")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(self.body.clone()))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        ensure!(status == StatusCode::OK, "the server answers {status}");
        Ok(response.into_body().collect().await?.to_bytes())
    }

    async fn keep_busy(self) -> anyhow::Result<()> {
        let mut sender = self.connect().await?;
        loop {
            self.call(&mut sender).await?;
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends a request at each planned time, over the next free connection. The latency is measured from the planned
/// time, so it includes the wait for a free connection.
async fn at_rate(
    client: &LoadClient,
    args: &Args,
    rate: f64,
    time: Duration,
) -> anyhow::Result<()> {
    ensure!(rate > 0.0, "--rate is {rate}, must be greater than 0");
    let interval = Duration::from_secs_f64(1.0 / rate);
    let (plan, planned) = unbounded_channel::<Instant>();
    let planned = Arc::new(Mutex::new(planned));
    let mut calls = JoinSet::new();
    for connection in 0..args.connections {
        let (client, planned) = (client.of(args, connection), Arc::clone(&planned));
        let mut sender = client.connect().await?;
        calls.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let next = planned.lock().await.recv().await;
                let Some(begin) = next else {
                    return anyhow::Ok(latencies);
                };
                client.call(&mut sender).await?;
                latencies.push(begin.elapsed().as_nanos());
            }
        });
    }
    // A thread is used because the timer of the runtime has a resolution of only one millisecond.
    let pace = std::thread::spawn(move || {
        let begin = Instant::now();
        let mut next = begin;
        while next.duration_since(begin) < time && plan.send(next).is_ok() {
            next += interval;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    });
    let mut latencies = Vec::new();
    while let Some(ended) = calls.join_next().await {
        latencies.extend(ended??);
    }
    ensure!(
        pace.join().is_ok(),
        "the thread that starts the requests panicked"
    );
    latencies.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| percentile(&latencies, percent));
    println!("{}", json!({"p50": p50, "p99": p99}));
    Ok(())
}
