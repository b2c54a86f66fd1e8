//! The status of a WorkloadDeployment. A cell reports one, and the hub stores one.

use std::borrow::Cow;
use std::fmt;

use api::ConditionStatus;
use api::text::Text;
use api::workload_deployment::{CELLS_REPORTING, NO_MATCHING_CELL};
use serde::de::{self, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::condition::{ConditionView, ConditionsText, RememberedConditions};
use crate::fields::Fields;
use api::decode::{from_str, visit_map};

/// A status, borrowed from the request. Only the fields that the fold needs are decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatusView<'a> {
    pub(crate) required_counters: RequiredCounters,
    /// All conditions except `CellsReporting`.
    pub(crate) conditions: Vec<ConditionView<'a>>,
    pub(crate) conditions_text: ConditionsText<'a>,
    pub(crate) generations: Generations,
    rare_fields: Option<Box<RareFields<'a>>>,
    /// The fields that the fold does not know.
    pub(crate) others: Fields<'a>,
}

/// The counters that the CRD requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequiredCounters {
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) replicas: i32,
}

/// All counters. Former versions do not write `updatedReplicas`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counters {
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) replicas: i32,
    pub(crate) updated_replicas: Option<i32>,
}

/// The fields that `InterpretStatus` adds, and `status.observedGeneration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generations {
    pub(crate) assigned_min_replicas: Option<i32>,
    pub(crate) assigned_replicas: Option<i32>,
    pub(crate) generation: Option<i64>,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) resource_template_generation: Option<i64>,
}

/// An entry of `status.cells`: the last report of one cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RememberedCell<'a> {
    pub(crate) assigned_replicas: Option<i32>,
    #[serde(borrow, default)]
    pub(crate) conditions: RememberedConditions<'a>,
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    pub(crate) ready_replicas: i32,
    pub(crate) replicas: i32,
    pub(crate) resource_template_generation: Option<i64>,
    pub(crate) template_replicas: Option<i32>,
    pub(crate) updated_replicas: Option<i32>,
}

/// Fields that a status need not have. They are stored apart, because a request can have many statuses without them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RareFields<'a> {
    selector: Option<Cow<'a, str>>,
    suspended: Option<bool>,
    updated_replicas: Option<i32>,
    reporting_cell: Option<Cow<'a, str>>,
    hub_fields: Option<Box<HubFields<'a>>>,
}

/// Fields that the fold adds, so only the status on the hub has them. They are stored apart, because a request can
/// contain very many reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct HubFields<'a> {
    /// `status.cells`.
    cells: Vec<RememberedCell<'a>>,
    cells_reporting: Option<ConditionView<'a>>,
}

impl<'a> StatusView<'a> {
    /// Reads a status in any JSON form. Returns `None` if the status is empty or the CRD does not allow the type or the
    /// value of a field. With such a field, the API server would refuse the joined status, and Karmada would retry
    /// forever.
    pub(crate) fn parse(status: &'a str) -> Option<Self> {
        if matches!(status, "null" | "{}") {
            return None;
        }
        let decoded = visit_map(status, StatusVisitor { text: Some(status) });
        decoded.ok().and_then(Self::checked)
    }

    /// Returns the status. Returns `None` if the CRD does not allow a value.
    pub(crate) fn checked(self) -> Option<Self> {
        self.is_valid().then_some(self)
    }

    /// Returns whether the CRD allows all values.
    pub(crate) fn is_valid(&self) -> bool {
        (self.conditions_text.0.is_some() || self.conditions.iter().all(ConditionView::is_valid))
            && self.cells().iter().all(|cell| cell.conditions.are_valid())
    }

    /// Returns all counters.
    pub(crate) fn counters(&self) -> Counters {
        let required = self.required_counters;
        let rare = self.rare_fields.as_ref();
        Counters {
            current_replicas: required.current_replicas,
            desired_replicas: required.desired_replicas,
            ready_replicas: required.ready_replicas,
            replicas: required.replicas,
            updated_replicas: rare.and_then(|fields| fields.updated_replicas),
        }
    }

    pub(crate) fn set_updated_replicas(&mut self, replicas: Option<i32>) {
        self.change_rare_fields(|fields| fields.updated_replicas = replicas);
    }

    /// Returns `status.selector`.
    pub(crate) fn selector(&self) -> Option<&str> {
        self.rare_fields.as_ref()?.selector.as_deref()
    }

