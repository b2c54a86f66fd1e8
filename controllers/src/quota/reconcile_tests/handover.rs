//! Tests of claims that pass to the next Instance of the same name, and of claims from before the cell had its name.

use api::WorkloadDeployment;
use apiserver::Verb;

use super::sweeping::{RECORD, with_left_claim};
use super::*;
use crate::fixtures;
use crate::objects::Namespace;
use crate::runtime::keys::ObjectKey;

const UID: &str = api::annotations::INSTANCE_UID;

/// Returns a system with a WorkloadDeployment, whose only Instance has run and ends.
async fn with_deployment(watches_quota: bool, change: impl FnOnce(&mut Value)) -> System {
    let system = System::start_watched(new_instance(), true, watches_quota).await;
    let mut deployment = json!(fixtures::deployment(HUB_NAMESPACE, "web", "DFW", 1));
    change(&mut deployment);
    system.planes.cell.put(deployment);
    settle().await;
    system.reconcile().await;
    system.grant(CLAIM);
    settle().await;
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network"]);
    system.delete_instance().await;
    system
}

/// Creates the next Instance of the name.
async fn create_next(system: &System) {
    let mut next = new_instance();
    next["metadata"]["uid"] = json!("next");
    system.planes.cell.put(next);
    settle().await;
}

/// I-31: no other Instance can get the quota between two Instances of one name.
#[tokio::test(start_paused = true)]
async fn a_claim_passes_to_the_next_instance() {
    for watches_quota in [false, true] {
        let system = with_deployment(watches_quota, |_| {}).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [RECORD, INSTANCE]);
        assert!(system.instance().is_none() && system.claim().is_some());
        // Neither the watch nor the sweeper takes it away.
        system.reconcile().await;
        assert_eq!(
            system.sweep().await,
            Outcome::Again(Duration::from_secs(10))
        );
        assert_eq!(system.writes(), [""; 0]);
        create_next(&system).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [ADOPT, CONDITION, INSTANCE]);
        assert_eq!(system.gates(), ["Network"]);
        assert_eq!(system.claim().unwrap().annotations()[UID], "next");
        let minute = Outcome::Again(Duration::from_mins(1));
        assert_eq!(system.sweep().await, minute);
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.writes(), [""; 0]);
    }
}

/// I-31: after a return to the Go manager, an Instance can have a claim of each of them, and after a change of the cell's
/// name one with each name. The watch shows at most those with the present name.
#[tokio::test(start_paused = true)]
async fn of_several_claims_one_passes_on() {
    for watches_quota in [false, true] {
        for mut other in [claim_of("instance-web-0", "dfw1"), claim_of_former_cell()] {
            let system = with_deployment(watches_quota, |_| {}).await;
            other["status"] = json!(system.claim().unwrap().status);
            let name = other["metadata"]["name"].as_str().unwrap().to_owned();
            system.project.put(other);
            settle().await;
            system.reconcile().await;
            assert_eq!(system.writes(), [DELETE, RECORD, INSTANCE], "{name}");
            create_next(&system).await;
            system.reconcile().await;
            let adopt = format!("patch resourceclaims default/{name}");
            assert_eq!(system.writes(), [adopt.as_str(), CONDITION, INSTANCE]);
            assert!(system.claim().is_none());
        }
    }
}

/// A claim that is being deleted does not pass on, so the other one is the only one.
#[tokio::test(start_paused = true)]
async fn a_claim_passes_on_although_another_one_is_being_deleted() {
    let system = with_deployment(true, |_| {}).await;
    let mut ending = terminating_json(claim_of("instance-web-0", "dfw1"));
    ending["metadata"]["finalizers"] = json!(["quota.example.com/release"]);
    system.project.put(ending);
    settle().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [RECORD, INSTANCE]);
    assert!(system.claim().is_some());
}

/// I-31: the cache can have an Instance that ends, whose successor has the claim already.
#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_takes_no_claim_of_the_next_one() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.delete_instance().await;
    let next = |claim: &mut Value| claim["metadata"]["annotations"][UID] = json!("next");
    system
        .project
        .modify::<ResourceClaim>("default", CLAIM, next);
    system.writes();
    let mut instance = new_instance();
    instance["metadata"]["uid"] = json!("next");
    // The cache does not have it yet.
    system.planes.cell.put(instance);
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert_eq!(system.writes(), [""; 0]);
    assert!(system.claim().is_some());
}

