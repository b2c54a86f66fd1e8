//! The status of one cell, as `InterpretStatus` reported it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::condition::{MESSAGE_MAX, REASON_MAX, TYPE_MAX};
use api::instance::LocationReference;
use api::workload_deployment::CELLS_REPORTING;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::raw::RawFields;

/// A status of a WorkloadDeployment, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Report<'a> {
    pub(super) counters: Counters,
    pub(super) conditions: Vec<Condition<'a>>,
    pub(super) generations: Generations,
    /// `status.cells`: only a former status has it.
    pub(super) cells: Vec<CellMemory<'a>>,
    /// Every other field, as it was written.
    pub(super) others: BTreeMap<Cow<'a, str>, &'a str>,
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

/// A condition. Its fields stand in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition<'a> {
    #[serde(borrow)]
    pub(super) last_transition_time: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed_generation: Option<i64>,
    #[serde(borrow)]
    pub(super) reason: Cow<'a, str>,
    pub(super) status: api::ConditionStatus,
    #[serde(rename = "type", borrow)]
    pub(super) type_: Cow<'a, str>,
}

/// An entry of `status.cells`. Its fields stand in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CellMemory<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) assigned_replicas: Option<i32>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<Condition<'a>>,
    pub(super) current_replicas: i32,
    pub(super) desired_replicas: i32,
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    pub(super) ready_replicas: i32,
    pub(super) replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_template_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) template_replicas: Option<i32>,
}

impl<'a> Report<'a> {
    /// Reads a status. `None` when there is nothing in it, or when a field has a type or a value that the CRD does not
    /// allow: what is written to the hub must pass the CRD's validation, or Karmada retries it for ever.
    pub(super) fn parse(status: &'a str) -> Option<Self> {
        let mut fields: RawFields<'a> = serde_json::from_str::<Option<_>>(status).ok()??;
        if fields.is_empty() {
            return None;
        }
        let counters = Counters {
            current_replicas: counter(fields.remove("currentReplicas"))?,
            desired_replicas: counter(fields.remove("desiredReplicas"))?,
            ready_replicas: counter(fields.remove("readyReplicas"))?,
            replicas: counter(fields.remove("replicas"))?,
        };
        let generations = Generations {
            assigned_min_replicas: read(fields.remove("assignedMinReplicas"))?,
            assigned_replicas: read(fields.remove("assignedReplicas"))?,
            generation: read(fields.remove("generation"))?,
            observed_generation: read(fields.remove("observedGeneration"))?,
            resource_template_generation: read(fields.remove("resourceTemplateGeneration"))?,
        };
        let mut conditions: Vec<Condition<'a>> = read(fields.remove("conditions"))?;
        let cells: Vec<CellMemory<'a>> = read(fields.remove("cells"))?;
        let remembered = cells.iter().flat_map(|cell| &cell.conditions);
        if !conditions.iter().chain(remembered).all(Condition::is_valid) {
            return None;
        }
        conditions.retain(|condition| condition.type_ != CELLS_REPORTING);
        fields.retain(|_, value| value.get() != "null");
        if !fields
            .get("location")
            .is_none_or(|location| is_location(location.get()))
        {
            return None;
        }
        let others = fields
            .into_iter()
            .map(|(name, value)| (name, value.get()))
            .collect();
        Some(Self {
            counters,
            conditions,
            generations,
            cells,
            others,
        })
    }
}

/// A field of any type; what is absent or null is the default. `None` when it has another type.
fn read<'a, T: Deserialize<'a> + Default>(field: Option<&'a RawValue>) -> Option<T> {
    let Some(field) = field else {
        return Some(T::default());
    };
    serde_json::from_str::<Option<T>>(field.get())
        .ok()
        .map(Option::unwrap_or_default)
}

/// A counter, cut off at the ends of `int32`.
fn counter(field: Option<&RawValue>) -> Option<i32> {
    let Some(number) = read::<Option<serde_json::Number>>(field)? else {
        return Some(0);
    };
    if let Some(number) = number.as_i64() {
        return Some(saturated(number));
    }
    // A fraction is no counter; every other number is cut off by the conversion.
    let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
    #[expect(clippy::cast_possible_truncation)]
    Some(number as i32)
}

/// The nearest counter.
pub(super) fn saturated(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

impl Condition<'_> {
    /// Whether the CRD's validation lets the condition pass.
    pub(super) fn is_valid(&self) -> bool {
        is_rfc3339(&self.last_transition_time)
            && self.message.chars().count() <= MESSAGE_MAX
            && self
                .observed_generation
                .is_none_or(|generation| generation >= 0)
            && is_reason(&self.reason)
            && is_condition_type(&self.type_)
    }
}

/// Whether the text is a `LocationReference` as an object: as an array of its fields it would be read, too.
fn is_location(text: &str) -> bool {
    text.starts_with('{')
        && serde_json::from_str::<LocationReference>(text)
            .is_ok_and(|location| location.namespace.is_some())
}

/// Whether the text is a time of the day in RFC 3339, which is narrower than what can be parsed.
fn is_rfc3339(time: &str) -> bool {
    let shape = "0000-00-00T00:00:00";
    let (start, rest) = time.split_at_checked(shape.len()).unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let same_shape = start.len() == shape.len()
        && start
            .chars()
            .zip(shape.chars())
            .all(|(c, expected)| match expected {
                '0' => c.is_ascii_digit(),
                separator => c == separator,
            });
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.find(|c: char| !c.is_ascii_digit());
            let (fraction, zone) = fraction.split_at(end.unwrap_or(fraction.len()));
            digits(fraction).then_some(zone)
        }
        None => Some(rest),
    };
    let is_offset = |zone: &str| {
        let offset = zone
            .strip_prefix(['+', '-'])
            .and_then(|offset| offset.split_once(':'));
        offset.is_some_and(|(hours, minutes)| {
            [hours, minutes]
                .iter()
                .all(|part| part.len() == 2 && digits(part))
        })
    };
    same_shape
        && zone.is_some_and(|zone| zone == "Z" || is_offset(zone))
        && time.parse::<Timestamp>().is_ok()
}

fn is_reason(reason: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    reason.len() <= REASON_MAX
        && reason.chars().all(inner)
        && reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

fn is_condition_type(type_: &str) -> bool {
    let (domain, name) = match type_.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, type_),
    };
    let is_label = |label: &str| {
        label
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    type_.len() <= TYPE_MAX
        && domain.is_none_or(|domain| domain.split('.').all(is_label))
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
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
