//! Measures the scripts of customizations without a server, from the bytes of a request to the bytes of its answer.
//! Prints the CPU time of a call for each case.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, anyhow};
use api::karmada::ResourceInterpreterCustomization;
use clap::Parser;
use interpreters::lua::{Limits, LuaInterpreter, StopFlag};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times the scripts of customizations.
#[derive(Parser)]
struct Args {
    /// CPU time for each case, in milliseconds.
    #[arg(long, default_value_t = 10)]
    milliseconds: u64,
    /// File with one case per line: its name, its customization and its request.
    cases: PathBuf,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    customization: ResourceInterpreterCustomization,
    review: Value,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let text = fs::read_to_string(&args.cases)?;
    let cases = serde_json::Deserializer::from_str(&text).into_iter();
    let cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
    // One interpreter has all scripts, as a server does.
    let customizations: BTreeMap<_, _> = cases
        .iter()
        .map(|case| (&case.customization.metadata.name, &case.customization))
        .collect();
    let customizations: Vec<_> = customizations.into_values().cloned().collect();
    let interpreter = LuaInterpreter::new(&customizations, Limits::default());
    let interpreter = interpreter.map_err(|errors| anyhow!("{errors:?}"))?;
    for case in &cases {
        let body = serde_json::to_vec(&case.review)?;
        let nanoseconds = measure(args.milliseconds, || {
            let stop = StopFlag::default();
            let answer = interpreter.interpret(black_box(&body), Timestamp::UNIX_EPOCH, &stop)?;
            black_box(benches::successful(answer)?);
            Ok(())
        });
        let nanoseconds = nanoseconds.with_context(|| case.name.clone())?;
        println!("{}", json!({"name": case.name, "nanoseconds": nanoseconds}));
    }
    Ok(())
}

/// Returns the CPU time of a call in nanoseconds. The first calls are for warm-up and are not measured.
fn measure(milliseconds: u64, mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    const WARM_UP: usize = 3;
    let cpu_time = || benches::precise_cpu_time(process::id());
    for _ in 0..WARM_UP {
        call()?;
    }
    let begin = cpu_time()?;
    let (mut calls, mut batch) = (0_u32, 1_u32);
    loop {
        for _ in 0..batch {
            call()?;
        }
        calls += batch;
        batch *= 2;
        let spent = cpu_time()? - begin;
        if spent >= milliseconds * 1_000_000 {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
            return Ok(spent as f64 / f64::from(calls));
        }
    }
}
