//! Tests of summaries. Project and hub are in-memory API servers.

use std::time::Duration;

use api::karmada::{Cluster, ResourceBinding};
use api::{Instance, Workload, WorkloadDeployment, WorkloadSummaryStatus, annotations, labels};
use apiserver::{ApiServer, Fault, objects};
use kube::Resource;
use serde_json::Value;
use tokio::time::sleep;

use super::pace::EVALUATED_EVERY;
use super::*;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, HUB_UID, context, copy, hub_namespace, project_key, reconcile,
    recorded, settle, take_writes,
};
use crate::fixtures::workload;
use crate::hub::upstream::Upstream;
use crate::objects::{Namespace, controller_reference};

fn of_web(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([controller_reference(&workload(&[]))]);
    object
}

fn summary(name: &str, change: &Value) -> Value {
    let mut summary = json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadSummary",
        "metadata": {"namespace": "default", "name": name, "uid": name, "generation": 1},
        "spec": {
            "workload": "web", "rows": "Cells",
            "columns": [{"name": "ready", "path": "$.status.readyReplicas"}],
        },
    });
    for (field, value) in change.as_object().unwrap() {
        summary["spec"][field] = value.clone();
    }
    summary
}

fn binding(cells: &[(&str, Option<i32>)]) -> Value {
    let targets: Vec<_> = cells
        .iter()
        .map(|(name, _)| json!({"name": name}))
        .collect();
    let item = |(name, ready): &(&str, Option<i32>)| {
        let status = ready.map(|ready| json!({"readyReplicas": ready}));
        json!({"clusterName": name, "applied": true, "status": status})
    };
    let items: Vec<_> = cells.iter().map(item).collect();
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"namespace": HUB_NAMESPACE, "name": "web-workloaddeployment"},
        "spec": {
            "clusters": targets,
            "resource": {"apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": "web", "uid": "web-copy"},
        },
        "status": {"aggregatedStatus": items},
    })
}

fn cluster(name: &str, ready: &str) -> Value {
    let ready = json!({
        "type": "Ready", "status": ready, "reason": "r", "message": "no answer",
        "lastTransitionTime": "2026-11-21T10:30:00Z",
    });
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "status": {"conditions": [ready]},
    })
}

fn on_hub() -> Vec<Value> {
    let (one, two) = (cluster("dfw1", "True"), cluster("dfw2", "True"));
    let binding = binding(&[("dfw1", Some(1)), ("dfw2", None)]);
    vec![hub_namespace(), copy("web"), binding, one, two]
}

fn controller_on(planes: &FakePlanes) -> SummaryController {
    let (projects, hub) = (Arc::clone(&planes.projects), Arc::clone(&planes.hub_caches));
    SummaryController::new(projects, hub, planes.writer::<SummaryController>())
}

async fn start(in_project: Vec<Value>, on_hub: Vec<Value>) -> (FakePlanes, SummaryController) {
    let both = [json!(workload(&[])), of_web(recorded("web"))];
    let in_project = both.into_iter().chain(in_project).collect();
    let planes = FakePlanes::start(in_project, on_hub).await;
    let controller = controller_on(&planes);
    (planes, controller)
}

/// Evaluates a summary a second later. Returns the writes.
async fn pass(planes: &FakePlanes, controller: &SummaryController, name: &str) -> Vec<String> {
    sleep(EVALUATED_EVERY).await;
    reconcile(controller, project_key(name))
        .await
        .unwrap()
        .unwrap();
    take_writes(&planes.servers())
}

fn status(project: &ApiServer, name: &str) -> WorkloadSummaryStatus {
    let summary: WorkloadSummary = project.get("default", name).unwrap();
    summary.status.unwrap()
}

/// Cell, state and the value of `ready` of each row.
fn rows(project: &ApiServer, name: &str) -> Vec<String> {
    let rows = status(project, name).rows.into_iter().map(|row| {
        let state = row
            .state
            .map_or("-", api::workload_summary::RowState::as_str);
        let ready = row.values.get("ready").map(ToString::to_string);
        let (cell, ready) = (
            row.cell.as_deref().unwrap_or("-"),
            ready.as_deref().unwrap_or("-"),
        );
        format!("{cell} {state} {ready}")
    });
    rows.collect()
}

const WRITE: &str = "apply workloadsummaries/status default/by-cell";

