//! Tests of claims whose Instances end, and of claims of others.

use super::sweeping::RECORD;
use super::*;

/// The Instance is written to the claim of the Go manager.
const TAKEN_OVER: &str = "patch resourceclaims default/instance-web-0";

/// I-31: a claim ends with its Instance.
#[tokio::test(start_paused = true)]
async fn a_claim_ends_with_its_instance() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.reconcile().await;
    system.delete_instance().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, INSTANCE]);
    assert!(system.claim().is_none() && system.instance().is_none());
}

/// The quota system decides about the claim while it is deleted.
#[tokio::test(start_paused = true)]
async fn a_claim_that_changes_while_it_is_deleted_is_deleted_at_once() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.delete_instance().await;
    let late = Fault::delay(Duration::from_secs(2)).times(1);
    system.project.fail(late.on(&[apiserver::Verb::Delete]));
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        system.grant(CLAIM);
    };
    assert_eq!(tokio::join!(system.reconcile(), change).0, Outcome::Settled);
    assert!(system.claim().is_none() && system.instance().is_none());
}

/// I-31: another Instance must not get the quota while the machine runs. The two minutes begin when nothing else is
/// awaited.
#[tokio::test(start_paused = true)]
async fn a_claim_ends_after_the_machine() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.reconcile().await;
    let cell = &system.planes.cell;
    cell.modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
        let finalizers = ["provider.example.com/machine", finalizers::QUOTA_CLAIM];
        instance["metadata"]["finalizers"] = json!(finalizers);
    });
    system.delete_instance().await;
    let requests = system.project.requests();
    for clock in [now, || now() + SignedDuration::from_mins(30)] as [Clock; 2] {
        assert_eq!(system.reconcile_at(clock).await, Outcome::Settled);
    }
    assert_eq!(system.project.requests(), requests);
    assert!(system.claim().is_some());
    cell.modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
        instance["metadata"]["finalizers"] = json!([finalizers::QUOTA_CLAIM]);
    });
    settle().await;
    system.writes();
    system.project.fail(Fault::hang());
    let later: Clock = || now() + SignedDuration::from_mins(30);
    let again = Outcome::Again(Duration::from_secs(5));
    assert_eq!(system.reconcile_at(later).await, again);
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.reconcile_at(later).await;
    assert_eq!(system.writes(), [DELETE, INSTANCE]);
    assert!(system.claim().is_none() && system.instance().is_none());
}

/// I-31: the quota system may count a claim that is being deleted.
#[tokio::test(start_paused = true)]
async fn an_instance_waits_until_its_claim_is_gone() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system
        .project
        .modify::<ResourceClaim>("default", CLAIM, |claim| {
            claim["metadata"]["finalizers"] = json!(["quota.example.com/release"]);
        });
    system.delete_instance().await;
    let again = Outcome::Again(Duration::from_secs(5));
    assert_eq!(system.reconcile().await, again);
    assert_eq!(system.writes(), [DELETE]);
    assert!(system.claim().is_some() && system.instance().is_some());
    system.project.remove::<ResourceClaim>("default", CLAIM);
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert!(system.instance().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_holds_an_instance_for_two_minutes() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.delete_instance().await;
    system.project.fail(Fault::hang());
    // The deletion began a minute before.
    assert_eq!(
        system.reconcile().await,
        Outcome::Again(Duration::from_secs(5))
    );
    assert!(system.instance().is_some());
    let later: Clock = || now() + SignedDuration::from_secs(60);
    assert_eq!(system.reconcile_at(later).await, Outcome::Settled);
    assert!(system.instance().is_none());
    assert!(system.claim().is_some());
    assert_eq!(system.writes(), [RECORD, INSTANCE]);
}

/// The cell has enforced quota before. Nobody asks for the proof, so an Instance must not wait for it.
#[tokio::test(start_paused = true)]
async fn without_enforcement_an_instance_ends_at_once() {
    let system = System::start_with(new_instance(), false).await;
    system.delete_instance().await;
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert_eq!(system.writes(), [INSTANCE]);
    assert!(system.instance().is_none());
}

