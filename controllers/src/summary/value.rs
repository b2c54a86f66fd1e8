//! The values of rows: reading, comparing and adding them.

use api::Quantity;
use api::quantity::{Amount, Format, NANOS};
use api::workload_summary::{AggregateFunction, Scalar};
use jiff::Timestamp;
use serde_json::Value;

/// Longest value of a row, in bytes. A summary is for values that fit into a table.
pub(super) const VALUE_MAX: usize = 1024;

/// Most characters of a value in a message.
const QUOTED_MAX: usize = 64;

/// Largest magnitude of a quantity that is added. Larger ones may have been capped.
const ADDED_MAX: i128 = i64::MAX as i128 * NANOS;

/// Returns the value of a row. Returns `None` for `null`.
///
/// # Errors
///
/// A sentence about a value that cannot be in a table.
pub(super) fn scalar(value: &Value) -> Result<Option<Scalar>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(Scalar::Bool(*value))),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Ok(Some(Scalar::Integer(integer))),
            None => Err(format!("{number} is not an integer of 64 bits")),
        },
        Value::String(text) if text.len() > VALUE_MAX => Err(format!(
            "the text has {} bytes, and the maximum is {VALUE_MAX}",
            text.len()
        )),
        Value::String(text) => Ok(Some(Scalar::Text(text.clone()))),
        Value::Array(_) => Err("the value is a list: choose one element".to_owned()),
        Value::Object(_) => Err("the value is an object: choose one field".to_owned()),
    }
}

/// Returns a text for a message about it. A long one is cut off: many rows can have such a message.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// A value that has an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ordered {
    /// An integer or a quantity.
    Amount(Amount),
    Time(Timestamp),
}

impl Ordered {
    /// Reads a text: an integer, a quantity or a time of RFC 3339.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match Quantity::from(text).amount() {
            Ok(amount) => Some(Self::Amount(amount)),
            Err(_) => text.parse().ok().map(Self::Time),
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// A sentence if it has no order.
    pub(super) fn of(value: &Scalar) -> Result<Self, String> {
        match value {
            Scalar::Bool(value) => Err(format!("{value} has no order")),
            Scalar::Integer(integer) => Ok(Self::Amount(amount(*integer))),
            Scalar::Text(text) => Self::parse(text)
                .ok_or_else(|| format!("{} is neither a quantity nor a time", quoted(text))),
        }
    }

    /// Returns whether `self` is greater.
    ///
    /// # Errors
    ///
    /// A sentence if the values cannot be compared.
    pub(super) fn is_greater(self, other: Self) -> Result<bool, String> {
        match (self, other) {
            (Self::Amount(one), Self::Amount(other)) => Ok(one.nanos() > other.nanos()),
            (Self::Time(one), Self::Time(other)) => Ok(one > other),
            _ => Err("a time and a number cannot be compared".to_owned()),
        }
    }
}

fn amount(integer: i64) -> Amount {
    Amount::new(i128::from(integer) * NANOS, Format::DecimalSi)
}

/// Computes an aggregate of values. Returns `None` if there is none to compute it from.
///
/// # Errors
///
/// A sentence if the values have several types, or the result is out of range.
pub(super) fn aggregate<'v>(
    function: AggregateFunction,
    values: impl Iterator<Item = &'v Scalar> + Clone,
) -> Result<Option<Scalar>, String> {
    match function {
        AggregateFunction::Count => {
            let count = i64::try_from(values.count()).unwrap_or(i64::MAX);
            Ok(Some(Scalar::Integer(count)))
        }
        AggregateFunction::Sum => sum(values),
        AggregateFunction::Min => extreme(values, |one, other| other.is_greater(one)),
        AggregateFunction::Max => extreme(values, Ordered::is_greater),
    }
}

/// A sum of values of one type.
#[derive(Clone, Copy)]
enum Sum {
    Integers(i64),
    Quantities(Amount),
}

fn sum<'v>(values: impl Iterator<Item = &'v Scalar>) -> Result<Option<Scalar>, String> {
    let too_large = || "the sum is too large".to_owned();
    let mut sum = None;
    for value in values {
        sum = Some(match (sum, value) {
            (None, Scalar::Integer(value)) => Sum::Integers(*value),
            (Some(Sum::Integers(sum)), Scalar::Integer(value)) => {
                Sum::Integers(sum.checked_add(*value).ok_or_else(too_large)?)
            }
            (None, Scalar::Text(text)) => Sum::Quantities(added(text)?),
            (Some(Sum::Quantities(sum)), Scalar::Text(text)) => {
                let sum = sum.saturating_add(added(text)?);
                match sum.nanos().abs() >= ADDED_MAX {
                    true => return Err(too_large()),
                    false => Sum::Quantities(sum),
                }
            }
            (_, Scalar::Bool(value)) => return Err(format!("{value} cannot be added")),
            (Some(Sum::Integers(_)), Scalar::Text(text)) => {
                let text = quoted(text);
                return Err(format!("the text {text} and an integer cannot be added"));
            }
            (Some(Sum::Quantities(_)), Scalar::Integer(value)) => {
                return Err(format!("the integer {value} and a text cannot be added"));
            }
        });
    }
    Ok(sum.map(|sum| match sum {
        Sum::Integers(sum) => Scalar::Integer(sum),
        Sum::Quantities(sum) => Scalar::Text(sum.to_string()),
    }))
}

/// Reads a quantity that is to be added.
fn added(text: &str) -> Result<Amount, String> {
    let amount = Quantity::from(text).amount();
    let amount = amount.map_err(|error| error.to_string())?;
    match amount.nanos().abs() >= ADDED_MAX {
        true => Err(format!("{} is too large to be added", quoted(text))),
        false => Ok(amount),
    }
}

/// Returns the first value that no other one exceeds.
fn extreme<'v>(
    values: impl Iterator<Item = &'v Scalar>,
    exceeds: impl Fn(Ordered, Ordered) -> Result<bool, String>,
) -> Result<Option<Scalar>, String> {
    let mut extreme = None::<(&Scalar, Ordered)>;
    for value in values {
        let ordered = Ordered::of(value)?;
        extreme = match extreme {
            Some((_, former)) if exceeds(ordered, former)? => Some((value, ordered)),
            None => Some((value, ordered)),
            former => former,
        };
    }
    Ok(extreme.map(|(value, _)| value.clone()))
}

#[cfg(test)]
mod tests;