#[tokio::test(start_paused = true)]
async fn the_status_follows_the_reports_and_a_settled_summary_is_not_written() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    let (project, hub) = (&planes.project, &planes.hub);
    assert_eq!(pass(&planes, &controller, "by-cell").await, [WRITE]);
    assert_eq!(
        rows(project, "by-cell"),
        ["dfw1 Reported 1", "dfw2 NotReported -"]
    );
    assert_eq!(pass(&planes, &controller, "by-cell").await, [""; 0]);

    hub.put(binding(&[("dfw1", Some(2)), ("dfw2", Some(3))]));
    assert_eq!(pass(&planes, &controller, "by-cell").await, [WRITE]);
    assert_eq!(
        rows(project, "by-cell"),
        ["dfw1 Reported 2", "dfw2 Reported 3"]
    );

    hub.put(cluster("dfw2", "False"));
    pass(&planes, &controller, "by-cell").await;
    assert_eq!(
        rows(project, "by-cell"),
        ["dfw1 Reported 2", "dfw2 Unreachable 3"]
    );
    let row = status(project, "by-cell").rows.remove(1);
    assert_eq!(row.message.as_deref(), Some("no answer"));
    assert_eq!(json!(row.since), "2026-11-21T10:30:00Z");
    hub.remove::<Cluster>("", "dfw2");
    pass(&planes, &controller, "by-cell").await;
    let row = status(project, "by-cell").rows.remove(1);
    assert_eq!(row.message.as_deref(), Some("its Cluster does not exist"));

    // A change of others is undone.
    project.modify::<WorkloadSummary>("default", "by-cell", |it| it["status"]["total"] = json!(7));
    assert_eq!(pass(&planes, &controller, "by-cell").await, [WRITE]);
    project.remove::<WorkloadDeployment>("default", "web");
    project.remove::<Workload>("default", "web");
    pass(&planes, &controller, "by-cell").await;
    assert_eq!(
        (
            rows(project, "by-cell").len(),
            status(project, "by-cell").total
        ),
        (0, 0)
    );
    assert_eq!(pass(&planes, &controller, "by-cell").await, [""; 0]);
}

/// I-16: a customer must see nothing that is not proved to be of the project.
#[tokio::test(start_paused = true)]
async fn nothing_is_shown_of_a_hub_namespace_that_is_not_proved() {
    let foreign = Upstream {
        project: api::ProjectName::new("other").unwrap(),
        namespace: "default".to_owned(),
    };
    let unknown = ["- Unknown -"];
    for (change, expected) in [
        (json!({"labels": foreign.labels()}), unknown),
        (json!({"labels": {}}), unknown),
        (
            json!({"annotations": {annotations::HUB_UID: "another"}}),
            unknown,
        ),
        (
            json!({"annotations": {annotations::HUB_UID: HUB_UID}}),
            ["dfw1 Reported 1"],
        ),
    ] {
        let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
        planes.hub.put(binding(&[("dfw1", Some(1))]));
        planes
            .hub
            .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
                for (field, value) in change.as_object().unwrap() {
                    namespace["metadata"][field] = value.clone();
                }
            });
        pass(&planes, &controller, "by-cell").await;
        assert_eq!(rows(&planes.project, "by-cell"), expected, "{change}");
    }
}

/// A customer can edit the record of the hub namespace, and the labels of Instances.
#[tokio::test(start_paused = true)]
async fn a_record_of_another_hub_namespace_shows_nothing_of_it() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    let mut others = binding(&[("secret", Some(9))]);
    others["metadata"]["namespace"] = json!("ns-other");
    let mut copy = copy("web");
    copy["metadata"]["namespace"] = json!("ns-other");
    planes.hub.put(copy);
    planes.hub.put(others);
    planes
        .project
        .modify::<WorkloadDeployment>("default", "web", |it| {
            it["metadata"]["annotations"][annotations::FEDERATION_NAMESPACE] = json!("ns-other");
        });
    pass(&planes, &controller, "by-cell").await;
    // The federator does not use the hub namespace that is derived from the Namespace either.
    assert_eq!(rows(&planes.project, "by-cell"), ["- Unknown -"]);
}

