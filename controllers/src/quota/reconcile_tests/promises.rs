//! Tests of quota that is promised to the replacements of Instances.

use api::quota::{AllowanceBucket, VCPUS};
use apiserver::Verb;

use super::ledger::{Needed, Replaced};
use super::*;

/// Returns an Instance that this WorkloadDeployment controls.
fn owned(mut instance: Value, deployment: &str) -> Value {
    instance["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": deployment,
        "uid": deployment, "controller": true,
    }]);
    instance
}

/// Returns an Instance with so many processors.
fn sized(mut instance: Value, cpu: &str) -> Value {
    instance["spec"]["runtime"]["resources"]["requests"] = json!({"cpu": cpu, "memory": "1Gi"});
    instance
}

fn ledger_of(system: &System) -> Arc<ledger::ProjectLedger> {
    let ledgers = system.controller.ledgers.as_ref().unwrap();
    ledgers.of(&ProjectName::new("p").unwrap()).unwrap()
}

/// Returns whether the project does not have one more Instance left for the replacement of the first Instance of a
/// WorkloadDeployment. If it has, it promises it.
fn lacks(
    left: &ledger::QuotaLeft,
    ledger: &ledger::ProjectLedger,
    deployment: &str,
    uid: &str,
) -> bool {
    let one = [ResourceRequest {
        resource_type: "instances".to_owned(),
        amount: 1,
    }];
    let replaced = Replaced {
        deployment,
        namespace: HUB_NAMESPACE,
        name: &format!("{deployment}-0"),
        uid,
    };
    let needed = Needed {
        more: &one,
        whole: &one,
        is_next: true,
    };
    let lacks = left.lacks(replaced, needed, ledger.promises());
    !lacks.unwrap().is_empty()
}

/// Returns a system with an Instance of the WorkloadDeployment `web`. The project has one more Instance left.
async fn with_one_instance_left() -> System {
    let system = System::start(owned(new_instance(), "web")).await;
    system.project.put(objects::namespace("milo-system", "2"));
    system.project.put(bucket("instances", 1));
    system
}

/// A template that was changed back needs no more than before.
#[tokio::test(start_paused = true)]
async fn a_promise_ends_when_the_new_instance_takes_over_the_former_claim() {
    let system = with_one_instance_left().await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.reconcile().await;
    let ledger = ledger_of(&system);
    let left = ledger.left().await.unwrap().unwrap();
    let former = system.instance().unwrap();
    assert!(!lacks(&left, &ledger, "web", &former.uid().unwrap()));
    assert!(lacks(&left, &ledger, "other", "any"));
    let cell = &system.planes.cell;
    cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    let mut next = owned(new_instance(), "web");
    next["metadata"]["uid"] = json!("next");
    cell.put(next);
    settle().await;
    system.writes();
    system.reconcile().await;
    assert!(!system.writes().contains(&CREATE.to_owned()));
    assert!(!lacks(&left, &ledger, "other", "any"));
}

/// A promise does not withhold quota from others any longer than the new Instance lacks its claim.
#[tokio::test(start_paused = true)]
async fn a_promise_ends_when_the_claim_of_the_new_instance_is_decided() {
    let system = with_one_instance_left().await;
    let ledger = ledger_of(&system);
    let left = ledger.left().await.unwrap().unwrap();
    let lacks = |left: &ledger::QuotaLeft, deployment: &str, uid: &str| {
        lacks(left, &ledger, deployment, uid)
    };
    let is_left = |deployment: &str, uid: &str| !lacks(&left, deployment, uid);
    assert!(is_left("web", "former"));
    // The claim of the former Instance has another size.
    let mut former = claim_of(CLAIM, "dfw1");
    former["metadata"]["annotations"] = json!({
        api::annotations::INSTANCE_NAME: NAME, api::annotations::INSTANCE_UID: "former",
    });
    former["spec"]["requests"] = json!([{"resourceType": "instances", "amount": 2}]);
    system.project.put(former);
    system.grant(CLAIM);
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, CREATE]);
    assert!(!is_left("other", "any"));
    // The new claim is not decided.
    system.reconcile().await;
    assert!(!is_left("other", "any"));
    system.grant(CLAIM);
    system.project.put(bucket("instances", 0));
    system.reconcile().await;
    assert!(is_left("other", "any"));
    // The former list does not count any more.
    let current = ledger.left().await.unwrap().unwrap();
    assert!(lacks(&current, "other", "any"));
    tokio::time::sleep(Duration::from_mins(5)).await;
    // The claim of the Instance that is replaced is not that of the new one.
    assert!(is_left("web", "web-0-uid"));
    system.reconcile().await;
    assert!(!is_left("other", "any"));
}

