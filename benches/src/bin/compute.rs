//! Measures the time of interpretation without a server, from the bytes of a request to the bytes of its answer. Each
//! body is interpreted as in the shipped program (`p50` and `p99`) and without the JSON fast path (`general`). For
//! comparison, `scan` parses the same bytes as JSON and drops the result. Interpretation without the fast path needs at
//! least the time of `scan`.

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

/// Number of time blocks for each body. The three measurements take turns, so other load on the machine affects all of
/// them equally.
const BLOCKS: u32 = 10;
/// Minimum number of calls in each block. All blocks together have at least 20 calls, so the 99th percentile differs
/// from the median.
const MIN_CALLS: usize = 2;

/// Times interpretation without a server.
#[derive(Parser)]
struct Args {
    /// Time for each body, in milliseconds. The body is interpreted again and again during this time, as in the shipped
    /// program. `general` and `scan` get half of this time each.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Files with one request body each.
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

/// Adds the nanoseconds of each call to `times`. The first tenth of the time is for warm-up and is not measured.
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
