use serde_json::{Value, json};

use super::*;
use crate::fixtures::object;

const SINCE: &str = "2026-11-21T09:30:00Z";

fn unreachable(message: &str) -> CellState {
    CellState::Unreachable {
        since: Some(SINCE.parse().unwrap()),
        message: message.to_owned(),
    }
}

fn clusters(states: &[(&str, CellState)]) -> BTreeMap<String, CellState> {
    let states = states.iter();
    states
        .map(|(name, state)| ((*name).to_owned(), state.clone()))
        .collect()
}

fn lower_hub(name: &str, status: &Value) -> (String, Arc<LowerHub>) {
    let lower_hub = json!({"metadata": {"name": name}, "spec": {}, "status": status});
    (name.to_owned(), Arc::new(object(lower_hub)))
}

fn ready(name: &str) -> Value {
    json!({"name": name, "ready": true})
}

fn not_ready(name: &str, message: &str) -> Value {
    json!({"name": name, "ready": false, "since": SINCE, "message": message})
}

fn status_of(
    states: &[(&str, CellState)],
    lower_hubs: &[(String, Arc<LowerHub>)],
) -> LowerHubStatus {
    let observed = Observed {
        clusters: clusters(states),
        lower_hubs: lower_hubs.iter().cloned().collect(),
        unreadable: BTreeSet::new(),
    };
    status(&observed, None)
}

#[test]
fn the_clusters_of_the_lower_hub_are_its_cells() {
    let states = [("a1", CellState::Reachable), ("a2", unreachable("m"))];
    let expected = json!({
        "cellCount": 2, "notReady": 1,
        "cells": [ready("a1"), not_ready("a2", "m")],
    });
    assert_eq!(json!(status_of(&states, &[])), expected);
    assert_eq!(
        json!(status_of(&[], &[])),
        json!({"cellCount": 0, "notReady": 0})
    );
}

#[test]
fn cells_below_further_hubs_are_named_after_them() {
    let below = json!({
        "cellCount": 3, "notReady": 1,
        "cells": [ready("x"), not_ready("y", "below")],
    });
    let without_cells = json!({"cellCount": 0, "notReady": 0, "hubUID": "u"});
    let lower_hubs = [
        lower_hub("b", &below),
        lower_hub("c", &Value::Null),
        lower_hub("d", &without_cells),
        lower_hub("gone", &below),
    ];
    let states = |b: CellState| {
        let of_others = ["a", "b-1", "c", "d"].map(|name| (name, CellState::Reachable));
        [vec![("b", b)], of_others.into()].concat()
    };
    let listed = status_of(&states(CellState::Reachable), &lower_hubs);
    let expected = json!({
        "cellCount": 6, "notReady": 1,
        "cells": [
            ready("a"), ready("b-1"), ready("b.x"), not_ready("b.y", "below"), ready("c"),
        ],
    });
    assert_eq!(json!(listed), expected);
    let cut_off = status_of(&states(unreachable("m")), &lower_hubs);
    assert_eq!(
        json!(cut_off.cells[2..4]),
        json!([not_ready("b.x", "m"), not_ready("b.y", "m")])
    );
}

/// A status of a lower hub whose process is silent or not, with these lower hubs with silent processes below it.
fn silent(is_silent: bool, below: &[&str]) -> Value {
    let reporting = json!({
        "type": "Reporting", "status": if is_silent { "False" } else { "True" }, "reason": "r", "message": "m",
        "lastTransitionTime": SINCE,
    });
    let below: Vec<_> = below.iter().map(|name| silent_at(name)).collect();
    json!({
        "cellCount": 1, "notReady": 0, "cells": [ready("x")], "hubUID": "u", "conditions": [reporting],
        "silentLowerHubs": below,
    })
}

fn silent_at(name: &str) -> Value {
    json!({"name": name, "since": SINCE})
}

