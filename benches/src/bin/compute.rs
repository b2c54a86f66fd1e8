//! Times interpretation alone, from the bytes of a request to those of its answer, and beside it `scan`: reading those
//! bytes as JSON without keeping any of it, which is the least that a request costs.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Calls that a percentile needs.
const AT_LEAST: usize = 20;

/// Times interpretation alone.
#[derive(Parser)]
struct Args {
    /// Time for each body.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Request bodies.
    bodies: Vec<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let budget = Duration::from_millis(args.milliseconds);
    for (name, body) in benches::bodies(&args.bodies)? {
        let times = measure(budget, || {
            black_box(benches::interpret(black_box(&body))?);
            Ok(())
        })?;
        let scans = measure(budget / 4, || {
            black_box(serde_json::from_slice::<IgnoredAny>(black_box(&body))?);
            Ok(())
        })?;
        let at = |times: &[u64], percent: usize| times.get(times.len() * percent / 100).copied();
        println!(
            "{}",
            json!({"body": name, "p50": at(&times, 50), "p99": at(&times, 99), "scan": at(&scans, 50)})
        );
    }
    Ok(())
}

/// Nanoseconds of each call, sorted, after a tenth of the time to warm up.
fn measure(
    budget: Duration,
    mut call: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<u64>> {
    let start = Instant::now();
    let mut times = Vec::new();
    loop {
        let begin = Instant::now();
        call()?;
        let elapsed = begin.elapsed();
        let since = start.elapsed();
        if since > budget / 10 {
            times.push(u64::try_from(elapsed.as_nanos())?);
        }
        if since > budget && times.len() >= AT_LEAST {
            times.sort_unstable();
            return Ok(times);
        }
    }
}