    pub(crate) fn set_selector(&mut self, selector: Option<Cow<'a, str>>) {
        self.change_rare_fields(|fields| fields.selector = selector);
    }

    /// Returns `status.suspended`.
    pub(crate) fn suspended(&self) -> Option<bool> {
        self.rare_fields.as_ref()?.suspended
    }

    pub(crate) fn set_suspended(&mut self, suspended: Option<bool>) {
        self.change_rare_fields(|fields| fields.suspended = suspended);
    }

    fn hub_fields(&self) -> Option<&HubFields<'a>> {
        self.rare_fields.as_ref()?.hub_fields.as_deref()
    }

    /// Returns `status.cells`.
    pub(crate) fn cells(&self) -> &[RememberedCell<'a>] {
        let fields = self.hub_fields();
        fields.map_or(&[], |fields| fields.cells.as_slice())
    }

    pub(crate) fn set_cells(&mut self, cells: Vec<RememberedCell<'a>>) {
        self.change_hub_fields(|fields| fields.cells = cells);
    }

    /// Returns `CellsReporting`.
    pub(crate) fn cells_reporting(&self) -> Option<&ConditionView<'a>> {
        self.hub_fields()?.cells_reporting.as_ref()
    }

    /// Returns `status.reportingCell`.
    pub(crate) fn reporting_cell(&self) -> Option<&str> {
        self.rare_fields.as_ref()?.reporting_cell.as_deref()
    }

    pub(crate) fn set_reporting_cell(&mut self, name: Option<Cow<'a, str>>) {
        self.change_rare_fields(|fields| fields.reporting_cell = name);
    }

    /// Returns whether a fold has written this status, so it is that of a lower hub's object. A cell names no cells. The
    /// fold names none if none of them has ever reported: then `CellsReporting` is all that it writes. It also names none
    /// if the lower hub [has no report](Self::has_no_report) any more.
    pub(crate) fn is_of_lower_hub(&self) -> bool {
        self.names_cells() || self.is_without_cells()
    }

    /// Returns whether this is the status of a lower hub's object of which Karmada had reports, and has none now
    /// ([`without_reports`]). The numbers are the last ones. A new cell that does not report gives the reason.
    ///
    /// [`without_reports`]: super::unscheduled::without_reports
    pub(crate) fn has_no_report(&self) -> bool {
        let has_numbers = || !self.conditions.is_empty() || self.counters() != Counters::default();
        self.is_without_cells() && has_numbers()
    }

    /// Returns whether [`without_reports`] would change this status.
    ///
    /// [`without_reports`]: super::unscheduled::without_reports
    pub(crate) fn loses_reports(&self) -> bool {
        let reporting = self.cells_reporting();
        let says_so = || reporting.is_some_and(|it| it.reason == NO_MATCHING_CELL);
        self.names_cells() || self.has_no_report() && !says_so()
    }

    /// Returns whether the status of a lower hub names no cell.
    fn is_without_cells(&self) -> bool {
        let reporting = self.cells_reporting();
        !self.names_cells() && reporting.is_some_and(|it| it.status == ConditionStatus::False)
    }

    /// Returns the name of the only cell of a lower hub.
    pub(crate) fn only_cell(&self) -> Option<&str> {
        self.reporting_cell().filter(|_| self.cells().is_empty())
    }

    /// Returns the condition `CellsReporting` of a lower hub, while some of its cells do not report.
    pub(crate) fn problem_below(&self) -> Option<&ConditionView<'a>> {
        let reporting = self.cells_reporting();
        reporting.filter(|it| it.status == ConditionStatus::False && self.is_of_lower_hub())
    }

    /// Returns whether the status names cells that have reported to a lower hub.
    pub(crate) fn names_cells(&self) -> bool {
        !self.cells().is_empty() || self.reporting_cell().is_some()
    }

    fn change_hub_fields(&mut self, change: impl FnOnce(&mut HubFields<'a>)) {
        self.change_rare_fields(|rare| change_box(&mut rare.hub_fields, change));
    }

    fn change_rare_fields(&mut self, change: impl FnOnce(&mut RareFields<'a>)) {
        change_box(&mut self.rare_fields, change);
    }

    /// Moves `CellsReporting` out of `conditions`.
    pub(crate) fn take_cells_reporting(&mut self) {
        let is_own = |condition: &ConditionView<'a>| condition.type_ == CELLS_REPORTING;
        if let Some(own) = self.conditions.iter().find(|condition| is_own(condition)) {
            let own = own.clone();
            self.change_hub_fields(|fields| fields.cells_reporting = Some(own));
            self.conditions.retain(|condition| !is_own(condition));
            self.conditions_text = ConditionsText::default();
        }
    }
}

/// Changes what is in a box. An empty value needs no box.
fn change_box<T: Default + PartialEq>(fields: &mut Option<Box<T>>, change: impl FnOnce(&mut T)) {
    match fields {
        Some(former) => {
            change(former);
            if **former == T::default() {
                *fields = None;
            }
        }
        None => {
            let mut changed = T::default();
            change(&mut changed);
            if changed != T::default() {
                *fields = Some(Box::new(changed));
            }
        }
    }
}

impl RememberedCell<'_> {
    pub(crate) fn counters(&self) -> Counters {
        Counters {
            current_replicas: self.current_replicas,
            desired_replicas: self.desired_replicas,
            ready_replicas: self.ready_replicas,
            replicas: self.replicas,
            updated_replicas: self.updated_replicas,
        }
    }
}

