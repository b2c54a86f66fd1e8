use api::instance::{PROGRAMMED, READY, RUNNING};
use kube::core::PartialObjectMetaExt;
use serde_json::json;

use super::*;
use crate::fixtures::{condition, deployment, instance as bare, now, object, terminating};
use crate::objects::controller_reference;

fn cell() -> CellName {
    CellName::new("dfw1").unwrap()
}

/// Returns an Instance of the cell with everything that a copy needs.
fn linked() -> Instance {
    let mut instance = bare("ns-1", "web-0");
    let labels = labels::INSTANCE_LINKING.map(|key| (key.to_owned(), "x".to_owned()));
    instance.meta_mut().labels = Some(StringMap::from(labels));
    instance
        .labels_mut()
        .insert(labels::WORKLOAD_DEPLOYMENT_NAME.into(), "web".into());
    instance.meta_mut().finalizers = Some(vec![finalizers::INSTANCE_CONTROLLER.into()]);
    instance
}

fn partial(deployment: WorkloadDeployment) -> PartialDeployment {
    deployment.metadata.into_response_partial()
}

/// Returns a hub that allows a copy and has no copy yet.
fn hub() -> HubObjects {
    HubObjects {
        namespace: Some(object(json!({"metadata": {"name": "ns-1", "labels": {
            labels::UPSTREAM_CLUSTER_NAME: "cluster-single", labels::UPSTREAM_NAMESPACE: "default",
        }}}))),
        deployment: Some(partial(deployment("ns-1", "web", "DFW", 1))),
        copy_name: "web-0".into(),
        copy: None,
        is_outdated: false,
    }
}

fn plan_for(instance: &Instance, hub: &HubObjects) -> Plan {
    plan(&Observed {
        cell: &cell(),
        instance,
        hub,
        now: now(),
    })
}

/// Returns the Instance with the condition that the instance controller writes.
fn judged(mut instance: Instance) -> Instance {
    if let Some(conditions) = readiness(&instance, now()) {
        let status = instance.status.get_or_insert_default();
        status.conditions = conditions;
    }
    instance
}

fn executed(instance: &Instance, hub: &HubObjects, labels: &StringMap) -> Instance {
    let mut copy = instance.clone();
    copy.status = None;
    copy.meta_mut().generation = Some(8);
    copy.meta_mut().labels = Some(labels.clone());
    copy.meta_mut().owner_references =
        Some(vec![controller_reference(hub.deployment.as_ref().unwrap())]);
    copy
}

#[test]
fn the_copy_carries_its_cell_and_the_hubs_identity() {
    let labels = plan_for(&linked(), &hub()).apply_copy.unwrap();
    assert_eq!(labels[labels::SOURCE_CLUSTER], "dfw1");
    assert_eq!(labels[labels::UPSTREAM_CLUSTER_NAME], "cluster-single");
    assert_eq!(labels[labels::UPSTREAM_NAMESPACE], "default");
    assert_eq!(labels[labels::WORKLOAD_DEPLOYMENT_UID], "web-uid");
    assert_eq!(labels[labels::WORKLOAD_DEPLOYMENT_NAME], "web");
}

#[test]
fn the_status_is_written_after_the_copy_and_then_nothing() {
    let mut instance = linked();
    let mut hub = hub();
    let plan = plan_for(&instance, &hub);
    hub.copy = Some(executed(&instance, &hub, &plan.apply_copy.unwrap()));
    instance = judged(instance);

    let plan = plan_for(&instance, &hub);
    assert_eq!((&plan.apply_copy, &plan.refusal), (&None, &None));
    let status = plan.copy_status.unwrap();
    assert_eq!(
        condition::find(&status.conditions, READY)
            .unwrap()
            .observed_generation,
        Some(8)
    );
    hub.copy.as_mut().unwrap().status = Some(status);
    assert_eq!(plan_for(&instance, &hub), Plan::default());
}

