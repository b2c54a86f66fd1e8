use std::collections::BTreeMap;
use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::lower_hub::SilentLowerHub;
use api::workload_summary::{RowState, WorkloadSummarySpec};
use api::{Instance, WorkloadDeployment, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, instance, now, object};
use crate::hub::cells::CellState;

const BEFORE: &str = "2026-11-21T09:30:00Z";

fn query(change: &Value) -> Query {
    let mut spec = json!({
        "workload": "web", "rows": "Cells",
        "columns": [{"name": "city", "path": "$.city"}, {"name": "ready", "path": "$.status.readyReplicas"}],
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let spec: WorkloadSummarySpec = object(spec);
    Query::of(&spec).unwrap()
}

fn report(ready: i32) -> Value {
    json!({"replicas": ready, "readyReplicas": ready, "currentReplicas": ready, "desiredReplicas": ready})
}

fn item(cell: &str, ready: i32) -> Value {
    json!({"clusterName": cell, "applied": true, "status": report(ready)})
}

fn binding(targets: &[&str], items: &Value) -> Arc<ResourceBinding> {
    let targets: Vec<_> = targets.iter().map(|name| json!({"name": name})).collect();
    Arc::new(object(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "b", "creationTimestamp": BEFORE}, "spec": {"clusters": targets},
        "status": {"aggregatedStatus": items},
    })))
}

fn copy_with(status: &Value) -> Arc<WorkloadDeployment> {
    let mut copy = json!(deployment("ns-1", "web", "DFW", 1));
    copy["status"] = status.clone();
    copy["metadata"]["creationTimestamp"] = json!(BEFORE);
    Arc::new(object(copy))
}

fn observed_deployment(name: &str, city: &str, copy: HubCopy) -> ObservedDeployment {
    ObservedDeployment {
        workload: "web".to_owned(),
        deployment: Arc::new(deployment("default", name, city, 1)),
        copy,
    }
}

fn present(targets: &[&str], items: &Value) -> HubCopy {
    HubCopy::Present(copy_with(&Value::Null), Some(binding(targets, items)))
}

/// `away` cannot be reached since [`BEFORE`], and `gone` does not exist.
fn cell_state(cell: &str) -> CellState {
    let unreachable = |since, message: &str| CellState::Unreachable {
        since,
        message: message.to_owned(),
    };
    match cell {
        "away" | "dfw.away" => unreachable(Some(BEFORE.parse().unwrap()), "no answer"),
        "gone" => unreachable(None, "its Cluster does not exist"),
        _ => CellState::Reachable,
    }
}

fn observed(deployments: Vec<ObservedDeployment>) -> Observed<'static> {
    Observed {
        deployments,
        instances: Vec::new(),
        cells: KnownCells {
            state: &cell_state,
            is_lower_hub: &|cluster| ["dfw", "ord"].contains(&cluster),
            silent: &|_| Vec::new(),
        },
        former: &[],
        now: now(),
    }
}

fn table(query: &Query, deployments: Vec<ObservedDeployment>) -> Table {
    evaluate(query, &observed(deployments)).unwrap()
}

fn one(copy: HubCopy) -> Vec<SummaryRow> {
    table(
        &query(&json!({})),
        vec![observed_deployment("web", "DFW", copy)],
    )
    .rows
}

/// Cell, state, reason and the value of `ready` of each row.
fn brief(rows: &[SummaryRow]) -> Vec<String> {
    let brief = |row: &SummaryRow| {
        let parts = [
            row.cell.clone(),
            row.state.map(|it| it.as_str().to_owned()),
            row.reason.clone(),
            row.values.get("ready").map(ToString::to_string),
        ];
        let parts = parts.map(|it| it.unwrap_or_else(|| "-".to_owned()));
        parts.join(" ")
    };
    rows.iter().map(brief).collect()
}

#[test]
fn each_expected_cell_has_a_row() {
    let items = json!([
        item("b", 2),
        item("a", 1),
        {"clusterName": "late", "applied": true},
        {"clusterName": "empty", "applied": true, "status": {}},
        {"clusterName": "refused", "appliedMessage": "no quota"},
        item("away", 3), item("leaving", 4),
        {"clusterName": "malformed", "applied": "yes"},
    ]);
    let targets = [
        "a",
        "away",
        "b",
        "empty",
        "gone",
        "late",
        "malformed",
        "new",
        "refused",
    ];
    let rows = one(present(&targets, &items));
    assert_eq!(
        brief(&rows),
        [
            "a Reported - 1",
            "away Unreachable CellUnreachable 3",
            "b Reported - 2",
            "empty NotReported CellNotReported -",
            "gone Unreachable CellUnreachable -",
            "late NotReported CellNotReported -",
            "leaving Leaving NoLongerSelected 4",
            "malformed NotReported CellNotApplied -",
            "new NotReported CellNotApplied -",
            "refused NotReported CellNotApplied -",
        ]
    );
    let row = |cell: &str| {
        rows.iter()
            .find(|it| it.cell.as_deref() == Some(cell))
            .unwrap()
    };
    assert_eq!(json!(row("a").since), Value::Null);
    assert_eq!(json!(row("away").since), BEFORE);
    assert_eq!(json!(row("gone").since), json!(now()));
    assert_eq!(row("refused").message.as_deref(), Some("no quota"));
    assert_eq!(row("away").message.as_deref(), Some("no answer"));
}

