//! Compares answers to generated requests with Karmada's engine.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::lua_suite::{
    AnswerWriter, AnsweredReview, ComparedResult, Comparison, ComparisonOutcome, LuaCase, LuaSuite,
};
use interpreters::lua::{Limits, LuaInterpreter, StopFlag};
use jiff::Timestamp;
use rand::SeedableRng;
use rand_xorshift::XorShiftRng;
use tokio::time::Instant;

use super::explained::{Difference, EXPLAINED};
use super::generation::{Generated, Generator};

/// Number of scripts in Karmada v1.18.
const SCRIPTS: usize = 124;
/// The time of our calls. `tests/tools/suite` knows it.
const NOW: &str = "2001-02-03T04:05:06Z";
/// Number of threads that interpret. Each has its own engine of Karmada.
const WORKERS: u64 = 2;
/// Number of differences without an explanation that are printed.
const PRINTED_MAX: u64 = 10;
/// Number of requests after which the progress is printed.
const PROGRESS: u64 = 100_000;

/// The requests to compare.
struct Runs {
    seed: u64,
    first: u64,
    end: u64,
    /// Whether no variable is set.
    are_default: bool,
}

impl Runs {
    /// Returns the requests of the variables, or the default ones.
    fn of_environment(runs: u64, seed: u64) -> Self {
        let [asked, seed_asked, only] = ["LUA_RUNS", "LUA_SEED", "LUA_RUN"].map(variable);
        let end = asked.unwrap_or(runs);
        Self {
            seed: seed_asked.unwrap_or(seed),
            first: only.unwrap_or_default(),
            end: only.map_or(end, |only| only + 1),
            are_default: [asked, seed_asked, only] == [None; 3],
        }
    }

    /// Returns the random numbers of a request. They depend on nothing else.
    fn rng(&self, number: u64) -> XorShiftRng {
        /// An odd number, so each number has another seed.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let seed = self.seed.wrapping_add(number.wrapping_mul(STEP));
        XorShiftRng::seed_from_u64(seed)
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {value:?}, must be a number")))
}

/// The results of all comparisons.
#[derive(Default)]
struct Findings {
    outcomes: BTreeMap<ComparisonOutcome, u64>,
    explained: BTreeMap<&'static str, u64>,
    unexplained: u64,
}

/// The parts of a run.
struct Generation {
    judge: LuaSuite,
    generator: Generator,
    interpreter: LuaInterpreter,
    runs: Runs,
    findings: Mutex<Findings>,
    done: AtomicU64,
}

/// Generates requests, and compares the answers with Karmada's engine. Every difference must be in the list.
/// If no variable is set, every entry of the list must occur.
pub(crate) fn run(runs: u64, seed: u64) {
    let suite = LuaSuite::find_or_build(|progress| eprintln!("{progress}")).unwrap();
    let cases = suite.cases().unwrap();
    let generator = Generator::new(&cases);
    assert_eq!(generator.scripts(), SCRIPTS);
    let generation = Generation {
        interpreter: interpreter(&cases),
        judge: suite,
        generator,
        runs: Runs::of_environment(runs, seed),
        findings: Mutex::default(),
        done: AtomicU64::new(0),
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let generation = &generation;
            scope.spawn(move || generation.compare(worker));
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let Runs {
        seed,
        first,
        end,
        are_default,
    } = generation.runs;
    let findings = generation.findings.into_inner().unwrap();
    let (outcomes, explained) = (&findings.outcomes, &findings.explained);
    let runs = outcomes.values().sum::<u64>();
    eprintln!("seed {seed}: {runs} runs of {SCRIPTS} scripts in {seconds:.1} s: {outcomes:?}");
    for (row, count) in explained {
        eprintln!("explained, {count} times: {row}");
    }
    assert_eq!(runs, end - first);
    let unexplained = findings.unexplained;
    assert_eq!(unexplained, 0, "differences without an explanation");
    if are_default {
        for entry in &EXPLAINED {
            let row = entry.row;
            assert!(
                explained.contains_key(row),
                "does not occur any more: {row}"
            );
        }
    }
}

/// Returns an interpreter with the scripts of all customizations.
fn interpreter(cases: &[LuaCase]) -> LuaInterpreter {
    let customizations = cases.iter().map(|case| {
        let name = case.customization.metadata.name.clone();
        (name, case.customization.clone())
    });
    let customizations: BTreeMap<_, _> = customizations.collect();
    let customizations: Vec<_> = customizations.into_values().collect();
    LuaInterpreter::new(&customizations, Limits::default()).unwrap()
}

impl Generation {
    /// Compares the requests of one worker.
    fn compare(&self, worker: u64) {
        let compared = self.judge.compare(
            |answers| self.write(worker, answers),
            |comparison| self.read(&comparison),
        );
        compared.unwrap();
    }

    fn write(&self, worker: u64, answers: &mut AnswerWriter) -> anyhow::Result<()> {
        for number in self.runs.first..self.runs.end {
            if number % WORKERS != worker {
                continue;
            }
            let generated = self.generated(number);
            let review = generated.review.to_string();
            let answer = self.answer(review.as_bytes());
            if variable("LUA_RUN").is_some() {
                eprintln!("{review}\n{}", String::from_utf8_lossy(&answer));
            }
            answers.write(&AnsweredReview {
                number,
                customization: generated.customization,
                review: review.as_bytes(),
                answer: &answer,
            })?;
        }
        Ok(())
    }

    fn generated(&self, number: u64) -> Generated<'_> {
        self.generator.generate(&mut self.runs.rng(number))
    }

    fn answer(&self, review: &[u8]) -> Vec<u8> {
        let now: Timestamp = NOW.parse().unwrap();
        let answer = self
            .interpreter
            .interpret(review, now, &StopFlag::default());
        answer.unwrap().body
    }

    fn read(&self, comparison: &Comparison) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(PROGRESS) {
            eprintln!("{done} runs");
        }
        let rows = self.explain(comparison);
        let mut findings = self.findings.lock().unwrap();
        *findings.outcomes.entry(comparison.outcome).or_default() += 1;
        match rows {
            Ok(rows) => {
                for row in rows {
                    *findings.explained.entry(row).or_default() += 1;
                }
            }
            // The engine itself does not always have the same result.
            Err(_) if comparison.outcome == ComparisonOutcome::Unstable => {}
            Err(difference) => {
                findings.unexplained += 1;
                if findings.unexplained <= PRINTED_MAX {
                    eprintln!("{difference}");
                }
            }
        }
    }

    /// Returns the rows that explain a difference, or its description if a part of it has no row.
    fn explain(&self, comparison: &Comparison) -> Result<BTreeSet<&'static str>, String> {
        let (Some(ours), Some(engine)) = (&comparison.ours, &comparison.engine) else {
            return Ok(BTreeSet::new());
        };
        let number = comparison.number;
        let request = self.generated(number);
        let difference = Difference {
            request: &request,
            ours,
            engine,
        };
        difference.rows().ok_or_else(|| {
            let (customization, operation) = (request.customization, request.operation);
            let text = |result: &ComparedResult| match result.error.is_empty() {
                true => result.value.to_string(),
                false => format!("error: {}", result.error),
            };
            let (ours, engine, seed) = (text(ours), text(engine), self.runs.seed);
            format!(
                "LUA_SEED={seed} LUA_RUN={number}: {customization} {operation}\n  ours:   {ours:.2000}\n  engine: {engine:.2000}"
            )
        })
    }
}
