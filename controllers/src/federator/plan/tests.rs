use std::collections::BTreeMap;

use kube::Resource;
use serde_json::json;

use super::*;
use crate::fixtures::{condition, deployment, now, object, terminating};

const HUB_NAMESPACE: &str = "ns-uid-1";

fn project() -> ProjectName {
    ProjectName::new("single").unwrap()
}

/// A project's deployment that has been recorded.
fn recorded(city: &str) -> WorkloadDeployment {
    let mut deployment = deployment("default", "web-us-dfw", city, 2);
    deployment.meta_mut().finalizers = Some(vec![finalizers::FEDERATOR.into()]);
    deployment.meta_mut().annotations = Some(BTreeMap::from([(
        annotations::FEDERATION_NAMESPACE.into(),
        HUB_NAMESPACE.into(),
    )]));
    deployment
}

fn namespace(uid: &str) -> Namespace {
    object(json!({"metadata": {"name": "default", "uid": uid}}))
}

fn labelled(project: &str, namespace: &str) -> Keys {
    Keys::from([
        (labels::UPSTREAM_CLUSTER_NAME.into(), project.into()),
        (labels::UPSTREAM_NAMESPACE.into(), namespace.into()),
    ])
}

/// The hub's side: namespace, copy, and whether there is a policy.
struct HubSide {
    namespace: Option<Namespace>,
    copy: Option<Arc<WorkloadDeployment>>,
    policy_exists: bool,
}

const NOTHING: HubSide = HubSide {
    namespace: None,
    copy: None,
    policy_exists: false,
};

/// A hub that has everything.
fn complete(deployment: &WorkloadDeployment) -> HubSide {
    let mut copy = deployment.clone();
    copy.meta_mut().generation = Some(7);
    copy.meta_mut().labels = Some(BTreeMap::from([
        (labels::CITY_CODE.into(), deployment.spec.city_code.clone()),
        (labels::UPSTREAM_NAMESPACE.into(), "default".into()),
        (labels::SOURCE_CLUSTER.into(), "someone else's".into()),
    ]));
    let mut hub_namespace = namespace("hub");
    hub_namespace.meta_mut().labels = Some(labelled("cluster-single", "default"));
    HubSide {
        namespace: Some(hub_namespace),
        copy: Some(Arc::new(copy)),
        policy_exists: true,
    }
}

fn plan_for(deployment: &WorkloadDeployment, hub: &HubSide) -> Plan {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    plan_in(&own, Some(&own), deployment, hub)
}

/// The plan for a deployment whose record names this hub namespace, and whose Namespace has that one.
fn plan_in(
    recorded: &HubNamespace,
    derived: Option<&HubNamespace>,
    deployment: &WorkloadDeployment,
    hub: &HubSide,
) -> Plan {
    plan(&Observed {
        project: &project(),
        deployment,
        hub_namespace: recorded,
        derived,
        namespace: hub.namespace.as_ref(),
        copy: hub.copy.as_ref(),
        policy_exists: hub.policy_exists,
        now: now(),
    })
}

#[test]
fn the_hub_namespace_is_the_recorded_one_and_else_that_of_the_namespace() {
    let of = |deployment: &WorkloadDeployment, namespace: Option<&Namespace>| {
        let derived = derived(deployment, namespace).unwrap();
        hub_namespace(deployment, derived.as_ref()).map(|name| name.map(|name| name.to_string()))
    };
    let expected = Some(HUB_NAMESPACE.to_owned());
    let new = deployment("default", "web-us-dfw", "DFW", 2);
    let (own, other) = (namespace("uid-1"), namespace("uid-2"));
    assert_eq!(of(&new, Some(&own)).unwrap(), expected);
    assert!(matches!(of(&new, None), Err(ReconcileError::NotYet { .. })));
    assert_eq!(of(&recorded("DFW"), None).unwrap(), expected);
    // Finalization reads nothing but the object (P-7).
    let going = terminating(recorded("DFW"));
    assert_eq!(of(&going, Some(&other)).unwrap(), expected);
    // One of the baseline has no record.
    let mut of_the_baseline = going;
    of_the_baseline.meta_mut().annotations = None;
    assert_eq!(of(&of_the_baseline, Some(&own)).unwrap(), expected);
    of_the_baseline.meta_mut().finalizers = None;
    assert_eq!(of(&of_the_baseline, None).unwrap(), None);
}