/// I-31: a claim does not outlive its Instance for long.
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_next_instance_is_deleted_after_a_minute() {
    for by_sweeper in [false, true] {
        for restarts in [false, true] {
            let mut system = with_deployment(true, |_| {}).await;
            system.reconcile().await;
            if restarts {
                system = system.restart(true);
                let ledgers = system.controller.ledgers.as_ref().unwrap();
                drop(ledgers.of(&ProjectName::new("p").unwrap()));
                settle().await;
            }
            for passed in [59, 2] {
                match by_sweeper {
                    true => drop(system.sweep().await),
                    false => drop(system.reconcile().await),
                }
                assert!(system.claim().is_some(), "{by_sweeper} {restarts}");
                tokio::time::sleep(Duration::from_secs(passed)).await;
            }
            match by_sweeper {
                true => drop(system.sweep().await),
                false => drop(system.reconcile().await),
            }
            assert!(system.claim().is_none(), "{by_sweeper} {restarts}");
        }
    }
}

/// I-31: nobody would take over the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_passes_only_to_an_instance_that_is_wanted_and_has_its_size() {
    let changes: [fn(&mut Value); 7] = [
        |it| it["metadata"]["name"] = json!("other"),
        |it| it["spec"]["scaleSettings"]["minReplicas"] = json!(0),
        |it| *it = terminating_json(it.clone()),
        |it| it["metadata"]["annotations"] = json!({api::annotations::SUSPENDED: "true"}),
        |it| it["metadata"]["annotations"] = json!({api::annotations::ENDING: now()}),
        |it| it["spec"]["scaleSettings"]["instanceManagementPolicy"] = json!("Parallel"),
        |it| {
            let runtime = &mut it["spec"]["template"]["spec"]["runtime"];
            runtime["resources"]["requests"] = json!({"cpu": "64", "memory": "1Ti"});
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let system = with_deployment(false, change).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [DELETE, INSTANCE], "{index}");
    }
    // Nothing can be made in a Namespace that ends.
    let system = with_deployment(false, |_| {}).await;
    system
        .planes
        .cell
        .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
            *namespace = terminating_json(namespace.clone());
            namespace["metadata"]["finalizers"] = json!(["example.com/held"]);
        });
    settle().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, INSTANCE]);
    // A claim that is not granted is of no use.
    let system = System::start(new_instance()).await;
    let deployment = json!(fixtures::deployment(HUB_NAMESPACE, "web", "DFW", 1));
    system.planes.cell.put(deployment);
    settle().await;
    system.reconcile().await;
    system.delete_instance().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, INSTANCE]);
}

/// I-31: the rules of the cell decide about the number of Instances.
#[tokio::test(start_paused = true)]
async fn a_claim_passes_only_to_an_instance_within_the_rules_of_the_cell() {
    for (min_replicas, rules, passes) in [
        (2, json!({}), true),
        (1, json!({}), false),
        (1, json!({"replicas": {"min": 2}}), true),
        (2, json!({"replicas": {"max": 1}}), false),
    ] {
        let system = with_deployment(false, |deployment| {
            deployment["spec"]["scaleSettings"]["minReplicas"] = json!(min_replicas);
            deployment["metadata"]["annotations"] =
                json!({api::annotations::CELL_RULES: rules.to_string()});
        });
        let system = system.await;
        let key = ObjectKey {
            namespace: HUB_NAMESPACE.to_owned(),
            name: "web-1".to_owned(),
        };
        let claim = Ledger::Known(Some(Box::new(system.claim().unwrap())));
        let begins = system.controller.handovers.begin(&key, &claim);
        assert_eq!(begins, passes, "{min_replicas} {rules}");
    }
}

/// I-31: the former Instance has ended while the quota system hung.
#[tokio::test(start_paused = true)]
async fn a_new_instance_starts_only_with_a_claim_that_names_it() {
    let system = with_left_claim().await;
    create_next(&system).await;
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system
        .project
        .fail(Fault::refuse(500).on(&[Verb::Patch]).times(1));
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network", "Quota"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.writes();
    system.reconcile().await;
    assert_eq!(system.writes(), [ADOPT, CONDITION, INSTANCE]);
    assert_eq!(system.gates(), ["Network"]);
    assert_eq!(system.claim().unwrap().annotations()[UID], "next");
}

/// The role of the cell in the project may lack `patch`.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_taken_over_is_made_anew() {
    let system = with_left_claim().await;
    create_next(&system).await;
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.project.fail(Fault::refuse(403).on(&[Verb::Patch]));
    system.writes();
    system.reconcile().await;
    assert_eq!(system.writes(), [ADOPT, DELETE, CREATE]);
    assert_eq!(system.gates(), ["Network", "Quota"]);
    assert_eq!(system.claim().unwrap().annotations()[UID], "next");
}