#[test]
fn a_deployment_without_a_cell_has_a_row() {
    let copy = || copy_with(&Value::Null);
    let scheduled = |status: &str, reason: &str| {
        let mut binding = json!(*binding(&[], &json!([])));
        binding["metadata"]["generation"] = json!(1);
        binding["status"]["schedulerObservedGeneration"] = json!(1);
        binding["status"]["conditions"] = json!([{
            "type": "Scheduled", "status": status, "reason": reason, "message": "0/2 match",
            "lastTransitionTime": "2026-11-21T09:40:00Z",
        }]);
        Some(Arc::new(object::<ResourceBinding>(binding)))
    };
    for (copy, expected, since) in [
        (HubCopy::Absent, "- NotPlaced NotOnHub -", json!(now())),
        (
            HubCopy::NotKnown("why".to_owned()),
            "- Unknown CellsNotKnown -",
            json!(now()),
        ),
        (
            HubCopy::Present(copy(), None),
            "- NotPlaced NotScheduled -",
            json!(BEFORE),
        ),
        (
            present(&[], &json!([])),
            "- NotPlaced NotScheduled -",
            json!(BEFORE),
        ),
        (
            HubCopy::Present(copy(), scheduled("False", "NoClusterFit")),
            "- NotPlaced NoMatchingCell -",
            json!("2026-11-21T09:40:00Z"),
        ),
    ] {
        let rows = one(copy);
        assert_eq!(brief(&rows), [expected]);
        assert_eq!(json!(rows[0].since), since, "{expected}");
        assert!(rows[0].message.is_some());
    }
}

#[test]
fn a_silent_cell_has_the_values_of_its_last_report() {
    let mut remembered = report(7);
    remembered["name"] = json!("away");
    let mut several = report(9);
    several["cells"] = json!([remembered]);
    let silent = json!([{"clusterName": "away"}, item("b", 1)]);
    let copy = HubCopy::Present(copy_with(&several), Some(binding(&["away", "b"], &silent)));
    let expected = ["away Unreachable CellUnreachable 7", "b Reported - 1"];
    assert_eq!(brief(&one(copy)), expected);

    let mut single = report(5);
    for (reporting, expected) in [("late", "5"), ("another", "-")] {
        single["reportingCell"] = json!(reporting);
        let silent = json!([{"clusterName": "late", "applied": true}]);
        let copy = HubCopy::Present(copy_with(&single), Some(binding(&["late"], &silent)));
        let expected = format!("late NotReported CellNotReported {expected}");
        assert_eq!(brief(&one(copy)), [expected]);
    }
}

