//! Tests of claims that Instances leave because they end without proof.

use apiserver::Verb;

use super::*;
use crate::objects::Namespace;

/// The record of the project.
pub(super) const RECORD: &str = "patch namespaces default";

/// Returns the record.
fn record(system: &System) -> Option<String> {
    let namespace = system.planes.cell.get::<Namespace>("", "default").unwrap();
    let record = namespace.annotations().get(api::annotations::LEFT_CLAIMS);
    record.cloned()
}

/// Returns a system whose Instance has ended while the API server of the project did not answer. It still does not.
pub(super) async fn with_left_claim() -> System {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.delete_instance().await;
    system.project.fail(Fault::hang());
    let later: Clock = || now() + SignedDuration::from_secs(60);
    assert_eq!(system.reconcile_at(later).await, Outcome::Settled);
    assert!(system.instance().is_none());
    system
}

/// I-31: neither the process nor the Namespace in the cell must outlive the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_left_is_found_by_the_next_process() {
    let system = with_left_claim().await;
    assert_eq!(record(&system).as_deref(), Some(r#"["p"]"#));
    let cell = &system.planes.cell;
    cell.remove::<Namespace>("", HUB_NAMESPACE);
    settle().await;
    let system = system.restart(true);
    system.writes();
    let again = Outcome::Again(Duration::from_secs(10));
    assert_eq!(system.sweep().await, again);
    assert!(system.claim().is_some());
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    // No watch begins in a project without Instances.
    let watches = system.project.watches();
    system.sweep().await;
    assert_eq!(system.writes(), [DELETE]);
    assert!(system.claim().is_none());
    assert_eq!(system.project.watches(), watches);
    // The record goes when nothing was found for a minute.
    let minute = Duration::from_mins(1);
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    tokio::time::sleep(minute).await;
    assert_eq!(system.sweep().await, Outcome::Gone);
    assert_eq!(system.writes(), [RECORD]);
    assert_eq!(record(&system), None);
    let requests = system.project.requests();
    assert_eq!(system.sweep().await, Outcome::Gone);
    assert_eq!(system.project.requests(), requests);
}

/// An API server can be the wrong one for a moment, although it has had a project, and a project can be restored.
#[tokio::test(start_paused = true)]
async fn a_project_that_is_gone_leaves_the_record_after_an_hour() {
    let system = with_left_claim().await;
    system.project.heal();
    system.project.fail(absent_project());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let soon = Outcome::Again(Duration::from_secs(10));
    assert_eq!(system.sweep().await, soon);
    tokio::time::sleep(Duration::from_mins(59)).await;
    let minute = Outcome::Again(Duration::from_mins(1));
    assert_eq!(system.sweep().await, minute);
    assert!(record(&system).is_some());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(system.sweep().await, Outcome::Gone);
    assert_eq!(record(&system), None);
}

/// The control plane of a restored project answers before its claims are restored.
#[tokio::test(start_paused = true)]
async fn an_empty_list_after_a_project_was_gone_is_the_first_one() {
    let system = with_left_claim().await;
    system.project.heal();
    let claim = json!(system.claim().unwrap());
    system.project.remove::<ResourceClaim>("default", CLAIM);
    system.project.fail(absent_project());
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.sweep().await;
    system.project.heal();
    let minute = Duration::from_mins(1);
    tokio::time::sleep(2 * minute).await;
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    assert!(record(&system).is_some());
    system.project.put(claim);
    tokio::time::sleep(minute).await;
    system.sweep().await;
    assert!(system.claim().is_none());
}

/// A request without an answer can make a claim later.
#[tokio::test(start_paused = true)]
async fn a_claim_that_appears_late_is_found() {
    let system = with_left_claim().await;
    system.project.heal();
    let claim = json!(system.claim().unwrap());
    system.project.remove::<ResourceClaim>("default", CLAIM);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let minute = Duration::from_mins(1);
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    system.project.put(claim);
    tokio::time::sleep(minute).await;
    system.sweep().await;
    assert!(system.claim().is_none());
    // The minute begins again.
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    assert!(record(&system).is_some());
}

/// I-31: the API server has no claim when the Instance ends, and makes it afterwards.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_made_after_its_instance_is_found() {
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::hang().on_writes());
    system.reconcile().await;
    system.project.heal();
    system.delete_instance().await;
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert_eq!(system.writes(), [RECORD, INSTANCE]);
    let mut late = claim_of(CLAIM, "dfw1");
    late["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: NAME});
    system.project.put(late);
    // Writes have a pause after the request without an answer.
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.sweep().await;
    assert!(system.claim().is_none());
    // The answer to a later request says nothing about the first one, which can make the claim for a minute.
    for (seconds, expected) in [
        (59, &[DELETE, RECORD, INSTANCE][..]),
        (60, &[DELETE, INSTANCE]),
    ] {
        let system = System::start(new_instance()).await;
        system.project.fail(Fault::hang().on_writes());
        system.reconcile().await;
        system.project.heal();
        tokio::time::sleep(Duration::from_secs(10)).await;
        system.reconcile().await;
        assert!(system.claim().is_some());
        system.delete_instance().await;
        let later: Clock = match seconds {
            59 => || now() + SignedDuration::from_secs(59),
            _ => || now() + SignedDuration::from_secs(60),
        };
        system.reconcile_at(later).await;
        assert_eq!(system.writes(), expected, "{seconds}");
        // The event that the Instance is gone.
        system.reconcile_at(later).await;
        assert_eq!(system.writes(), [""; 0], "{seconds}");
    }
    // The next process does not know whether there was a request without an answer.
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::hang().on_writes());
    system.reconcile().await;
    system.project.heal();
    let system = system.restart(false);
    system.delete_instance().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [RECORD, INSTANCE]);
    // A claim that it finds says nothing about other requests of the former process. They can be carried out for a minute.
    for (seconds, expected) in [
        (59, &[DELETE, RECORD, INSTANCE][..]),
        (60, &[DELETE, INSTANCE]),
    ] {
        let system = System::start(new_instance()).await;
        system.reconcile().await;
        let system = system.restart(false);
        let began = now() - SignedDuration::from_secs(seconds);
        system.controller.began.set(began).unwrap();
        system.delete_instance().await;
        system.reconcile().await;
        assert_eq!(system.writes(), expected, "{seconds}");
        assert!(system.instance().is_none());
    }
}