/// The role of the cell in the project may lack `delete`.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_refuses_only_the_deletion_holds_an_instance_for_two_minutes() {
    for code in [400, 403, 409, 422] {
        let system = System::start(new_instance()).await;
        system.reconcile().await;
        system.delete_instance().await;
        system.project.fail(Fault::refuse(code).on_writes());
        let again = Outcome::Again(Duration::from_secs(5));
        assert_eq!(system.reconcile().await, again, "{code}");
        assert!(system.instance().is_some(), "{code}");
        let later: Clock = || now() + SignedDuration::from_secs(60);
        assert_eq!(system.reconcile_at(later).await, Outcome::Settled, "{code}");
        assert!(system.instance().is_none(), "{code}");
        let again = Outcome::Again(Duration::from_secs(10));
        assert_eq!(system.sweep().await, again, "{code}");
        assert!(system.claim().is_some(), "{code}");
        system.project.heal();
        system.sweep().await;
        assert!(system.claim().is_none(), "{code}");
    }
}

/// The process was started with a kubeconfig for quota that leads to another control plane.
#[tokio::test(start_paused = true)]
async fn a_control_plane_that_never_had_the_project_is_no_proof() {
    let system = System::start(new_instance()).await;
    system.project.put(claim_of("instance-web-0", "dfw1"));
    system.project.fail(absent_project());
    system.delete_instance().await;
    let again = Outcome::Again(Duration::from_secs(5));
    assert_eq!(system.reconcile().await, again);
    let later: Clock = || now() + SignedDuration::from_secs(60);
    assert_eq!(system.reconcile_at(later).await, Outcome::Settled);
    assert!(system.instance().is_none());
    // The claim is not forgotten.
    let again = Outcome::Again(Duration::from_secs(10));
    assert_eq!(system.sweep().await, again);
    system.project.heal();
    system.sweep().await;
    let former = system
        .project
        .get::<ResourceClaim>("default", "instance-web-0");
    assert!(former.is_none());
    // A project that was there is gone later.
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.project.fail(absent_project());
    system.delete_instance().await;
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert!(system.instance().is_none());
    // A backup of the project is restored.
    assert_eq!(system.sweep().await, again);
    system.project.heal();
    system.sweep().await;
    assert!(system.claim().is_none());
}