/// I-31: a suspended project refuses creates and updates, but no deletes.
#[tokio::test(start_paused = true)]
async fn a_claim_in_a_suspended_project_waits_to_be_taken_over() {
    let system = with_left_claim().await;
    create_next(&system).await;
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let suspended = json!({
        "status": "Failure", "code": 403, "reason": "Forbidden", "message": "project p is suspended",
        "details": {"causes": [{"reason": "ProjectSuspended", "message": "project p is suspended"}]},
    });
    let refusal = Fault::answer(403, suspended.to_string());
    let refusal = refusal.on(&[Verb::Patch, Verb::Create]);
    system.project.fail(refusal);
    system.writes();
    let again = Outcome::Again(Duration::from_secs(15));
    assert_eq!(system.reconcile().await, again);
    assert_eq!(system.writes(), [ADOPT, CONDITION]);
    let refused = Some((ConditionStatus::False, "QuotaMisconfigured".to_owned()));
    assert_eq!(system.condition(), refused);
    assert_eq!(system.gates(), ["Network", "Quota"]);
    assert!(system.claim().is_some());
    system.project.heal();
    system.reconcile().await;
    assert_eq!(system.writes(), [ADOPT, CONDITION, INSTANCE]);
    assert_eq!(system.claim().unwrap().annotations()[UID], "next");
    assert_eq!(system.gates(), ["Network"]);
}

/// I-31: the cache of a process can have a former Instance whose successor has the claim already.
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_takes_no_claim_away() {
    for size in [1, 2] {
        let system = System::start(new_instance()).await;
        system.reconcile().await;
        system
            .project
            .modify::<ResourceClaim>("default", CLAIM, |claim| {
                claim["metadata"]["annotations"][UID] = json!("next");
                claim["spec"]["requests"][0]["amount"] = json!(size);
            });
        system.grant(CLAIM);
        system.writes();
        let mut next = new_instance();
        next["metadata"]["uid"] = json!("next");
        // The cache does not have it yet.
        system.planes.cell.put(next);
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.writes(), [""; 0]);
        assert_eq!(system.claim().unwrap().annotations()[UID], "next");
    }
}

/// Returns a claim that the cell has made with its former name.
fn claim_of_former_cell() -> Value {
    let mut claim = claim_of("instance-dfw0-web-0", "dfw0");
    claim["metadata"]["annotations"] = json!({
        api::annotations::INSTANCE_NAME: NAME, UID: format!("{NAME}-uid"),
    });
    claim
}

/// Otherwise each Instance would have two claims.
#[tokio::test(start_paused = true)]
async fn claims_of_a_former_name_of_the_cell_are_taken_over() {
    let name = "instance-dfw0-web-0";
    for has_run in [false, true] {
        let mut instance = new_instance();
        if has_run {
            let granted = fixtures::condition(QUOTA_GRANTED, true, Some(2));
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            instance["status"] = json!({"conditions": [granted]});
        }
        let system = System::start_watched(instance, true, true).await;
        system.project.put(claim_of_former_cell());
        system.grant(name);
        system.reconcile().await;
        let writes = system.writes();
        let adopt = format!("patch resourceclaims default/{name}");
        assert_eq!(writes.first(), Some(&adopt), "{has_run}");
        assert!(!writes.contains(&CREATE.to_owned()), "{writes:?}");
        let claim: ResourceClaim = system.project.get("default", name).unwrap();
        assert_eq!(claim.labels()[labels::SOURCE_CLUSTER], "dfw1");
        settle().await;
        // The watch shows it from now on.
        let requests = system.project.requests();
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.project.requests(), requests);
        assert_eq!(system.gates(), if has_run { &[][..] } else { &["Network"] });
        system.delete_instance().await;
        system.reconcile().await;
        let claim = system.project.get::<ResourceClaim>("default", name);
        assert!(claim.is_none() && system.claim().is_none(), "{has_run}");
        assert!(system.instance().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_deletes_claims_of_a_former_name_of_the_cell() {
    let system = with_left_claim().await;
    system.project.put(claim_of_former_cell());
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.sweep().await;
    for name in ["instance-dfw0-web-0", CLAIM] {
        let claim = system.project.get::<ResourceClaim>("default", name);
        assert!(claim.is_none(), "{name}");
    }
}

/// The WorkloadDeployments of the tests are those of the Instances.
#[test]
fn the_deployment_wants_an_instance_of_the_same_size() {
    let deployment: WorkloadDeployment = fixtures::deployment(HUB_NAMESPACE, "web", "DFW", 1);
    let instance = instance(HUB_NAMESPACE, NAME);
    assert_eq!(
        amounts::requests(&deployment.spec.template.spec),
        amounts::requests(&instance.spec)
    );
}
