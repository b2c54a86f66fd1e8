//! The unit tests of the rules: the files in `alerts`, which promtool runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::checkout::root;
use harness::prometheus::{groups, write_rules};
use serde_json::Value;
use tempfile::TempDir;

use crate::promtool;

/// The files with cases, from the top of the checkout.
const CASES: &str = "tests/monitoring/alerts";

/// An alert or a recording rule.
struct Rule {
    name: String,
    is_alert: bool,
    expression: String,
    /// The alert fires after its condition has held for this many seconds.
    lasting: u64,
}

fn rules() -> Vec<Rule> {
    let groups = groups().unwrap();
    let groups = groups.as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| {
            let text = |field: &str| rule[field].as_str().map(str::to_owned);
            let alert = text("alert");
            Rule {
                is_alert: alert.is_some(),
                name: alert.or_else(|| text("record")).unwrap(),
                expression: text("expr").unwrap(),
                lasting: text("for").map_or(0, |lasting| seconds(&lasting)),
            }
        })
        .collect()
}

/// Parses a duration such as `1h30m`.
fn seconds(duration: &str) -> u64 {
    let mut total = 0;
    let mut number = String::new();
    for letter in duration.chars() {
        let unit = match letter {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            digit => {
                number.push(digit);
                continue;
            }
        };
        total += unit * number.parse::<u64>().unwrap();
        number.clear();
    }
    assert!(number.is_empty(), "{duration} has no unit");
    total
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(CASES)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the cases of all files.
fn cases() -> Vec<Value> {
    let files = files().into_iter();
    let tests = files.flat_map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let file: Value = serde_saphyr::from_str(&text).unwrap();
        file["tests"].as_array().unwrap().clone()
    });
    tests.collect()
}

/// Returns the elements of a list. A missing list has none.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the names of the metrics that the expression uses, directly or by a recording rule.
fn metrics_of(expression: &str, rules: &[Rule]) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    let words = expression.split(|letter| !is_part(letter));
    words
        .flat_map(|word| match rules.iter().find(|rule| rule.name == word) {
            Some(recording) => metrics_of(&recording.expression, rules),
            None => vec![word.to_owned()],
        })
        .filter(|word| word.starts_with("compute_federation_") || word == "up")
        .collect()
}

/// Returns whether the case has a time series of one of the metrics.
fn has_series_of(case: &Value, metrics: &[String]) -> bool {
    list(&case["input_series"]).iter().any(|series| {
        let series = series["series"].as_str().unwrap();
        let name = series.split('{').next().unwrap();
        metrics.iter().any(|metric| metric == name)
    })
}

/// An alert that was never seen to fire may be wrong, and so may one that was never seen to be silent.
#[test]
fn every_alert_has_a_case_that_fires_and_a_case_that_is_silent() {
    let rules = rules();
    let cases = cases();
    for alert in rules.iter().filter(|rule| rule.is_alert) {
        let metrics = metrics_of(&alert.expression, &rules);
        let (mut firing, mut silent) = (0, 0);
        for case in &cases {
            for test in list(&case["alert_rule_test"]) {
                if test["alertname"] != alert.name.as_str() {
                    continue;
                }
                let name = case["name"].as_str().unwrap();
                let time = seconds(test["eval_time"].as_str().unwrap());
                // Without these conditions, a wrong alert would be silent too.
                assert!(time > alert.lasting, "{name}: {time} s is too early");
                assert!(
                    has_series_of(case, &metrics),
                    "{name}: no series of {metrics:?}"
                );
                match list(&test["exp_alerts"]).is_empty() {
                    true => silent += 1,
                    false => firing += 1,
                }
            }
        }
        assert!(firing > 0, "no case of {} fires", alert.name);
        assert!(silent > 0, "no case of {} is silent", alert.name);
    }
}

#[test]
fn every_recording_rule_has_a_case_with_a_value() {
    let cases = cases();
    let expected = cases
        .iter()
        .flat_map(|case| list(&case["promql_expr_test"]));
    let with_value: BTreeMap<_, _> = expected
        .map(|test| (test["expr"].as_str().unwrap(), list(&test["exp_samples"])))
        .collect();
    for rule in rules().iter().filter(|rule| !rule.is_alert) {
        let samples = with_value.get(rule.name.as_str());
        assert!(
            samples.is_some_and(|samples| !samples.is_empty()),
            "no case of {}",
            rule.name
        );
    }
}

/// A case of a rule that does not exist would be silent for ever.
#[test]
fn every_case_is_of_a_rule_that_exists() {
    let rules = rules();
    for case in cases() {
        let alerts = list(&case["alert_rule_test"]).iter();
        let names = alerts.map(|test| &test["alertname"]);
        let expressions = list(&case["promql_expr_test"]).iter();
        for name in names.chain(expressions.map(|test| &test["expr"])) {
            let name = name.as_str().unwrap();
            assert!(rules.iter().any(|rule| rule.name == name), "{name}");
        }
    }
}

#[test]
fn the_rules_pass_their_cases() {
    let directory = TempDir::new().unwrap();
    let rules = write_rules(directory.path()).unwrap();
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &[&rules]);
    // The files name the rules by a path that is relative to their own.
    let files = files().into_iter().map(|file| {
        let copy = directory.path().join(file.file_name().unwrap());
        fs::copy(&file, &copy).unwrap();
        copy
    });
    let files: Vec<_> = files.collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    promtool(&["test", "rules"], &files);
}
