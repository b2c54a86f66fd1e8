//! Laws of unreachable and expected cells. The tests check the status that the project shows.

use std::collections::BTreeSet;

use api::condition::Condition;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::cells::cells;
use super::generate::{Round, UnreachableMark, histories};
use super::{COUNTERS, LATER, NOW, Parts, conditions, config, fold, render, schema, template};
use crate::fold::{ResourceTemplate, StatusFold, Unreachable, no_matching_cell};

/// Number of histories if `PROPTEST_CASES` is not set.
const CASES: u32 = 20_000;

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn unreachable_cells_obey_the_laws(history in histories()) {
        let mut hub = None;
        let mut parts = Parts::default();
        let mut shown = Vec::new();
        for round in &history.rounds {
            let items: Vec<_> = round.items.iter().map(|item| to_raw_value(item).unwrap()).collect();
            let Some(text) = render(&fold(&items), round, hub.as_deref(), NOW) else {
                continue;
            };
            parts.advance(&cells(&round.items));
            shown = check_round(&items, round, &text, &shown, &parts)?;
            hub = Some(text);
        }
    }
}

/// Checks one round. `hub` is the status on the hub, and `shown` are the conditions that the target shows. Returns the
/// conditions that the target shows after the round.
fn check_round(
    items: &[Box<RawValue>],
    round: &Round,
    hub: &str,
    shown: &[Condition],
    parts: &Parts,
) -> Result<Vec<Condition>, TestCaseError> {
    let case = RenderCase {
        items,
        round,
        hub,
        shown,
    };
    case.the_order_of_items_and_marks_does_not_matter()?;
    prop_assert_eq!(case.render(&fold(items)), hub, "no cell is unreachable");
    let base = case.base();
    let text = case.render(&case.marked());
    let status: Value = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(schema::violations(&status), Vec::<String>::new());
    only_two_conditions_change(&base, &status)?;
    case.unreachable_cells_are_named(&status)?;
    case.available_rests_on_reachable_cells(&base, &status, parts)?;
    case.the_status_of_a_single_cell_is_its_memory(&status)?;
    case.no_matching_cell_changes_two_conditions()?;

    let next = shown_by(&status);
    let again = RenderCase {
        shown: &next,
        ..case
    };
    let rendered = again.render_at(&again.marked(), LATER);
    prop_assert_eq!(rendered, text, "the same marks again");
    let healed = again.render_at(&fold(items), LATER);
    prop_assert_eq!(healed, hub, "no mark is left behind");
    Ok(next)
}

#[derive(Clone, Copy)]
struct RenderCase<'r> {
    items: &'r [Box<RawValue>],
    round: &'r Round,
    /// The status on the hub.
    hub: &'r str,
    shown: &'r [Condition],
}

