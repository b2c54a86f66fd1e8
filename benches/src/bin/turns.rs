//! Keeps two servers busy in short turns, and prints the ratios of their requests per CPU time. The noise between two such
//! turns is smaller than the noise between seconds.

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
    /// Number of blocks of four turns: the first server, twice the second one, and the first one again.
    #[arg(long)]
    blocks: usize,
    /// Time of a turn, in milliseconds. It is longer than an access review of the benchmark of admission.
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
    /// Its CPU time at the end of its last turn, in nanoseconds. Work that it has put off counts for the next turn.
    cpu_time: AtomicU64,
}

/// The requests of some turns, and their CPU time in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Work {
    answered: u64,
    cpu_time: u64,
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
            cpu_time: AtomicU64::new(0),
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
    for _ in 0..args.blocks {
        // In this order, each server has one turn after its own turn and one after a turn of the other.
        let mut works = [Work::default(); 2];
        for index in [0, 1, 1, 0] {
            let work = take_turn(sides, index, turn, time).await?;
            if let Some(sum) = works.get_mut(index) {
                sum.answered += work.answered;
                sum.cpu_time += work.cpu_time;
            }
        }
        let [one, other] = works.map(Work::rate);
        ratios.push(one / other);
    }
    println!("{}", json!({"ratios": ratios}));
    Ok(())
}

impl Work {
    fn rate(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "these are small")]
        let rate = self.answered as f64 / self.cpu_time as f64;
        rate
    }
}

/// Keeps one server busy for some time, and waits for its last answer.
async fn take_turn(
    sides: [&Side; 2],
    index: usize,
    turn: &watch::Sender<Turn>,
    time: Duration,
) -> anyhow::Result<Work> {
    let [one, other] = sides;
    let side = if index == 0 { one } else { other };
    let before = side.answered.load(Ordering::Relaxed);
    turn.send_replace(Some(index));
    sleep(time).await;
    turn.send_replace(None);
    while side.in_flight.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    let answered = side.answered.load(Ordering::Relaxed) - before;
    let cpu_time = precise_cpu_time(side.pid)?;
    let cpu_time = cpu_time - side.cpu_time.swap(cpu_time, Ordering::Relaxed);
    ensure!(answered > 0 && cpu_time > 0, "a turn without an answer");
    Ok(Work { answered, cpu_time })
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
