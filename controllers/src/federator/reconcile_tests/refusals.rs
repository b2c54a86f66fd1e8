//! Tests of a hub that refuses a copy or its policy.

use std::time::Duration;

use api::karmada::PropagationPolicy;
use api::reasons::workload_deployment::{HUB_REFUSED, STABLE_INSTANCE_FOUND};
use api::{Condition, condition};
use jiff::Timestamp;
use kube::core::Status;

use super::*;
use crate::federator::refusal::REFUSED_POLICY;
use crate::fixtures::now;

/// The answer of an API server that refuses a write, and words of it.
fn answer(code: u16, reason: &str, message: &str) -> Fault {
    let status = Status::failure(message, reason).with_code(code);
    Fault::answer(code, json!(status).to_string()).on_writes()
}

/// The refusals. Each has a word of the message.
fn refusals() -> [(Fault, &'static str); 3] {
    [
        (
            answer(403, "Forbidden", "namespace is being audited"),
            "audited",
        ),
        (answer(422, "Invalid", "cityCode is odd"), "odd"),
        (Fault::webhook_down().on_writes(), "failed calling webhook"),
    ]
}

/// Returns the WorkloadDeployment with a status that its cells reported earlier.
fn reported(mut deployment: Value) -> Value {
    let since = "2026-11-20T10:00:00Z";
    deployment["status"] = json!({
        "replicas": 3, "currentReplicas": 3, "desiredReplicas": 3, "readyReplicas": 3,
        "conditions": [{
            "type": AVAILABLE, "status": "True", "reason": STABLE_INSTANCE_FOUND, "message": "m",
            "lastTransitionTime": since,
        }],
    });
    deployment
}

fn shown<'a>(deployment: &'a WorkloadDeployment, type_: &str) -> Option<&'a Condition> {
    condition::find(&deployment.status.as_ref()?.conditions, type_)
}

fn assert_refused(condition: Option<&Condition>, word: &str) {
    let condition = condition.expect("refused");
    assert_eq!(condition.reason, HUB_REFUSED);
    assert!(condition.message.contains(word), "{condition:?}");
}

