//! Times interpretation alone, from request bytes to answer bytes. Also times `scan`, which reads the same bytes as
//! JSON without keeping anything: the lower bound for a request.

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

/// Minimum number of calls for a percentile.
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
        println!(
            "{}",
            json!({
                "body": name,
                "p50": percentile(&times, 50),
                "p99": percentile(&times, 99),
                "scan": percentile(&scans, 50),
            })
        );
    }
    Ok(())
}

/// Returns the nanoseconds of each call, sorted. The first tenth of the time is warm-up and not measured.
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