/// The former process had ended before it could delete the claim. The event of the watch adds the key.
#[tokio::test(start_paused = true)]
async fn a_claim_that_a_former_process_has_left_is_deleted_when_the_watch_shows_it() {
    let system = System::start_watched(new_instance(), true, true).await;
    let mut left = claim_of("instance-dfw1-web-9", "dfw1");
    left["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: "web-9"});
    let is_there = || {
        let claim = "instance-dfw1-web-9";
        let claim = system.project.get::<ResourceClaim>("default", claim);
        claim.is_some()
    };
    let reconcile = async || {
        let key = ClaimKey {
            project: Some(ProjectName::new("p").unwrap()),
            namespace: HUB_NAMESPACE.to_owned(),
            name: "web-9".to_owned(),
        };
        let context = ReconcileContext::new(now, None);
        system.controller.reconcile(&context, key).await.unwrap()
    };
    system.project.put(left);
    assert_eq!(reconcile().await, Outcome::Gone);
    assert!(is_there());
    // The watch begins with the first Instance of the project.
    system.reconcile().await;
    settle().await;
    // The claim of an Instance that the cache does not have yet stays.
    let mut new = new_instance();
    new["metadata"]["name"] = json!("web-9");
    system.planes.cell.put(new);
    assert_eq!(reconcile().await, Outcome::Settled);
    assert!(is_there());
    let cell = &system.planes.cell;
    cell.remove::<Instance>(HUB_NAMESPACE, "web-9");
    settle().await;
    assert_eq!(reconcile().await, Outcome::Gone);
    assert!(!is_there());
}

/// I-31: no key of an Instance leads to the project of a claim whose Namespace is gone.
#[tokio::test(start_paused = true)]
async fn a_watched_claim_without_its_namespace_is_deleted() {
    let system = System::start_watched(new_instance(), true, true).await;
    system.reconcile().await;
    let mut stray = claim_of("instance-dfw1-web-9", "dfw1");
    stray["metadata"]["labels"][labels::INSTANCE_NAMESPACE] = json!("ns-gone");
    stray["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: "web-9"});
    assert_eq!(system.sweep().await, Outcome::Gone);
    system.project.put(stray);
    settle().await;
    system.writes();
    system.sweep().await;
    assert_eq!(
        system.writes(),
        ["delete resourceclaims default/instance-dfw1-web-9"]
    );
    assert_eq!(system.sweep().await, Outcome::Gone);
    assert!(system.claim().is_some());
}

/// I-31: the Instance loses its finalizer while a request for its claim has no answer.
#[tokio::test(start_paused = true)]
async fn a_claim_that_can_come_without_its_instance_is_recorded() {
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::hang().on_writes());
    system.reconcile().await;
    system.planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    system.writes();
    assert_eq!(system.reconcile().await, Outcome::Gone);
    assert_eq!(system.writes(), [RECORD]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_go_manager_is_taken_over_only_from_this_cell() {
    for (cell, expected) in [("dfw1", TAKEN_OVER), ("dfw2", CREATE)] {
        let system = System::start(new_instance()).await;
        system.project.put(claim_of("instance-web-0", cell));
        system.grant("instance-web-0");
        system.reconcile().await;
        let writes = system.writes();
        let first = writes.first().map(String::as_str);
        assert_eq!(first, Some(expected), "{cell}");
        let is_open = system.gates() == ["Network"];
        assert_eq!(is_open, cell == "dfw1");
        system.delete_instance().await;
        system.reconcile().await;
        let former = system
            .project
            .get::<ResourceClaim>("default", "instance-web-0");
        assert_eq!(former.is_some(), cell == "dfw2");
        assert!(system.instance().is_none() && system.claim().is_none());
    }
}

/// The names of two cells are equal: `dfw-1-web-0` of cell `dfw`, and `web-0` of cell `dfw-1`.
#[tokio::test(start_paused = true)]
async fn a_name_that_another_cell_has_taken_is_left_to_it() {
    let system = System::start(new_instance()).await;
    let mut taken = claim_of(CLAIM, "dfw2");
    taken["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: NAME});
    system.project.put(taken);
    system.grant(CLAIM);
    system.reconcile().await;
    let writes = system.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    let name = writes[0]
        .strip_prefix("create resourceclaims default/")
        .unwrap();
    assert!(name.starts_with(CLAIM) && name != CLAIM, "{name}");
    system.grant(name);
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network"]);
    // The other claim goes first. The claim is found under its name nevertheless, and no second one is made.
    system.project.remove::<ResourceClaim>("default", CLAIM);
    system.reconcile().await;
    assert!(system.claim().is_none());
    system.delete_instance().await;
    system.reconcile().await;
    assert!(system.instance().is_none());
    assert!(
        system
            .project
            .get::<ResourceClaim>("default", name)
            .is_none()
    );
}

/// Whoever may write claims in a project can take each name.
#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_first_name_that_nobody_else_has() {
    for watches_quota in [false, true] {
        let system = System::start_watched(new_instance(), true, watches_quota).await;
        let key = ClaimKey {
            project: None,
            namespace: HUB_NAMESPACE.to_owned(),
            name: NAME.to_owned(),
        };
        let names = system.controller.claimant(&key).names();
        for name in &names[..3] {
            system.project.put(claim_of(name, "dfw2"));
        }
        system.reconcile().await;
        let name = &names[3];
        let create = format!("create resourceclaims default/{name}");
        assert_eq!(system.writes(), [create]);
        system.grant(name);
        settle().await;
        system.reconcile().await;
        assert_eq!(system.gates(), ["Network"]);
        // The others go first. The claim is found nevertheless.
        for name in &names[..3] {
            system.project.remove::<ResourceClaim>("default", name);
        }
        settle().await;
        system.delete_instance().await;
        system.reconcile().await;
        assert_eq!(
            system
                .project
                .get::<ResourceClaim>("default", name)
                .map(drop),
            None
        );
        assert!(system.instance().is_none());

        let system = System::start_watched(new_instance(), true, watches_quota).await;
        for name in &names {
            system.project.put(claim_of(name, "dfw2"));
        }
        let wait = Outcome::Again(Duration::from_secs(15));
        assert_eq!(system.reconcile().await, wait);
        let taken = Some((ConditionStatus::False, "QuotaMisconfigured".to_owned()));
        assert_eq!(system.condition(), taken);
    }
}
