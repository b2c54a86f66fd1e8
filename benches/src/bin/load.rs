//! A load generator with two modes. Closed loop: each connection sends the next request as soon as it has received the
//! answer. Open loop (`--rate`): requests start at a constant rate, and the latencies of the answers are measured.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use benches::{LoadClient, RequestArgs, percentile};
use clap::Parser;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

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
    #[command(flatten)]
    request: RequestArgs,
    /// Send only one request, and write its answer to this file.
    #[arg(long)]
    answer: Option<PathBuf>,
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let client = LoadClient::new(&args.request, args.port)?;
    let answered = Arc::new(AtomicU64::new(0));
    if let Some(file) = args.answer {
        let answer = client.call(&mut client.connect().await?).await?;
        return fs::write(file, answer).context("--answer");
    }
    if let (Some(rate), Some(seconds)) = (args.rate, args.seconds) {
        return at_rate(&client, &args, rate, Duration::from_secs_f64(seconds)).await;
    }
    let mut connections = JoinSet::new();
    for connection in 0..args.request.connections {
        let client = client.of(&args.request, connection);
        connections.spawn(keep_busy(client, Arc::clone(&answered)));
    }
    let measured = measure(&args, &answered);
    tokio::select! {
        // A connection task ends only with an error.
        Some(ended) = connections.join_next() => ended?,
        measured = measured => measured,
    }
}

async fn keep_busy(client: LoadClient, answered: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut connection = client.connect().await?;
    loop {
        client.call(&mut connection).await?;
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

async fn measure(args: &Args, answered: &AtomicU64) -> anyhow::Result<()> {
    // The measurement starts when every connection has been used.
    while answered.load(Ordering::Relaxed) < args.request.connections as u64 {
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
    for connection in 0..args.request.connections {
        let (client, planned) = (client.of(&args.request, connection), Arc::clone(&planned));
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