impl<'r> RenderCase<'r> {
    fn template(&self) -> ResourceTemplate<'r> {
        ResourceTemplate {
            shown: self.shown,
            ..template(self.round, Some(self.hub))
        }
    }

    fn render(&self, fold: &StatusFold<'_>) -> String {
        self.render_at(fold, NOW)
    }

    fn render_at(&self, fold: &StatusFold<'_>, now: &str) -> String {
        fold.render(&self.template(), now.parse().unwrap()).unwrap()
    }

    fn marked(&self) -> StatusFold<'r> {
        let mut fold = fold(self.items);
        for cell in &self.round.expected {
            fold.expect([*cell]);
        }
        mark(&mut fold, &self.round.marks);
        fold
    }

    /// Returns the status for the case that every cell is reachable.
    fn base(&self) -> Value {
        let mut fold = fold(self.items);
        let marked = self.round.marks.iter().map(|mark| mark.cell);
        for cell in self.round.expected.iter().copied().chain(marked) {
            fold.expect([cell]);
        }
        serde_json::from_str(&self.render(&fold)).unwrap()
    }

    fn is_marked(&self, cell: &str) -> bool {
        self.round.marks.iter().any(|mark| mark.cell == cell)
    }

    fn the_order_of_items_and_marks_does_not_matter(&self) -> Result<(), TestCaseError> {
        let whole = self.marked();
        let mut backwards = StatusFold::default();
        for one in self.round.marks.iter().rev() {
            mark(&mut backwards, std::slice::from_ref(one));
        }
        for cell in self.round.expected.iter().rev() {
            backwards.expect([*cell]);
        }
        for item in self.items.iter().rev() {
            backwards = backwards.merge(StatusFold::of_item(item));
        }
        prop_assert_eq!(&whole, &backwards, "commutative");
        prop_assert_eq!(self.render(&whole), self.render(&backwards));
        let (left, right) = self.items.split_at(self.items.len() / 2);
        let mut parts = (fold(left), fold(right));
        mark(&mut parts.0, &self.round.marks);
        for cell in &self.round.expected {
            parts.1.expect([*cell]);
        }
        prop_assert_eq!(&whole, &parts.0.merge(parts.1), "associative");
        prop_assert_eq!(&whole, &whole.clone().merge(self.marked()), "idempotent");
        let mut twice = self.marked();
        mark(&mut twice, &self.round.marks);
        prop_assert_eq!(&whole, &twice, "idempotent");

        let names = self
            .round
            .expected
            .iter()
            .map(|cell| json!({"clusterName": cell}).to_string());
        let names: Vec<_> = names.collect();
        let items = format!("[{}]", names.join(","));
        let of_names = fold(self.items).merge(StatusFold::of_items(&items).unwrap());
        let mut expected = fold(self.items);
        for cell in &self.round.expected {
            expected.expect([*cell]);
        }
        prop_assert_eq!(&expected, &of_names, "an item with nothing but its name");
        Ok(())
    }

    fn unreachable_cells_are_named(&self, status: &Value) -> Result<(), TestCaseError> {
        let Some(earliest) = self.round.marks.iter().map(|mark| mark.since).min() else {
            return Ok(());
        };
        let reporting = one(status, "CellsReporting").unwrap();
        prop_assert_eq!(&reporting["status"], "False");
        prop_assert_eq!(&reporting["reason"], "CellUnreachable");
        let message = reporting["message"].as_str().unwrap();
        for mark in &self.round.marks {
            let start = format!("{}: unreachable since {}", mark.cell, text(mark.since));
            prop_assert!(message.contains(&start), "{} in {message:?}", mark.cell);
        }
        let hub: Value = serde_json::from_str(self.hub).unwrap();
        let former = one(&hub, "CellsReporting").map(|former| former["lastTransitionTime"].clone());
        let shown = self.shown_since("CellsReporting", "False");
        let since = shown.or(former).unwrap_or_else(|| text(earliest).into());
        prop_assert_eq!(&reporting["lastTransitionTime"], &since);
        Ok(())
    }

    fn available_rests_on_reachable_cells(
        &self,
        base: &Value,
        status: &Value,
        parts: &Parts,
    ) -> Result<(), TestCaseError> {
        let (before, available) = (one(base, "Available"), one(status, "Available"));
        if self.round.marks.is_empty() {
            prop_assert_eq!(before, available);
            return Ok(());
        }
        let available = available.unwrap();
        let now = available["status"].as_str().unwrap();
        let names: BTreeSet<_> = self.marked().cells().map(str::to_owned).collect();
        if names.iter().all(|cell| self.is_marked(cell)) {
            prop_assert_eq!(
                (now, &available["reason"]),
                ("Unknown", &json!("CellUnreachable"))
            );
        }
        let was = before.as_ref().and_then(|before| before["status"].as_str());
        prop_assert!(
            now != "True" || was == Some("True"),
            "a mark never makes Available True"
        );
        if parts.exact {
            let reachable = parts.cells.iter().filter(|(name, _)| !self.is_marked(name));
            let told: Vec<_> = reachable
                .flat_map(|(_, part)| conditions(part))
                .filter(|condition| condition["type"] == "Available")
                .collect();
            let best = ["True", "Unknown", "False"]
                .into_iter()
                .find(|status| told.iter().any(|condition| condition["status"] == *status));
            prop_assert_eq!(now, best.unwrap_or("Unknown"));
            if best.is_none() {
                prop_assert_eq!(&available["reason"], "CellUnreachable");
            }
        }
        let time = &available["lastTransitionTime"];
        if was == Some(now) {
            prop_assert_eq!(time, &before.unwrap()["lastTransitionTime"]);
        } else if let Some(shown) = self.shown_since("Available", now) {
            prop_assert_eq!(time, &shown);
        } else {
            let mut marks = self.round.marks.iter();
            prop_assert!(marks.any(|mark| *time == text(mark.since)), "{time}");
        }
        Ok(())
    }

    /// With one cell, the result from the hub status alone must be the same as the result from the hub status and the
    /// items.
    fn the_status_of_a_single_cell_is_its_memory(
        &self,
        status: &Value,
    ) -> Result<(), TestCaseError> {
        let fold = self.marked();
        let names: Vec<_> = fold.cells().collect();
        let hub: Value = serde_json::from_str(self.hub).unwrap();
        let said =
            COUNTERS.iter().any(|counter| hub[*counter] != 0) || !conditions(&hub).is_empty();
        let ([cell], true) = (names.as_slice(), said && !self.round.marks.is_empty()) else {
            return Ok(());
        };
        let mut forgotten = StatusFold::default();
        forgotten.expect([*cell]);
        mark(&mut forgotten, &self.round.marks);
        let remembered: Value = serde_json::from_str(&self.render(&forgotten)).unwrap();
        prop_assert_eq!(&remembered, status);
        Ok(())
    }

    fn no_matching_cell_changes_two_conditions(&self) -> Result<(), TestCaseError> {
        let since = Timestamp::from_second(1_795_000_000).unwrap();
        let render = |template: &ResourceTemplate<'_>| {
            no_matching_cell(template, since, "none fits").unwrap()
        };
        let rendered = render(&self.template());
        let status: Value = serde_json::from_str(&rendered).unwrap();
        prop_assert_eq!(schema::violations(&status), Vec::<String>::new());
        let mut hub: Value = serde_json::from_str(self.hub).unwrap();
        for (type_, expected) in [("Available", "Unknown"), ("CellsReporting", "False")] {
            let condition = one(&status, type_).unwrap();
            prop_assert_eq!(&condition["status"], expected);
            prop_assert_eq!(&condition["reason"], "NoMatchingCell");
            let on_hub = one(&hub, type_).filter(|former| former["status"] == expected);
            let on_hub = on_hub.map(|former| former["lastTransitionTime"].clone());
            let shown = self.shown_since(type_, expected);
            let stays = match type_ {
                "Available" => on_hub.or(shown),
                _ => shown.or(on_hub),
            };
            let time = stays.unwrap_or_else(|| text(since.as_second()).into());
            prop_assert_eq!(&condition["lastTransitionTime"], &time);
        }
        for field in ["cells", "reportingCell"] {
            hub.as_object_mut().unwrap().remove(field);
        }
        only_two_conditions_change(&hub, &status)?;
        let next = shown_by(&status);
        let again = ResourceTemplate {
            shown: &next,
            ..self.template()
        };
        prop_assert_eq!(render(&again), rendered);
        Ok(())
    }

    /// Returns the transition time of the shown condition of this type with this status.
    fn shown_since(&self, type_: &str, status: &str) -> Option<Value> {
        let shown = serde_json::to_value(self.shown.iter().find(|c| c.type_ == type_)?).unwrap();
        let time: Timestamp = shown["lastTransitionTime"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        (shown["status"] == status).then(|| text(time.as_second()).into())
    }
}

