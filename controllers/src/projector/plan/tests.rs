use api::ProjectName;
use serde_json::json;

use super::*;
use crate::fixtures::{condition, deployment, instance, now, object, terminating};

const HUB_NAMESPACE: &str = "ns-1";

fn plan_for(
    instance: Option<&Arc<Instance>>,
    deployment: Option<&Arc<WorkloadDeployment>>,
    projection: Option<&Arc<Instance>>,
) -> Plan {
    plan_knowing(CellState::Reachable, instance, deployment, projection)
}

/// Plans with this state of the cell.
fn plan_knowing(
    state: CellState,
    instance: Option<&Arc<Instance>>,
    deployment: Option<&Arc<WorkloadDeployment>>,
    projection: Option<&Arc<Instance>>,
) -> Plan {
    plan(&Observed {
        upstream: &Upstream {
            project: ProjectName::new("single").unwrap(),
            namespace: "default".into(),
        },
        hub_namespace: &HubNamespace::new(HUB_NAMESPACE).unwrap(),
        instance,
        deployment,
        projection,
        cell: state,
        now: now(),
    })
}

fn on_hub() -> Arc<Instance> {
    let mut instance = instance(HUB_NAMESPACE, "web-us-dfw-0");
    instance.meta_mut().labels = Some(StringMap::from([
        (
            labels::UPSTREAM_CLUSTER_NAME.into(),
            "cluster-_single".into(),
        ),
        (labels::UPSTREAM_NAMESPACE.into(), "default".into()),
        (labels::WORKLOAD_DEPLOYMENT_NAME.into(), "web-us-dfw".into()),
        (labels::WORKLOAD_DEPLOYMENT_UID.into(), "of-the-hub".into()),
        ("resourcebinding.karmada.io/permanent-id".into(), "x".into()),
    ]));
    instance.status = Some(object(
        json!({"conditions": [condition("Ready", true, Some(2))]}),
    ));
    Arc::new(instance)
}

fn owner() -> Arc<WorkloadDeployment> {
    Arc::new(deployment("default", "web-us-dfw", "DFW", 1))
}

fn executed(instance: &Instance, owner: &WorkloadDeployment, desired: &Desired) -> Arc<Instance> {
    let mut projection = instance.clone();
    projection.status = None;
    projection.meta_mut().generation = Some(9);
    projection.meta_mut().labels = Some(desired.labels.clone());
    projection.meta_mut().annotations = Some(desired.annotations.clone());
    projection.meta_mut().owner_references = Some(vec![owner.owner_ref(&()).unwrap()]);
    Arc::new(projection)
}

/// I-15: a UID of the hub does not reach the project.
#[test]
fn a_projection_has_the_projects_identity_and_no_hub_bookkeeping() {
    let (instance, owner) = (on_hub(), owner());
    let desired = plan_for(Some(&instance), Some(&owner), None).apply.unwrap();
    assert_eq!(
        desired.labels[labels::UPSTREAM_CLUSTER_NAME],
        "cluster-single"
    );
    assert_eq!(
        desired.labels[labels::WORKLOAD_DEPLOYMENT_UID],
        "web-us-dfw-uid"
    );
    assert_eq!(desired.labels[labels::UPSTREAM_NAMESPACE], "default");
    assert!(!desired.labels.keys().any(|key| key.contains("karmada")));
    assert_eq!(
        desired.annotations[annotations::FEDERATION_NAMESPACE],
        HUB_NAMESPACE
    );
}

#[test]
fn the_status_is_written_with_translated_generations_and_then_nothing() {
    let (instance, owner) = (on_hub(), owner());
    let desired = plan_for(Some(&instance), Some(&owner), None).apply.unwrap();
    let projection = executed(&instance, &owner, &desired);
    let plan = plan_for(Some(&instance), Some(&owner), Some(&projection));
    assert_eq!(plan.apply, None);
    let status = plan.status.unwrap();
    assert_eq!(status.conditions[0].observed_generation, Some(9));
    let mut settled = projection.as_ref().clone();
    settled.status = Some(status);
    assert_eq!(
        plan_for(Some(&instance), Some(&owner), Some(&Arc::new(settled))),
        Plan::default()
    );
}

#[test]
fn a_projection_needs_a_live_owner() {
    let instance = on_hub();
    assert_eq!(plan_for(Some(&instance), None, None), Plan::default());
    let going = Arc::new(terminating(owner().as_ref().clone()));
    assert_eq!(
        plan_for(Some(&instance), Some(&going), None),
        Plan::default()
    );
    let going = Arc::new(terminating(instance.as_ref().clone()));
    assert_eq!(
        plan_for(Some(&going), Some(&owner()), None),
        Plan::default()
    );
}

/// The deletion of a WorkloadDeployment can wait for minutes for its cells.
#[test]
fn the_status_of_a_projection_is_written_until_its_owner_is_gone() {
    let (instance, owner) = (on_hub(), owner());
    let going = Arc::new(terminating(owner.as_ref().clone()));
    let desired = plan_for(Some(&instance), Some(&owner), None).apply.unwrap();
    let mut projection = executed(&instance, &owner, &desired);
    let status = plan_for(Some(&instance), Some(&owner), Some(&projection)).status;
    Arc::make_mut(&mut projection).status = status;
    let settled = plan_for(Some(&instance), Some(&going), Some(&projection));
    assert_eq!(settled, Plan::default());

    let dead = || CellState::Unreachable {
        since: Some(now()),
        message: "no heartbeat".into(),
    };
    let planned = plan_knowing(dead(), Some(&instance), Some(&going), Some(&projection));
    let shown = planned.status.unwrap();
    let ready = api::condition::find(&shown.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "CellUnreachable");
    assert_eq!((planned.apply, planned.delete), (None, false));
    assert!(plan_for(None, Some(&going), Some(&projection)).delete);

    // Nothing but the status is changed, and only that of a projection of this owner.
    let mut other = projection.as_ref().clone();
    other.labels_mut().clear();
    let planned = plan_knowing(
        dead(),
        Some(&instance),
        Some(&going),
        Some(&Arc::new(other)),
    );
    assert_eq!((planned.apply, planned.status), (None, Some(shown)));
    let mut other = projection.as_ref().clone();
    other.meta_mut().owner_references = None;
    let planned = plan_knowing(
        dead(),
        Some(&instance),
        Some(&going),
        Some(&Arc::new(other)),
    );
    assert_eq!(planned, Plan::default());
}