/// A list can be older than the claim that has taken what was promised.
#[tokio::test(start_paused = true)]
async fn a_list_is_not_used_if_a_promise_ended_meanwhile() {
    let system = with_one_instance_left().await;
    system.reconcile().await;
    let ledger = ledger_of(&system);
    let left = ledger.left().await.unwrap().unwrap();
    assert!(!lacks(&left, &ledger, "web", "former"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let slow = Fault::delay_body(Duration::from_secs(3));
    system
        .project
        .fail(slow.of::<AllowanceBucket>().on(&[Verb::List]).times(1));
    let grant = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        system.project.put(bucket("instances", 0));
        system.grant(CLAIM);
        system.reconcile().await;
    };
    let (left, ()) = tokio::join!(ledger.left(), grant);
    let left = left.unwrap().unwrap();
    assert!(lacks(&left, &ledger, "other", "any"));
}

/// The claim of the former Instance covers a part of what the new one needs only until it is deleted.
#[tokio::test(start_paused = true)]
async fn a_promise_covers_all_of_the_new_instance_when_the_former_claim_is_deleted() {
    let former = || sized(owned(new_instance(), "web"), "1");
    let system = System::start(former()).await;
    system.project.put(objects::namespace("milo-system", "2"));
    let left = async |vcpus: i64| {
        let mut bucket = bucket(VCPUS, vcpus);
        bucket["metadata"]["name"] = json!("vcpus");
        system.project.put(bucket);
        // A list of what is left is used for 2 s.
        tokio::time::sleep(Duration::from_secs(3)).await;
    };
    system.reconcile().await;
    system.grant(CLAIM);
    system.reconcile().await;
    let ledgers = system.controller.ledgers.clone();
    let quota = ReplacementQuota::new(Arc::clone(&system.planes.caches), ledgers);
    let running = |mut instance: Value| -> Arc<Instance> {
        instance["spec"]["controller"]["schedulingGates"] = json!([]);
        Arc::new(crate::fixtures::object(instance))
    };
    let mut other = sized(owned(new_instance(), "api"), "1");
    other["metadata"]["name"] = json!("api-0");
    let (web, other) = (running(former()), running(other));
    let larger = running(sized(former(), "2")).spec.clone();
    let is_held = async || quota.holds(&[Arc::clone(&other)], &larger).await[0].is_some();

    left(1999).await;
    assert_eq!(quota.promise(&web, &larger).await, None);
    assert!(is_held().await);
    left(2000).await;
    assert!(!is_held().await);
    system.delete_instance().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, INSTANCE]);
    // The AllowanceBucket does not show the deletion yet.
    assert!(is_held().await);
    left(2999).await;
    assert!(is_held().await);
    left(3000).await;
    assert!(!is_held().await);

    let mut next = sized(former(), "2");
    next["metadata"]["uid"] = json!("next");
    system.planes.cell.put(next);
    settle().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [CREATE]);
    left(2999).await;
    assert!(is_held().await);
    system.grant(CLAIM);
    system.reconcile().await;
    left(999).await;
    assert!(is_held().await);
    left(1000).await;
    assert!(!is_held().await);
}