#[test]
fn silent_processes_of_further_hubs_are_named_after_them() {
    // No process can have the name of a cell below it.
    let long = "x".repeat(62);
    let lower_hubs = [
        lower_hub("b", &silent(false, &[])),
        lower_hub("c", &silent(true, &["x"])),
        lower_hub("c-1", &silent(true, &[])),
        lower_hub("d", &silent(false, &["x.y", &long])),
        lower_hub("gone", &silent(true, &[])),
    ];
    let states = |c| {
        let states = ["a", "b", "c-1", "d"].map(|name| (name, CellState::Reachable));
        [vec![("c", c)], states.into()].concat()
    };
    let listed = status_of(&states(CellState::Reachable), &lower_hubs);
    let expected = json!(["c", "c-1", "c.x", "d.x.y"].map(silent_at));
    assert_eq!(json!(listed.silent_lower_hubs), expected);
    // Then all cells below `c` are cut off, also those that its list lacks.
    let cut_off = status_of(&states(unreachable("m")), &lower_hubs);
    let expected = json!(["c-1", "d.x.y"].map(silent_at));
    assert_eq!(json!(cut_off.silent_lower_hubs), expected);
    let is_of_c = |name: &str| name == "c" || is_below(name, "c");
    let of_c = cut_off.cells.iter().filter(|it| is_of_c(&it.name));
    let of_c: Vec<_> = of_c.collect();
    assert_eq!(
        json!(of_c),
        json!([not_ready("c", "m"), not_ready("c.x", "m")])
    );
    assert_eq!(cut_off.cell_count, 6);
    // Only the process of a hub further below is silent.
    let states = [("d", unreachable("m"))];
    let cut_off = status_of(&states, &lower_hubs);
    let expected = json!([not_ready("d", "m"), not_ready("d.x", "m")]);
    assert_eq!(json!(cut_off.cells), expected);
}

/// The hub above writes the condition also if there is no list.
#[test]
fn a_silent_hub_that_never_reported_is_a_cell_itself() {
    let mut unreported = silent(true, &[]);
    unreported["hubUID"] = Value::Null;
    unreported["cells"] = json!([]);
    unreported["cellCount"] = json!(0);
    for (state, expected) in [
        (CellState::Reachable, ready("mid")),
        (unreachable("m"), not_ready("mid", "m")),
    ] {
        let listed = status_of(&[("mid", state)], &[lower_hub("mid", &unreported)]);
        assert_eq!(json!(listed.cells), json!([expected]));
        assert_eq!(listed.cell_count, 1);
    }
}

/// Otherwise the cells below would count as known again.
#[test]
fn silent_processes_stay_while_lower_hubs_cannot_be_read() {
    let former: LowerHubStatus = object(silent(false, &["a", "b", "b-1", "b.x"]));
    let with = |state, unreadable: &[&str]| {
        let observed = Observed {
            clusters: clusters(&[("b", state)]),
            lower_hubs: BTreeMap::new(),
            unreadable: unreadable.iter().map(|&name| name.to_owned()).collect(),
        };
        json!(status(&observed, Some(&former)).silent_lower_hubs)
    };
    assert_eq!(
        with(CellState::Reachable, &["b"]),
        json!(["b", "b.x"].map(silent_at))
    );
    assert_eq!(with(unreachable("m"), &["b"]), json!([]));
    assert_eq!(with(CellState::Reachable, &[]), json!([]));
}

/// Otherwise a cell that the list of a silent process lacks would count as live.
#[test]
fn a_hub_with_a_silent_process_stays_cut_off_while_it_cannot_be_read() {
    let silent_below = json!({
        "cellCount": 1, "notReady": 0, "cells": [ready("mid.x")], "silentLowerHubs": [silent_at("mid.low")],
    });
    let cut_off = json!({
        "cellCount": 2, "notReady": 2, "cells": [not_ready("mid", "m"), not_ready("mid.x", "m")],
    });
    let complete = json!({"cellCount": 1, "notReady": 0, "cells": [ready("mid.x")]});
    let below = not_ready("mid.x", "m");
    for (former, expected) in [
        (silent_below, json!([not_ready("mid", "m"), below])),
        (cut_off, json!([not_ready("mid", "m"), below])),
        (complete, json!([below])),
    ] {
        let former: LowerHubStatus = object(former);
        let observed = Observed {
            clusters: clusters(&[("mid", unreachable("m"))]),
            lower_hubs: BTreeMap::new(),
            unreadable: BTreeSet::from(["mid".to_owned()]),
        };
        assert_eq!(json!(status(&observed, Some(&former)).cells), expected);
    }
}

/// Otherwise a dead cell below would become one with its Cluster, which is ready.
#[test]
fn cells_stay_while_the_lower_hub_above_them_cannot_be_read() {
    let former: LowerHubStatus = object(json!({
        "cellCount": 4, "notReady": 1,
        "cells": [ready("a"), ready("b-1.x"), ready("b.x"), not_ready("b.y", "below")],
    }));
    let with = |state, unreadable: &[&str]| {
        let observed = Observed {
            clusters: clusters(&[("a", CellState::Reachable), ("b", state)]),
            lower_hubs: BTreeMap::new(),
            unreadable: unreadable.iter().map(|&name| name.to_owned()).collect(),
        };
        json!(status(&observed, Some(&former)).cells)
    };
    let all = ["a", "b"];
    let kept = json!([ready("a"), ready("b.x"), not_ready("b.y", "below")]);
    assert_eq!(with(CellState::Reachable, &all), kept);
    let cut_off = json!([ready("a"), not_ready("b.x", "m"), not_ready("b.y", "m")]);
    assert_eq!(with(unreachable("m"), &all), cut_off);
    assert_eq!(
        with(CellState::Reachable, &[]),
        json!([ready("a"), ready("b")])
    );
}