/// I-23: the copy follows the state of the Instance.
#[test]
fn a_changed_copy_is_repaired() {
    let instance = linked();
    let mut hub = hub();
    let labels = plan_for(&instance, &hub).apply_copy.unwrap();
    let copy = executed(&instance, &hub, &labels);
    for break_it in [
        (|copy: &mut Instance| copy.spec.location = Some(object(json!({"name": "x"}))))
            as fn(&mut Instance),
        |copy| drop(copy.labels_mut().remove(labels::UPSTREAM_NAMESPACE)),
        |copy| copy.meta_mut().owner_references = None,
        // A copy of the Go manager has no label with the cell. The controller adopts such a copy.
        |copy| drop(copy.labels_mut().remove(labels::SOURCE_CLUSTER)),
    ] {
        let mut broken = copy.clone();
        break_it(&mut broken);
        hub.copy = Some(broken);
        assert!(plan_for(&instance, &hub).apply_copy.is_some());
    }
}

/// I-11: no copy is made without a live owner.
#[test]
fn every_refusal_has_its_reason_and_is_published_once() {
    let with_copy = |change: fn(&mut Instance)| {
        let mut copy = executed(&linked(), &hub(), &StringMap::new());
        change(&mut copy);
        HubObjects {
            copy: Some(copy),
            ..hub()
        }
    };
    let of_another_cell = |copy: &mut Instance| {
        copy.labels_mut()
            .insert(labels::SOURCE_CLUSTER.into(), "ord1".into());
    };
    let of_another_owner = |copy: &mut Instance| {
        copy.meta_mut().owner_references.as_mut().unwrap()[0].uid = "another".into();
    };
    let unidentified = || Some(object(json!({"metadata": {"name": "ns-1"}})));
    let going = || hub().deployment.map(terminating);
    let cases: [(&dyn Fn() -> HubObjects, &str); 7] = [
        (&hub, reason::LINKING_LABELS_MISSING),
        (
            &|| HubObjects {
                namespace: None,
                ..hub()
            },
            reason::HUB_NAMESPACE_MISSING,
        ),
        (
            &|| HubObjects {
                namespace: unidentified(),
                ..hub()
            },
            reason::HUB_NAMESPACE_UNIDENTIFIED,
        ),
        (
            &|| HubObjects {
                deployment: None,
                ..hub()
            },
            reason::HUB_DEPLOYMENT_MISSING,
        ),
        (
            &|| HubObjects {
                deployment: going(),
                ..hub()
            },
            reason::HUB_DEPLOYMENT_MISSING,
        ),
        (&|| with_copy(of_another_cell), reason::HELD_BY_ANOTHER_CELL),
        (
            &|| with_copy(of_another_owner),
            reason::HELD_BY_ANOTHER_OWNER,
        ),
    ];
    for (hub, expected) in cases {
        let hub = hub();
        let mut instance = linked();
        if expected == reason::LINKING_LABELS_MISSING {
            instance.labels_mut().remove(labels::INSTANCE_INDEX);
        }
        let plan = plan_for(&instance, &hub);
        assert_eq!(
            (
                plan.look_again.is_some(),
                &plan.apply_copy,
                &plan.copy_status
            ),
            (true, &None, &None),
            "{expected}"
        );
        let report = plan.refusal.unwrap();
        let conditions = report.conditions.unwrap();
        assert_eq!(
            condition::find(&conditions, COPIED_TO_HUB).unwrap().reason,
            expected
        );
        assert!(
            matches!(report.transition, Some(CopyTransition::NotCopied(refusal)) if refusal.reason == expected)
        );

        let mut told = instance;
        told.status = Some(InstanceStatus {
            conditions,
            ..InstanceStatus::default()
        });
        assert_eq!(
            plan_for(&told, &hub),
            Plan {
                look_again: Some(PAUSE_MIN),
                refusal: Some(CopyReport::default()),
                ..Plan::default()
            },
            "{expected}"
        );
        // If the copy is allowed again, the writes to the hub decide.
        if expected != reason::LINKING_LABELS_MISSING {
            assert_eq!(plan_for(&told, &self::hub()).refusal, None);
        }
        let report = CopyReport::copied(&told, now());
        assert_eq!(report.transition, Some(CopyTransition::Copied));
        let conditions = report.conditions.unwrap();
        assert_eq!(condition::find(&conditions, COPIED_TO_HUB), None);
    }
}

#[test]
fn a_status_without_current_readiness_is_not_copied() {
    let mut instance = linked();
    let mut hub = hub();
    let labels = plan_for(&instance, &hub).apply_copy.unwrap();
    hub.copy = Some(executed(&instance, &hub, &labels));
    let provided = vec![
        condition(PROGRAMMED, true, None),
        condition(RUNNING, true, None),
    ];
    instance.status = Some(InstanceStatus {
        conditions: provided,
        ..InstanceStatus::default()
    });
    assert_eq!(plan_for(&instance, &hub), Plan::default());
    let status = plan_for(&judged(instance), &hub).copy_status.unwrap();
    assert!(condition::is_true(&status.conditions, READY));
}