/// Reconciles twice. The status is written once.
async fn refuse(planes: &FakePlanes, federator: &Federator) -> WorkloadDeployment {
    take_writes(&[&planes.project]);
    for _ in 0..2 {
        reconcile(federator, project_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
    }
    let expected = ["patch workloaddeployments/status default/web-us-dfw"];
    assert_eq!(take_writes(&[&planes.project]), expected);
    in_project(planes).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refused_copy_shows_in_the_project() {
    for (fault, word) in refusals() {
        let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
        converge(&policies(&planes), hub_key, &planes.servers()).await;
        planes.hub.fail(fault);
        let deployment = refuse(&planes, &federator).await;
        for type_ in [AVAILABLE, CELLS_REPORTING] {
            assert_refused(shown(&deployment, type_), word);
        }
        // The counters are the last known ones.
        assert_eq!(deployment.status.unwrap().ready_replicas, 3);
        planes.hub.heal();
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let deployment = in_project(&planes).unwrap();
        assert!(on_hub(&planes).is_some());
        assert_eq!(shown(&deployment, CELLS_REPORTING), None);
        assert_ne!(available(&deployment).reason, HUB_REFUSED);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_of_a_copy_shows_in_the_project() {
    for (fault, word) in refusals() {
        let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
        converge(&policies(&planes), hub_key, &planes.servers()).await;
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let status = reported(json!({}))["status"].take();
        planes
            .hub
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| copy["status"] = status);
        settle().await;
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let change = |deployment: &mut Value| {
            deployment["spec"]["scaleSettings"]["minReplicas"] = json!(4);
        };
        planes
            .project
            .modify::<WorkloadDeployment>("default", NAME, change);
        settle().await;
        planes.hub.fail(fault);
        let deployment = refuse(&planes, &federator).await;
        assert_refused(shown(&deployment, CELLS_REPORTING), word);
        // The cells still report about the former spec.
        assert!(available(&deployment).is_true());
        planes.hub.heal();
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        assert_eq!(shown(&in_project(&planes).unwrap(), CELLS_REPORTING), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_policy_shows_in_the_project() {
    for (fault, word) in refusals() {
        let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let policies = policies(&planes);
        planes.hub.fail(fault);
        reconcile(&policies, hub_key()).await.unwrap().unwrap_err();
        take_writes(&planes.servers());
        // The federator checks again within 2 s, and then less often.
        let context = context();
        let outcome = federator.reconcile(&context, project_key(NAME)).await;
        assert!(matches!(outcome, Ok(Outcome::Again(wait)) if wait == REFUSED_POLICY));
        settle().await;
        let deployment = in_project(&planes).unwrap();
        for type_ in [AVAILABLE, CELLS_REPORTING] {
            assert_refused(shown(&deployment, type_), word);
        }
        planes.hub.heal();
        reconcile(&policies, hub_key()).await.unwrap().unwrap();
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let deployment = in_project(&planes).unwrap();
        assert_eq!(shown(&deployment, CELLS_REPORTING), None);
        assert_ne!(available(&deployment).reason, HUB_REFUSED);
    }
}

/// The policy of a running copy is deleted, and the hub refuses to create it again.
#[tokio::test(start_paused = true)]
async fn a_refused_policy_of_an_existing_copy_shows_in_the_project() {
    for (fault, word) in refusals() {
        let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
        let policies = policies(&planes);
        converge(&policies, hub_key, &planes.servers()).await;
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        assert!(on_hub(&planes).is_some());
        let policy = planes.hub_caches.policies.readable(HUB_NAMESPACE).remove(0);
        planes
            .hub
            .remove::<PropagationPolicy>(HUB_NAMESPACE, &policy.name_any());
        settle().await;
        planes.hub.fail(fault);
        reconcile(&policies, hub_key()).await.unwrap().unwrap_err();
        let outcome = federator.reconcile(&context(), project_key(NAME)).await;
        assert!(matches!(outcome, Ok(Outcome::Again(wait)) if wait == REFUSED_POLICY));
        settle().await;
        assert_refused(shown(&in_project(&planes).unwrap(), CELLS_REPORTING), word);
        planes.hub.heal();
        converge(&policies, hub_key, &planes.servers()).await;
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        assert_eq!(shown(&in_project(&planes).unwrap(), CELLS_REPORTING), None);
    }
}

/// The hub refuses with another text each time. If each text were shown, each write of the status would cause the next.
#[tokio::test(start_paused = true)]
async fn a_text_that_changes_with_each_refusal_is_shown_once_a_minute() {
    fn later() -> Timestamp {
        now() + Duration::from_mins(2)
    }
    let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    take_writes(&planes.servers());
    for (clock, begin) in [(now as fn() -> Timestamp, 0), (later, 5)] {
        let mut writes = Vec::new();
        for number in begin..begin + 5 {
            planes.hub.heal();
            let text = format!("refused, number {number}");
            planes.hub.fail(answer(422, "Invalid", &text));
            let context = ReconcileContext::new(clock, None);
            let refused = federator.reconcile(&context, project_key(NAME)).await;
            assert!(refused.is_err());
            settle().await;
            writes.extend(take_writes(&[&planes.project]));
        }
        assert_eq!(writes.len(), 1, "{writes:?}");
        let deployment = in_project(&planes).unwrap();
        let first = format!("number {begin}");
        assert_refused(shown(&deployment, CELLS_REPORTING), &first);
    }
}

#[tokio::test(start_paused = true)]
async fn another_error_does_not_end_a_refusal() {
    let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let change = |deployment: &mut Value| {
        deployment["spec"]["scaleSettings"]["minReplicas"] = json!(4);
    };
    planes
        .project
        .modify::<WorkloadDeployment>("default", NAME, change);
    settle().await;
    planes.hub.fail(answer(422, "Invalid", "cityCode is odd"));
    refuse(&planes, &federator).await;
    for code in [409, 429, 504] {
        planes.hub.heal();
        planes.hub.fail(Fault::refuse(code).on_writes());
        reconcile(&federator, project_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        settle().await;
        assert_refused(shown(&in_project(&planes).unwrap(), CELLS_REPORTING), "odd");
    }
    assert_eq!(take_writes(&[&planes.project]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_for_its_policy_is_checked_every_second() {
    let (planes, federator) = start(recorded(NAME), vec![hub_namespace()]).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let outcome = federator.reconcile(&context(), project_key(NAME)).await;
    assert!(matches!(outcome, Ok(Outcome::Again(wait)) if wait <= Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_adds_a_default_does_not_refuse_the_copy() {
    let (planes, federator) = start(reported(recorded(NAME)), vec![hub_namespace()]).await;
    planes.hub.amend::<WorkloadDeployment>(|copy| {
        copy["spec"]["template"]["spec"]["later"] = json!("default");
    });
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let change = |deployment: &mut Value| {
        deployment["spec"]["scaleSettings"]["minReplicas"] = json!(4);
        deployment["metadata"]["generation"] = json!(6);
    };
    planes
        .project
        .modify::<WorkloadDeployment>("default", NAME, change);
    settle().await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let copy = on_hub(&planes).unwrap();
    assert_eq!(copy.spec.scale_settings.min_replicas, 4);
    // The cells report about the new spec.
    let mut status = reported(json!({}))["status"].take();
    status["observedGeneration"] = json!(copy.metadata.generation);
    planes
        .hub
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, |copy| copy["status"] = status);
    settle().await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let deployment = in_project(&planes).unwrap();
    assert_eq!(shown(&deployment, CELLS_REPORTING), None);
    assert_eq!(deployment.status.unwrap().observed_generation, Some(6));
}