/// Returns a system whose process has made a claim without an answer, which can be made later.
async fn with_unanswered_create(watches_quota: bool) -> System {
    let system = System::start_watched(new_instance(), true, watches_quota).await;
    system.project.fail(Fault::hang().on_writes());
    system.reconcile().await;
    system.project.heal();
    system
}

/// A request of the former process can be carried out after a request of this process was answered.
#[tokio::test(start_paused = true)]
async fn a_claim_that_a_former_process_makes_late_is_found() {
    let system = with_unanswered_create(false).await.restart(false);
    system.reconcile().await;
    system.delete_instance().await;
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, RECORD, INSTANCE]);
}

/// The Instance has lost its finalizer, so its claim is deleted after it is gone.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_made_after_another_one_was_deleted_is_found() {
    let system = with_unanswered_create(true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.reconcile().await;
    settle().await;
    system.planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    system.writes();
    assert_eq!(system.reconcile().await, Outcome::Gone);
    assert_eq!(system.writes(), [DELETE, RECORD]);
}

/// The record stays while an Instance ends: its claim may be left after the list.
#[tokio::test(start_paused = true)]
async fn a_claim_of_an_instance_that_the_cell_has_stays() {
    let system = with_left_claim().await;
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut anew = new_instance();
    anew["metadata"]["uid"] = json!("anew");
    system.planes.cell.put(anew);
    // The cache does not have it yet.
    system.writes();
    let minute = Duration::from_mins(1);
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    system.delete_instance().await;
    let soon = Outcome::Again(Duration::from_secs(10));
    assert_eq!(system.sweep().await, soon);
    tokio::time::sleep(minute).await;
    assert_eq!(system.sweep().await, soon);
    assert!(record(&system).is_some() && system.claim().is_some());
    assert_eq!(system.writes(), [""; 0]);
}