#[test]
fn each_cell_below_a_lower_hub_has_a_row() {
    let entry = |name: &str, ready| {
        let mut entry = report(ready);
        entry["name"] = json!(name);
        entry
    };
    let mut of_lower_hub = item("dfw", 4);
    of_lower_hub["status"]["cells"] = json!([entry("a1", 3), entry("away", 1)]);
    let mut of_only_cell = item("ord", 2);
    of_only_cell["status"]["reportingCell"] = json!("b1");
    let items = json!([of_lower_hub, of_only_cell]);
    let expected = [
        "dfw.a1 Reported - 3",
        "dfw.away Unreachable CellUnreachable 1",
        "ord.b1 Reported - 2",
    ];
    assert_eq!(brief(&one(present(&["dfw", "ord"], &items))), expected);

    // A cell that the lower hub waits for is named in the row of the lower hub.
    of_lower_hub["status"]["conditions"] = json!([{
        "type": "CellsReporting", "status": "False", "reason": "CellNotApplied", "message": "a2: not applied yet",
    }]);
    let rows = one(present(&["dfw"], &json!([of_lower_hub])));
    let expected = [
        "dfw NotReported CellNotApplied -",
        "dfw.a1 Reported - 3",
        "dfw.away Unreachable CellUnreachable 1",
    ];
    assert_eq!(brief(&rows), expected);
    assert_eq!(rows[0].message.as_deref(), Some("a2: not applied yet"));

    // The lower hub still has the last report of a cell that does not report any more.
    for (message, state) in [
        (
            "a0: no status reported; a1: not applied: a2: x",
            "NotReported CellNotApplied",
        ),
        (
            "a0: no status reported; and 7 more",
            "NotReported CellNotApplied",
        ),
        ("a0: no status reported; a11: not applied yet", "Reported -"),
    ] {
        of_lower_hub["status"]["conditions"][0]["message"] = json!(message);
        let rows = brief(&one(present(&["dfw"], &json!([of_lower_hub]))));
        assert_eq!(rows[1], format!("dfw.a1 {state} 3"), "{message}");
        assert_eq!(rows[2], "dfw.away Unreachable CellUnreachable 1");
    }

    // Two levels below, the message of `mid` follows its name.
    let entries = ["a2", "mid.a1", "mid.a2"].map(|name| entry(name, 1));
    of_lower_hub["status"]["cells"] = json!(entries);
    of_lower_hub["status"]["conditions"][0]["message"] =
        json!("mid: a1: not applied yet; a2: no status reported");
    let rows = one(present(&["dfw"], &json!([of_lower_hub])));
    let expected = [
        "dfw NotReported CellNotApplied -",
        "dfw.a2 Reported - 1",
        "dfw.mid.a1 NotReported CellNotApplied 1",
        "dfw.mid.a2 NotReported CellNotApplied 1",
    ];
    assert_eq!(brief(&rows), expected);

    // Only its label makes a Cluster a lower hub.
    of_lower_hub["clusterName"] = json!("evil");
    let rows = one(present(&["evil"], &json!([of_lower_hub])));
    assert_eq!(brief(&rows), ["evil Reported - 4"]);

    // A lower hub that does not report, or whose cells have not reported to it again.
    let mut status = report(4);
    status["cells"] = json!([entry("dfw.a1", 3), entry("dfw-2", 1)]);
    let silent = json!({"clusterName": "dfw", "applied": true});
    let mut anew = silent.clone();
    anew["status"] = report(0);
    anew["status"]["conditions"] = of_lower_hub["status"]["conditions"].take();
    for (item_of_lower_hub, expected) in [
        (
            silent,
            vec!["dfw-2 Reported - 1", "dfw.a1 NotReported CellNotReported 3"],
        ),
        (
            anew,
            vec![
                "dfw NotReported CellNotApplied -",
                "dfw-2 Reported - 1",
                "dfw.a1 NotReported CellNotApplied 3",
            ],
        ),
    ] {
        let items = json!([item_of_lower_hub, item("dfw-2", 1)]);
        let targets = binding(&["dfw", "dfw-2"], &items);
        let rows = one(HubCopy::Present(copy_with(&status), Some(targets)));
        assert_eq!(brief(&rows), expected);
    }
}

/// Returns a lower hub whose process is silent.
fn silent(name: &str) -> SilentLowerHub {
    SilentLowerHub {
        name: name.to_owned(),
        since: Time(BEFORE.parse().unwrap()),
    }
}

/// The process of a lower hub tells which of its cells can be reached.
#[test]
fn cells_below_a_silent_process_are_not_known() {
    let below = |lower_hub: &str, cell: &str| {
        let mut item = item(lower_hub, 3);
        item["status"]["reportingCell"] = json!(cell);
        item
    };
    let items = json!([
        below("dfw", "a1"),
        below("mia", "mid.a"),
        below("nyc", "mid-2.a"),
        below("ord", "b1"),
        {"clusterName": "lax", "applied": true},
        item("plain", 1),
    ]);
    let mut status = report(4);
    let mut of_lax = report(2);
    of_lax["name"] = json!("lax.c1");
    status["cells"] = json!([of_lax]);
    let targets = binding(&["dfw", "lax", "mia", "nyc", "ord", "plain"], &items);
    let copy = HubCopy::Present(copy_with(&status), Some(targets));
    let mut observed = observed(vec![observed_deployment("web", "DFW", copy)]);
    observed.cells = KnownCells {
        state: &|cell| match cell {
            "ord.b1" => cell_state("away"),
            _ => CellState::Reachable,
        },
        is_lower_hub: &|cluster| cluster != "plain",
        silent: &|cluster| match cluster {
            "mia" | "nyc" => vec![silent(&format!("{cluster}.mid"))],
            "ord" => Vec::new(),
            _ => vec![silent(cluster)],
        },
    };
    let rows = evaluate(&query(&json!({})), &observed).unwrap().rows;
    let expected = [
        "dfw.a1 Unknown LowerHubSilent 3",
        "lax.c1 NotReported CellNotReported 2",
        "mia.mid.a Unknown LowerHubSilent 3",
        "nyc.mid-2.a Reported - 3",
        "ord.b1 Unreachable CellUnreachable 3",
        "plain Reported - 1",
    ];
    assert_eq!(brief(&rows), expected);
    for (row, lower_hub) in [(0, "dfw"), (2, "mia.mid")] {
        let message = format!("the process of lower hub {lower_hub} is silent");
        assert_eq!(rows[row].message.as_ref(), Some(&message));
    }
}

