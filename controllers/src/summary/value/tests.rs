use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scalars(values: &Value) -> Vec<Scalar> {
    serde_json::from_value(values.clone()).unwrap()
}

#[test]
fn only_single_values_fit_into_a_table() {
    let long = "x".repeat(VALUE_MAX + 1);
    for (value, problem) in [
        (json!([1]), "the value is a list: choose one element"),
        (json!({"a": 1}), "the value is an object: choose one field"),
        (json!(0.5), "0.5 is not an integer of 64 bits"),
        (
            json!(u64::MAX),
            "18446744073709551615 is not an integer of 64 bits",
        ),
        (
            json!(long),
            "the text has 1025 bytes, and the maximum is 1024",
        ),
    ] {
        assert_eq!(scalar(&value), Err(problem.to_owned()));
    }
    assert_eq!(scalar(&Value::Null), Ok(None));
    for value in [json!(true), json!(i64::MIN), json!("")] {
        assert_eq!(json!(scalar(&value).unwrap()), value);
    }
}

#[test]
fn aggregates_are_exact_or_an_error() {
    use AggregateFunction::{Count, Max, Min, Sum};
    let (integer, max) = (Scalar::Integer, i64::MAX);
    let text = |text: &str| Scalar::Text(text.to_owned());
    for (function, values, expected) in [
        (Count, json!([]), Ok(Some(integer(0)))),
        (Count, json!(["a", 1, true]), Ok(Some(integer(3)))),
        (Sum, json!([]), Ok(None)),
        (Sum, json!([1, -3, max]), Ok(Some(integer(max - 2)))),
        (Sum, json!([max, 1]), Err("the sum is too large")),
        (Sum, json!(["1Gi", "512Mi"]), Ok(Some(text("1536Mi")))),
        (Sum, json!(["500m", "1"]), Ok(Some(text("1500m")))),
        (Sum, json!(["1", "-1"]), Ok(Some(text("0")))),
        (
            Sum,
            json!([1, "1Gi"]),
            Err("the text \"1Gi\" and an integer cannot be added"),
        ),
        (
            Sum,
            json!(["1Gi", 1]),
            Err("the integer 1 and a text cannot be added"),
        ),
        (Sum, json!([1, true]), Err("true cannot be added")),
        (
            Sum,
            json!(["x"]),
            Err("\"x\" is not a quantity: it must begin with a decimal number"),
        ),
        (Sum, json!(["9E", "9E"]), Err("the sum is too large")),
        (
            Sum,
            json!(["1e100"]),
            Err("\"1e100\" is too large to be added"),
        ),
        (
            Sum,
            json!(["-99Ei"]),
            Err("\"-99Ei\" is too large to be added"),
        ),
        (Min, json!([]), Ok(None)),
        (Min, json!([2, -1, 3]), Ok(Some(integer(-1)))),
        (Max, json!(["1Gi", "2G", "1"]), Ok(Some(text("2G")))),
        (Max, json!([3, "2500m"]), Ok(Some(integer(3)))),
        (Max, json!(["1", "1000m"]), Ok(Some(text("1")))),
        (
            Min,
            json!(["2026-11-21T10:00:00Z", "2026-11-21T10:30:00+01:00"]),
            Ok(Some(text("2026-11-21T10:30:00+01:00"))),
        ),
        (
            Max,
            json!(["2026-11-21T10:00:00Z", "1"]),
            Err("a time and a number cannot be compared"),
        ),
        (Min, json!([true]), Err("true has no order")),
        (
            Min,
            json!(["DFW"]),
            Err("\"DFW\" is neither a quantity nor a time"),
        ),
    ] {
        let result = aggregate(function, scalars(&values).iter());
        assert_eq!(
            result,
            expected.map_err(str::to_owned),
            "{function:?} {values}"
        );
    }
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(Scalar::Integer),
        (-100_i64..100).prop_map(Scalar::Integer),
        "-?[0-9]{1,30}(\\.[0-9]{1,3})?(m|k|Ki|Gi|E|Ei|e9|)".prop_map(Scalar::Text),
        "[a-zA-Z0-9:.-]{0,12}".prop_map(Scalar::Text),
    ]
}

proptest! {
    /// The sum of integers is the mathematical one, and no order of the values gives another result.
    #[test]
    fn a_sum_of_integers_is_exact(values in prop::collection::vec(any::<i64>(), 1..6)) {
        let exact: i128 = values.iter().copied().map(i128::from).sum();
        let scalars: Vec<_> = values.into_iter().map(Scalar::Integer).collect();
        if let Ok(sum) = aggregate(AggregateFunction::Sum, scalars.iter()) {
            prop_assert_eq!(sum.unwrap().to_string(), exact.to_string());
        }
    }

    #[test]
    fn a_sum_of_quantities_is_exact(values in prop::collection::vec(-1_000_000_i64..1_000_000, 1..6)) {
        let exact: i64 = values.iter().sum();
        let texts: Vec<_> = values.iter().map(|it| Scalar::Text(format!("{it}m"))).collect();
        let sum = aggregate(AggregateFunction::Sum, texts.iter()).unwrap().unwrap();
        let expected = Quantity(format!("{exact}m")).amount().unwrap();
        prop_assert_eq!(Ordered::of(&sum).unwrap(), Ordered::Amount(Amount::new(expected.nanos(), Format::DecimalSi)));
    }

    #[test]
    fn nothing_makes_an_aggregate_panic(values in prop::collection::vec(any_scalar(), 0..6)) {
        for function in [AggregateFunction::Count, AggregateFunction::Sum, AggregateFunction::Min, AggregateFunction::Max] {
            let _ = aggregate(function, values.iter());
        }
    }
}