/// Marks must change only the conditions `Available` and `CellsReporting`.
fn only_two_conditions_change(base: &Value, status: &Value) -> Result<(), TestCaseError> {
    let without = |status: &Value| {
        let mut status = status.clone();
        let conditions = conditions(&status).into_iter();
        let others: Vec<_> = conditions.filter(|c| c["type"] != "Available").collect();
        status["conditions"] = others.into();
        status
    };
    prop_assert_eq!(without(status), without(base));
    Ok(())
}

fn mark(fold: &mut StatusFold<'_>, marks: &[UnreachableMark]) {
    for mark in marks {
        let unreachable = Unreachable {
            since: Timestamp::from_second(mark.since).unwrap(),
            message: mark.message.clone().into(),
        };
        fold.mark_unreachable([(mark.cell, unreachable)]);
    }
}

fn text(since: i64) -> String {
    Timestamp::from_second(since).unwrap().to_string()
}

/// Returns the first condition of this type.
fn one(status: &Value, type_: &str) -> Option<Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == type_)
        .cloned()
}

fn shown_by(status: &Value) -> Vec<Condition> {
    let conditions = status.get("conditions").cloned();
    conditions.map_or_else(Vec::new, |conditions| {
        serde_json::from_value(conditions).unwrap()
    })
}