#[test]
fn only_the_projection_of_a_deleted_instance_is_deleted() {
    let (instance, owner) = (on_hub(), owner());
    let desired = plan_for(Some(&instance), Some(&owner), None).apply.unwrap();
    let projection = executed(&instance, &owner, &desired);
    assert!(plan_for(None, None, Some(&projection)).delete);
    let going = Arc::new(terminating(projection.as_ref().clone()));
    assert!(!plan_for(None, None, Some(&going)).delete);
    // The Instance is a projection from another hub namespace, or belongs to another writer.
    let mut other = projection.as_ref().clone();
    other
        .annotations_mut()
        .insert(annotations::FEDERATION_NAMESPACE.into(), "ns-2".into());
    assert!(!plan_for(None, None, Some(&Arc::new(other))).delete);
    let bare = Arc::new(crate::fixtures::instance("default", "web-us-dfw-0"));
    assert!(!plan_for(None, None, Some(&bare)).delete);
}

#[test]
fn a_projection_of_the_go_manager_is_recognized_by_both_labels() {
    let deleted = |cluster: &str, namespace: &str| {
        let mut projection = instance("default", "web-us-dfw-0");
        projection.meta_mut().labels = Some(StringMap::from([
            (labels::UPSTREAM_CLUSTER_NAME.into(), cluster.into()),
            (labels::UPSTREAM_NAMESPACE.into(), namespace.into()),
        ]));
        plan_for(None, None, Some(&Arc::new(projection))).delete
    };
    assert!(deleted("cluster-single", "default"));
    assert!(deleted("cluster-_single", "default"));
    assert!(!deleted("cluster-single", "other"));
    assert!(!deleted("cluster-other", "default"));
    assert!(!deleted("single", "default"));
    assert!(!deleted("cluster-single", ""));
}

#[test]
fn a_projection_has_the_labels_of_its_hub_namespace_not_of_the_instance() {
    let mut bare = on_hub().as_ref().clone();
    for key in [labels::UPSTREAM_CLUSTER_NAME, labels::UPSTREAM_NAMESPACE] {
        bare.labels_mut().remove(key);
    }
    let desired = plan_for(Some(&Arc::new(bare)), Some(&owner()), None)
        .apply
        .unwrap();
    assert_eq!(
        desired.labels[labels::UPSTREAM_CLUSTER_NAME],
        "cluster-single"
    );
    assert_eq!(desired.labels[labels::UPSTREAM_NAMESPACE], "default");
}

#[test]
fn an_instance_of_an_unreachable_cell_says_so_and_keeps_its_last_report() {
    let mut instance = on_hub().as_ref().clone();
    instance
        .labels_mut()
        .insert(labels::SOURCE_CLUSTER.into(), "dfw1".into());
    instance.status = Some(object(json!({
        "conditions": [condition("Running", true, Some(2)), condition("Ready", true, Some(2))],
        "networkInterfaces": [{"assignments": {"networkIP": "10.0.0.1"}}],
    })));
    let (instance, owner) = (Arc::new(instance), owner());
    let desired = plan_for(Some(&instance), Some(&owner), None).apply.unwrap();
    let mut projection = executed(&instance, &owner, &desired);
    let mut show = |state: CellState| {
        let plan = plan_knowing(state, Some(&instance), Some(&owner), Some(&projection));
        assert_eq!(plan.apply, None);
        if let Some(status) = plan.status.clone() {
            Arc::make_mut(&mut projection).status = Some(status);
        }
        plan.status
    };
    let healthy = show(CellState::Reachable).unwrap();
    let unreachable = |since: Option<&str>| CellState::Unreachable {
        since: since.map(|since| since.parse().unwrap()),
        message: "no heartbeat".into(),
    };
    let ready = |status: &InstanceStatus| {
        let conditions = &status.conditions;
        api::condition::find(conditions, "Ready").unwrap().clone()
    };
    let since = "2026-11-21T09:30:00Z";
    let stale = show(unreachable(Some(since))).unwrap();
    let shown = ready(&stale);
    let of = (
        shown.status,
        shown.reason.as_str(),
        shown.observed_generation,
    );
    assert_eq!(
        of,
        (api::ConditionStatus::Unknown, "CellUnreachable", Some(9))
    );
    assert_eq!(shown.last_transition_time.0, since.parse().unwrap());
    let message = "cell dfw1 cannot be reached: no heartbeat; it last reported True Because: m";
    assert_eq!(shown.message, message);
    assert_eq!(stale.network_interfaces, healthy.network_interfaces);
    assert!(api::condition::is_true(&stale.conditions, "Running"));
    assert_eq!(show(unreachable(Some(since))), None);
    // The time that is shown stays if the hub no longer knows it.
    assert_eq!(show(unreachable(None)), None);
    assert_eq!(show(CellState::Reachable), Some(healthy));
    // Without any time, the time is that of the observation.
    let shown = ready(&show(unreachable(None)).unwrap());
    assert_eq!(shown.last_transition_time.0, now());
    assert_eq!(show(unreachable(None)), None);
}
