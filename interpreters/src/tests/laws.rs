//! Laws of the fold, as property tests over generated histories of cell reports. `PROPTEST_CASES` sets the number of
//! histories.
//!
//! The tests compute the expected values only from the JSON texts. The schema of the CRD decides which values are
//! valid.

mod cells;
mod generate;
mod levels;
mod schema;
mod unreachable;

use std::collections::BTreeMap;
use std::{env, mem};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::NOW;
use crate::fold::{ResourceTemplate, StatusFold, StatusView};
use crate::raw::same;
use cells::{ReportedCell, all_current, cells};
use generate::{Round, histories, histories_of_lower_hubs};

/// Number of histories if `PROPTEST_CASES` is not set.
const CASES: u32 = 100_000;
const LATER: &str = "2026-11-21T11:00:00Z";
const COUNTERS: [&str; 4] = [
    "currentReplicas",
    "desiredReplicas",
    "readyReplicas",
    "replicas",
];
/// The counter that cells of former versions do not report.
const OPTIONAL_COUNTER: &str = "updatedReplicas";
/// The fields that `InterpretStatus` adds for the fold.
const HELPERS: [&str; 5] = [
    "assignedMinReplicas",
    "assignedReplicas",
    "cellRulesStamp",
    "generation",
    "resourceTemplateGeneration",
];

fn config(usual: u32) -> ProptestConfig {
    let asked = env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(usual),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn the_fold_obeys_its_laws(history in histories()) {
        let mut former = None;
        let mut parts = Parts::default();
        for round in &history.rounds {
            let Some(text) = folded(round, former.as_deref())? else {
                continue;
            };
            let status: Value = serde_json::from_str(&text).unwrap();
            let cells = cells(&round.items);
            one_reporting_cell_gives_its_status(&cells, &status)?;
            silent_cells_are_named(&cells, &status)?;
            parts.advance(&cells);
            counters_are_the_sums_of_the_parts(&parts, &status)?;
            observed_generation_waits_for_every_cell(&cells, round, former.as_deref(), &status)?;
            former = Some(text);
        }
    }
}

proptest! {
    #![proptest_config(config(CASES / 10))]

    #[test]
    fn what_claims_to_be_of_a_lower_hub_obeys_the_laws_of_merge(history in histories_of_lower_hubs()) {
        let mut former = None;
        for round in &history.rounds {
            if let Some(text) = folded(round, former.as_deref())? {
                let status: Value = serde_json::from_str(&text).unwrap();
                only_the_fold_says_which_cells_report(&status)?;
                former = Some(text);
            }
        }
    }
}

/// `CellsReporting` must exist once, while it is False, with a reason of the fold.
fn only_the_fold_says_which_cells_report(status: &Value) -> Result<(), TestCaseError> {
    let of = |it: &Value| it["conditions"].as_array().cloned().unwrap_or_default();
    let is_own = |condition: &Value| condition["type"] == "CellsReporting";
    let own: Vec<_> = of(status).into_iter().filter(is_own).collect();
    prop_assert!(own.len() < 2, "{own:?}");
    for condition in own {
        prop_assert_eq!(&condition["status"], "False");
        let reason = condition["reason"].as_str().unwrap();
        prop_assert!(
            ["CellNotApplied", "CellNotReported"].contains(&reason),
            "{reason}"
        );
    }
    for cell in status["cells"].as_array().into_iter().flatten() {
        prop_assert!(!of(cell).iter().any(is_own), "{cell}");
    }
    Ok(())
}

/// Folds the items of a round. Returns `None` if there are none. Checks the laws that hold for all items.
fn folded(round: &Round, former: Option<&str>) -> Result<Option<String>, TestCaseError> {
    let items: Vec<_> = round
        .items
        .iter()
        .map(|item| to_raw_value(item).unwrap())
        .collect();
    order_and_grouping_of_items_do_not_matter(&items, round, former)?;
    let Some(text) = render(&fold(&items), round, former, NOW) else {
        prop_assert!(items.is_empty());
        return Ok(None);
    };
    prop_assert!(!items.is_empty());
    let again = render(&fold(&items), round, Some(&text), LATER);
    prop_assert_eq!(
        again.as_deref(),
        Some(text.as_str()),
        "the same items again"
    );
    the_fast_and_the_general_way_give_the_same_answer(round, former)?;
    let change = change(&fold(&items), round, former);
    prop_assert_eq!(
        change.is_none(),
        former.is_some_and(|former| same(former, &text))
    );
    prop_assert!(change.is_none_or(|change| change == text));
    let status: Value = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(schema::violations(&status), Vec::<String>::new());
    Ok(Some(text))
}

fn fold(items: &[Box<RawValue>]) -> StatusFold<'_> {
    let each = items.iter().map(|item| StatusFold::of_item(item));
    each.fold(StatusFold::default(), StatusFold::merge)
}