/// Otherwise each evaluation would change the status.
#[test]
fn a_time_that_is_not_known_stays_while_the_reason_stays() {
    let copy = || present(&["gone", "new"], &json!([]));
    let former = one(copy());
    let later = now() + std::time::Duration::from_mins(5);
    let mut observed = observed(vec![observed_deployment("web", "DFW", copy())]);
    observed.former = &former;
    observed.now = later;
    let rows = evaluate(&query(&json!({})), &observed).unwrap().rows;
    assert_eq!(rows, former);
    // The cell that had no object has it now, but does not report.
    let items = json!([{"clusterName": "new", "applied": true}]);
    observed.deployments = vec![observed_deployment(
        "web",
        "DFW",
        present(&["gone", "new"], &items),
    )];
    let rows = evaluate(&query(&json!({})), &observed).unwrap().rows;
    assert_eq!(json!(rows[0].since), json!(now()));
    assert_eq!(json!(rows[1].since), json!(later));
}

#[test]
fn cells_that_still_run_a_deployment_have_rows_when_no_cell_matches() {
    let decided = json!({
        "type": "Scheduled", "status": "False", "reason": "NoClusterFit", "message": "0/2 clusters",
        "lastTransitionTime": BEFORE,
    });
    let mut without_target = json!(*binding(&[], &json!([item("old", 2)])));
    without_target["status"]["conditions"] = json!([decided]);
    let copy = copy_with(&Value::Null);
    let rows = one(HubCopy::Present(
        copy,
        Some(Arc::new(object(without_target))),
    ));
    let expected = [
        "- NotPlaced NoMatchingCell -",
        "old Leaving NoLongerSelected 2",
    ];
    assert_eq!(brief(&rows), expected);
}

#[test]
fn a_reason_does_not_hold_for_longer_than_the_deployment_exists() {
    let mut observed_deployment = observed_deployment("web", "DFW", present(&["away"], &json!([])));
    let since = |created: &str, deployment: &mut ObservedDeployment| {
        let mut with_age = json!(*deployment.deployment);
        with_age["metadata"]["creationTimestamp"] = json!(created);
        deployment.deployment = Arc::new(object(with_age));
        let copy = present(&["away"], &json!([]));
        let deployment = ObservedDeployment {
            workload: "web".to_owned(),
            deployment: Arc::clone(&deployment.deployment),
            copy,
        };
        json!(table(&query(&json!({})), vec![deployment]).rows[0].since)
    };
    let (earlier, later) = ("2026-11-21T09:00:00Z", "2026-11-21T09:31:00Z");
    assert_eq!(since(earlier, &mut observed_deployment), BEFORE);
    assert_eq!(since(later, &mut observed_deployment), later);
}

#[test]
fn the_status_of_a_cell_has_only_what_customers_may_see() {
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "Running", "message": "",
            "lastTransitionTime": BEFORE, "observedGeneration": 7,
        })
    };
    let mut report = report(1);
    for hidden in [
        "assignedMinReplicas",
        "assignedReplicas",
        "cellRulesStamp",
        "generation",
        "observedGeneration",
        "resourceTemplateGeneration",
    ] {
        report[hidden] = json!(3);
    }
    report["selector"] = json!("compute.datumapis.com/workload-deployment-uid=secret");
    report["cells"] = json!([]);
    report["reportingCell"] = json!("dfw1");
    report["conditions"] = json!([condition("Available"), condition("ReferencedDataReady")]);
    let columns: Vec<_> = report.as_object().unwrap().keys().enumerate().collect();
    let mut columns: Vec<_> = columns
        .into_iter()
        .map(|(at, field)| json!({"name": format!("c{at}"), "path": format!("$.status.{field}")}))
        .collect();
    columns.truncate(14);
    columns.push(json!({"name": "observed", "path": "$.status.conditions[0].observedGeneration"}));
    columns.push(json!({"name": "second", "path": "$.status.conditions[1].type"}));
    let items = json!([{"clusterName": "dfw1", "applied": true, "status": report}]);
    let query = query(&json!({"columns": columns}));
    let deployments = vec![observed_deployment(
        "web",
        "DFW",
        present(&["dfw1"], &items),
    )];
    let rows = table(&query, deployments).rows;
    let paths = columns.iter().filter(|it| {
        let name = it["name"].as_str().unwrap();
        rows[0].values.contains_key(name) || rows[0].errors.contains_key(name)
    });
    let paths: Vec<_> = paths.filter_map(|it| it["path"].as_str()).collect();
    let shown = [
        "$.status.conditions",
        "$.status.currentReplicas",
        "$.status.desiredReplicas",
        "$.status.readyReplicas",
        "$.status.replicas",
    ];
    assert_eq!(paths, shown);
}

fn two_cities() -> Vec<ObservedDeployment> {
    vec![
        observed_deployment(
            "web-ord",
            "ORD",
            present(&["ord1"], &json!([item("ord1", 3)])),
        ),
        observed_deployment(
            "web-dfw",
            "DFW",
            present(
                &["dfw2", "dfw1"],
                &json!([item("dfw2", 2), item("dfw1", 1)]),
            ),
        ),
    ]
}

#[test]
fn rows_have_a_fixed_order() {
    let rows = table(&query(&json!({})), two_cities()).rows;
    let cells: Vec<_> = rows.iter().filter_map(|it| it.cell.as_deref()).collect();
    assert_eq!(cells, ["dfw1", "dfw2", "ord1"]);
    let mut reversed = two_cities();
    reversed.reverse();
    assert_eq!(table(&query(&json!({})), reversed).rows, rows);
}

