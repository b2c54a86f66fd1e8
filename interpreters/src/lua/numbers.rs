//! Numbers as text and as JSON, with the rules of Karmada's engine.

use mlua::Value;
use serde_json::{Number, Value as Json};

/// 2^63: the end of the integers of 64 bits.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;
/// 2^53: each integer up to this one is a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the number, if it is an integer of 64 bits.
fn integer(number: f64) -> Option<i64> {
    let is_integer = number.fract() == 0.0 && (-INTEGERS_END..INTEGERS_END).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value has no fraction, and is in the range"
    )]
    is_integer.then_some(number as i64)
}

/// Returns the number as JSON. A number without a fraction has no decimal point. A large number has only the digits that
/// tell it apart from other floats, and zeros. Returns `None` if the number is not finite.
pub(super) fn json(number: f64) -> Option<Json> {
    let printed = || match number.abs() <= EXACT_MAX {
        true => integer(number),
        false => number.to_string().parse().ok(),
    };
    match printed() {
        Some(integer) => Some(Json::from(integer)),
        None => Number::from_f64(number).map(Json::Number),
    }
}

/// Returns a number as text, as `tostring` does. Returns `None` for other values.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it was a float")]
        Value::Integer(number) => Some(of_number(*number as f64)),
        Value::Number(number) => Some(of_number(*number)),
        _ => None,
    }
}

/// Returns a number as text. An integer has no exponent.
fn of_number(number: f64) -> String {
    /// The decimal exponents for which a fraction is printed without an exponent.
    const PLAIN: std::ops::Range<i32> = -4..6;
    if let Some(integer) = integer(number) {
        return integer.to_string();
    }
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if PLAIN.contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the number of a text, as `tonumber` does: an integer of 64 bits with this base, or a decimal fraction. Only a
/// number with a point can have an exponent. Without a base, it is 10, or 16 after `0x`.
pub(super) fn parse(text: &str, base: Option<u32>) -> Option<f64> {
    let text = text.trim_matches([' ', '\n', '\t']);
    if text.contains('.') {
        let number: Option<f64> = text.parse().ok();
        return number.filter(|number| number.is_finite());
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match (base, digits) {
        (None, Some(digits)) => (digits, 16),
        (base, _) => (text, base.unwrap_or(10)),
    };
    if !(2..=36).contains(&base) {
        return None;
    }
    let number = i64::from_str_radix(digits, base).ok();
    #[expect(clippy::cast_precision_loss, reason = "every number of Lua is a float")]
    number.map(|number| number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        for (number, text) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (1e15, "1000000000000000"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (-9_223_372_036_854_775_808.0, "-9223372036854775808"),
            (9_223_372_036_854_775_808.0, "9.223372036854776e+18"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (123_456.5, "123456.5"),
            (1_234_567.5, "1.2345675e+06"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(of_number(number), text);
        }
    }

    #[test]
    fn numbers_in_json_have_the_digits_of_go() {
        for (number, text) in [
            (3.0, "3"),
            (-0.0, "0"),
            (2.5, "2.5"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (6_148_914_691_236_516_864.0, "6148914691236517000"),
            (-9_223_372_036_854_775_808.0, "-9.223372036854776e+18"),
        ] {
            assert_eq!(json(number).unwrap().to_string(), text);
        }
        assert_eq!(json(f64::NAN), None);
    }

    #[test]
    fn texts_are_numbers_as_in_karmadas_engine() {
        for (text, base, number) in [
            ("12", None, Some(12.0)),
            (" 12\t\n", None, Some(12.0)),
            ("-1.5", None, Some(-1.5)),
            ("1.5e3", None, Some(1500.0)),
            ("1e3", None, None),
            ("inf", None, None),
            ("0x10", None, Some(16.0)),
            ("-0x10", None, None),
            ("0x10", Some(10), None),
            ("010", None, Some(10.0)),
            ("ff", Some(16), Some(255.0)),
            ("1.5", Some(16), Some(1.5)),
            ("1", Some(1), None),
            ("12345678901234567890", None, None),
            ("1.5e400", None, None),
            ("", None, None),
        ] {
            assert_eq!(parse(text, base), number, "{text:?}");
        }
    }
}