fn template<'a>(round: &Round, former: Option<&'a str>) -> ResourceTemplate<'a> {
    ResourceTemplate {
        generation: Some(round.generation),
        min_replicas: round.min_replicas,
        replicas: round.replicas,
        status: former,
        shown: &[],
    }
}

fn render(fold: &StatusFold<'_>, round: &Round, former: Option<&str>, now: &str) -> Option<String> {
    fold.render(&template(round, former), now.parse::<Timestamp>().unwrap())
}

fn change(fold: &StatusFold<'_>, round: &Round, former: Option<&str>) -> Option<String> {
    let (former, mut text) = (former.and_then(StatusView::parse), Vec::new());
    let (template, now) = (template(round, None), NOW.parse::<Timestamp>().unwrap());
    let changed = fold.write_change(&template, former.as_ref(), now, &mut text);
    changed.then(|| String::from_utf8(text).unwrap())
}

/// If the items are reordered, grouped or repeated, the value and the bytes must stay the same.
fn order_and_grouping_of_items_do_not_matter(
    items: &[Box<RawValue>],
    round: &Round,
    former: Option<&str>,
) -> Result<(), TestCaseError> {
    let whole = fold(items);
    let text = render(&whole, round, former, NOW);
    let backwards: Vec<_> = items.iter().rev().cloned().collect();
    let backwards = fold(&backwards);
    prop_assert_eq!(&whole, &backwards, "commutative");
    prop_assert_eq!(
        &text,
        &render(&backwards, round, former, NOW),
        "the same bytes"
    );
    for middle in 0..=items.len() {
        let (left, right) = items.split_at(middle);
        prop_assert_eq!(&whole, &fold(left).merge(fold(right)), "associative");
        prop_assert_eq!(&whole, &fold(items).merge(fold(left)), "idempotent");
    }
    Ok(())
}

/// The fast way must accept the request, and the general way must give the same answer.
fn the_fast_and_the_general_way_give_the_same_answer(
    round: &Round,
    former: Option<&str>,
) -> Result<(), TestCaseError> {
    let head = r#"{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","request":{"uid":"u1","kind":{"group":"compute.datumapis.com","version":"v1alpha","kind":"WorkloadDeployment"},"name":"web","namespace":"ns-1","operation":"AggregateStatus","object""#;
    let metadata = json!({"generation": round.generation});
    let spec =
        json!({"replicas": round.replicas, "scaleSettings": {"minReplicas": round.min_replicas}});
    let status = former.unwrap_or("null");
    let items = Value::from(round.items.clone());
    let body = format!(
        r#"{head}:{{"metadata":{metadata},"spec":{spec},"status":{status}}},"replicas":0,"aggregatedStatus":{items}}}}}"#
    );
    let now: Timestamp = NOW.parse().unwrap();
    prop_assert!(crate::fast::interpret(&body, now).is_ok());
    let fast = crate::interpret(body.as_bytes(), now).unwrap().body;
    let general = crate::interpret_general(body.as_bytes(), now).unwrap().body;
    prop_assert_eq!(fast, general);
    Ok(())
}

/// Returns the conditions of a status, except `CellsReporting`.
fn conditions(status: &Value) -> Vec<Value> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] != "CellsReporting")
        .cloned()
        .collect()
}

/// Returns a status without the fields that the fold adds, removes or changes.
fn without_own_fields(status: &Value) -> Value {
    let mut status = status.clone();
    let mut conditions = conditions(&status);
    for condition in &mut conditions {
        condition
            .as_object_mut()
            .unwrap()
            .remove("observedGeneration");
    }
    let fields = status.as_object_mut().unwrap();
    for name in
        HELPERS
            .iter()
            .chain(&["observedGeneration", "cells", "reportingCell", "conditions"])
    {
        fields.remove(*name);
    }
    if !conditions.is_empty() {
        fields.insert("conditions".into(), conditions.into());
    }
    status
}

fn one_reporting_cell_gives_its_status(
    cells: &[ReportedCell],
    status: &Value,
) -> Result<(), TestCaseError> {
    if let [
        ReportedCell {
            name,
            report: Some(report),
            ambiguous: false,
            ..
        },
    ] = cells
    {
        prop_assert_eq!(&status["reportingCell"], name);
        prop_assert_eq!(without_own_fields(status), without_own_fields(report));
        prop_assert_eq!(status.get("cells"), None);
    }
    Ok(())
}