#[test]
fn an_applied_copy_gets_its_status_if_it_is_ours_and_ready_is_current() {
    let instance = judged(linked());
    let allowed = hub();
    let labels = plan_for(&instance, &allowed).apply_copy.unwrap();
    let applied = executed(&instance, &allowed, &labels);
    let with = |change: fn(&mut Instance)| {
        let mut copy = applied.clone();
        change(&mut copy);
        HubObjects {
            copy: Some(copy),
            ..hub()
        }
    };
    let unchanged = || with(|_| {});
    // The condition `Ready` is for a former generation.
    let mut unready = instance.clone();
    unready.meta_mut().generation = Some(3);
    let cases = vec![
        ("normal", &instance, unchanged(), true),
        ("`Ready` is not current", &unready, unchanged(), false),
        ("there is no copy", &instance, hub(), false),
        (
            "the hub changed the spec",
            &instance,
            with(|copy| copy.spec = api::InstanceSpec::default()),
            false,
        ),
        (
            "the hub dropped the owner",
            &instance,
            with(|copy| copy.meta_mut().owner_references = None),
            false,
        ),
        (
            "the hub dropped a label",
            &instance,
            with(|copy| drop(copy.labels_mut().remove(labels::WORKLOAD_DEPLOYMENT_UID))),
            false,
        ),
        (
            "the copy is that of another cell",
            &instance,
            with(|copy| {
                let other = "ord1".to_owned();
                copy.labels_mut()
                    .insert(labels::SOURCE_CLUSTER.into(), other);
            }),
            false,
        ),
        (
            "the copy has another controller",
            &instance,
            with(|copy| {
                let mut owner = deployment("ns-1", "web", "DFW", 1);
                owner.meta_mut().uid = Some("another".into());
                copy.meta_mut().owner_references = Some(vec![controller_reference(&owner)]);
            }),
            false,
        ),
        (
            "the WorkloadDeployment is gone",
            &instance,
            HubObjects {
                deployment: None,
                ..unchanged()
            },
            false,
        ),
        (
            "the copy is terminating",
            &instance,
            with(|copy| *copy = terminating(copy.clone())),
            false,
        ),
    ];
    let (cell, now) = (cell(), now());
    let status = |instance: &Instance, hub: &HubObjects| {
        let observed = Observed {
            cell: &cell,
            instance,
            hub,
            now,
        };
        status_of_applied_copy(&observed)
    };
    for (name, instance, hub, is_written) in cases {
        assert_eq!(status(instance, &hub).is_some(), is_written, "{name}");
    }
    let mut hub = unchanged();
    let written = status(&instance, &hub).unwrap();
    let ready = condition::find(&written.conditions, READY).unwrap();
    // The observed generation is the generation of the copy on the hub.
    assert_eq!(ready.observed_generation, Some(8));
    hub.copy.as_mut().unwrap().status = Some(written);
    assert_eq!(status(&instance, &hub), None);
}

/// A generation in the status of the former Instance is none of the next one, also if the hub does not store its spec.
#[test]
fn an_outdated_copy_gives_no_generation_to_its_status() {
    let mut instance = linked();
    instance.meta_mut().generation = Some(4);
    let status = instance.status.get_or_insert_default();
    status.conditions = vec![condition(PROGRAMMED, true, Some(3))];
    let instance = judged(instance);
    let mut hub = hub();
    let labels = plan_for(&instance, &hub).apply_copy.unwrap();
    let mut copy = executed(&instance, &hub, &labels);
    copy.status.get_or_insert_default().conditions = vec![condition(PROGRAMMED, true, Some(8))];
    hub.copy = Some(copy);
    for (is_outdated, expected) in [(false, Some(8)), (true, None)] {
        hub.is_outdated = is_outdated;
        let status = status_of_unkept_copy(&Observed {
            cell: &cell(),
            instance: &instance,
            hub: &hub,
            now: now(),
        });
        let conditions = status.unwrap().conditions;
        let programmed = condition::find(&conditions, PROGRAMMED).unwrap();
        assert_eq!(programmed.observed_generation, expected, "{is_outdated}");
    }
}
