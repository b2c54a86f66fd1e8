//! A condition as a cell reports it, and what the CRD lets pass of it.

use std::borrow::Cow;
use std::cmp::Ordering;

use api::condition::{MESSAGE_MAX, REASON_MAX, TYPE_MAX};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::cursor::{Cursor, OtherForm};

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

/// How conditions are written, where that is known to be how the fold writes them. It says nothing that they do not say
/// themselves: of two statuses it must not decide which one stays, so any two are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AsWritten<'a>(pub(super) Option<&'a str>);

impl PartialEq for AsWritten<'_> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for AsWritten<'_> {}

impl PartialOrd for AsWritten<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AsWritten<'_> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The conditions that an entry of `status.cells` remembers. They are compared as what they say.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<Condition<'a>>", bound(deserialize = "'de: 'a"))]
pub(super) enum Conditions<'a> {
    /// As the fold writes them; they are valid. As a rule they are not needed in any other form.
    Written(&'a str),
    Listed(Vec<Condition<'a>>),
}

impl PartialEq for Conditions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.list() == other.list()
    }
}

impl Eq for Conditions<'_> {}

impl PartialOrd for Conditions<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Conditions<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.list().cmp(&other.list())
    }
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
                let read = read_all(&mut Cursor::new(text));
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

/// A time as a condition has it: in whole seconds.
pub(super) fn time<'a>(at: Timestamp) -> Cow<'a, str> {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string().into()
}

/// Since when the condition of this type is shown with this status, if it is.
pub(super) fn shown_since<'a>(
    shown: &[api::Condition],
    type_: &str,
    status: api::ConditionStatus,
) -> Option<Cow<'a, str>> {
    api::condition::find(shown, type_)
        .filter(|condition| condition.status == status)
        .map(|condition| time(condition.last_transition_time.0))
}

/// Reads conditions in the form in which the fold writes them, and gives how they are written.
pub(super) fn read_all<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(Vec<Condition<'a>>, AsWritten<'a>), OtherForm> {
    /// `Available` and `ReplicasReady`.
    const USUAL: usize = 2;
    let start = cursor.clone();
    let mut conditions = Vec::with_capacity(USUAL);
    cursor.list(|cursor| {
        conditions.push(read(cursor)?);
        Ok(())
    })?;
    // Without any, there is nothing that would be written.
    let written = cursor.since(&start).filter(|_| !conditions.is_empty());
    Ok((conditions, AsWritten(written)))
}

/// Reads a condition in the form in which the fold writes it, if it is valid.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<Condition<'a>, OtherForm> {
    cursor.literal(br#"{"lastTransitionTime":"#)?;
    let last_transition_time = cursor.text()?.into();
    cursor.literal(br#","message":"#)?;
    let message = cursor.text()?.into();
    let observed_generation = cursor.number(br#""observedGeneration":"#)?;
    cursor.literal(br#","reason":"#)?;
    let reason = cursor.text()?.into();
    cursor.literal(br#","status":"#)?;
    let status = match cursor.text()? {
        "True" => api::ConditionStatus::True,
        "False" => api::ConditionStatus::False,
        "Unknown" => api::ConditionStatus::Unknown,
        _ => return Err(OtherForm),
    };
    cursor.literal(br#","type":"#)?;
    let condition = Condition {
        last_transition_time,
        message,
        observed_generation,
        reason,
        status,
        type_: cursor.text()?.into(),
    };
    cursor.literal(b"}")?;
    condition.is_valid().then_some(condition).ok_or(OtherForm)
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
#[rustfmt::skip]
fn is_rfc3339(time: &str) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2, rest @ ..] = time.as_bytes()
    else {
        return false;
    };
    let date = || {
        let year = i16::from(two(*y1, *y2)?) * 100 + i16::from(two(*y3, *y4)?);
        Date::new(year, two(*m1, *m2)?, two(*d1, *d2)?).ok()
    };
    let zone = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            fraction.get(digits..).filter(|_| digits > 0)
        }
        zone => Some(zone),
    };
    let is_zone = zone.is_some_and(|zone| match zone {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => is_below(24, *h1, *h2) && is_below(60, *m1, *m2),
        _ => false,
    });
    is_zone
        && date().is_some()
        && is_below(24, *h1, *h2)
        && is_below(60, *n1, *n2)
        && is_below(60, *s1, *s2)
}

fn is_below(end: i8, tens: u8, ones: u8) -> bool {
    two(tens, ones).is_some_and(|number| number < end)
}

/// The number that two digits are.
fn two(tens: u8, ones: u8) -> Option<i8> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    let number = || i8::try_from((tens - b'0') * 10 + (ones - b'0')).ok();
    are_digits.then(number).flatten()
}

fn is_reason(reason: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    reason.len() <= REASON_MAX
        && reason.bytes().all(inner)
        && reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

fn is_condition_type(type_: &str) -> bool {
    if (1..=TYPE_MAX).contains(&type_.len()) && type_.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return true;
    }
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