/// Nothing is done but to say so, once.
fn assert_held(plan: &Plan, deployment: &WorkloadDeployment, hub: &HubSide) {
    let hold = plan.hold.as_ref().expect("held");
    let status = plan.status.clone().unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(
        (available.status, available.reason.as_str()),
        (ConditionStatus::Unknown, HUB_NAMESPACE_CONTRADICTED)
    );
    assert_eq!(&available.message, hold);
    assert!(!hold.contains("cluster-"), "a customer reads {hold}");
    let only = Plan {
        status: plan.status.clone(),
        hold: plan.hold.clone(),
        ..Plan::default()
    };
    assert_eq!(*plan, only);
    let mut told = deployment.clone();
    told.status = Some(status);
    let again = plan_for(&told, hub);
    assert_eq!((again.status, again.hold.is_some()), (None, true));
}

#[test]
fn nothing_is_deleted_where_a_record_leads_to_what_is_not_shown_to_be_its_own() {
    let going = terminating(recorded("DFW"));
    let with = |labels: Option<Keys>| {
        let mut hub = complete(&recorded("DFW"));
        hub.namespace.as_mut().unwrap().meta_mut().labels = labels;
        hub
    };
    for (cluster, upstream) in [
        ("cluster-other", "default"),
        ("cluster-org_other", "default"),
        ("cluster-single", "billing"),
        ("cluster-", "default"),
        ("single", "default"),
        ("cluster-single", ""),
    ] {
        let mut hub = with(Some(labelled(cluster, upstream)));
        assert_held(&plan_for(&going, &hub), &going, &hub);
        // The finalizer is not released either.
        hub.copy = None;
        assert_held(&plan_for(&going, &hub), &going, &hub);
    }
    let unlabelled = with(None);
    assert_held(&plan_for(&going, &unlabelled), &going, &unlabelled);
    let unknown = HubSide {
        namespace: None,
        ..complete(&recorded("DFW"))
    };
    assert_held(&plan_for(&going, &unknown), &going, &unknown);
    for cluster in ["cluster-single", "cluster-_single", "cluster-org_single"] {
        let hub = with(Some(labelled(cluster, "default")));
        let plan = plan_for(&going, &hub);
        assert_eq!((plan.delete_copy, plan.hold), (true, None), "{cluster}");
    }
}

#[test]
fn a_record_that_its_namespace_contradicts_is_held() {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let other = HubNamespace::new("ns-uid-2").unwrap();
    let (live, going) = (recorded("DFW"), terminating(recorded("DFW")));
    let plan = plan_in(&own, Some(&other), &live, &complete(&live));
    assert!(plan.hold.is_some() && plan.apply_copy.is_none() && !plan.record);
    // There is nothing at the record: where it said the truth before is not known.
    let plan = plan_in(&own, Some(&other), &going, &NOTHING);
    assert!(plan.hold.is_some() && !plan.release);
    // Its former Namespace is gone, a new one has the name: the hub namespace says whose it is.
    let plan = plan_in(&own, Some(&other), &going, &complete(&live));
    assert!(plan.hold.is_none() && plan.delete_copy);
    // Its Namespace is gone (I-9).
    let plan = plan_in(&own, None, &going, &complete(&live));
    assert!(plan.hold.is_none() && plan.delete_copy);
    assert!(plan_in(&own, None, &going, &NOTHING).release);
}

