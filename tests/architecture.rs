//! Checks the dependencies between crates, the purity of plans and rules, and the completeness of some lists.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "architecture/deploy.rs"]
mod deploy;
#[path = "architecture/modules.rs"]
mod modules;
#[path = "architecture/mutations.rs"]
mod mutations;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace. Each entry is a crate and the other crates of the workspace that it may use.
const ARROWS: [(&str, &[&str]); 13] = [
    ("api", &[]),
    ("apiserver", &[]),
    ("benches", &["api", "apiserver", "interpreters"]),
    ("certs", &[]),
    (
        "compute-federation",
        &[
            "api",
            "certs",
            "controllers",
            "interpreters",
            "multicluster",
            "webhooks",
        ],
    ),
    ("controllers", &["api", "interpreters", "multicluster"]),
    ("fuzz", &["api", "interpreters", "webhooks"]),
    ("harness", &["api", "image", "multicluster"]),
    ("image", &[]),
    ("interpreters", &["api"]),
    ("multicluster", &["api"]),
    ("webhooks", &["api", "interpreters"]),
    ("xtask", &["api", "harness", "image"]),
];

/// External crates that a crate must not use. Pure code does no I/O. `certs` does not depend on Kubernetes.
const BARRED: [(&str, &[&str]); 4] = [
    (
        "interpreters",
        &["futures", "http", "kube", "tokio", "tracing"],
    ),
    ("certs", &["k8s-openapi", "kube"]),
    ("webhooks", &["kube"]),
    ("api", &["tokio", "tracing"]),
];

/// Returns the dependencies of each crate of the workspace, without dev-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .current_dir(harness::checkout::root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let kept = dependencies.filter(|dependency| dependency["kind"] != "dev");
            (name(package), kept.map(name).collect())
        })
        .collect()
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let dependencies = dependencies();
    let allowed = BTreeMap::from(ARROWS);
    let members: BTreeSet<_> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(
        members,
        allowed.keys().copied().collect(),
        "list each crate of the workspace"
    );
    for (name, used) in &dependencies {
        let of_ours: BTreeSet<_> = used
            .iter()
            .map(String::as_str)
            .filter(|used| members.contains(used))
            .collect();
        let allowed = allowed[name.as_str()].iter().copied().collect();
        assert!(
            of_ours.is_subset(&allowed),
            "{name} uses {of_ours:?}, may use {allowed:?}"
        );
    }
    for (name, barred) in BARRED {
        for other in barred {
            assert!(
                !dependencies[name].contains(*other),
                "{name} must not use {other}"
            );
        }
    }
}

/// Words that must not occur in the source of plans and rules. They indicate I/O, a clock or an environment.
const IMPURE: [&str; 10] = [
    "async ", "tokio", "Client", "Api<", "Api:", "clock::", "now()", "tracing", "std::env",
    "std::fs",
];

fn assert_pure(file: &str, text: &str) {
    for barred in IMPURE {
        assert!(!text.contains(barred), "{file} contains {barred:?}");
    }
}

#[test]
fn plans_do_no_io_and_tell_no_time() {
    let mut plans = 0;
    for (file, text) in sources("controllers/src") {
        // The decisions of re-application, of the networks and of summaries are in separate files.
        let others = [
            "/federator/reapply/",
            "/network/interface_claims",
            "/network/bindings",
            "/summary/path",
            "/summary/query",
            "/summary/value",
        ];
        let is_plan = file.contains("/plan") || others.iter().any(|other| file.contains(other));
        if !is_plan || file.ends_with("/tests.rs") || file.contains("/tests/") {
            continue;
        }
        plans += usize::from(file.ends_with("/plan.rs"));
        assert_pure(&file, &text);
    }
    assert_eq!(
        plans, 20,
        "the number of plan.rs files has changed: update this number"
    );
}

#[test]
fn triggers_do_no_io_and_tell_no_time() {
    let mut triggers = 0;
    for (file, text) in sources("controllers/src") {
        // `runtime/triggers.rs` adds the keys to the queues and logs.
        let is_runtime = file.ends_with("/runtime/triggers.rs");
        if is_runtime || !(file.ends_with("/triggers.rs") || file.contains("/triggers/")) {
            continue;
        }
        triggers += usize::from(file.ends_with("/triggers.rs"));
        assert_pure(&file, &text);
    }
    assert_eq!(
        triggers, 20,
        "the number of triggers.rs files has changed: update this number"
    );
}

