use jsonpath_rust::JsonPath;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn document() -> Value {
    json!({
        "city": "DFW",
        "odd name": {"it's": 1},
        "none": null,
        "status": {
            "readyReplicas": 2,
            "conditions": [
                {"type": "Available", "status": "True", "observedGeneration": 3},
                {"type": "Ready", "status": "False", "reason": "Pending", "last": true},
            ],
        },
    })
}

#[test]
fn paths_find_single_values() {
    for (path, expected) in [
        ("$.city", json!("DFW")),
        ("$['city']", json!("DFW")),
        ("$[ \"city\" ]", json!("DFW")),
        (r"$['odd name']['it\'s']", json!(1)),
        ("$.status.readyReplicas", json!(2)),
        ("$.status.conditions[0].type", json!("Available")),
        ("$.status.conditions[-1].type", json!("Ready")),
        (
            "$.status.conditions[?@.type=='Ready'].reason",
            json!("Pending"),
        ),
        (
            "$.status.conditions[?(@.type==\"Ready\")].reason",
            json!("Pending"),
        ),
        (
            "$.status.conditions[? @['type'] != 'Ready' ].status",
            json!("True"),
        ),
        ("$.status.conditions[?@.last == true].type", json!("Ready")),
        (
            "$.status.conditions[?@.observedGeneration==3].type",
            json!("Available"),
        ),
        (
            "$.status.conditions[?@.status=='False' && @.type=='Ready'].type",
            json!("Ready"),
        ),
        ("$.none", Value::Null),
    ] {
        let document = document();
        let found = FieldPath::parse(path).unwrap();
        assert_eq!(
            found.find(&document, &mut Work::default()),
            Ok(Some(&expected)),
            "{path}"
        );
    }
}

#[test]
fn a_path_without_a_value_finds_nothing() {
    for path in [
        "$.status.other",
        "$.city.name",
        "$.city[0]",
        "$.status[0]",
        "$.status.conditions[2]",
        "$.status.conditions[-3]",
        "$.status.conditions[-9223372036854775808]",
        "$.status.conditions[?@.type=='Programmed'].status",
        "$.status.conditions[?@=='x']",
    ] {
        let found = FieldPath::parse(path).unwrap();
        assert_eq!(
            found.find(&document(), &mut Work::default()),
            Ok(None),
            "{path}"
        );
    }
}

#[test]
fn several_values_are_an_error() {
    let path = FieldPath::parse("$.status.conditions[?@.type != 'x'].type").unwrap();
    let problem = path.find(&document(), &mut Work::default()).unwrap_err();
    assert_eq!(problem, "the path finds 2 values");
}

#[test]
fn a_wrong_path_names_the_character() {
    for (path, problem) in [
        ("", "character 1: `$` is expected, but the path ends"),
        ("status", "character 1: `$` is expected, not `s`"),
        (
            "$status",
            "character 2: `.`, `[` or the end is expected, not `s`",
        ),
        (
            "$.",
            "character 3: a name; other names are written as ['name'] is expected, but the path ends",
        ),
        (
            "$..type",
            "character 3: a name; other names are written as ['name'] is expected, not `.`",
        ),
        (
            "$.a-b",
            "character 4: `.`, `[` or the end is expected, not `-`",
        ),
        (
            "$.é.*",
            "character 5: a name; other names are written as ['name'] is expected, not `*`",
        ),
        (
            "$[*]",
            "character 3: a name in quotes, an index or `?` is expected, not `*`",
        ),
        (
            "$[99999999999999999999]",
            "character 3: a name in quotes, an index or `?` is expected, not `9`",
        ),
        ("$[1:2]", "character 4: `]` is expected, not `:`"),
        ("$['a", "character 5: `'` is expected, but the path ends"),
        (
            r"$['a\n']",
            "character 6: a quote or `\\` after `\\` is expected, not `n`",
        ),
        ("$[?@.a]", "character 7: `==` or `!=` is expected, not `]`"),
        (
            "$[?@.a == $.b]",
            "character 11: a text in quotes, an integer, `true` or `false` is expected, not `$`",
        ),
        (
            "$[?length(@.a) == 1]",
            "character 4: `@` is expected, not `l`",
        ),
        ("$[?(@.a == 1]", "character 13: `)` is expected, not `]`"),
        (
            "$[?@.a == 1 || @.b == 2]",
            "character 13: `]` is expected, not `|`",
        ),
    ] {
        assert_eq!(FieldPath::parse(path), Err(problem.to_owned()), "{path}");
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "type"])
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn literals() -> impl Strategy<Value = String> {
    prop_oneof![
        name().prop_map(|text| format!("'{text}'")),
        (-2_i64..3).prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|value| value.to_string()),
    ]
}

fn steps() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => name().prop_map(|name| format!(".{name}")),
        1 => name().prop_map(|name| format!("['{name}']")),
        2 => (-2_i64..3).prop_map(|index| format!("[{index}]")),
    ]
}

fn paths() -> impl Strategy<Value = String> {
    let below = prop::collection::vec(steps(), 0..3).prop_map(|steps| steps.concat());
    let comparison = (below, prop::sample::select(vec!["==", "!="]), literals());
    let comparison = comparison.prop_map(|(of, sign, literal)| format!("@{of} {sign} {literal}"));
    let filter = prop::collection::vec(comparison, 1..3);
    let filter = filter.prop_map(|comparisons| format!("[?{}]", comparisons.join(" && ")));
    let segment = prop_oneof![4 => steps(), 1 => filter];
    prop::collection::vec(segment, 0..5).prop_map(|segments| format!("${}", segments.concat()))
}

proptest! {
    #[test]
    fn a_path_finds_what_another_implementation_of_rfc_9535_finds(document in values(), path in paths()) {
        let others = document.query(&path).unwrap();
        match FieldPath::parse(&path).unwrap().find(&document, &mut Work::default()) {
            Ok(found) => prop_assert_eq!(Vec::from_iter(found), others),
            Err(_) => prop_assert!(others.len() > 1),
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(path in "\\PC{0,40}", rest in "[$@.\\[\\]?'\"()=!&a0-9 \\\\-]{0,40}") {
        let _ = FieldPath::parse(&path);
        let _ = FieldPath::parse(&format!("$[?{rest}"));
    }
}