/// Otherwise each report would cause the next one.
#[test]
fn a_list_that_is_too_long_stays_the_same_while_lower_hubs_cannot_be_read() {
    let own: BTreeMap<_, _> = (0..12_000)
        .map(|number| (format!("{number:05}"), CellState::Reachable))
        .collect();
    let below: Vec<_> = (0..9_999).map(|it| ready(&format!("b.{it:05}"))).collect();
    let of_b = json!({"cellCount": 12_000, "notReady": 0, "cells": below});
    for (clusters, former, count) in [
        (own, None, 12_000),
        (
            clusters(&[("b", CellState::Reachable)]),
            Some(object(of_b)),
            12_000,
        ),
    ] {
        let observed = Observed {
            unreadable: clusters.keys().cloned().collect(),
            clusters,
            lower_hubs: BTreeMap::new(),
        };
        let first = status(&observed, former.as_ref());
        assert_eq!(first.cell_count, count);
        let again = status(&observed, Some(&first));
        assert_eq!(again.cell_count, count);
        assert!(again == first, "the list changes");
    }
}

#[test]
fn the_cells_below_a_further_hub_do_not_displace_others() {
    let cells: Vec<_> = (0..10_000)
        .map(|it| not_ready(&format!("{it:05}"), ""))
        .collect();
    let all = json!({"cellCount": 10_000, "notReady": 10_000, "cells": cells});
    let states = [
        ("aaa", CellState::Reachable),
        ("b1", unreachable("m")),
        ("b2", CellState::Reachable),
    ];
    let listed = status_of(&states, &[lower_hub("aaa", &all)]);
    assert_eq!((listed.cell_count, listed.not_ready), (10_002, 10_001));
    let own = listed
        .cells
        .iter()
        .filter(|cell| !cell.name.starts_with("aaa."));
    let own: Vec<_> = own.map(|cell| json!(cell)).collect();
    assert_eq!(own, [not_ready("b1", "m"), ready("b2")]);
}

#[test]
fn a_cluster_that_was_just_deleted_and_a_name_that_no_cell_can_have_are_left_out() {
    let gone = CellState::Unreachable {
        since: None,
        message: "its Cluster does not exist".to_owned(),
    };
    let long = "x".repeat(64);
    let states = [("a1", gone), (long.as_str(), CellState::Reachable)];
    assert_eq!(status_of(&states, &[]).cells, []);
}

/// An etcd stores objects of at most 1.5 MiB.
#[test]
fn a_list_that_is_too_long_keeps_the_cells_that_are_not_ready() {
    let name = |number: usize| format!("{number:063}");
    let state = |number: usize| match number.is_multiple_of(2) {
        true => CellState::Reachable,
        false => unreachable("m"),
    };
    let states = (0..24_000)
        .map(|number| (name(number), state(number)))
        .collect();
    let observed = Observed {
        clusters: states,
        lower_hubs: BTreeMap::new(),
        unreadable: BTreeSet::new(),
    };
    let long = status(&observed, None);
    assert_eq!((long.cell_count, long.not_ready), (24_000, 12_000));
    assert!(long.cells.iter().all(|cell| !cell.ready));
    assert!(long.cells.is_sorted_by_key(|cell| &cell.name));
    let bytes = json!(long).to_string().len();
    assert!((LIST_MAX..1_300_000).contains(&bytes), "{bytes}");
    assert!(long.cells.iter().all(|cell| cell.message.is_empty()));
}

#[test]
fn messages_share_the_space_of_the_list() {
    let states = |count: usize| -> BTreeMap<String, CellState> {
        let state = unreachable(&"\"\u{1f}é".repeat(100));
        (0..count)
            .map(|number| (format!("{number:05}"), state.clone()))
            .collect()
    };
    let lengths = |count: usize| {
        let observed = Observed {
            clusters: states(count),
            lower_hubs: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        };
        let listed = status(&observed, None);
        let lengths = listed
            .cells
            .iter()
            .map(|cell| json!(cell.message).to_string().len() - 2);
        let (shortest, longest) = (lengths.clone().min(), lengths.max());
        let bytes = json!(listed.cells).to_string().len();
        assert!(bytes <= LIST_MAX, "{bytes}");
        (shortest.unwrap(), longest.unwrap())
    };
    // `"` has 2 bytes in JSON, U+001F has 6, and é has 2.
    assert_eq!(lengths(10), (252, 252));
    let (shortest, longest) = lengths(10_000);
    assert_eq!(shortest, longest);
    assert!((10..60).contains(&longest), "{longest}");
}
