//! The status of one cell, as `InterpretStatus` reported it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use api::instance::LocationReference;
use api::workload_deployment::CELLS_REPORTING;
use serde::de::{self, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::condition::{AsWritten, Condition, Conditions};
use api::text::Text;

/// A status of a WorkloadDeployment, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Report<'a> {
    pub(super) counters: Counters,
    /// Without the fold's own.
    pub(super) conditions: Vec<Condition<'a>>,
    pub(super) written: AsWritten<'a>,
    /// The fold's own condition: only a former status has it.
    pub(super) cells_reporting: Option<Box<Condition<'a>>>,
    pub(super) generations: Generations,
    /// `status.cells`: only a former status has it.
    pub(super) cells: Vec<CellMemory<'a>>,
    /// Every other field, as it was written.
    pub(super) others: BTreeMap<Cow<'a, str>, &'a str>,
    is_empty: bool,
}

/// The counters, which every status must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counters {
    pub(super) current_replicas: i32,
    pub(super) desired_replicas: i32,
    pub(super) ready_replicas: i32,
    pub(super) replicas: i32,
}

/// What `InterpretStatus` adds, and `status.observedGeneration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Generations {
    pub(super) assigned_min_replicas: Option<i64>,
    pub(super) assigned_replicas: Option<i64>,
    pub(super) generation: Option<i64>,
    pub(super) observed_generation: Option<i64>,
    pub(super) resource_template_generation: Option<i64>,
}

/// An entry of `status.cells` that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CellMemory<'a> {
    pub(super) assigned_replicas: Option<i32>,
    #[serde(borrow, default)]
    pub(super) conditions: Conditions<'a>,
    pub(super) current_replicas: i32,
    pub(super) desired_replicas: i32,
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    pub(super) ready_replicas: i32,
    pub(super) replicas: i32,
    pub(super) resource_template_generation: Option<i64>,
    pub(super) template_replicas: Option<i32>,
}

impl<'a> Report<'a> {
    /// Reads a status. `None` when there is nothing in it, or when a field has a type or a value that the CRD does not
    /// allow: what is written to the hub must pass the CRD's validation, or Karmada retries it for ever.
    pub(crate) fn parse(status: &'a str) -> Option<Self> {
        serde_json::from_str::<Option<Self>>(status)
            .ok()??
            .checked()
    }

    /// How many cells are in `status.cells`.
    pub(crate) fn remembered(&self) -> usize {
        self.cells.len()
    }

    /// The report, unless there is nothing in it or the CRD does not allow a value.
    pub(super) fn checked(self) -> Option<Self> {
        let valid = (self.written.0.is_some() || self.conditions.iter().all(Condition::is_valid))
            && self.cells.iter().all(|cell| cell.conditions.are_valid());
        (valid && !self.is_empty).then_some(self)
    }

    /// Takes the fold's own condition out of the others.
    pub(super) fn take_own(&mut self) {
        let is_own = |condition: &Condition<'a>| condition.type_ == CELLS_REPORTING;
        if let Some(own) = self.conditions.iter().find(|condition| is_own(condition)) {
            self.cells_reporting = Some(Box::new(own.clone()));
            self.conditions.retain(|condition| !is_own(condition));
            self.written = AsWritten::default();
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Report<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Reads the fields of a status, each at once as what it is.
struct Fields<'a>(PhantomData<Report<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for Fields<'a> {
    type Value = Report<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Report<'a>, M::Error> {
        let mut report = Report {
            is_empty: true,
            ..Report::default()
        };
        let mut counters = Counters::default();
        let mut generations = Generations::default();
        let mut conditions: Vec<Condition<'a>> = Vec::new();
        while let Some(Text(name)) = fields.next_key()? {
            report.is_empty = false;
            match name.as_ref() {
                "currentReplicas" => counters.current_replicas = counter(&mut fields)?,
                "desiredReplicas" => counters.desired_replicas = counter(&mut fields)?,
                "readyReplicas" => counters.ready_replicas = counter(&mut fields)?,
                "replicas" => counters.replicas = counter(&mut fields)?,
                "assignedMinReplicas" => generations.assigned_min_replicas = fields.next_value()?,
                "assignedReplicas" => generations.assigned_replicas = fields.next_value()?,
                "generation" => generations.generation = fields.next_value()?,
                "observedGeneration" => generations.observed_generation = fields.next_value()?,
                "resourceTemplateGeneration" => {
                    generations.resource_template_generation = fields.next_value()?;
                }
                "conditions" => conditions = fields.next_value::<Option<_>>()?.unwrap_or_default(),
                "cells" => report.cells = fields.next_value::<Option<_>>()?.unwrap_or_default(),
                _ => {
                    let value: &'a RawValue = fields.next_value()?;
                    let is_location = name == "location" && value.get() != "null";
                    if is_location && !self::is_location(value.get()) {
                        return Err(M::Error::custom("location"));
                    }
                    match value.get() {
                        "null" => report.others.remove(&name),
                        value => report.others.insert(name, value),
                    };
                }
            }
        }
        let is_own = |condition: &Condition<'a>| condition.type_ == CELLS_REPORTING;
        if conditions
            .iter()
            .any(|condition| is_own(condition) && !condition.is_valid())
        {
            return Err(M::Error::custom(CELLS_REPORTING));
        }
        let mut report = Report {
            counters,
            conditions,
            generations,
            ..report
        };
        report.take_own();
        Ok(report)
    }
}

/// A counter, cut off at the ends of `int32`.
fn counter<'de, M: MapAccess<'de>>(fields: &mut M) -> Result<i32, M::Error> {
    struct Counter(i32);
    impl<'de> Deserialize<'de> for Counter {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Integral)
        }
    }
    struct Integral;
    impl Visitor<'_> for Integral {
        type Value = Counter;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_unit<E>(self) -> Result<Counter, E> {
            Ok(Counter(0))
        }

        fn visit_i64<E>(self, number: i64) -> Result<Counter, E> {
            Ok(Counter(saturated(number)))
        }

        fn visit_u64<E>(self, number: u64) -> Result<Counter, E> {
            Ok(Counter(i32::try_from(number).unwrap_or(i32::MAX)))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Counter, E> {
            // A fraction is no counter; every other number is cut off by the conversion.
            #[expect(clippy::cast_possible_truncation)]
            match number.fract() == 0.0 {
                true => Ok(Counter(number as i32)),
                false => Err(E::custom("a fraction")),
            }
        }
    }
    fields.next_value::<Counter>().map(|counter| counter.0)
}

/// The nearest counter.
pub(super) fn saturated(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Whether the text is a `LocationReference` as an object: as an array of its fields it would be read, too.
fn is_location(text: &str) -> bool {
    text.starts_with('{')
        && serde_json::from_str::<LocationReference>(text)
            .is_ok_and(|location| location.namespace.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_saturate_and_other_types_are_malformed() {
        let replicas = |text: &str| {
            let status = format!(r#"{{"replicas":{text}}}"#);
            let status: &'static str = Box::leak(status.into_boxed_str());
            Report::parse(status).map(|report| report.counters.replicas)
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
    fn nothing_is_no_report() {
        for status in ["null", "{}", "[]", "3", "\"x\""] {
            assert_eq!(Report::parse(status), None, "{status}");
        }
    }

    #[test]
    fn a_condition_that_the_crd_refuses_makes_the_status_malformed() {
        let with = |condition: &str| {
            let status = format!(r#"{{"conditions":[{condition}]}}"#);
            Report::parse(Box::leak(status.into_boxed_str())).is_some()
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