#[test]
fn the_document_of_a_cell_has_the_documented_fields() {
    let columns = [
        ("cell", "$.cell"),
        ("city", "$.city"),
        ("workload", "$.workload"),
        ("placement", "$.placement"),
        ("state", "$.state"),
        ("reason", "$.reason"),
        ("name", "$.deployment.metadata.name"),
        ("min", "$.deployment.spec.scaleSettings.minReplicas"),
        ("whole", "$.deployment"),
        ("desired", "$.status.desiredReplicas"),
    ];
    let columns = columns.map(|(name, path)| json!({"name": name, "path": path}));
    let query = query(&json!({"columns": columns}));
    let copy = present(&["away"], &json!([item("away", 1)]));
    let rows = table(&query, vec![observed_deployment("web", "DFW", copy)]).rows;
    let placement = deployment("default", "web", "DFW", 1).spec.placement_name;
    assert_eq!(
        json!(rows[0].values),
        json!({
            "cell": "away", "city": "DFW", "workload": "web", "placement": placement, "state": "Unreachable",
            "reason": "CellUnreachable", "name": "web", "min": 1, "desired": 1,
        })
    );
    let whole = "the value is an object: choose one field".to_owned();
    assert_eq!(
        rows[0].errors,
        BTreeMap::from([("whole".to_owned(), whole)])
    );
}

fn observed_instance(of: usize, instance: Arc<Instance>) -> ObservedInstance {
    ObservedInstance {
        of,
        instance,
        problem: None,
    }
}

#[test]
fn the_document_of_an_instance_has_the_documented_fields() {
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "PendingQuota", "message": "", "lastTransitionTime": BEFORE,
    });
    let of = |name: &str| {
        let mut instance = json!(instance("default", name));
        instance["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: "dfw1"});
        instance["status"] = json!({"conditions": [ready]});
        Arc::new(object::<Instance>(instance))
    };
    let columns = [
        ("cell", "$.cell"),
        ("city", "$.city"),
        ("deployment", "$.deployment"),
        ("name", "$.metadata.name"),
        ("reason", "$.status.conditions[?@.type=='Ready'].reason"),
        ("instanceType", "$.spec.runtime.resources.instanceType"),
        ("state", "$.state"),
    ];
    let columns = columns.map(|(name, path)| json!({"name": name, "path": path}));
    let query = query(&json!({"rows": "Instances", "columns": columns}));
    let mut observed = observed(two_cities());
    let instances = [(1, "b"), (1, "a"), (0, "c"), (9, "stray")].into_iter();
    let instances = instances.map(|(at, name)| observed_instance(at, of(name)));
    observed.instances = instances.collect();
    let rows = evaluate(&query, &observed).unwrap().rows;
    let names: Vec<_> = rows
        .iter()
        .filter_map(|it| it.instance.as_deref())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let instance_type = &observed.instances[0]
        .instance
        .spec
        .runtime
        .resources
        .instance_type;
    assert_eq!(
        json!(rows[0].values),
        json!({
            "cell": "dfw1", "city": "DFW", "deployment": "web-dfw", "name": "a", "reason": "PendingQuota",
            "instanceType": instance_type,
        })
    );
    assert_eq!(rows[0].state, None);
}

#[test]
fn filters_keep_rows_for_which_all_hold() {
    let filter = |column: &str, operator: &str, values: &[&str]| json!({"column": column, "operator": operator, "values": values});
    for (filters, cells) in [
        (vec![filter("city", "In", &["DFW", "LAX"])], "dfw1 dfw2"),
        (vec![filter("city", "NotIn", &["DFW"])], "ord1"),
        (vec![filter("ready", "In", &["3", "1"])], "dfw1 ord1"),
        (vec![filter("ready", "GreaterThan", &["1"])], "dfw2 ord1"),
        (
            vec![filter("ready", "GreaterThan", &["1500m"])],
            "dfw2 ord1",
        ),
        (vec![filter("ready", "LessThan", &["2"])], "dfw1"),
        (vec![filter("ready", "Exists", &[])], "dfw1 dfw2 ord1"),
        (vec![filter("ready", "DoesNotExist", &[])], ""),
        (vec![filter("none", "DoesNotExist", &[])], "dfw1 dfw2 ord1"),
        (vec![filter("none", "NotIn", &["x"])], "dfw1 dfw2 ord1"),
        (vec![filter("none", "LessThan", &["1"])], ""),
        (vec![filter("none", "In", &["x"])], ""),
        (
            vec![
                filter("city", "In", &["DFW"]),
                filter("ready", "In", &["2"]),
            ],
            "dfw2",
        ),
        // It is not decided, so the rows stay.
        (
            vec![filter("city", "GreaterThan", &["1"])],
            "dfw1 dfw2 ord1",
        ),
        (vec![filter("status", "In", &["x"])], "dfw1 dfw2 ord1"),
        (
            vec![
                filter("city", "GreaterThan", &["1"]),
                filter("ready", "In", &["2"]),
            ],
            "dfw2",
        ),
    ] {
        let columns = [
            ("city", "$.city"),
            ("ready", "$.status.readyReplicas"),
            ("none", "$.status.none"),
            ("status", "$.status"),
        ];
        let columns = columns.map(|(name, path)| json!({"name": name, "path": path}));
        let query = query(&json!({"columns": columns, "where": filters}));
        let table = table(&query, two_cities());
        let found: Vec<_> = table.rows.iter().filter_map(|it| it.cell.clone()).collect();
        assert_eq!(found.join(" "), cells, "{filters:?}");
        assert_eq!(table.total, found.len());
        let decided = filters[0]["operator"] != "GreaterThan" || filters[0]["column"] != "city";
        let undecided = "where: \"DFW\" is neither a quantity nor a time";
        let error = table.rows.first().and_then(|it| it.errors.get("city"));
        assert_eq!(error.map(String::as_str), (!decided).then_some(undecided));
    }
}

