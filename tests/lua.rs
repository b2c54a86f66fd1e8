//! The runtime for Lua customizations beside Karmada's own engine.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "lua/explained.rs"]
mod explained;
#[path = "lua/generated.rs"]
mod generated;
#[path = "lua/generation.rs"]
mod generation;
#[path = "lua/mutation.rs"]
mod mutation;
#[path = "lua/values.rs"]
mod values;

use std::collections::BTreeMap;

use harness::lua_suite::LuaSuite;
use interpreters::lua::{Limits, LuaInterpreter, StopFlag};
use jiff::Timestamp;

/// Number of cases in Karmada v1.18.
const CASES: usize = 564;
/// The cases with another result, and the reason (docs/concepts/lua.md#differences-from-karmadas-engine).
const EXPLAINED: [(&str, &str); 1] = [(
    "declarative-configuration-mpijob AggregateStatus \"MPIJob with failed cluster\"",
    "the script makes a list with pairs: Karmada's engine has the order in which the script filled the table",
)];

/// Every case of the suite has the result that the suite expects, and the result of Karmada's engine, except the listed
/// ones. The judge takes the results from the answers as Karmada's client for webhooks does.
#[test]
fn the_suite_of_karmada() {
    let suite = LuaSuite::find_or_build(|progress| eprintln!("{progress}")).unwrap();
    let cases = suite.cases().unwrap();
    assert_eq!(cases.len(), CASES);
    let mut interpreters = BTreeMap::new();
    let answers: Vec<_> = cases
        .iter()
        .map(|case| {
            let name = case.customization.metadata.name.clone();
            let interpreter = interpreters.entry(name).or_insert_with(|| {
                let customization = std::slice::from_ref(&case.customization);
                LuaInterpreter::new(customization, Limits::default()).unwrap()
            });
            let body = case.review.to_string();
            let stop = StopFlag::default();
            let answer = interpreter.interpret(body.as_bytes(), Timestamp::UNIX_EPOCH, &stop);
            answer.unwrap().body
        })
        .collect();
    let verdicts = suite.judge(&answers).unwrap();
    assert_eq!(verdicts.len(), CASES);
    let mut different = Vec::new();
    for verdict in &verdicts {
        for (what, difference) in [("suite", &verdict.expected), ("engine", &verdict.engine)] {
            if !difference.is_empty() {
                eprintln!("{}: {what}: {difference:.600}", verdict.name);
                different.push(verdict.name.as_str());
            }
        }
    }
    different.dedup();
    let equal = CASES - different.len();
    eprintln!("{equal} of {CASES} as the suite expects and as Karmada's engine answers");
    assert_eq!(different, EXPLAINED.map(|(name, _)| name));
}

/// Answers to generated requests are the results of Karmada's engine, except the listed ones.
#[test]
fn generated_requests() {
    generated::run(30_000, 3);
}

/// As above, with more requests.
#[test]
#[ignore = "soak: about 20 minutes"]
fn a_million_generated_requests() {
    generated::run(1_000_000, 2);
}

/// Each known difference has a row in the documentation.
#[test]
fn known_differences_are_documented() {
    let page = harness::checkout::root().join(explained::PAGE);
    let page = std::fs::read_to_string(page).unwrap();
    for row in explained::EXPLAINED.map(|entry| entry.row) {
        assert!(page.contains(&format!("\n| {row}")), "{row}");
    }
}
