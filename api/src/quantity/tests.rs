use super::*;

fn canonical(text: &str) -> String {
    text.parse::<Amount>().unwrap().to_string()
}

#[test]
fn canonical_forms() {
    for (text, expected) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1024Mi", "1Gi"),
        ("1000m", "1"),
        ("100m", "100m"),
        ("2048Mi", "2Gi"),
        ("512", "512"),
        ("1023Ki", "1023Ki"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("-1500m", "-1500m"),
        ("1e3", "1e3"),
        ("12E6", "12e6"),
        ("1.2e-3", "1200e-6"),
        ("10k", "10k"),
        ("1e400", "100e27"),
        ("-1e400", "-100e27"),
        ("1e-400", "1e-9"),
        ("9223372036854775807", "9223372036854775807"),
        ("7Ei", "7Ei"),
        ("1.", "1"),
        (".5", "500m"),
        ("+1", "1"),
        ("000000000000000000000000000000000000000000000001", "1"),
        ("0.000000000000000000000000000000000000000000000001", "1n"),
        (
            "9223372036854775806.123456789",
            "9223372036854775806123456789n",
        ),
        (
            "7.0000000000000000000000000001Ei",
            "8070450532247928832000000001n",
        ),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn what_is_not_a_quantity_is_refused() {
    for text in [
        "", "-", ".", "x", "1x", "1 Gi", "1.2.3", "e3", "1e", "1e+", "1KiB", "1i", "1ki", "１",
    ] {
        assert!(text.parse::<Amount>().is_err(), "{text}");
    }
}

#[test]
fn sums_keep_the_family_of_the_first_that_is_not_zero() {
    let sum = |texts: &[&str]| {
        texts
            .iter()
            .fold(Amount::ZERO, |sum, text| {
                sum.saturating_add(text.parse().unwrap())
            })
            .to_string()
    };
    assert_eq!(sum(&[]), "0");
    assert_eq!(sum(&["1", "500m"]), "1500m");
    assert_eq!(sum(&["1Gi", "1G"]), "2073741824");
    assert_eq!(sum(&["1Mi", "1023Mi"]), "1Gi");
    assert_eq!(sum(&["1e29", "1"]), "100e27");
}

#[test]
fn integers_are_quantities_too() {
    assert_eq!(
        serde_json::from_str::<Quantity>("2").unwrap(),
        Quantity::from("2")
    );
    assert_eq!(
        serde_json::from_str::<Quantity>("\"2Gi\"").unwrap(),
        Quantity::from("2Gi")
    );
    assert!(serde_json::from_str::<Quantity>("2.5").is_err());
}

/// Compares suffixes, exponents, signs, limits and sums with Kubernetes' own library. `go run ./quantities` in
/// `tests/tools` prints the table.
#[test]
fn forms_and_sums_are_those_of_kubernetes() {
    let mut differences = Vec::new();
    let table = include_str!("kubernetes.tsv");
    for line in table.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        let parsed = |text: &str| text.parse::<Amount>();
        let (found, expected) = match fields[..] {
            [text, expected] => (parsed(text).ok(), expected),
            [one, other, expected] => {
                let sum = parsed(one).unwrap().saturating_add(parsed(other).unwrap());
                (Some(sum), expected)
            }
            _ => panic!("{line:?}"),
        };
        let found = found.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
        if found != expected {
            differences.push(format!("{line}: {found}"));
        }
    }
    assert!(table.lines().count() > 5000);
    assert_eq!(differences, Vec::<String>::new());
}