#[test]
fn labels_of_another_project_or_namespace_are_never_overwritten() {
    let deployment = recorded("DFW");
    let with = |labels: Keys| {
        let mut hub = complete(&deployment);
        hub.namespace.as_mut().unwrap().meta_mut().labels = Some(labels);
        hub
    };
    let only = |key: &str, value: &str| Keys::from([(key.to_owned(), value.to_owned())]);
    for of_another in [
        labelled("cluster-other", "default"),
        labelled("cluster-_other", "default"),
        labelled("cluster-single", "billing"),
        labelled("cluster-", "billing"),
        only(labels::UPSTREAM_CLUSTER_NAME, "cluster-other"),
        only(labels::UPSTREAM_NAMESPACE, "billing"),
    ] {
        let hub = with(of_another);
        assert_held(&plan_for(&deployment, &hub), &deployment, &hub);
        // Nothing that must be released later is begun.
        let new = self::deployment("default", "web-us-dfw", "DFW", 2);
        assert_held(&plan_for(&new, &hub), &new, &hub);
    }
    // What names no one, or the same in another form, is written as it should be.
    for own in [
        Keys::new(),
        only(labels::UPSTREAM_NAMESPACE, "default"),
        labelled("cluster-", "default"),
        labelled("cluster-_single", "default"),
        labelled("cluster-org_single", "default"),
    ] {
        let plan = plan_for(&deployment, &with(own.clone()));
        let labels = plan.apply_namespace.expect("applied");
        assert_eq!(labels, labelled("cluster-single", "default"), "{own:?}");
        assert_eq!(plan.hold, None);
    }
}

#[test]
fn a_change_of_the_city_deletes_only_where_the_hub_namespace_is_its_own() {
    let mut hub = complete(&recorded("DFW"));
    hub.namespace.as_mut().unwrap().meta_mut().labels = None;
    let plan = plan_for(&recorded("ORD"), &hub);
    assert!(!plan.delete_copy && plan.apply_namespace.is_some());
}

#[test]
fn the_namespace_is_recorded_before_anything_is_written_there() {
    let plan = plan_for(&deployment("default", "web-us-dfw", "DFW", 2), &NOTHING);
    assert!(plan.record);
    let labels = plan.apply_namespace.unwrap();
    assert_eq!(labels[labels::UPSTREAM_CLUSTER_NAME], "cluster-single");
    assert_eq!(labels[labels::UPSTREAM_NAMESPACE], "default");
    // The copy waits for its policy.
    assert_eq!(plan.apply_copy, None);
    assert!(!plan_for(&recorded("DFW"), &NOTHING).record);
}

#[test]
fn the_copy_follows_its_policy() {
    let hub = HubSide {
        policy_exists: true,
        ..NOTHING
    };
    let copy = plan_for(&recorded("DFW"), &hub).apply_copy.unwrap();
    assert_eq!(copy.labels[labels::CITY_CODE], "DFW");
    assert_eq!(copy.labels[labels::UPSTREAM_NAMESPACE], "default");
}

#[test]
fn what_is_there_is_left_alone() {
    let deployment = recorded("DFW");
    assert_eq!(
        plan_for(&deployment, &complete(&deployment)),
        Plan::default()
    );
}

#[test]
fn a_change_of_the_city_replaces_the_copy() {
    let hub = complete(&recorded("DFW"));
    let plan = plan_for(&recorded("ORD"), &hub);
    assert_eq!((plan.delete_copy, plan.apply_copy), (true, None));
    // An edit by hand of the label or of the spec is repaired.
    for edit in [
        |copy: &mut WorkloadDeployment| copy.spec.city_code = "ORD".into(),
        |copy: &mut WorkloadDeployment| {
            copy.labels_mut()
                .insert(labels::CITY_CODE.into(), "ORD".into());
        },
    ] {
        let mut hub = complete(&recorded("DFW"));
        edit(Arc::make_mut(hub.copy.as_mut().unwrap()));
        let plan = plan_for(&recorded("DFW"), &hub);
        assert!(!plan.delete_copy && plan.apply_copy.is_some());
    }
}

