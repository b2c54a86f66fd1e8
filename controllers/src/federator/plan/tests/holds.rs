//! Tests of WorkloadDeployments that the federator holds, because nothing proves that the hub namespace belongs to the
//! WorkloadDeployment.

use api::condition::{self, ConditionStatus};
use api::workload_deployment::AVAILABLE;
use serde_json::to_value;

use super::*;
use crate::federator::plan::status::{HUB_CONTRADICTED, HUB_NAMESPACE_CONTRADICTED};
use crate::fixtures::of_hub;

/// Asserts that the plan writes only the status, and writes the status only once.
fn assert_held(plan: &Plan, deployment: &WorkloadDeployment, hub: &HubFixture) {
    assert_held_for(HUB_NAMESPACE_CONTRADICTED, plan, deployment, hub);
}

fn assert_held_for(reason: &str, plan: &Plan, deployment: &WorkloadDeployment, hub: &HubFixture) {
    let hold = plan.hold.as_ref().expect("held");
    let status = plan.status.clone().unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(
        (available.status, available.reason.as_str()),
        (ConditionStatus::Unknown, reason)
    );
    assert_eq!(available.message, hold.problem);
    assert!(
        !hold.problem.contains("cluster-"),
        "a customer reads {hold:?}"
    );
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
fn nothing_is_deleted_in_an_unproved_hub_namespace() {
    let going = terminating(recorded("DFW"));
    let with = |labels: Option<StringMap>| {
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
        // The plan does not remove the finalizer either.
        hub.copy = None;
        assert_held(&plan_for(&going, &hub), &going, &hub);
    }
    let unlabelled = with(None);
    assert_held(&plan_for(&going, &unlabelled), &going, &unlabelled);
    let unknown = HubFixture {
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
fn a_record_that_contradicts_the_namespace_is_held() {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let other = HubNamespace::new("ns-uid-2").unwrap();
    let (live, going) = (recorded("DFW"), terminating(recorded("DFW")));
    let plan = plan_in(&own, Some(&other), &live, &complete(&live));
    assert!(plan.hold.is_some() && plan.apply_copy.is_none() && !plan.record);
    // The recorded hub namespace does not exist. So nothing proves that the record is correct.
    let plan = plan_in(&own, Some(&other), &going, &NOTHING);
    assert!(plan.hold.is_some() && !plan.release);
    // The Namespace of the WorkloadDeployment was replaced by another Namespace of the same name. The labels of the hub
    // namespace prove the identity.
    let plan = plan_in(&own, Some(&other), &going, &complete(&live));
    assert!(plan.hold.is_none() && plan.delete_copy);
    // The Namespace of the WorkloadDeployment is gone (I-9).
    let plan = plan_in(&own, None, &going, &complete(&live));
    assert!(plan.hold.is_none() && plan.delete_copy);
    assert!(plan_in(&own, None, &going, &NOTHING).release);
}

/// I-16: identities are neither guessed nor overwritten.
#[test]
fn labels_of_another_project_or_namespace_are_never_overwritten() {
    let deployment = recorded("DFW");
    let with = |labels: StringMap| {
        let mut hub = complete(&deployment);
        hub.namespace.as_mut().unwrap().meta_mut().labels = Some(labels);
        hub
    };
    let only = |key: &str, value: &str| StringMap::from([(key.to_owned(), value.to_owned())]);
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
        // The plan must not add a finalizer that it could not remove later.
        let new = self::deployment("default", "web-us-dfw", "DFW", 2);
        assert_held(&plan_for(&new, &hub), &new, &hub);
    }
    // The plan overwrites missing labels and older forms of the same identity.
    for own in [
        StringMap::new(),
        only(labels::UPSTREAM_NAMESPACE, "default"),
        labelled("cluster-", "default"),
        labelled("cluster-_single", "default"),
        labelled("cluster-org_single", "default"),
    ] {
        let plan = plan_for(&deployment, &with(own.clone()));
        let desired = plan.apply_namespace.expect("applied");
        assert_eq!(
            desired.labels,
            labelled("cluster-single", "default"),
            "{own:?}"
        );
        assert_eq!(plan.hold, None);
    }
}

#[test]
fn a_change_of_the_city_deletes_only_in_a_proved_hub_namespace() {
    let mut hub = complete(&recorded("DFW"));
    hub.namespace.as_mut().unwrap().meta_mut().labels = None;
    let plan = plan_for(&recorded("ORD"), &hub);
    assert!(!plan.delete_copy && plan.apply_namespace.is_some());
}

/// Returns the WorkloadDeployment with this record of its hub.
fn on(hub: Option<&str>, deployment: WorkloadDeployment) -> WorkloadDeployment {
    object(of_hub(to_value(deployment).unwrap(), hub))
}

#[test]
fn a_deployment_of_another_hub_is_held_whatever_this_hub_has() {
    for deployment in [recorded("DFW"), terminating(recorded("DFW"))] {
        let other = on(Some("other"), deployment.clone());
        let unrecorded = on(None, deployment);
        let without_copy = HubFixture {
            copy: None,
            ..complete(&recorded("DFW"))
        };
        let mut namespace_of_other = without_copy;
        let annotations = namespace_of_other
            .namespace
            .as_mut()
            .unwrap()
            .annotations_mut();
        annotations.insert(annotations::HUB_UID.into(), "other".into());
        for (held, hub) in [
            (&other, &NOTHING),
            (&other, &complete(&recorded("DFW"))),
            (&unrecorded, &NOTHING),
            (&unrecorded, &namespace_of_other),
            (&on(Some(HUB_UID), other.clone()), &namespace_of_other),
        ] {
            assert_held_for(HUB_CONTRADICTED, &plan_for(held, hub), held, hub);
        }
    }
}

#[test]
fn a_deployment_without_a_record_of_its_hub_is_adopted_with_its_hub_namespace() {
    let live = on(None, recorded("DFW"));
    let mut hub = complete(&recorded("DFW"));
    hub.namespace
        .as_mut()
        .unwrap()
        .annotations_mut()
        .remove(annotations::HUB_UID);
    let plan = plan_for(&live, &hub);
    assert!(plan.record && plan.hold.is_none());
    let desired = plan.apply_namespace.unwrap();
    assert_eq!(desired.annotations[annotations::HUB_UID], HUB_UID);
    let going = on(None, terminating(recorded("DFW")));
    let plan = plan_for(&going, &hub);
    assert!(plan.delete_copy && !plan.record);
    hub.copy = None;
    assert!(plan_for(&going, &hub).release);
}

#[test]
fn a_new_deployment_waits_for_its_neighbours() {
    let new = deployment("default", "web-us-dfw", "DFW", 2);
    let plan = |neighbour, hub: &HubIdentity| plan_beside(neighbour, hub, &new);
    assert!(plan(None, &hub_identity()).record);
    for held in [
        plan(Some("it is elsewhere"), &hub_identity()),
        plan(None, &HubIdentity::of(None)),
    ] {
        assert!(held.hold.is_some() && !held.record && held.apply_namespace.is_none());
    }
}
