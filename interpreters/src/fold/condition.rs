//! The conditions in reports of cells, and the rules of the CRD for conditions.

use std::borrow::Cow;
use std::cmp::Ordering;

use api::condition::{MESSAGE_MAX, REASON_MAX, TYPE_MAX};
use api::workload_deployment::CELLS_REPORTING;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// A condition, borrowed from the request. The fold writes the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionView<'a> {
    #[serde(borrow)]
    pub(crate) last_transition_time: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(borrow)]
    pub(crate) reason: Cow<'a, str>,
    pub(crate) status: api::ConditionStatus,
    #[serde(rename = "type", borrow)]
    pub(crate) type_: Cow<'a, str>,
}

/// The JSON text of conditions, if the text is known to be identical to the output of the fold. The text has no
/// information that the decoded conditions do not have. Any two texts are equal, because the text must not decide which
/// of two statuses is the greater one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConditionsText<'a>(pub(crate) Option<&'a str>);

impl PartialEq for ConditionsText<'_> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ConditionsText<'_> {}

impl PartialOrd for ConditionsText<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ConditionsText<'_> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The conditions of an entry of `status.cells`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Vec<ConditionView<'a>>", bound(deserialize = "'de: 'a"))]
pub(crate) struct RememberedConditions<'a> {
    pub(crate) list: Vec<ConditionView<'a>>,
    pub(crate) text: ConditionsText<'a>,
}

impl<'a> From<Vec<ConditionView<'a>>> for RememberedConditions<'a> {
    fn from(list: Vec<ConditionView<'a>>) -> Self {
        Self::new(list, ConditionsText::default())
    }
}

impl<'a> RememberedConditions<'a> {
    /// Creates the conditions of an entry. `CellsReporting` is not one of them: it is about all cells.
    pub(crate) fn new(mut list: Vec<ConditionView<'a>>, mut text: ConditionsText<'a>) -> Self {
        let before = list.len();
        list.retain(|condition| condition.type_ != CELLS_REPORTING);
        if list.len() < before {
            text = ConditionsText::default();
        }
        Self { list, text }
    }
}

impl RememberedConditions<'_> {
    /// Returns whether the CRD allows all conditions. A known text contains valid conditions only.
    pub(crate) fn are_valid(&self) -> bool {
        self.text.0.is_some() || self.list.iter().all(ConditionView::is_valid)
    }
}

/// Formats a transition time. The fraction of the second is dropped.
pub(crate) fn time<'a>(at: Timestamp) -> Cow<'a, str> {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string().into()
}

/// Returns the transition time of the shown condition of this type. Returns `None` if no condition of this type is
/// shown with this status.
pub(crate) fn shown_since<'a>(
    shown: &[api::Condition],
    type_: &str,
    status: api::ConditionStatus,
) -> Option<Cow<'a, str>> {
    api::condition::find(shown, type_)
        .filter(|condition| condition.status == status)
        .map(|condition| time(condition.last_transition_time.0))
}

impl ConditionView<'_> {
    /// Returns the size of the condition as JSON, in bytes, rounded up. Escapes are not counted.
    pub(crate) fn size(&self) -> usize {
        /// Size of the names, of the status and of the generation, in bytes, rounded up.
        const NAMES: usize = 160;
        let texts = [
            &self.last_transition_time,
            &self.message,
            &self.reason,
            &self.type_,
        ];
        NAMES + texts.map(|text| text.len()).iter().sum::<usize>()
    }

    /// Returns whether the CRD allows the condition.
    pub(crate) fn is_valid(&self) -> bool {
        is_rfc3339(&self.last_transition_time)
            && (self.message.len() <= MESSAGE_MAX || self.message.chars().count() <= MESSAGE_MAX)
            && self
                .observed_generation
                .is_none_or(|generation| generation >= 0)
            && is_reason(&self.reason)
            && is_condition_type(&self.type_)
    }
}

/// Returns whether the text is a time in the form of RFC 3339. The parser of Jiff is not used, because it also
/// accepts forms that the API server rejects.
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

/// Parses a number of two digits.
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