/// An admission webhook of the project can refuse the deletion of one claim.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_deleted_does_not_hold_up_the_others() {
    for code in [403, 409] {
        let system = with_left_claim().await;
        system.project.heal();
        let mut next = json!(system.claim().unwrap());
        let name = format!("{CLAIM}-next");
        next["metadata"]["name"] = json!(name);
        next["metadata"]["uid"] = json!("next");
        system.project.put(next);
        let refusal = Fault::refuse(code).on_writes();
        system.project.fail(refusal.name(CLAIM));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let soon = Outcome::Again(Duration::from_secs(10));
        assert_eq!(system.sweep().await, soon, "{code}");
        assert!(system.claim().is_some(), "{code}");
        let next = system.project.get::<ResourceClaim>("default", &name);
        assert!(next.is_none(), "{code}");
    }
}

/// Returns a system whose Instance ends without proof. The cell answers the next write with this code.
async fn with_refused_record(code: u16) -> System {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.delete_instance().await;
    system.project.fail(Fault::hang());
    let cell = &system.planes.cell;
    cell.fail(Fault::refuse(code).on_writes().times(1));
    system
}

/// Without the right to record, an Instance must end nevertheless. The process deletes the claim while it lives.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_refused_holds_no_instance_up() {
    let system = with_refused_record(403).await;
    let later: Clock = || now() + SignedDuration::from_secs(60);
    assert_eq!(system.reconcile_at(later).await, Outcome::Settled);
    assert!(system.instance().is_none());
    assert_eq!(record(&system), None);
    let left = lock(&system.left).clone();
    assert_eq!(left, [ProjectName::new("p").unwrap()]);
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.sweep().await;
    assert!(system.claim().is_none());
    let minute = Duration::from_mins(1);
    assert_eq!(system.sweep().await, Outcome::Again(minute));
    tokio::time::sleep(minute).await;
    assert_eq!(system.sweep().await, Outcome::Gone);
    let requests = system.project.requests();
    assert_eq!(system.sweep().await, Outcome::Gone);
    assert_eq!(system.project.requests(), requests);
}

/// I-31: a failure of the cell that passes must not lose the claim.
#[tokio::test(start_paused = true)]
async fn an_instance_stays_until_its_project_is_recorded() {
    for code in [429, 500, 503] {
        let system = with_refused_record(code).await;
        let later: Clock = || now() + SignedDuration::from_secs(60);
        system.try_reconcile_at(later).await.unwrap_err();
        assert!(system.instance().is_some(), "{code}");
        assert_eq!(system.reconcile_at(later).await, Outcome::Settled, "{code}");
        assert!(system.instance().is_none(), "{code}");
        assert_eq!(record(&system).as_deref(), Some(r#"["p"]"#), "{code}");
    }
}

/// A project that was gone before the process reached it is asked ever more rarely, and without a watch.
#[tokio::test(start_paused = true)]
async fn a_project_that_gives_no_answer_is_asked_ever_more_rarely() {
    let system = with_left_claim().await;
    let system = system.restart(true);
    system.project.heal();
    system.project.fail(Fault::refuse(403));
    let watches = system.project.watches();
    let mut waits = Vec::new();
    for pause in [0, 5 * 60, 6 * 60, 60 * 60] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let Outcome::Again(wait) = system.sweep().await else {
            panic!("the project is forgotten");
        };
        waits.push(wait.as_secs());
    }
    assert_eq!(waits, [10, 10, 60, 300]);
    assert_eq!(system.project.watches(), watches);
    assert!(record(&system).is_some());
}

/// I-31: the sweeper decides on a list that may be old when it deletes.
#[tokio::test(start_paused = true)]
async fn a_claim_that_has_changed_since_it_was_listed_stays() {
    let system = with_left_claim().await;
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let late = Fault::delay(Duration::from_secs(2));
    system.project.fail(late.on(&[Verb::Delete]));
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        system.grant(CLAIM);
    };
    let soon = Outcome::Again(Duration::from_secs(10));
    assert_eq!(tokio::join!(system.sweep(), change).0, soon);
    assert!(system.claim().is_some());
    system.project.heal();
    system.sweep().await;
    assert!(system.claim().is_none());
}