#[test]
fn rules_of_admission_do_no_io_and_tell_no_time() {
    let io = [
        "/handler.rs",
        "/project_lookup.rs",
        "/validate_workload.rs",
        "/admission/tests.rs",
        "/admission/tests/",
    ];
    let rules = sources("webhooks/src/admission");
    let rules: Vec<_> = rules
        .iter()
        .filter(|(file, _)| !io.iter().any(|io| file.contains(io)))
        .collect();
    assert!(
        rules
            .iter()
            .any(|(file, _)| file.ends_with("/rules/volumes.rs"))
    );
    for (file, text) in rules {
        assert_pure(file, text);
    }
}

/// Checks the invariants of docs/concepts/invariants.md.
#[test]
fn every_invariant_is_named_by_a_test() {
    let folders = ["api/src", "multicluster/src", "controllers/src", "tests"];
    let mut named = BTreeSet::new();
    for (file, text) in folders.into_iter().flat_map(sources) {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some((numbers, _)) = line
                .strip_prefix("/// I-")
                .and_then(|it| it.split_once(": "))
            else {
                continue;
            };
            let mut below = lines.clone();
            let subject = below.find(|line| !line.starts_with("///") && !line.starts_with("#["));
            let is_test = subject.is_some_and(|line| line.contains("fn "));
            assert!(is_test, "{file}: {line:?} is not above a test");
            named.extend(numbers.split(", I-").map(str::to_owned));
        }
    }
    assert_eq!(named, invariants());
}

/// Returns the numbers of all invariants.
fn invariants() -> BTreeSet<String> {
    let page = harness::checkout::root().join("docs/concepts/invariants.md");
    let page = fs::read_to_string(page).unwrap();
    let numbers = page.lines().filter_map(|line| line.strip_prefix("## I-"));
    let numbers: BTreeSet<_> = numbers.map(str::to_owned).collect();
    assert!(numbers.len() > 20, "{numbers:?}");
    numbers
}

#[test]
fn every_test_that_a_page_names_exists() {
    let root = harness::checkout::root();
    let mut count = 0;
    for page in ["invariants", "failures"] {
        let path = root.join(format!("docs/concepts/{page}.md"));
        let text = fs::read_to_string(path).unwrap();
        let spans = text.split('`').skip(1).step_by(2);
        for (file, test) in spans.filter_map(|span| span.split_once(".rs::")) {
            let source = fs::read_to_string(root.join(file).with_extension("rs"));
            let source = source.unwrap_or_else(|error| panic!("{page}: {file}.rs: {error}"));
            let is_there = source.contains(&format!("fn {test}("));
            assert!(is_there, "{page}: {file}.rs has no test {test}");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

/// Returns the reasons of conditions and events, read from the list in `api/src/reasons.rs`.
fn reasons() -> Vec<String> {
    let list = harness::checkout::root().join("api/src/reasons.rs");
    let text = fs::read_to_string(list).unwrap();
    let constants = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "));
    let values = constants.filter_map(|line| Some(line.split('"').nth(1)?.to_owned()));
    values.collect()
}

#[test]
fn reasons_are_written_in_one_place() {
    let reasons = reasons();
    assert!(reasons.iter().any(|reason| reason == "NetworkNotFound"));
    for (file, text) in ["controllers/src", "interpreters/src"]
        .into_iter()
        .flat_map(sources)
    {
        let of_tests = ["/tests.rs", "/tests/", "/reconcile_tests", "/fixtures"];
        if of_tests.iter().any(|part| file.contains(part)) {
            continue;
        }
        // Tests at the end of a file may contain the literal values of reasons.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for reason in &reasons {
            let literal = format!("\"{reason}\"");
            assert!(
                !code.contains(&literal),
                "{file}: take {literal} from api::reasons"
            );
        }
        for line in code.lines() {
            let is_list = line.contains("const ") && line.to_uppercase().contains("REASON");
            let is_text = line.contains(": &str = \"");
            assert!(
                !(is_list && is_text),
                "{file}: {line}: add it to api::reasons"
            );
        }
        for (at, _) in code.match_indices("Condition::new(") {
            let arguments = code[at..].split(';').next().unwrap();
            let strings = arguments.split('"').skip(1).step_by(2);
            let mut words = strings.filter(|text| is_camel_case(text));
            assert_eq!(words.next(), None, "{file}: {arguments}");
        }
    }
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Returns the path and the text of each Rust file below a folder of the checkout.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn collect(folder: &Path, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                // The path is relative to the checkout, so the location of the checkout does not influence the tests.
                let file = path.strip_prefix(harness::checkout::root()).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                files.push((format!("/{}", file.display()), text));
            }
        }
    }
    let mut files = Vec::new();
    collect(&harness::checkout::root().join(folder), &mut files);
    assert!(!files.is_empty());
    files
}
