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
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::lua_suite::{LuaSuite, LuaVerdict, write_customizations};
use interpreters::lua::{Limits, LuaInterpreter, StopFlag};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

/// Number of cases in Karmada v1.18.
const CASES: usize = 564;
/// The cases with another result, and the reason (docs/concepts/lua.md#differences-from-karmadas-engine).
const EXPLAINED: (&str, &str) = (
    "declarative-configuration-mpijob AggregateStatus \"MPIJob with failed cluster\"",
    "the script makes a list with pairs: Karmada's engine has the order in which the script filled the table",
);
/// The case that is lost on the way through a webhook.
const LOST: (&str, &str) = (
    "declarative-configuration-advancedcronjob AggregateStatus \"AdvancedCronJob with empty statusItems list\"",
    "the script tells nil from an empty list of statuses: Karmada's client sends neither",
);

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
    check(&suite.judge(&answers).unwrap(), &[EXPLAINED]);
}

/// The same through the webhook, with Karmada's client. One server serves all customizations.
#[test]
fn the_suite_of_karmada_through_the_webhook() {
    let suite = LuaSuite::find_or_build(|progress| eprintln!("{progress}")).unwrap();
    let directory = TempDir::new().unwrap();
    write_customizations(&suite.cases().unwrap(), directory.path()).unwrap();
    let server = ScriptServer::start(directory.path());
    check(
        &suite.call(&server.url, &server.ca).unwrap(),
        &[EXPLAINED, LOST],
    );
}

/// Checks that exactly these cases have another result than the suite expects, or than Karmada's engine has.
fn check(verdicts: &[LuaVerdict], explained: &[(&str, &str)]) {
    assert_eq!(verdicts.len(), CASES);
    let mut different = Vec::new();
    for verdict in verdicts {
        for (what, difference) in [("suite", &verdict.expected), ("engine", &verdict.engine)] {
            if !difference.is_empty() {
                eprintln!("{}: {what}: {difference:.600}", verdict.name);
                different.push(verdict.name.as_str());
            }
        }
    }
    different.sort_unstable();
    different.dedup();
    let equal = CASES - different.len();
    eprintln!("{equal} of {CASES} as the suite expects and as Karmada's engine answers");
    let mut explained: Vec<_> = explained.iter().map(|(name, _)| *name).collect();
    explained.sort_unstable();
    assert_eq!(different, explained);
}

/// A process that serves scripts. It ends when the value is dropped.
struct ScriptServer {
    process: Child,
    url: String,
    ca: PathBuf,
    _directory: TempDir,
}

impl ScriptServer {
    /// Starts a server for the customizations of a directory. It listens before it prints its registrations.
    fn start(customizations: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
            .args(["interpreter", "--self-signed", "--port=0"])
            .arg(format!("--customizations={}", customizations.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut printed = String::new();
        let mut output = process.stdout.take().unwrap();
        output.read_to_string(&mut printed).unwrap();
        let registrations: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        let client = &registrations[0]["webhooks"][0]["clientConfig"];
        let bundle = STANDARD
            .decode(client["caBundle"].as_str().unwrap())
            .unwrap();
        let directory = TempDir::new().unwrap();
        let ca = directory.path().join("ca.crt");
        fs::write(&ca, bundle).unwrap();
        Self {
            process,
            url: client["url"].as_str().unwrap().to_owned(),
            ca,
            _directory: directory,
        }
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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
    let page = fs::read_to_string(page).unwrap();
    for row in explained::EXPLAINED.map(|entry| entry.row) {
        assert!(page.contains(&format!("\n| {row}")), "{row}");
    }
}