#[test]
fn groups_have_aggregates() {
    let aggregates = json!([
        {"name": "cells", "function": "Count"},
        {"name": "reports", "function": "Count", "column": "ready"},
        {"name": "ready", "function": "Sum", "column": "ready"},
        {"name": "most", "function": "Max", "column": "ready"},
        {"name": "text", "function": "Sum", "column": "city"},
    ]);
    let mut deployments = two_cities();
    let silent = present(
        &["lax1"],
        &json!([{"clusterName": "lax1", "applied": true}]),
    );
    deployments.push(observed_deployment("web-lax", "LAX", silent));
    let query = query(&json!({"groupBy": ["city"], "aggregates": aggregates}));
    let table = table(&query, deployments);
    assert_eq!((table.total, table.omitted, table.rows.len()), (4, 0, 0));
    let text = |city: &str| json!({"text": format!("{city:?} is not a quantity: it must begin with a decimal number")});
    assert_eq!(
        json!(table.groups),
        json!([
            {
                "keys": {"city": "DFW"}, "rows": 2, "errors": text("DFW"),
                "values": {"cells": 2, "reports": 2, "ready": 3, "most": 2},
            },
            {
                "keys": {"city": "LAX"}, "rows": 1, "errors": text("LAX"), "missing": {"most": 1, "ready": 1},
                "values": {"cells": 1, "reports": 0},
            },
            {
                "keys": {"city": "ORD"}, "rows": 1, "errors": text("ORD"),
                "values": {"cells": 1, "reports": 1, "ready": 3, "most": 3},
            },
        ])
    );
}

#[test]
fn an_error_of_a_row_is_an_error_of_its_group() {
    let columns = json!([{"name": "all", "path": "$.status"}]);
    let aggregates = json!([{"name": "sum", "function": "Sum", "column": "all"}]);
    let query = query(&json!({"columns": columns, "groupBy": ["all"], "aggregates": aggregates}));
    let groups = table(&query, two_cities()).groups;
    let problem = "web-dfw in dfw1: the value is an object: choose one field";
    assert_eq!(
        json!(groups),
        json!([{"rows": 3, "errors": {"all": problem, "sum": problem}, "missing": {"sum": 3}}])
    );
}

#[test]
fn without_groups_all_rows_are_aggregated_and_no_row_is_a_group_of_none() {
    let count = json!([{"name": "cells", "function": "Count"}, {"name": "ready", "function": "Sum", "column": "ready"}]);
    let of_all = query(&json!({"aggregates": count}));
    let groups = |query: &Query, deployments| json!(table(query, deployments).groups);
    assert_eq!(
        groups(&of_all, two_cities()),
        json!([{"rows": 3, "values": {"cells": 3, "ready": 6}}])
    );
    assert_eq!(
        groups(&of_all, Vec::new()),
        json!([{"rows": 0, "values": {"cells": 0}}])
    );
    let by_city = query(&json!({"aggregates": count, "groupBy": ["city"]}));
    assert_eq!(groups(&by_city, Vec::new()), json!([]));
}

fn many(cells: usize) -> Vec<ObservedDeployment> {
    let names: Vec<_> = (0..cells).map(|it| format!("c{it:05}")).collect();
    let items: Vec<_> = names.iter().map(|name| item(name, 1)).collect();
    let targets: Vec<_> = names.iter().map(String::as_str).collect();
    vec![observed_deployment(
        "web",
        "DFW",
        present(&targets, &json!(items)),
    )]
}