/// I-31: an Instance can be made while other claims are deleted.
#[tokio::test(start_paused = true)]
async fn the_instance_of_a_claim_is_looked_for_directly_before_the_deletion() {
    let system = with_left_claim().await;
    system.project.heal();
    let mut first = json!(system.claim().unwrap());
    first["metadata"]["name"] = json!("a");
    first["metadata"]["uid"] = json!("a");
    first["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: "gone"});
    system.project.put(first);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let late = Fault::delay(Duration::from_secs(2));
    system.project.fail(late.on(&[Verb::Delete]));
    let create = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        system.planes.cell.put(new_instance());
    };
    let soon = Outcome::Again(Duration::from_secs(10));
    assert_eq!(tokio::join!(system.sweep(), create).0, soon);
    let first = system.project.get::<ResourceClaim>("default", "a");
    assert!(first.is_none() && system.claim().is_some());
}

/// Whoever may write claims in a project must not stop the sweeper there.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_instance_cannot_be_asked_for_does_not_hold_up_the_others() {
    let system = with_left_claim().await;
    system.project.heal();
    for (name, instance) in [("a", "../web"), ("b", "refused")] {
        let mut other = json!(system.claim().unwrap());
        other["metadata"]["name"] = json!(name);
        other["metadata"]["uid"] = json!(name);
        other["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: instance});
        system.project.put(other);
    }
    system.planes.cell.fail(Fault::refuse(400).name("refused"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let soon = Outcome::Again(Duration::from_secs(10));
    assert_eq!(system.sweep().await, soon);
    assert!(system.claim().is_none());
    for name in ["a", "b"] {
        let other = system.project.get::<ResourceClaim>("default", name);
        assert!(other.is_some(), "{name}");
    }
    // The record stays for the claim that may be left.
    assert!(record(&system).is_some());
}

/// The watch reports no change of a record that has the project already.
#[tokio::test(start_paused = true)]
async fn the_sweeper_is_woken_for_each_claim_that_is_left() {
    let system = System::start(new_instance()).await;
    let context = ReconcileContext::new(now, None);
    let project = ProjectName::new("p").unwrap();
    let (left, writer) = (&system.controller.left, &system.controller.writer);
    for times in 1..3 {
        left.add(&context, writer, &project).await.unwrap();
        assert_eq!(lock(&system.left).len(), times);
    }
    assert_eq!(system.writes(), [RECORD]);
    // The cache can have had a record that the API server has no more. The process remembers the project nevertheless.
    let cell = &system.planes.cell;
    cell.modify::<Namespace>("", "default", |namespace| {
        namespace["metadata"]["annotations"] = json!({});
    });
    settle().await;
    assert_eq!(record(&system), None);
    assert!(matches!(system.sweep().await, Outcome::Again(_)));
}

/// I-31: the cache has what this process has written, before the watch reports it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_left_just_after_the_record_was_removed_is_recorded() {
    let system = System::start(new_instance()).await;
    let context = ReconcileContext::new(now, None);
    let project = ProjectName::new("p").unwrap();
    let (left, writer) = (&system.controller.left, &system.controller.writer);
    let sweep = async || {
        let key = LedgerKey(project.clone());
        system.sweeper.reconcile(&context, key).await.unwrap()
    };
    left.add(&context, writer, &project).await.unwrap();
    let minute = Duration::from_mins(1);
    assert_eq!(sweep().await, Outcome::Again(minute));
    tokio::time::sleep(minute).await;
    assert_eq!(sweep().await, Outcome::Gone);
    left.add(&context, writer, &project).await.unwrap();
    assert_eq!(system.writes(), [RECORD; 3]);
    assert_eq!(record(&system).as_deref(), Some(r#"["p"]"#));
}