/// I-12: an empty hub after a mistake of an operator does not look like one without copies.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_not_the_recorded_one_does_not_look_like_one_without_copies() {
    for (record, expected) in [(HUB_UID, "- NotPlaced -"), ("another", "- Unknown -")] {
        let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
        planes
            .hub
            .remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
        planes.hub.remove::<Namespace>("", HUB_NAMESPACE);
        planes
            .project
            .modify::<WorkloadDeployment>("default", "web", |it| {
                it["metadata"]["annotations"][annotations::HUB_UID] = json!(record);
            });
        pass(&planes, &controller, "by-cell").await;
        assert_eq!(rows(&planes.project, "by-cell"), [expected], "{record}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_former_deployment_is_not_shown() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    for (uid, expected) in [("web-uid", "dfw1 Reported 1"), ("former", "- NotPlaced -")] {
        planes
            .hub
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |it| {
                it["metadata"]["annotations"] = json!({annotations::UPSTREAM_UID: uid});
            });
        pass(&planes, &controller, "by-cell").await;
        assert_eq!(rows(&planes.project, "by-cell")[0], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_cannot_be_decoded_has_a_row() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    planes
        .project
        .modify::<WorkloadDeployment>("default", "web", |it| {
            it["spec"]["scaleSettings"]["minReplicas"] = json!("many");
        });
    pass(&planes, &controller, "by-cell").await;
    assert_eq!(rows(&planes.project, "by-cell"), ["- Unknown -"]);
    let message = status(&planes.project, "by-cell")
        .rows
        .remove(0)
        .message
        .unwrap();
    assert!(message.contains("cannot be decoded"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_bindings_does_not_look_like_one_without_cells() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    planes.hub.fail(Fault::refuse(403).of::<ResourceBinding>());
    planes.hub.interrupt();
    sleep(Duration::from_mins(2)).await;
    pass(&planes, &controller, "by-cell").await;
    assert_eq!(rows(&planes.project, "by-cell"), ["- Unknown -"]);
}

#[tokio::test(start_paused = true)]
async fn instances_are_grouped_by_their_reason() {
    let instance = |name: &str, uid: &str, reason: &str| {
        let mut instance = objects::instance("default", name);
        instance["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_UID: uid});
        let ready = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        });
        instance["status"] = json!({"conditions": [ready]});
        instance
    };
    let by_reason = summary(
        "by-reason",
        &json!({
            "rows": "Instances",
            "columns": [{"name": "reason", "path": "$.status.conditions[?@.type=='Ready'].reason"}],
            "groupBy": ["reason"],
        }),
    );
    let in_project = vec![
        by_reason,
        instance("web-0", "web-uid", "PendingQuota"),
        instance("web-1", "web-uid", "Running"),
        instance("web-2", "web-uid", "PendingQuota"),
        instance("api-0", "api-uid", "Running"),
    ];
    let (planes, controller) = start(in_project, Vec::new()).await;
    pass(&planes, &controller, "by-reason").await;
    let groups = json!([
        {"keys": {"reason": "PendingQuota"}, "rows": 2}, {"keys": {"reason": "Running"}, "rows": 1},
    ]);
    assert_eq!(json!(status(&planes.project, "by-reason").groups), groups);
    planes.project.remove::<Instance>("default", "web-1");
    pass(&planes, &controller, "by-reason").await;
    assert_eq!(status(&planes.project, "by-reason").total, 2);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_decoded_has_a_row() {
    let mut broken = objects::instance("default", "web-0");
    broken["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_UID: "web-uid"});
    broken["spec"]["runtime"] = json!("many");
    let columns = json!([
        {"name": "name", "path": "$.metadata.name"}, {"name": "type", "path": "$.spec.runtime"},
        {"name": "ready", "path": "$.status.conditions[?@.type=='Ready'].status"},
    ]);
    let change = json!({"rows": "Instances", "columns": columns});
    let (planes, controller) = start(vec![summary("all", &change), broken], Vec::new()).await;
    pass(&planes, &controller, "all").await;
    let row = status(&planes.project, "all").rows.remove(0);
    assert_eq!(json!(row.values), json!({"name": "web-0"}));
    let columns: Vec<_> = row.errors.keys().map(String::as_str).collect();
    assert_eq!(columns, ["ready", "type"]);
    let problem = &row.errors["type"];
    assert!(
        problem.starts_with("Instance web-0 cannot be decoded: "),
        "{problem}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_query_is_shown_until_it_is_corrected() {
    let wrong = json!({"columns": [{"name": "ready", "path": "status"}]});
    let (planes, controller) = start(vec![summary("by-cell", &wrong)], on_hub()).await;
    pass(&planes, &controller, "by-cell").await;
    let condition = status(&planes.project, "by-cell").conditions.remove(0);
    assert_eq!(condition.reason, "InvalidQuery");
    let problem = "spec.columns[0].path: character 1: `$` is expected, not `s`";
    assert_eq!(condition.message, problem);
    assert_eq!(pass(&planes, &controller, "by-cell").await, [""; 0]);
    planes
        .project
        .modify::<WorkloadSummary>("default", "by-cell", |it| {
            it["spec"]["columns"][0]["path"] = json!("$.status.readyReplicas");
        });
    pass(&planes, &controller, "by-cell").await;
    let status = status(&planes.project, "by-cell");
    assert!(status.conditions[0].is_true() && status.rows.len() == 2);
}

#[tokio::test(start_paused = true)]
async fn only_the_oldest_summaries_are_evaluated() {
    let with_age = |name: &str, second: usize| {
        let mut summary = summary(name, &json!({}));
        summary["metadata"]["creationTimestamp"] = json!(format!("2026-11-21T09:00:{second:02}Z"));
        summary
    };
    let mut summaries: Vec<_> = (0..SUMMARIES_MAX)
        .map(|it| with_age(&format!("old-{it:02}"), it))
        .collect();
    summaries.push(with_age("a-new", 59));
    let (planes, controller) = start(summaries, on_hub()).await;
    let reason = |name: &str| status(&planes.project, name).conditions.remove(0).reason;
    for (name, expected) in [("a-new", "TooManySummaries"), ("old-49", "Evaluated")] {
        pass(&planes, &controller, name).await;
        assert_eq!(reason(name), expected);
    }
    planes
        .project
        .remove::<WorkloadSummary>("default", "old-00");
    pass(&planes, &controller, "a-new").await;
    assert_eq!(reason("a-new"), "Evaluated");
}

/// A wait for the next turn must not look like a success, or the queue would try again at once for ever.
#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_an_error_each_time() {
    let by_cell = summary("by-cell", &json!({}));
    let (planes, controller) = start(vec![of_web(recorded("web")), by_cell], on_hub()).await;
    planes.project.fail(Fault::refuse(422).on_writes());
    for _ in 0..3 {
        let result = reconcile(&controller, project_key("by-cell")).await;
        result.unwrap().unwrap_err();
    }
    assert_eq!(take_writes(&planes.servers()), [WRITE; 3]);
    planes.project.heal();
    assert_eq!(pass(&planes, &controller, "by-cell").await, [WRITE]);
    assert_eq!(status(&planes.project, "by-cell").total, 2);
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_a_second_are_one_write() {
    let (planes, controller) = start(vec![summary("by-cell", &json!({}))], on_hub()).await;
    pass(&planes, &controller, "by-cell").await;
    sleep(EVALUATED_EVERY).await;
    let mut outcomes = Vec::new();
    for ready in 10..15 {
        planes.hub.put(binding(&[("dfw1", Some(ready))]));
        settle().await;
        let outcome = controller
            .reconcile(&context(), project_key("by-cell"))
            .await;
        outcomes.push(outcome.unwrap());
    }
    assert_eq!(outcomes[0], Outcome::Settled);
    let waits = outcomes.iter().skip(1);
    assert!(
        waits
            .clone()
            .all(|it| matches!(it, Outcome::Again(wait) if *wait < EVALUATED_EVERY))
    );
    assert_eq!(take_writes(&planes.servers()), [WRITE]);
    pass(&planes, &controller, "by-cell").await;
    assert_eq!(rows(&planes.project, "by-cell"), ["dfw1 Reported 14"]);
}

#[tokio::test(start_paused = true)]
async fn only_a_query_over_instances_needs_them() {
    let of_instances = summary("all", &json!({"rows": "Instances"}));
    let in_project = vec![
        json!(workload(&[])),
        of_web(recorded("web")),
        summary("by-cell", &json!({})),
        of_instances,
    ];
    let planes = FakePlanes::start_with(in_project, on_hub(), |project| {
        project.fail(Fault::refuse(403).of::<Instance>());
    })
    .await;
    let controller = controller_on(&planes);
    assert_eq!(pass(&planes, &controller, "by-cell").await, [WRITE]);
    let outcome = controller.reconcile(&context(), project_key("all")).await;
    assert!(matches!(outcome, Err(ReconcileError::NotListed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_project_without_the_kind_has_no_summaries() {
    let both = vec![json!(workload(&[])), of_web(recorded("web"))];
    let planes = FakePlanes::start_with(both, on_hub(), |project| {
        project.stop_serving::<WorkloadSummary>();
    })
    .await;
    let project = planes
        .projects
        .get(&project_key("by-cell").project)
        .unwrap();
    assert!(*project.deployments.synced().borrow());
    let outcome = controller_on(&planes)
        .reconcile(&context(), project_key("by-cell"))
        .await;
    assert_eq!(outcome.unwrap(), Outcome::Gone);
    assert_eq!(WorkloadSummary::plural(&()), "workloadsummaries");
}
