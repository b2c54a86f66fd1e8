//! Kubernetes quantities: the wire form, exact arithmetic and the canonical form.
//!
//! Rules: `k8s.io/apimachinery/pkg/api/resource`, documented under "Quantity" in the Kubernetes API reference.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// A quantity as an object has it. The text is kept unchanged, so that a mirrored object does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantity(pub String);

/// The text is not a quantity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not a quantity: {rule}")]
pub struct ParseQuantityError {
    text: String,
    rule: &'static str,
}

/// The value of a quantity, exact to 1n, with the family of suffixes for printing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    nanos: i128,
    format: Format,
}

/// Family of suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySi,
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    DecimalSi,
    /// `e3`, `E-3`.
    DecimalExponent,
}

/// Billionths in one.
pub const NANOS: i128 = 1_000_000_000;
/// Largest magnitude of a quantity with a binary suffix, in billionths: 2^63-1. Kubernetes caps larger ones, too.
const BINARY_MAX_NANOS: i128 = i64::MAX as i128 * NANOS;
/// Largest magnitude of any other quantity, in billionths: 10^29. Kubernetes has no bound; a tenant could misuse that.
const MAX_NANOS: i128 = 10_i128.pow(29) * NANOS;
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Returns the exact value.
    ///
    /// # Errors
    ///
    /// [`ParseQuantityError`] when the text is not a quantity.
    pub fn amount(&self) -> Result<Amount, ParseQuantityError> {
        self.0.parse()
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Amount {
    /// Zero, printed as `0`.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
    };

    /// Returns an amount of this many billionths, which is printed with this family of suffixes.
    pub fn new(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// Returns the value in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the sum, capped at 10^29, in the family of `self`, or in that of `other` if `self` is zero.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        let format = if self.nanos == 0 {
            other.format
        } else {
            self.format
        };
        let nanos = self
            .nanos
            .saturating_add(other.nanos)
            .clamp(-MAX_NANOS, MAX_NANOS);
        Self { nanos, format }
    }
}

impl FromStr for Amount {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |rule| ParseQuantityError {
            text: text.to_owned(),
            rule,
        };
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(error("it must begin with a decimal number"));
        }
        let (format, scale) = Scale::of_suffix(suffix)
            .ok_or_else(|| error("its suffix is not one of Kubernetes'"))?;
        let nanos = scale.nanos(whole, fraction);
        let nanos = match format {
            Format::BinarySi => nanos.min(BINARY_MAX_NANOS),
            _ => nanos,
        };
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
    }
}

/// Factor of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    Binary(u32),
    Decimal(i32),
}

impl Scale {
    fn of_suffix(suffix: &str) -> Option<(Format, Self)> {
        if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Some((Format::DecimalSi, Self::Decimal(*exponent)));
        }
        if let Some(power) = BINARY_SUFFIXES.iter().position(|name| *name == suffix) {
            return Some((
                Format::BinarySi,
                Self::Binary(u32::try_from(power).ok()? * 10),
            ));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // An exponent outside i32 is far above the cap or far below 1n.
        let beyond = if exponent.starts_with('-') {
            i32::MIN
        } else {
            i32::MAX
        };
        let exponent = exponent.parse().unwrap_or(beyond);
        Some((Format::DecimalExponent, Self::Decimal(exponent)))
    }

    /// Returns `whole.fraction` times the scale in billionths, capped, and rounded away from zero below 1n.
    fn nanos(self, whole: &str, fraction: &str) -> i128 {
        let digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|b| b - b'0')
            .collect();
        let Some(first) = digits.iter().position(|digit| *digit != 0) else {
            return 0;
        };
        let significant = digits.get(first..).unwrap_or_default();
        let fraction_len = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let (factor, exponent) = match self {
            Self::Binary(bits) => (1_i128 << bits, 9 - fraction_len),
            Self::Decimal(exponent) => (1, i64::from(exponent) + 9 - fraction_len),
        };
        scaled(significant, factor, exponent)
    }
}

/// Returns `digits` × `factor` × 10^`exponent`, capped, and rounded up if digits are lost.
fn scaled(digits: &[u8], factor: i128, exponent: i64) -> i128 {
    let mut product = times(digits, factor);
    let mut inexact = false;
    if exponent < 0 {
        let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = product.len().saturating_sub(places);
        inexact = product.drain(kept..).any(|digit| digit != 0);
    } else {
        // Forty digits are above the cap.
        product.extend((0..exponent.min(40)).map(|_| 0));
    }
    let mut value = 0_i128;
    for digit in product {
        value = value.saturating_mul(10).saturating_add(i128::from(digit));
        if value > MAX_NANOS {
            return MAX_NANOS;
        }
    }
    value.saturating_add(i128::from(inexact)).min(MAX_NANOS)
}

/// Multiplies a decimal number exactly. The most significant digit is first. The product may start with zeros.
///
/// The digits are multiplied in groups, because a division of 128 bits for each digit of a long number takes
/// milliseconds.
fn times(digits: &[u8], factor: i128) -> Vec<u8> {
    /// Digits of one group.
    const GROUP: usize = 9;
    const BASE: i128 = 1_000_000_000;
    let mut carry = 0;
    let mut reversed = Vec::with_capacity(digits.len() + 4 * GROUP);
    let mut push = |carry: &mut i128| {
        let mut group = u32::try_from(*carry % BASE).unwrap_or_default();
        *carry /= BASE;
        for _ in 0..GROUP {
            reversed.push((group % 10).to_le_bytes()[0]);
            group /= 10;
        }
    };
    for group in digits.rchunks(GROUP) {
        let number = group
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(*digit));
        carry += i128::from(number) * factor;
        push(&mut carry);
    }
    while carry > 0 {
        push(&mut carry);
    }
    reversed.reverse();
    reversed
}

impl fmt::Display for Amount {
    /// The canonical form: no fraction, no precision lost, the largest possible suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS == 0;
        let small = self.nanos.abs() < 1024 * NANOS;
        if self.format == Format::BinarySi && whole && !small {
            let (number, power) =
                without_factors(self.nanos / NANOS, 1024, BINARY_SUFFIXES.len() - 1);
            return write!(
                f,
                "{number}{}",
                BINARY_SUFFIXES.get(power).copied().unwrap_or_default()
            );
        }
        // The largest suffix is E: 18 zeros after the nine of billionths. Exponents have no limit.
        let most = if self.format == Format::DecimalExponent {
            usize::MAX
        } else {
            27
        };
        let (number, zeros) = without_factors(self.nanos, 10, most);
        let exponent = i32::try_from(zeros).unwrap_or_default() - 9;
        let shift = exponent.rem_euclid(3);
        let number = number * 10_i128.pow(shift.unsigned_abs());
        match (self.format, exponent - shift) {
            (_, 0) => write!(f, "{number}"),
            (Format::DecimalExponent, exponent) => write!(f, "{number}e{exponent}"),
            (_, exponent) => {
                let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent);
                write!(
                    f,
                    "{number}{}",
                    suffix.map(|(name, _)| *name).unwrap_or_default()
                )
            }
        }
    }
}

/// Divides by `factor` while there is no remainder, at most `most` times. Returns the quotient and the number of
/// divisions.
fn without_factors(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while number != 0 && number % factor == 0 && times < most {
        number /= factor;
        times += 1;
    }
    (number, times)
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntOrString;
        impl Visitor<'_> for IntOrString {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string or an integer")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(IntOrString)
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests;
