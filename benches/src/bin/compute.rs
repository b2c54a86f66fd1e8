//! Times interpretation without a server, from the bytes of a request to the bytes of its answer: as shipped, and
//! without the JSON fast path (`general`). Also times `scan`: parsing the same bytes as JSON and dropping them, which
//! is the least that a request costs without a fast path.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use benches::percentile;
use clap::Parser;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Blocks of time for each body. The ways take turns, so that other load on the machine affects all of them equally.
const BLOCKS: u32 = 10;
/// Calls in each block, at least: 20 calls in total, so that the 99th percentile is not the median.
const MIN_CALLS: usize = 2;

/// Times interpretation without a server.
#[derive(Parser)]
struct Args {
    /// Time for each body, as shipped. The other ways take half of it each.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Request bodies.
    bodies: Vec<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let block = Duration::from_millis(args.milliseconds) / BLOCKS;
    for (name, body) in benches::bodies(&args.bodies)? {
        let (mut shipped, mut general, mut scan) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            measure(block, &mut shipped, || {
                black_box(benches::interpret(black_box(&body))?);
                Ok(())
            })?;
            measure(block / 2, &mut general, || {
                black_box(benches::interpret_general(black_box(&body))?);
                Ok(())
            })?;
            measure(block / 2, &mut scan, || {
                black_box(serde_json::from_slice::<IgnoredAny>(black_box(&body))?);
                Ok(())
            })?;
        }
        for times in [&mut shipped, &mut general, &mut scan] {
            times.sort_unstable();
        }
        println!(
            "{}",
            json!({
                "body": name,
                "p50": percentile(&shipped, 50),
                "p99": percentile(&shipped, 99),
                "general": percentile(&general, 50),
                "scan": percentile(&scan, 50),
            })
        );
    }
    Ok(())
}

/// Adds the nanoseconds of each call, after a tenth of the time to warm up.
fn measure(
    budget: Duration,
    times: &mut Vec<u64>,
    mut call: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut calls = 0;
    loop {
        let begin = Instant::now();
        call()?;
        let elapsed = begin.elapsed();
        let since = start.elapsed();
        if since > budget / 10 {
            times.push(u64::try_from(elapsed.as_nanos())?);
            calls += 1;
        }
        if since > budget && calls >= MIN_CALLS {
            return Ok(());
        }
    }
}