#[test]
fn a_status_has_a_bounded_size() {
    let few = table(&query(&json!({})), many(ROWS_SHOWN_MAX));
    assert_eq!(
        (few.rows.len(), few.omitted, few.total),
        (ROWS_SHOWN_MAX, 0, ROWS_SHOWN_MAX)
    );
    let more = table(&query(&json!({})), many(ROWS_SHOWN_MAX + 3));
    assert_eq!(
        (more.rows.len(), more.omitted, more.total),
        (ROWS_SHOWN_MAX, 3, ROWS_SHOWN_MAX + 3)
    );
    assert_eq!(more.rows, few.rows);

    let mut deployments = many(400);
    let mut long = json!(*deployments[0].deployment);
    long["metadata"]["annotations"] = json!({annotations::HUB_UID: "x".repeat(1000)});
    deployments[0].deployment = Arc::new(object(long));
    let path = format!(
        "$.deployment.metadata.annotations['{}']",
        annotations::HUB_UID
    );
    let query = query(&json!({"columns": [{"name": "long", "path": path}]}));
    let table = table(&query, deployments);
    let bytes = json!(table.rows).to_string().len();
    assert!(
        (ROWS_BYTES_MAX - 2000..ROWS_BYTES_MAX + 500).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(table.rows.len() + table.omitted, 400);
}

#[test]
fn too_many_rows_are_not_evaluated() {
    let count = query(&json!({"aggregates": [{"name": "cells", "function": "Count"}]}));
    let groups = table(&count, many(ROWS_EVALUATED_MAX)).groups;
    assert_eq!(groups[0].rows, 10_000);
    let problem = evaluate(&count, &observed(many(ROWS_EVALUATED_MAX + 1))).unwrap_err();
    assert_eq!(problem.reason, "TooManyRows");
}

/// Each filter that cannot be decided has an error in its row.
#[test]
fn an_evaluation_that_would_keep_too_much_text_has_no_result() {
    let mut deployments = many(ROWS_EVALUATED_MAX);
    let mut large = json!(*deployments[0].deployment);
    large["metadata"]["annotations"] = json!({"a": "\u{1}".repeat(1000)});
    deployments[0].deployment = Arc::new(object(large));
    let path = "$.deployment.metadata.annotations.a";
    let of = |columns: usize| {
        let name = |at: usize| format!("c{at}");
        let columns_of = |it: usize| json!({"name": name(it), "path": path});
        let filter =
            |it: usize| json!({"column": name(it), "operator": "GreaterThan", "values": ["1"]});
        query(&json!({
            "columns": (0..columns).map(columns_of).collect::<Vec<_>>(),
            "where": (0..columns).map(filter).collect::<Vec<_>>(),
        }))
    };
    let observed = observed(deployments);
    let table = evaluate(&of(1), &observed).unwrap();
    assert_eq!(table.total, ROWS_EVALUATED_MAX);
    let error = &table.rows[0].errors["c0"];
    assert!(error.len() < 512, "{error}");
    let problem = evaluate(&of(2), &observed).unwrap_err();
    assert_eq!(problem.reason, "TooExpensive");
    assert!(problem.message.contains("bytes"), "{}", problem.message);
}

#[test]
fn an_evaluation_that_needs_too_much_work_has_no_result() {
    let mut deployments = many(2000);
    let mut large = json!(*deployments[0].deployment);
    large["metadata"]["annotations"] = (0..100).map(|it| (format!("a{it}"), json!("x"))).collect();
    deployments[0].deployment = Arc::new(object(large));
    let comparisons = ["@ != 'y'"; 17].join(" && ");
    let column = |at: usize, path: &str| json!({"name": format!("c{at}"), "path": path});
    let of = |columns: usize, path: &str| {
        let columns: Vec<_> = (0..columns).map(|at| column(at, path)).collect();
        let observed = observed(deployments.iter().map(clone_of).collect());
        evaluate(&query(&json!({"columns": columns})), &observed).map(|it| it.total)
    };
    // The deployment is in the document of each row only if a path needs it there.
    assert_eq!(of(16, "$.deployment.metadata.name"), Ok(2000));
    let filter = format!("$.deployment.metadata.annotations[?{comparisons}]");
    assert_eq!(of(1, &filter), Ok(2000));
    assert_eq!(of(16, &filter).unwrap_err().reason, "TooExpensive");

    let mut text = json!(*deployments[0].deployment);
    text["metadata"]["annotations"] = json!({"long": "x".repeat(250_000)});
    let long = observed_deployment("web", "DFW", HubCopy::Absent);
    let long = ObservedDeployment {
        deployment: Arc::new(object(text)),
        ..long
    };
    let cells = clone_of(&deployments[0]).copy;
    let long = ObservedDeployment {
        copy: cells,
        ..long
    };
    let path = |path: &str| query(&json!({"columns": [column(0, path)]}));
    let observed = observed(vec![long]);
    let shared = evaluate(&path("$.deployment.metadata.annotations.other"), &observed);
    assert_eq!(shared.unwrap().total, 2000);
    let whole = evaluate(&path("$[?@.x == 1]"), &observed).unwrap_err();
    assert_eq!(whole.reason, "TooExpensive");
}

fn clone_of(of: &ObservedDeployment) -> ObservedDeployment {
    let HubCopy::Present(copy, binding) = &of.copy else {
        unreachable!()
    };
    ObservedDeployment {
        workload: of.workload.clone(),
        deployment: Arc::clone(&of.deployment),
        copy: HubCopy::Present(Arc::clone(copy), binding.clone()),
    }
}

#[test]
fn a_status_changes_only_with_its_result() {
    let mut summary: WorkloadSummary = object(json!({
        "metadata": {"name": "s", "generation": 4}, "spec": {"rows": "Cells", "workload": "web"},
    }));
    let result = || Ok(table(&query(&json!({})), two_cities()));
    let status = changed_status(&summary, result(), now()).unwrap();
    assert_eq!((status.total, status.observed_generation), (3, Some(4)));
    assert!(condition::is_true(&status.conditions, CURRENT));
    summary.status = Some(status.clone());
    let later = now() + std::time::Duration::from_mins(5);
    assert_eq!(changed_status(&summary, result(), later), None);
    // As the API server stores it.
    summary.status = Some(object(json!(status)));
    assert_eq!(changed_status(&summary, result(), later), None);

    let refused = NoResult {
        reason: reason::INVALID_QUERY,
        message: "spec.columns[0].path: x".to_owned(),
    };
    let status = changed_status(&summary, Err(refused), later).unwrap();
    assert_eq!((status.rows.len(), status.total), (0, 0));
    let current = condition::find(&status.conditions, CURRENT).unwrap();
    assert!(current.is_false() && current.reason == "InvalidQuery");
    assert_eq!(current.message, "spec.columns[0].path: x");
    assert_eq!(json!(RowState::Reported), "Reported");
}

/// Prints the time to evaluate as many rows as one summary may have, as a multiple of the time to decode their objects.
#[test]
#[ignore = "prints figures: cargo test --release -p controllers -- --ignored --nocapture the_cost_of"]
fn the_cost_of_an_evaluation() {
    use std::time::Instant;

    let conditions: Vec<_> = ["Available", "Programmed", "Running", "Ready"]
        .map(|type_| {
            json!({
                "type": type_, "status": "True", "reason": "Running", "message": "It is so.",
                "lastTransitionTime": BEFORE, "observedGeneration": 1,
            })
        })
        .into();
    let columns = json!([
        {"name": "city", "path": "$.city"},
        {"name": "ready", "path": "$.status.readyReplicas"},
        {"name": "reason", "path": "$.status.conditions[?@.type == 'Ready'].reason"},
        {"name": "status", "path": "$.status.conditions[?@.type == 'Ready'].status"},
    ]);
    let aggregates = json!([{"name": "ready", "function": "Sum", "column": "ready"}]);
    let of = |rows: &str| {
        query(&json!({
            "rows": rows, "columns": columns, "groupBy": ["city", "reason"], "aggregates": aggregates,
        }))
    };
    #[expect(clippy::disallowed_methods, reason = "a measurement")]
    let timed = |what: &str, run: &dyn Fn()| {
        run();
        let begin = Instant::now();
        run();
        let time = begin.elapsed().as_secs_f64() * 1000.0;
        println!("{what}: {time:.1} ms");
        time
    };

    // A hundred WorkloadDeployments in a hundred cells each.
    let names: Vec<_> = (0..100).map(|it| format!("c{it:03}")).collect();
    let targets: Vec<_> = names.iter().map(String::as_str).collect();
    let report = |cell: &&str| {
        let mut item = item(cell, 1);
        item["status"]["conditions"] = json!(conditions);
        item
    };
    let items: Vec<_> = targets.iter().map(report).collect();
    let text = json!(items).to_string();
    let deployments = || {
        let of = |at: usize| {
            let name = format!("web-{at:03}");
            observed_deployment(&name, "DFW", present(&targets, &json!(items)))
        };
        (0..100).map(of).collect()
    };
    let of_cells = observed(deployments());
    let by_cell = of("Cells");
    let decoded = timed("decode the reports of 10,000 cells", &|| {
        for _ in 0..100 {
            let _: Vec<Value> = serde_json::from_str(&text).unwrap();
        }
    });
    let evaluated = timed("evaluate 10,000 cells", &|| {
        assert_eq!(evaluate(&by_cell, &of_cells).unwrap().total, 10_000);
    });
    println!("ratio: {:.2}", evaluated / decoded);

    let mut first = json!(instance("default", "web-0"));
    first["status"] = json!({"conditions": conditions});
    let text = first.to_string();
    let mut of_instances = observed(deployments());
    let shared = Arc::new(object::<Instance>(first));
    of_instances.instances = (0..10_000)
        .map(|it| observed_instance(it % 100, Arc::clone(&shared)))
        .collect();
    let by_instance = of("Instances");
    let decoded = timed("decode 10,000 Instances", &|| {
        for _ in 0..10_000 {
            let _: Instance = serde_json::from_str(&text).unwrap();
        }
    });
    let evaluated = timed("evaluate 10,000 Instances", &|| {
        assert_eq!(evaluate(&by_instance, &of_instances).unwrap().total, 10_000);
    });
    println!("ratio: {:.2}", evaluated / decoded);
}
