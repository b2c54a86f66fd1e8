//! Tests of shares. After a change of the total replicas, Karmada first sends the new template with the former share of
//! each cell. A cell that reports its former share is not current.

use serde_json::{Value, json};

use super::{aggregate, aggregate_at, hub, report, with_status};

/// Returns the hub status after both cells have reported `generation`, each cell with its share.
fn after(former: Value, generation: i64, total: i32, shares: [i32; 2]) -> Value {
    let [a, b] = shares;
    let items = [
        report("a", generation, a, "True"),
        report("b", generation, b, "True"),
    ];
    let object = match former {
        Value::Null => hub(generation, total),
        former => with_status(hub(generation, total), former),
    };
    let status = aggregate_at(&object, &items, super::NOW);
    status.unwrap_or_else(|| object["status"].clone())
}

fn claimed(status: &Value) -> i64 {
    status["observedGeneration"].as_i64().unwrap()
}

#[test]
fn former_shares_that_match_the_new_total_by_chance_are_not_current() {
    for (total, shares, new_total, new_shares) in [
        // Each share equals the total. The sum of the shares equals the next total.
        (1, [1, 1], 2, [2, 2]),
        // The sum of the shares equals the total. Each share equals the next total.
        (4, [2, 2], 2, [1, 1]),
    ] {
        let first = after(Value::Null, 1, total, shares);
        assert_eq!(claimed(&first), 1);
        let between = after(first, 2, new_total, shares);
        assert_eq!(claimed(&between), 1, "{shares:?} of {new_total}");
        let still = after(between.clone(), 2, new_total, shares);
        assert_eq!(still, between);
        assert_eq!(claimed(&after(still, 2, new_total, new_shares)), 2);
    }
}

#[test]
fn a_share_of_zero_is_not_current() {
    let none = after(Value::Null, 1, 0, [0, 0]);
    assert_eq!(claimed(&none), 1);
    let half = after(none, 2, 1, [1, 0]);
    assert_eq!(claimed(&half), 1);
    assert_eq!(claimed(&after(half, 2, 1, [1, 1])), 2);
}

#[test]
fn the_same_total_keeps_its_shares() {
    let first = after(Value::Null, 1, 3, [2, 1]);
    assert_eq!(
        claimed(&after(first.clone(), 2, 3, [2, 1])),
        2,
        "a new image"
    );
    assert_eq!(claimed(&after(first, 2, 3, [1, 2])), 2, "other weights");
}

#[test]
fn shares_are_remembered_when_all_cells_are_current() {
    let first = after(Value::Null, 1, 1, [1, 1]);
    let between = after(first, 2, 2, [1, 2]);
    let shares = |status: &Value| {
        let cells = status["cells"].as_array().unwrap().iter();
        cells
            .map(|cell| json!([cell["assignedReplicas"], cell["templateReplicas"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(shares(&between), [json!([1, 1]), json!([1, 1])]);
    assert_eq!(
        shares(&after(between, 2, 2, [2, 2])),
        [json!([2, 2]), json!([2, 2])]
    );
    // With a single cell, the status contains no shares.
    assert!(
        aggregate(&hub(1, 1), &[report("a", 1, 1, "True")])
            .get("cells")
            .is_none()
    );
}
