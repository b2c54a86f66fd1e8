//! Tests of the deletion of a WorkloadDeployment whose cells have Instances.

use std::time::Duration;

use api::reasons::workload_deployment::{INSTANCES_MAY_REMAIN, INSTANCES_REMAIN};
use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::federator::plan::ending::{ENDING_MAX, ENDING_SHOWN_AFTER};

/// Returns the time at which the deployment is not waited for any longer.
fn later() -> Timestamp {
    now() + SignedDuration::try_from(ENDING_MAX).unwrap()
}

/// Returns the time at which the deletion says that it waits.
fn soon() -> Timestamp {
    now() + SignedDuration::try_from(ENDING_SHOWN_AFTER).unwrap()
}

async fn try_at(
    clock: fn() -> Timestamp,
    federator: &Federator,
) -> Result<Outcome, ReconcileError> {
    settle().await;
    let context = ReconcileContext::new(clock, None);
    federator.reconcile(&context, project_key(NAME)).await
}

async fn at(clock: fn() -> Timestamp, federator: &Federator) -> Outcome {
    try_at(clock, federator).await.unwrap()
}

/// Returns the binding of the copy to a cell that has so many Instances, and has acted on this generation.
fn binding(copy: &WorkloadDeployment, generation: Option<i64>, instances: i64) -> Value {
    let report = json!({
        "replicas": instances, "resourceTemplateGeneration": generation, "generation": 1, "observedGeneration": 1,
    });
    reported(copy, &report)
}

/// Starts with a deployment that was just deleted, and two Instances in its cell.
async fn start_deleted() -> (FakePlanes, Federator) {
    let mut deployment = terminating_json(recorded(NAME));
    deployment["metadata"]["deletionTimestamp"] = json!(now());
    let on_hub_before = vec![hub_namespace(), policy(), cluster(), copy(NAME)];
    let (planes, federator) = start(deployment, on_hub_before).await;
    let copy = on_hub(&planes).unwrap();
    planes.hub.put(binding(&copy, copy.metadata.generation, 2));
    (planes, federator)
}

fn reason(planes: &FakePlanes) -> Option<String> {
    let status = in_project(planes)?.status?;
    let ended = condition::find(&status.conditions, INSTANCES_ENDED)?;
    assert!(ended.is_false());
    Some(ended.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn the_copy_is_deleted_when_its_cells_have_ended_the_instances() {
    let (planes, federator) = start_deleted().await;
    take_writes(&planes.servers());
    at(now, &federator).await;
    let rest = Outcome::Again(ENDING_SHOWN_AFTER);
    assert_eq!(at(now, &federator).await, rest);
    let asked = on_hub(&planes).unwrap();
    assert!(asked.is_ending() && asked.metadata.deletion_timestamp.is_none());
    assert_eq!(asked.spec.desired_replicas(), 0);
    let writes = take_writes(&planes.servers());
    assert_eq!(writes, ["apply workloaddeployments ns-1/web-us-dfw"]);

    let rest = ENDING_MAX.saturating_sub(ENDING_SHOWN_AFTER);
    at(soon, &federator).await;
    assert_eq!(reason(&planes).as_deref(), Some(INSTANCES_REMAIN));
    take_writes(&planes.servers());
    let Outcome::Again(wait) = at(soon, &federator).await else {
        panic!("it does not look again");
    };
    assert!(wait <= rest, "{wait:?}");
    assert_eq!(
        take_writes(&planes.servers()),
        [""; 0],
        "nothing has changed"
    );
    planes
        .hub
        .put(binding(&asked, asked.metadata.generation, 0));
    at(soon, &federator).await;
    assert!(on_hub(&planes).is_none());
    at(soon, &federator).await;
    assert!(in_project(&planes).is_none());
}

/// I-34: the time has a limit.
#[tokio::test(start_paused = true)]
async fn a_cell_that_does_not_end_its_instances_blocks_the_deletion_no_longer_than_the_limit() {
    let (planes, federator) = start_deleted().await;
    at(now, &federator).await;
    let shortly_before = || later() - SignedDuration::from_secs(1);
    let rest = Outcome::Again(Duration::from_secs(1));
    assert_eq!(at(shortly_before, &federator).await, rest);
    assert!(on_hub(&planes).is_some());
    at(later, &federator).await;
    assert!(on_hub(&planes).is_none());
    assert_eq!(reason(&planes).as_deref(), Some(INSTANCES_MAY_REMAIN));
    at(later, &federator).await;
    assert!(in_project(&planes).is_none());
}

/// The project may have deleted it while the management process was away.
#[tokio::test(start_paused = true)]
async fn cells_are_asked_also_long_after_the_deletion() {
    let (planes, federator) = start_deleted().await;
    at(later, &federator).await;
    assert!(on_hub(&planes).unwrap().is_ending());
}

/// The report that Instances may run is not lost if the copy is deleted and the process then ends.
#[tokio::test(start_paused = true)]
async fn what_may_remain_is_said_before_the_copy_is_deleted() {
    let (planes, federator) = start_deleted().await;
    at(now, &federator).await;
    planes.hub.fail(Fault::refuse(503).on(&[Verb::Delete]));
    assert!(try_at(later, &federator).await.is_err());
    assert!(on_hub(&planes).is_some());
    assert_eq!(reason(&planes).as_deref(), Some(INSTANCES_MAY_REMAIN));
}

/// After the deletion of the copy, nothing is known of the cells. A status that the project refuses for good does not
/// hold up the deletion.
#[tokio::test(start_paused = true)]
async fn the_copy_stays_until_the_project_can_store_what_may_remain() {
    for (code, stays) in [(503, true), (422, false)] {
        let (planes, federator) = start_deleted().await;
        at(now, &federator).await;
        planes.project.fail(Fault::refuse(code).on(&[Verb::Patch]));
        assert!(try_at(later, &federator).await.is_err(), "{code}");
        assert_eq!(on_hub(&planes).is_some(), stays, "{code}");
    }
}

/// The project's API server must confirm that the deployment is being deleted, as before the copy is deleted.
#[tokio::test(start_paused = true)]
async fn cells_are_asked_to_end_instances_only_when_the_project_confirms_it() {
    let (planes, federator) = start_deleted().await;
    planes.project.fail(Fault::refuse(503).on(&[Verb::List]));
    assert!(try_at(now, &federator).await.is_err());
    assert!(!on_hub(&planes).unwrap().is_ending());
}

/// A hub that does not take the change delays the deletion, but not for ever.
#[tokio::test(start_paused = true)]
async fn a_refused_change_of_the_copy_does_not_block_the_deletion() {
    let (planes, federator) = start_deleted().await;
    // Another error is not the last word of the hub.
    planes.hub.fail(Fault::refuse(503).on(&[Verb::Apply]));
    assert!(try_at(later, &federator).await.is_err());
    assert!(on_hub(&planes).is_some());
    planes.hub.heal();
    planes.hub.fail(Fault::refuse(422).on(&[Verb::Apply]));
    assert!(try_at(now, &federator).await.is_err());
    assert!(on_hub(&planes).is_some());
    assert!(try_at(later, &federator).await.is_err());
    assert!(on_hub(&planes).is_none());
    at(later, &federator).await;
    assert!(in_project(&planes).is_none());
}