/// Reads a status in any JSON form.
struct StatusVisitor<'a> {
    /// The whole JSON text. Without the text, fields that the fold does not know are an error.
    text: Option<&'a str>,
}

/// A status in any JSON form that has only fields that the fold knows. The CRD may not allow the value of a field.
pub(crate) struct KnownStatus<'a>(pub(crate) StatusView<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for KnownStatus<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let status = deserializer.deserialize_map(StatusVisitor { text: None });
        status.map(Self)
    }
}

impl<'a> Visitor<'a> for StatusVisitor<'a> {
    type Value = StatusView<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut fields: M) -> Result<StatusView<'a>, M::Error> {
        let mut status = StatusView {
            others: Fields::of(self.text.unwrap_or_default()),
            ..StatusView::default()
        };
        let mut is_empty = true;
        let mut counters = RequiredCounters::default();
        let mut generations = Generations::default();
        let mut conditions: Vec<ConditionView<'a>> = Vec::new();
        while let Some(Text(name)) = fields.next_key()? {
            is_empty = false;
            match name.as_ref() {
                "currentReplicas" => counters.current_replicas = counter(&mut fields)?,
                "desiredReplicas" => counters.desired_replicas = counter(&mut fields)?,
                "readyReplicas" => counters.ready_replicas = counter(&mut fields)?,
                "replicas" => counters.replicas = counter(&mut fields)?,
                "updatedReplicas" => status.set_updated_replicas(optional_counter(&mut fields)?),
                "assignedMinReplicas" => generations.assigned_min_replicas = share(&mut fields)?,
                "assignedReplicas" => generations.assigned_replicas = share(&mut fields)?,
                "cellRulesStamp" => {
                    // Only the federator uses the stamp.
                    let _: Option<i64> = fields.next_value()?;
                }
                "generation" => generations.generation = fields.next_value()?,
                "observedGeneration" => generations.observed_generation = fields.next_value()?,
                "resourceTemplateGeneration" => {
                    generations.resource_template_generation = fields.next_value()?;
                }
                "conditions" => conditions = fields.next_value::<Option<_>>()?.unwrap_or_default(),
                "cells" => status.set_cells(fields.next_value::<Option<_>>()?.unwrap_or_default()),
                "reportingCell" => {
                    let name = fields.next_value::<Option<Text<'_>>>()?;
                    status.set_reporting_cell(name.map(|Text(name)| name));
                }
                "selector" => {
                    let selector = fields.next_value::<Option<Text<'_>>>()?;
                    status.set_selector(selector.map(|Text(selector)| selector));
                }
                "suspended" => status.set_suspended(fields.next_value()?),
                _ if self.text.is_none() => return Err(M::Error::custom("an unknown field")),
                other => {
                    let value: &'a RawValue = fields.next_value()?;
                    let is_location = other == "location" && value.get() != "null";
                    if is_location && !self::is_location(value.get()) {
                        return Err(M::Error::custom("location"));
                    }
                    status.others.push(&name, value)?;
                }
            }
        }
        if is_empty {
            return Err(M::Error::custom("an empty status"));
        }
        status.others.sort();
        status.others.retain(|field| field.value != "null");
        let is_own = |condition: &ConditionView<'a>| condition.type_ == CELLS_REPORTING;
        if conditions
            .iter()
            .any(|condition| is_own(condition) && !condition.is_valid())
        {
            return Err(M::Error::custom(CELLS_REPORTING));
        }
        let mut status = StatusView {
            required_counters: counters,
            conditions,
            generations,
            ..status
        };
        status.take_cells_reporting();
        Ok(status)
    }
}