#[test]
fn nothing_is_claimed_of_a_copy_that_was_made_anew() {
    let mut deployment = recorded("DFW");
    deployment.status = Some(WorkloadDeploymentStatus {
        conditions: vec![condition("Available", true, Some(1))],
        observed_generation: Some(1),
        ready_replicas: 2,
        ..WorkloadDeploymentStatus::default()
    });
    let mut hub = complete(&deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).status = None;
    deployment.status = plan_for(&deployment, &hub).status;
    let status = deployment.status.as_ref().unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(available.status, ConditionStatus::Unknown);
    assert_eq!(status.observed_generation, None);
    assert_eq!(plan_for(&deployment, &hub).status, None);
}

#[test]
fn an_edited_copy_is_repaired_and_one_that_is_going_is_waited_for() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).spec.replicas = Some(9);
    assert!(plan_for(&deployment, &hub).apply_copy.is_some());
    hub.copy = hub
        .copy
        .map(|copy| Arc::new(terminating(copy.as_ref().clone())));
    assert_eq!(plan_for(&deployment, &hub).apply_copy, None);
}

#[test]
fn the_status_comes_back_with_translated_generations_and_without_the_cells() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.status = Some(object(json!({
        "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 2, "observedGeneration": 7,
        "cells": [{"name": "a", "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 2}],
        "conditions": [condition("Available", true, Some(7)), condition("CellsReporting", false, None)],
    })));
    let status = plan_for(&deployment, &hub).status.unwrap();
    assert_eq!(
        (
            status.observed_generation,
            status.cells.len(),
            status.replicas
        ),
        (Some(5), 0, 2)
    );
    let observed: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.observed_generation)
        .collect();
    assert_eq!(observed, [Some(5), None]);

    // Written once, it is not written again.
    let mut settled = deployment.clone();
    settled.status = Some(status);
    assert_eq!(plan_for(&settled, &hub), Plan::default());

    // A newer spec that the hub does not have yet: the former generation stays.
    settled.meta_mut().generation = Some(6);
    settled.spec.scale_settings.min_replicas = 9;
    let plan = plan_for(&settled, &hub);
    assert!(plan.apply_copy.is_some());
    assert_eq!(plan.status, None);
}

#[test]
fn deletion_removes_the_copy_then_the_finalizer_and_nothing_else() {
    let deployment = terminating(recorded("DFW"));
    let hub = complete(&deployment);
    let plan = plan_for(
        &deployment,
        &HubSide {
            copy: Some(Arc::new(recorded("DFW"))),
            ..complete(&recorded("DFW"))
        },
    );
    assert_eq!(
        plan,
        Plan {
            delete_copy: true,
            ..Plan::default()
        }
    );
    // `complete` took over the deletion: the copy is going already.
    assert_eq!(plan_for(&deployment, &hub), Plan::default());
    assert_eq!(
        plan_for(&deployment, &HubSide { copy: None, ..hub }),
        Plan {
            release: true,
            ..Plan::default()
        }
    );
    let mut foreign = deployment;
    foreign.meta_mut().finalizers = Some(vec!["example.com/other".into()]);
    assert_eq!(plan_for(&foreign, &NOTHING), Plan::default());
}

#[test]
fn a_city_code_that_is_no_label_stops_before_the_hub_and_says_so() {
    let mut deployment = deployment("default", "web-us-ny", "New York", 2);
    let plan = plan_for(&deployment, &NOTHING);
    assert_eq!(
        (plan.record, &plan.apply_namespace, &plan.apply_copy),
        (false, &None, &None)
    );
    let status = plan.status.unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(
        (available.reason.as_str(), available.is_false()),
        (INVALID_CITY_CODE, true)
    );
    deployment.status = Some(status);
    assert_eq!(plan_for(&deployment, &NOTHING), Plan::default());
}
