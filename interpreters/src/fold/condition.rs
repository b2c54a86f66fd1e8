//! A condition as a cell reports it, and what the CRD lets pass of it.

use std::borrow::Cow;

use api::condition::{MESSAGE_MAX, REASON_MAX, TYPE_MAX};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::canonical::conditions;
use crate::cursor::Cursor;

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

/// The conditions that an entry of `status.cells` remembers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Vec<Condition<'a>>", bound(deserialize = "'de: 'a"))]
pub(super) enum Conditions<'a> {
    /// As the fold writes them; they are valid. As a rule they are not needed in any other form.
    Written(&'a str),
    Listed(Vec<Condition<'a>>),
}

impl Default for Conditions<'_> {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl<'a> From<Vec<Condition<'a>>> for Conditions<'a> {
    fn from(conditions: Vec<Condition<'a>>) -> Self {
        Self::Listed(conditions)
    }
}

impl<'a> Conditions<'a> {
    /// Each of them.
    pub(super) fn list(&self) -> Cow<'_, [Condition<'a>]> {
        match self {
            Self::Written(text) => {
                let read = conditions(&mut Cursor::new(text));
                read.map(|(conditions, _)| conditions)
                    .unwrap_or_default()
                    .into()
            }
            Self::Listed(conditions) => conditions.into(),
        }
    }

    /// How the fold writes them, where it is known.
    pub(super) fn written(&self) -> Option<&'a str> {
        match self {
            Self::Written(text) => Some(text),
            Self::Listed(_) => None,
        }
    }

    /// Whether the CRD's validation lets all of them pass.
    pub(super) fn are_valid(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Listed(conditions) => conditions.iter().all(Condition::is_valid),
        }
    }
}

impl Condition<'_> {
    /// Whether the CRD's validation lets the condition pass.
    pub(super) fn is_valid(&self) -> bool {
        is_rfc3339(&self.last_transition_time)
            && (self.message.len() <= MESSAGE_MAX || self.message.chars().count() <= MESSAGE_MAX)
            && self
                .observed_generation
                .is_none_or(|generation| generation >= 0)
            && is_reason(&self.reason)
            && is_condition_type(&self.type_)
    }
}

/// Whether the text is a time in RFC 3339, which is narrower than what can be parsed.
fn is_rfc3339(time: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some((start, rest)) = time.split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    let number = |range: std::ops::Range<usize>| -> Option<i16> {
        start.get(range).filter(|part| digits(part))?.parse().ok()
    };
    let small = |range| number(range).and_then(|number| i8::try_from(number).ok());
    let separated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
        .into_iter()
        .all(|(at, separator)| start.as_bytes().get(at) == Some(&separator));
    let date = (number(0..4), small(5..7), small(8..10));
    let clock = (small(11..13), small(14..16), small(17..19));
    let (Some(year), Some(month), Some(day)) = date else {
        return false;
    };
    let (Some(hour), Some(minute), Some(second)) = clock else {
        return false;
    };
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
            let below = |part: &str, end: u8| {
                part.len() == 2 && digits(part) && part.parse().is_ok_and(|number: u8| number < end)
            };
            below(hours, 24) && below(minutes, 60)
        })
    };
    separated
        && Date::new(year, month, day).is_ok()
        && hour < 24
        && minute < 60
        && second < 60
        && zone.is_some_and(|zone| zone == "Z" || is_offset(zone))
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