/// `CellsReporting` must exist only while it is False. Its message must contain the name of each cell that does not
/// report.
fn silent_cells_are_named(cells: &[ReportedCell], status: &Value) -> Result<(), TestCaseError> {
    if cells.iter().any(|cell| cell.ambiguous) {
        return Ok(());
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let own: Vec<_> = conditions
        .filter(|c| c["type"] == "CellsReporting")
        .collect();
    let silent: Vec<_> = cells.iter().filter(|cell| cell.report.is_none()).collect();
    prop_assert_eq!(own.len(), usize::from(!silent.is_empty()));
    for condition in own {
        prop_assert_eq!(&condition["status"], "False");
        let message = condition["message"].as_str().unwrap();
        let parts: Vec<_> = message.split("; ").collect();
        for cell in &silent {
            let start = format!("{}: ", cell.name);
            prop_assert!(
                parts.iter().any(|part| part.starts_with(&start)),
                "{} in {message:?}",
                cell.name
            );
        }
    }
    Ok(())
}

/// The last reports of the cells.
#[derive(Clone, Debug, Default)]
struct Parts {
    cells: BTreeMap<String, Value>,
    /// True if there was a former call.
    begun: bool,
    /// True if the result of the fold can be computed from the calls so far.
    exact: bool,
}

impl Parts {
    fn advance(&mut self, cells: &[ReportedCell]) {
        let all_report = cells.iter().all(|cell| cell.report.is_some());
        let first = !mem::replace(&mut self.begun, true);
        let ambiguous = cells.iter().any(|cell| cell.ambiguous);
        self.exact = !ambiguous && (all_report || first || self.exact);
        self.cells
            .retain(|name, _| cells.iter().any(|cell| cell.name == *name));
        for cell in cells {
            if let Some(status) = cell.report.as_ref().or(cell.former.as_ref()) {
                self.cells.insert(cell.name.clone(), status.clone());
            }
        }
    }
}

/// The counters must count each cell once. A cell that does not report counts with its last report. A removed cell does
/// not count.
fn counters_are_the_sums_of_the_parts(parts: &Parts, status: &Value) -> Result<(), TestCaseError> {
    if !parts.exact {
        return Ok(());
    }
    for counter in COUNTERS {
        let sum: i64 = parts
            .cells
            .values()
            .map(|part| part[counter].as_i64().unwrap())
            .sum();
        let sum = sum.clamp(i32::MIN.into(), i32::MAX.into());
        prop_assert_eq!(status[counter].as_i64(), Some(sum), "{}", counter);
    }
    let sum = parts
        .cells
        .values()
        .filter_map(|part| part[OPTIONAL_COUNTER].as_i64())
        .reduce(|one, other| one + other)
        .map(|sum| sum.clamp(i32::MIN.into(), i32::MAX.into()));
    prop_assert_eq!(status[OPTIONAL_COUNTER].as_i64(), sum);
    if parts.cells.len() > 1 {
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for condition in parts.cells.values().flat_map(conditions) {
            let text = |field: &str| condition[field].as_str().unwrap().to_owned();
            expected
                .entry(text("type"))
                .or_default()
                .push(text("status"));
        }
        let ladder = |type_: &str| match type_ {
            "Available" => ["True", "Unknown", "False"],
            _ => ["False", "Unknown", "True"],
        };
        let joined = conditions(status);
        prop_assert_eq!(joined.len(), expected.len());
        for condition in joined {
            let type_ = condition["type"].as_str().unwrap();
            let statuses = &expected[type_];
            let decides = ladder(type_)
                .into_iter()
                .find(|s| statuses.iter().any(|have| have == s));
            prop_assert_eq!(condition["status"].as_str(), decides, "{}", type_);
        }
    }
    Ok(())
}

/// `observedGeneration` may be the generation on the hub only in two cases: every cell has processed this generation
/// with its share, or `observedGeneration` already had this value.
fn observed_generation_waits_for_every_cell(
    cells: &[ReportedCell],
    round: &Round,
    former: Option<&str>,
    status: &Value,
) -> Result<(), TestCaseError> {
    if cells.iter().any(|cell| cell.ambiguous) {
        return Ok(());
    }
    let former: Value = former.map_or(Value::Null, |former| serde_json::from_str(former).unwrap());
    let current = all_current(cells, round, &former);
    let generation = json!(round.generation);
    if status["observedGeneration"] == generation {
        prop_assert!(current || former["observedGeneration"] == generation);
    }
    let gives = |cell: &ReportedCell| {
        cell.report
            .as_ref()
            .is_some_and(|r| r["observedGeneration"].is_i64())
    };
    if current && cells.iter().any(gives) {
        prop_assert_eq!(&status["observedGeneration"], &generation);
    }
    for condition in conditions(status) {
        let same_type = |c: &Value| c["type"] == condition["type"];
        if condition["observedGeneration"] == generation {
            let before = conditions(&former).into_iter().find(same_type);
            let claimed = before.is_some_and(|before| before["observedGeneration"] == generation);
            prop_assert!(current || claimed, "{condition}");
        }
    }
    Ok(())
}
