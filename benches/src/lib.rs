//! Programs that the benchmarks run next to the shipped binary. `load` is a client that keeps connections busy. `turns`
//! keeps two servers busy in short turns. `overload` is a client that sends hostile bodies. `floor` is a TLS server that
//! reads each body and sends a constant answer. `project` answers the requests that admission sends to a project's API
//! server. `planes` simulates the API servers of thousands of projects and a hub. `lists` lists all objects of these API
//! servers. `compute` and `allocations` measure interpretation without a server, and `scripts` measures Lua scripts.
//! `cargo xtask bench` starts the programs and evaluates their output, which is one JSON object per line.

mod load_client;
mod percentile;
mod planes;
mod serve;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use interpreters::Interpretation;
use jiff::Timestamp;

pub use load_client::{LoadClient, RequestArgs};
pub use percentile::percentile;
pub use planes::serve_planes;
pub use serve::serve;

/// Returns the CPU time that a process has used, in user mode and in kernel mode.
///
/// # Errors
///
/// When no process has this id.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("no such process")?;
    // The name of the program is in parentheses and may contain any character. The user time and the system time are
    // the 12th and the 13th field after the name.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has no ')'")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<_, _>>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// Returns the CPU time of the threads that a process has now, in nanoseconds.
///
/// # Errors
///
/// When no process has this id, or the kernel does not count.
pub fn precise_cpu_time(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("no such process")? {
        // A thread can end meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = text.split_whitespace().next();
        let nanoseconds: Option<u64> = nanoseconds.and_then(|text| text.parse().ok());
        sum += nanoseconds.context("schedstat has no CPU time")?;
    }
    Ok(sum)
}

/// Returns the request bodies in these files, each with the name of its file without `.json`.
///
/// # Errors
///
/// When a file cannot be read.
pub fn bodies(files: &[PathBuf]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    files
        .iter()
        .map(|file| {
            let body = fs::read(file).with_context(|| file.display().to_string())?;
            Ok((name(file), body))
        })
        .collect()
}

fn name(file: &Path) -> String {
    file.file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Interprets one body, at a fixed time.
///
/// # Errors
///
/// When the answer is a failure.
pub fn interpret(body: &[u8]) -> anyhow::Result<Interpretation> {
    successful(interpreters::interpret(body, Timestamp::UNIX_EPOCH)?)
}

/// Interprets one body like [`interpret`], without the fast path.
///
/// # Errors
///
/// When the answer is a failure.
pub fn interpret_general(body: &[u8]) -> anyhow::Result<Interpretation> {
    successful(interpreters::interpret_general(
        body,
        Timestamp::UNIX_EPOCH,
    )?)
}

/// Returns an interpretation that has succeeded.
///
/// # Errors
///
/// The error of the interpretation.
pub fn successful(interpretation: Interpretation) -> anyhow::Result<Interpretation> {
    match interpretation.error {
        Some(error) => Err(error.into()),
        None => Ok(interpretation),
    }
}
