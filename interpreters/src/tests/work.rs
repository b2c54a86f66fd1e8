//! Tests that the work grows with the input, and not with the square of the input.

use jiff::Timestamp;

use crate::fields::Fields;
use crate::fold::{ResourceTemplate, StatusFold};
use crate::steps;

/// Returns many conditions. Each has a type of its own. The order of the types is not sorted.
fn conditions(count: usize, status: &str) -> String {
    let conditions: Vec<_> = (0..count)
        .map(|number| {
            let type_ = number * 7919 % count;
            format!(
                r#"{{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","observedGeneration":{},"reason":"A","status":"{status}","type":"t{type_}"}}"#,
                number % 2
            )
        })
        .collect();
    conditions.join(",")
}

fn item(cell: &str, conditions: &str) -> String {
    format!(
        r#"{{"applied":true,"clusterName":"{cell}","status":{{"assignedReplicas":1,"conditions":[{conditions}],"generation":1,"observedGeneration":1,"replicas":1,"resourceTemplateGeneration":1}}}}"#
    )
}

/// Returns the number of comparisons of types in one rendering. The size of the input is proportional to `count`.
fn comparisons_with(items: &[String], former: &str) -> u64 {
    let (items, former) = (
        format!("[{}]", items.join(",")),
        format!(r#"{{"conditions":[{former}],"replicas":1}}"#),
    );
    let fold = StatusFold::of_items(&items).unwrap();
    let template = ResourceTemplate {
        generation: Some(1),
        replicas: Some(1),
        status: Some(&former),
        ..ResourceTemplate::default()
    };
    steps::during(|| {
        fold.render(&template, Timestamp::UNIX_EPOCH).unwrap();
    })
}

#[test]
fn twice_the_conditions_need_about_twice_the_comparisons() {
    let of = |count: usize| {
        let (one, other) = (conditions(count, "True"), conditions(count, "False"));
        let another = conditions(count + 1, "True");
        let few: Vec<_> = (0..count)
            .map(|number| item(&format!("c{number}"), ""))
            .collect();
        let with_many = |first: &str| [&[item("a", first)], few.as_slice()].concat();
        [
            comparisons_with(&[item("a", &one)], &other),
            comparisons_with(&[item("a", &one)], &another),
            comparisons_with(&[item("a", &one)], ""),
            comparisons_with(&[item("a", &one), item("b", &other)], &another),
            comparisons_with(&with_many(&one), &another),
        ]
    };
    for (shape, (few, many)) in of(1000).into_iter().zip(of(2000)).enumerate() {
        // An index needs 2.2 times the comparisons. A search for each condition needs four times the comparisons.
        assert!(few > 1000, "shape {shape}: {few}");
        assert!(many * 2 < few * 5, "shape {shape}: {few} {many}");
    }
}

#[test]
fn a_long_name_with_escapes_is_not_decoded_for_each_comparison() {
    let run = |first: &str| {
        let fields: Vec<_> = (0..1000)
            .map(|number| format!(r#""{first}{number:04}":0,"#))
            .collect();
        fields.concat()
    };
    let long = format!("\\u007e{}", "x".repeat(10_000));
    let object = format!(r#"{{{}"{long}":0,{}"z":0}}"#, run("a"), run("b"));
    let steps = steps::during(|| {
        assert_eq!(Fields::parse(&object).unwrap().len(), 2002);
    });
    assert!(steps < object.len() as u64, "{steps}");
}
