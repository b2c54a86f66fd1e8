//! Counts the heap allocations of one interpretation of each body.

use std::path::PathBuf;

use clap::Parser;
use serde_json::json;

/// Counts the heap allocations of one interpretation of each body.
#[derive(Parser)]
struct Args {
    /// Files with one request body each.
    bodies: Vec<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    for (name, body) in benches::bodies(&Args::parse().bodies)? {
        let mut result = Ok(());
        let counted = allocation_counter::measure(|| {
            result = benches::interpret(&body).map(drop);
        });
        result?;
        println!(
            "{}",
            json!({"body": name, "allocations": counted.count_total, "bytes": counted.bytes_total})
        );
    }
    Ok(())
}