/// Reads a share, and clamps it to `int32`.
fn share<'de, M: MapAccess<'de>>(fields: &mut M) -> Result<Option<i32>, M::Error> {
    let share: Option<i64> = fields.next_value()?;
    Ok(share.map(saturated))
}

/// Reads a required counter, and clamps it to `int32`. Null counts as 0.
fn counter<'de, M: MapAccess<'de>>(fields: &mut M) -> Result<i32, M::Error> {
    Ok(optional_counter(fields)?.unwrap_or_default())
}

/// Reads a counter, and clamps it to `int32`. Returns `None` if it is null.
fn optional_counter<'de, M: MapAccess<'de>>(fields: &mut M) -> Result<Option<i32>, M::Error> {
    struct Counter(i32);
    impl<'de> Deserialize<'de> for Counter {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_i64(Integral)
        }
    }
    struct Integral;
    impl Visitor<'_> for Integral {
        type Value = Counter;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_i64<E>(self, number: i64) -> Result<Counter, E> {
            Ok(Counter(saturated(number)))
        }

        fn visit_u64<E>(self, number: u64) -> Result<Counter, E> {
            Ok(Counter(i32::try_from(number).unwrap_or(i32::MAX)))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Counter, E> {
            // The conversion clamps the number. A number with a fraction is malformed.
            #[expect(clippy::cast_possible_truncation)]
            match number.fract() == 0.0 {
                true => Ok(Counter(number as i32)),
                false => Err(E::custom("a fraction")),
            }
        }
    }
    let counter = fields.next_value::<Option<Counter>>()?;
    Ok(counter.map(|counter| counter.0))
}

/// Clamps a number to `int32`.
pub(crate) fn saturated(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// The required fields of a `LocationReference`. Other fields are skipped without a copy.
#[derive(Deserialize)]
struct LocationFields {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "namespace")]
    _namespace: String,
}

/// Returns whether the text is a `LocationReference`.
fn is_location(text: &str) -> bool {
    from_str::<LocationFields>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_saturate_and_other_types_are_malformed() {
        let replicas = |text: &str| {
            let status = format!(r#"{{"replicas":{text}}}"#);
            let status: &'static str = Box::leak(status.into_boxed_str());
            StatusView::parse(status).map(|status| status.counters().replicas)
        };
        assert_eq!(replicas("3"), Some(3));
        assert_eq!(replicas("null"), Some(0));
        assert_eq!(replicas("99999999999"), Some(i32::MAX));
        assert_eq!(replicas("-99999999999"), Some(i32::MIN));
        assert_eq!(replicas("18446744073709551615"), Some(i32::MAX));
        assert_eq!(replicas("1e30"), Some(i32::MAX));
        assert_eq!(replicas("3.0"), Some(3));
        assert_eq!(replicas("1.5"), None);
        assert_eq!(replicas("\"3\""), None);
    }

    #[test]
    fn an_empty_status_is_no_report() {
        for status in ["null", "{}", "[]", "3", "\"x\""] {
            assert_eq!(StatusView::parse(status), None, "{status}");
        }
    }

    #[test]
    fn an_invalid_condition_makes_the_status_malformed() {
        let with = |condition: &str| {
            let status = format!(r#"{{"conditions":[{condition}]}}"#);
            StatusView::parse(Box::leak(status.into_boxed_str())).is_some()
        };
        let valid = r#"{"type":"Available","status":"True","reason":"Ok","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
        assert!(with(valid));
        assert!(with(&valid.replace("Available", "example.com/Available")));
        for (field, broken) in [
            ("Available", ""),
            ("Available", "Exa/mple/x"),
            ("True", "yes"),
            ("Ok", "not ok"),
            ("Ok", ""),
            ("2026-01-01T00:00:00Z", "yesterday"),
        ] {
            assert!(!with(&valid.replace(field, broken)), "{field} {broken}");
        }
    }
}
