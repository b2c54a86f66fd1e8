//! Keeps two servers busy in turns of some milliseconds, and prints for each pair of turns the ratio of their requests per
//! CPU time. The machine differs less between two such turns than between seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use benches::{LoadClient, RequestArgs, precise_cpu_time};
use clap::Parser;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares two servers on loopback.
#[derive(Parser)]
struct Args {
    /// Port of the first server.
    #[arg(long)]
    port: u16,
    /// Process ID of the first server.
    #[arg(long)]
    pid: u32,
    /// Port of the second server.
    #[arg(long)]
    other_port: u16,
    /// Process ID of the second server.
    #[arg(long)]
    other_pid: u32,
    #[command(flatten)]
    request: RequestArgs,
    /// Number of turns of each server.
    #[arg(long, default_value_t = 300)]
    turns: usize,
    /// Time of a turn, in milliseconds.
    #[arg(long, default_value_t = 50)]
    milliseconds: u64,
}

/// Which server has its turn: 0, 1, or neither.
type Turn = Option<usize>;

/// A server, and what its connections have done.
struct Side {
    pid: u32,
    answered: AtomicU64,
    in_flight: AtomicUsize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let (turn, turns) = watch::channel::<Turn>(None);
    let mut connections = JoinSet::new();
    let mut sides = Vec::new();
    for (index, (port, pid)) in [(args.port, args.pid), (args.other_port, args.other_pid)]
        .into_iter()
        .enumerate()
    {
        let client = LoadClient::new(&args.request, port)?;
        let side = Arc::new(Side {
            pid,
            answered: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
        });
        for connection in 0..args.request.connections {
            let client = client.of(&args.request, connection);
            connections.spawn(keep_busy(client, Arc::clone(&side), index, turns.clone()));
        }
        sides.push(side);
    }
    let [one, other] = sides.as_slice() else {
        anyhow::bail!("two servers are needed");
    };
    tokio::select! {
        // A connection task ends only with an error.
        Some(ended) = connections.join_next() => ended?,
        compared = compare(&args, [one, other], &turn) => compared,
    }
}

async fn compare(args: &Args, sides: [&Side; 2], turn: &watch::Sender<Turn>) -> anyhow::Result<()> {
    let time = Duration::from_millis(args.milliseconds);
    // Every connection is used before the measurement.
    for index in [0, 1, 0, 1] {
        take_turn(sides, index, turn, time * 10).await?;
    }
    let mut ratios = Vec::new();
    for pair in 0..args.turns {
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut rates = [0.0; 2];
        for index in order {
            let rate = take_turn(sides, index, turn, time).await?;
            if let Some(place) = rates.get_mut(index) {
                *place = rate;
            }
        }
        let [one, other] = rates;
        ratios.push(one / other);
    }
    println!("{}", json!({"ratios": ratios}));
    Ok(())
}

/// Keeps one server busy for some time, and waits for its last answer. Returns its requests per second of CPU time.
async fn take_turn(
    sides: [&Side; 2],
    index: usize,
    turn: &watch::Sender<Turn>,
    time: Duration,
) -> anyhow::Result<f64> {
    let [one, other] = sides;
    let side = if index == 0 { one } else { other };
    let now = || {
        anyhow::Ok((
            side.answered.load(Ordering::Relaxed),
            precise_cpu_time(side.pid)?,
        ))
    };
    let (answered_before, cpu_before) = now()?;
    turn.send_replace(Some(index));
    sleep(time).await;
    turn.send_replace(None);
    while side.in_flight.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    let (answered, cpu) = now()?;
    let (answered, cpu) = (answered - answered_before, cpu.saturating_sub(cpu_before));
    ensure!(answered > 0 && cpu > 0, "a turn without an answer");
    #[expect(clippy::cast_precision_loss, reason = "these are small")]
    let rate = answered as f64 * 1e9 / cpu as f64;
    Ok(rate)
}

async fn keep_busy(
    client: LoadClient,
    side: Arc<Side>,
    index: usize,
    mut turns: watch::Receiver<Turn>,
) -> anyhow::Result<()> {
    let mut connection = client.connect().await?;
    loop {
        turns.wait_for(|turn| *turn == Some(index)).await?;
        side.in_flight.fetch_add(1, Ordering::Relaxed);
        client.call(&mut connection).await?;
        side.answered.fetch_add(1, Ordering::Relaxed);
        side.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
