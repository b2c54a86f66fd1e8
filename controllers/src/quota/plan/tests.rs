//! Tests of the plan: a table of states for each rule.

use api::instance::{InstanceControllerSpec, SchedulingGate};
use api::{annotations, condition};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::ending::end;
use super::*;
use crate::fixtures::{self, now, object};

/// An Instance with a gate and the finalizer, and its claim.
struct Case {
    instance: Instance,
    ledger: Ledger,
    has_room: bool,
    is_renamed: bool,
    is_watched: bool,
    last_try: Option<Try>,
}

fn before(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn request(amount: i64) -> Vec<ResourceRequest> {
    vec![ResourceRequest {
        resource_type: "compute.datumapis.com/instances".to_owned(),
        amount,
    }]
}

/// Returns a claim of the right size that was created this number of seconds ago.
fn claim(seconds: i64, status: &Value) -> Ledger {
    claim_of(1, seconds, status)
}

fn claim_of(amount: i64, seconds: i64, status: &Value) -> Ledger {
    let claim: ResourceClaim = object(json!({
        "metadata": {
            "name": "c", "creationTimestamp": before(seconds),
            "annotations": {annotations::INSTANCE_UID: "web-0-uid"},
        },
        "spec": {"requests": request(amount)},
        "status": status,
    }));
    Ledger::Known(Some(Box::new(claim)))
}

fn decided(status: &str, reason: &str, allocations: &[&str]) -> Value {
    let allocations: Vec<_> = allocations
        .iter()
        .map(|status| json!({"resourceType": format!("t{status}"), "status": status, "message": "m"}))
        .collect();
    json!({"allocations": allocations, "conditions": [{
        "type": "Granted", "status": status, "reason": reason, "message": "told",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]})
}

fn granted_claim() -> Ledger {
    claim(1, &decided("True", "QuotaAvailable", &["Granted"]))
}

fn denied_claim(allocations: &[&str]) -> Ledger {
    claim(1, &decided("False", "QuotaExceeded", allocations))
}

fn pending_claim(seconds: i64) -> Ledger {
    claim(seconds, &decided("False", "PendingEvaluation", &[]))
}

fn unavailable() -> Ledger {
    problem(
        Remedy::Wait(Duration::from_secs(7)),
        reason::BACKEND_UNAVAILABLE,
    )
}

fn problem(remedy: Remedy, reason: &'static str) -> Ledger {
    Ledger::Failed(LedgerProblem {
        reason,
        message: "away".to_owned(),
        remedy,
    })
}

impl Case {
    fn new(ledger: Ledger) -> Self {
        let mut instance = fixtures::instance("ns-1", "web-0");
        instance.metadata.finalizers = Some(vec![finalizers::QUOTA_CLAIM.into()]);
        instance.metadata.creation_timestamp = object(json!(before(30)));
        instance.spec.controller = Some(InstanceControllerSpec {
            scheduling_gates: ["Network", "Quota"]
                .map(|name| SchedulingGate {
                    name: name.to_owned(),
                    ..SchedulingGate::default()
                })
                .into(),
            ..InstanceControllerSpec::default()
        });
        Self {
            instance,
            ledger,
            has_room: false,
            is_renamed: false,
            is_watched: false,
            last_try: None,
        }
    }

    fn open(mut self) -> Self {
        let controller = self.instance.spec.controller.as_mut().unwrap();
        controller.scheduling_gates.pop();
        self
    }

    /// Stores the condition, as of this generation, since this number of seconds.
    fn stored(
        mut self,
        (status, reason, message): (ConditionStatus, &str, &str),
        generation: i64,
        since: i64,
    ) -> Self {
        let condition = Condition::new(QUOTA_GRANTED, status, reason, message, before(since));
        let conditions = vec![condition.observed(Some(generation))];
        self.instance.status = Some(api::InstanceStatus {
            conditions,
            ..api::InstanceStatus::default()
        });
        self
    }

    /// The project is seen to have the amounts left.
    fn with_room(mut self) -> Self {
        self.has_room = true;
        self
    }

    fn tried(mut self, seconds: i64) -> Self {
        self.last_try = Some(Try {
            at: before(seconds),
            had_room: false,
            unanswered: None,
            is_denied: false,
        });
        self
    }

    /// Returns the plan as a short text.
    fn plan(&self) -> String {
        short(&self.decide())
    }

    fn decide(&self) -> Plan {
        plan(&Observed {
            instance: &self.instance,
            ledger: &self.ledger,
            requests: &request(1),
            has_room: self.has_room,
            is_renamed: self.is_renamed,
            is_watched: self.is_watched,
            last_try: self.last_try,
            now: now(),
        })
    }
}

fn short(plan: &Plan) -> String {
    let wait = plan.look_again.map(|wait| format!("{} s", wait.as_secs()));
    let step = plan.step.as_ref().map(|step| match step {
        QuotaStep::WriteConditions(conditions) => {
            let granted = condition::find(conditions, QUOTA_GRANTED).unwrap();
            assert_eq!(granted.observed_generation, Some(2));
            format!(
                "{:?} {}: {}",
                granted.status, granted.reason, granted.message
            )
        }
        other => format!("{other:?}"),
    });
    let parts: Vec<_> = step.into_iter().chain(wait).collect();
    parts.join(", ")
}

const GRANTED: (ConditionStatus, &str, &str) = (ConditionStatus::True, "QuotaAvailable", "told");
const DENIED: (ConditionStatus, &str, &str) = (ConditionStatus::False, "QuotaExceeded", "told");

/// I-30: the gate opens only after the condition is stored for the generation of the Instance.
#[test]
fn a_gate_opens_after_its_condition_is_stored_for_this_generation() {
    let new = Case::new(granted_claim());
    assert_eq!(new.plan(), "True QuotaAvailable: told");
    let former = Case::new(granted_claim()).stored(GRANTED, 1, 0);
    assert_eq!(former.plan(), "True QuotaAvailable: told");
    let denied = Case::new(granted_claim()).stored(DENIED, 2, 0);
    assert_eq!(denied.plan(), "True QuotaAvailable: told");
    let stored = Case::new(granted_claim()).stored(GRANTED, 2, 0);
    assert_eq!(stored.plan(), "OpenGate");
    // The opened gate has changed the generation. That is no reason for a write.
    let open = Case::new(granted_claim()).stored(GRANTED, 1, 0).open();
    assert_eq!(open.plan(), "");
}

#[test]
fn a_claim_of_another_size_is_made_anew_while_the_gate_is_closed() {
    let other = |status: Value| claim_of(2, 1, &status);
    let granted = || other(decided("True", "QuotaAvailable", &["Granted"]));
    let closed = Case::new(granted()).stored(GRANTED, 2, 0);
    assert_eq!(closed.plan(), "DeleteClaim");
    let denied = Case::new(other(decided("False", "QuotaExceeded", &[]))).stored(DENIED, 2, 0);
    assert_eq!(denied.plan(), "DeleteClaim");
    // A machine that runs would lose its quota.
    let open = Case::new(granted()).stored(GRANTED, 1, 0).open();
    assert_eq!(open.plan(), "");
}

/// I-31: a claim passes to the next Instance of the same name. A claim of the Go manager names no Instance.
#[test]
fn a_claim_of_a_former_instance_is_adopted_while_the_gate_is_closed() {
    let with_uid = |ledger: Ledger, uid: Option<&str>| {
        let Ledger::Known(Some(mut claim)) = ledger else {
            panic!("no claim");
        };
        let annotations = uid.map(|uid| (annotations::INSTANCE_UID.to_owned(), uid.to_owned()));
        claim.metadata.annotations = Some(annotations.into_iter().collect());
        Ledger::Known(Some(claim))
    };
    for (uid, expected, denied) in [
        (None, "AdoptClaim", "DeleteClaim"),
        (Some("former"), "AdoptClaim", "DeleteClaim"),
        (Some("web-0-uid"), "OpenGate", "False QuotaExceeded: told"),
    ] {
        let closed = Case::new(with_uid(granted_claim(), uid)).stored(GRANTED, 2, 0);
        assert_eq!(closed.plan(), expected, "{uid:?}");
        let refused = Case::new(with_uid(denied_claim(&[]), uid));
        assert_eq!(refused.plan(), denied, "{uid:?}");
        let mut open = Case::new(with_uid(granted_claim(), uid))
            .stored(GRANTED, 1, 0)
            .open();
        assert_eq!(open.plan(), "", "{uid:?}");
        // The name of the cell has changed.
        open.is_renamed = true;
        assert_eq!(open.plan(), "AdoptClaim", "{uid:?}");
    }
    let larger = claim_of(2, 1, &decided("True", "QuotaAvailable", &["Granted"]));
    assert_eq!(
        Case::new(with_uid(larger, Some("former"))).plan(),
        "DeleteClaim"
    );
}

#[test]
fn a_claim_is_made_only_behind_the_finalizer() {
    let none = Case::new(Ledger::Known(None));
    assert_eq!(none.plan(), "CreateClaim");
    let mut without = Case::new(Ledger::Known(None));
    without.instance.metadata.finalizers = None;
    assert_eq!(without.plan(), "AddFinalizer");
    // Made without a gate by a former version.
    let unmanaged = without.open();
    assert_eq!(unmanaged.plan(), "");
    // Deleted by hand while the machine runs.
    let open = Case::new(Ledger::Known(None))
        .stored(GRANTED, 1, 100)
        .open();
    assert_eq!(open.plan(), "CreateClaim");
}

/// A quick grant costs no write.
#[test]
fn an_undecided_claim_is_shown_after_a_while_and_read_ever_more_rarely() {
    let types = "the quota system has not decided about compute.datumapis.com/instances";
    let no_budget =
        format!("Unknown QuotaNoBudget: {types}; the project may have no quota of them");
    for (age, expected) in [
        (0, "1 s".to_owned()),
        (1, "1 s".to_owned()),
        (2, format!("Unknown PendingEvaluation: {types}, 1 s")),
        (59, format!("Unknown PendingEvaluation: {types}, 1 s")),
        (60, format!("{no_budget}, 15 s")),
        (299, format!("{no_budget}, 15 s")),
        (300, format!("{no_budget}, 60 s")),
        (600, format!("{no_budget}, 300 s")),
    ] {
        assert_eq!(Case::new(pending_claim(age)).plan(), expected, "{age}");
    }
    let waiting = (ConditionStatus::Unknown, "PendingEvaluation", types);
    assert_eq!(
        Case::new(pending_claim(30)).stored(waiting, 2, 1).plan(),
        "1 s"
    );
    // The watch reports the decision about this claim.
    for (age, expected) in [(1, 1), (2, 15), (299, 15), (300, 60), (600, 300)] {
        let mut watched = Case::new(pending_claim(age)).stored(waiting, 2, 1);
        watched.is_watched = true;
        let wait = watched.decide().look_again;
        assert_eq!(wait, Some(Duration::from_secs(expected)), "{age}");
    }
    // A claim without a status is not decided either.
    assert_eq!(Case::new(claim(0, &json!(null))).plan(), "1 s");
    // The claim of an Instance that runs was made again. It does not become unready if nobody decides.
    let runs = || Case::new(pending_claim(100)).stored(GRANTED, 1, 100);
    assert_eq!(runs().open().plan(), "15 s");
    // A grant of which only the condition was stored.
    assert_eq!(runs().plan(), format!("{no_budget}, 15 s"));
    // The claim of a denied Instance was made anew.
    assert_eq!(
        Case::new(pending_claim(30)).stored(DENIED, 2, 30).plan(),
        "1 s"
    );
}

/// A claim can have finalizers of other programs.
#[test]
fn a_claim_that_is_being_deleted_is_shown_after_a_while_and_read_ever_more_rarely() {
    let ending = |seconds| {
        let mut ledger = pending_claim(1000);
        if let Ledger::Known(Some(claim)) = &mut ledger {
            claim.metadata.deletion_timestamp = object(json!(before(seconds)));
        }
        Case::new(ledger)
    };
    let message = "ResourceClaim c is being deleted; a new one is made when it is gone";
    let shown = format!("Unknown PendingEvaluation: {message}");
    for (seconds, expected) in [
        (-5, "1 s".to_owned()),
        (1, "1 s".to_owned()),
        (2, format!("{shown}, 1 s")),
        (60, format!("{shown}, 15 s")),
        (600, format!("{shown}, 300 s")),
    ] {
        assert_eq!(ending(seconds).plan(), expected, "{seconds}");
    }
    let stored = (ConditionStatus::Unknown, "PendingEvaluation", message);
    assert_eq!(ending(60).stored(stored, 2, 5).plan(), "15 s");
    assert_eq!(ending(60).stored(DENIED, 2, 5).plan(), "15 s");
    assert_eq!(ending(60).stored(GRANTED, 1, 5).open().plan(), "15 s");
    let mut watched = ending(5);
    watched.is_watched = true;
    assert_eq!(watched.decide().look_again, Some(Duration::from_secs(15)));
    // Nothing is shown while the Instance is suspended.
    let mut suspended = ending(600);
    suspended.instance.status.get_or_insert_default().suspended = Some(true);
    assert_eq!(suspended.plan(), "300 s");
}

#[test]
fn a_denied_claim_holds_nothing_and_is_made_anew_after_a_while() {
    let new = Case::new(denied_claim(&["Denied"]));
    assert_eq!(new.plan(), "False QuotaExceeded: told tDenied: m");
    let refused = Case::new(claim(1, &decided("False", "ValidationFailed", &[])));
    assert_eq!(refused.plan(), "False ValidationFailed: told");
    let other = Case::new(claim(1, &decided("False", "Odd", &[])));
    assert_eq!(other.plan(), "False QuotaExceeded: told");
    let partial = || denied_claim(&["Granted"]);
    assert_eq!(Case::new(partial()).plan(), "False QuotaExceeded: told");
    let shown = Case::new(partial()).stored(DENIED, 2, 0).tried(1);
    assert_eq!(shown.plan(), "DeleteClaim");
    for (denied_for, tried, expected) in [
        (0, 1, Some(14)),
        (60, 14, Some(1)),
        (60, 15, None),
        (299, 0, Some(15)),
        (300, 15, Some(45)),
        (300, 60, None),
        (600, 60, Some(240)),
        (6000, 300, None),
        // The clock of the project is ahead.
        (0, -5, Some(15)),
    ] {
        let wait = expected.map(|wait| format!("{wait} s"));
        let case = |ledger| Case::new(ledger).stored(DENIED, 2, denied_for).tried(tried);
        let kept = wait.clone().unwrap_or_else(|| "DeleteClaim".to_owned());
        assert_eq!(case(denied_claim(&[])).plan(), kept, "{denied_for} {tried}");
        let gone = wait.unwrap_or_else(|| "CreateClaim".to_owned());
        assert_eq!(
            case(Ledger::Known(None)).plan(),
            gone,
            "{denied_for} {tried}"
        );
    }
    // The first try after the project has room is soon, also after hours. If it is denied, the next ones are rarer.
    for (denied_for, tried, had_room, expected) in [
        (60, 1, false, "0 s"),
        (60, 2, false, "DeleteClaim"),
        (400, 1, false, "1 s"),
        (400, 2, false, "DeleteClaim"),
        (6000, 2, false, "DeleteClaim"),
        (60, 1, true, "0 s"),
        (60, 2, true, "DeleteClaim"),
        (400, 7, true, "0 s"),
        (6000, 37, true, "0 s"),
        (6000, 38, true, "DeleteClaim"),
    ] {
        let denied = Case::new(denied_claim(&[])).stored(DENIED, 2, denied_for);
        let mut case = denied.tried(tried).with_room();
        case.last_try = case.last_try.map(|it| Try { had_room, ..it });
        assert_eq!(case.plan(), expected, "{denied_for} {tried} {had_room}");
    }
    // The process has started again, so it does not know the last try.
    let unknown = Case::new(Ledger::Known(None)).stored(DENIED, 2, 1);
    assert_eq!(unknown.plan(), "CreateClaim");
}

/// An Instance that has run keeps its claim.
#[test]
fn a_suspended_instance_that_has_never_run_gives_its_claim_back() {
    let plan = |mut case: Case| {
        let mut status = case.instance.status.take().unwrap_or_default();
        status.suspended = Some(true);
        case.instance.status = Some(status);
        assert_eq!(waiting_since(&case.instance), None);
        case.plan()
    };
    for held in [
        granted_claim(),
        denied_claim(&["Granted"]),
        pending_claim(1),
        claim_of(2, 1, &json!(null)),
    ] {
        assert_eq!(plan(Case::new(held.clone())), "DeleteClaim");
        assert_eq!(
            plan(Case::new(held).stored(DENIED, 2, 5).tried(1)),
            "DeleteClaim"
        );
    }
    assert_eq!(
        plan(Case::new(granted_claim()).stored(GRANTED, 1, 5).open()),
        ""
    );
    assert_eq!(plan(Case::new(Ledger::Known(None))), "");
    assert_eq!(plan(Case::new(Ledger::Disabled)), "");
    assert_eq!(plan(Case::new(unavailable())), "7 s");
}

#[test]
fn a_revoked_grant_is_shown_and_changes_nothing_else() {
    let revoked = Case::new(denied_claim(&[])).stored(GRANTED, 1, 100).open();
    assert_eq!(revoked.plan(), "False QuotaExceeded: told");
}

#[test]
fn a_problem_is_shown_unless_the_instance_has_quota_or_was_denied() {
    let away = "False QuotaBackendUnavailable: away";
    assert_eq!(Case::new(unavailable()).plan(), format!("{away}, 7 s"));
    let mut young = Case::new(unavailable());
    young.instance.metadata.creation_timestamp = object(json!(before(1)));
    assert_eq!(young.plan(), "7 s");
    assert_eq!(Case::new(unavailable()).stored(DENIED, 2, 5).plan(), "7 s");
    // The claim can be gone by now.
    let granted = Case::new(unavailable()).stored(GRANTED, 2, 5);
    assert_eq!(granted.plan(), format!("{away}, 7 s"));
    assert!(waiting_since(&granted.instance).is_some());
    let refused = || problem(Remedy::Correct, reason::MISCONFIGURED);
    let shown = "False QuotaMisconfigured: away, 15 s";
    assert_eq!(Case::new(refused()).plan(), shown);
    assert_eq!(Case::new(refused()).stored(DENIED, 2, 5).plan(), shown);
    let shown = (ConditionStatus::False, "QuotaMisconfigured", "away");
    assert_eq!(Case::new(refused()).stored(shown, 2, 5).plan(), "15 s");
    let raced = |age| {
        let mut raced = Case::new(problem(Remedy::Repeat, reason::BACKEND_UNAVAILABLE));
        raced.instance.metadata.creation_timestamp = object(json!(before(age)));
        raced
    };
    assert_eq!(raced(59).plan(), "1 s");
    assert_eq!(raced(60).plan(), format!("{away}, 15 s"));
    assert_eq!(raced(1000).stored(DENIED, 2, 5).plan(), "15 s");
    let unidentified = || Ledger::Unidentified("no label".to_owned());
    assert_eq!(
        Case::new(unidentified()).plan(),
        "False QuotaProjectIDUnresolvable: no label"
    );
    // A machine that runs keeps its quota. Its claim may be missing, so the project is asked again.
    for (ledger, expected) in [
        (unavailable(), "7 s"),
        (refused(), "15 s"),
        (unidentified(), ""),
    ] {
        let open = Case::new(ledger).stored(GRANTED, 1, 5).open();
        assert_eq!(open.plan(), expected);
    }
}

#[test]
fn without_enforcement_a_gate_of_an_earlier_time_is_opened() {
    let disabled = (
        ConditionStatus::True,
        "QuotaDisabled",
        "the cell does not enforce quota",
    );
    let closed = Case::new(Ledger::Disabled);
    assert_eq!(
        closed.plan(),
        "True QuotaDisabled: the cell does not enforce quota"
    );
    assert_eq!(
        Case::new(Ledger::Disabled).stored(disabled, 2, 0).plan(),
        "OpenGate"
    );
    assert_eq!(Case::new(Ledger::Disabled).open().plan(), "");
}

/// I-31: the finalizer is released only if there is no claim, or after a bound.
#[test]
fn an_instance_ends_when_its_claim_is_gone_or_after_two_minutes() {
    let ending = |seconds: i64, ledger: &Ledger| {
        let instance = Case::new(Ledger::Disabled).instance;
        short(&end(&instance, ledger, Some(before(seconds)), now()))
    };
    assert_eq!(ending(0, &granted_claim()), "DeleteClaim");
    assert_eq!(ending(0, &Ledger::Known(None)), "Release(NoClaim)");
    let gone = problem(Remedy::ProjectGone, reason::PROJECT_NOT_FOUND);
    assert_eq!(ending(0, &gone), "Release(ProjectGone)");
    let Ledger::Known(Some(mut claim)) = granted_claim() else {
        panic!("no claim");
    };
    claim.metadata.deletion_timestamp = object(json!(before(0)));
    for ledger in [
        Ledger::Known(Some(claim)),
        unavailable(),
        problem(Remedy::Correct, reason::PROJECT_NOT_FOUND),
        Ledger::Unidentified(String::new()),
    ] {
        assert_eq!(ending(0, &ledger), "5 s");
        assert_eq!(ending(118, &ledger), "2 s");
        assert_eq!(ending(120, &ledger), "Release(None)");
    }
    assert_eq!(ending(0, &Ledger::Disabled), "Release(None)");
    let mut released = Case::new(Ledger::Disabled).instance;
    released.metadata.finalizers = None;
    let plan = end(&released, &granted_claim(), None, now());
    assert_eq!(plan, Plan::default());
}

/// I-31: the provider still runs the machine.
#[test]
fn a_claim_outlives_the_finalizers_of_others() {
    let mut ending = Case::new(Ledger::Disabled).instance;
    let others = ending.finalizers_mut();
    others.push("provider.example.com/machine".to_owned());
    for ledger in [
        granted_claim(),
        Ledger::Known(None),
        unavailable(),
        Ledger::Disabled,
    ] {
        let plan = end(&ending, &ledger, Some(before(1000)), now());
        assert_eq!(plan, Plan::default());
    }
}

/// The hub can be down for days, and no machine runs.
#[test]
fn a_claim_does_not_wait_for_the_hub() {
    let mut ending = Case::new(Ledger::Disabled).instance;
    let finalizers = ending.finalizers_mut();
    finalizers.push(finalizers::INSTANCE_CONTROLLER.to_owned());
    let step = |ledger, seconds| short(&end(&ending, &ledger, Some(before(seconds)), now()));
    assert_eq!(step(granted_claim(), 0), "DeleteClaim");
    assert_eq!(step(Ledger::Known(None), 0), "Release(NoClaim)");
    assert_eq!(step(unavailable(), 120), "Release(None)");
}

#[test]
fn an_instance_waits_since_its_creation_or_since_its_grant_was_lost() {
    let since = |case: Case| waiting_since(&case.instance);
    assert_eq!(since(Case::new(Ledger::Disabled)), Some(before(30)));
    assert_eq!(since(Case::new(Ledger::Disabled).open()), None);
    assert_eq!(
        since(Case::new(Ledger::Disabled).stored(DENIED, 2, 7)),
        Some(before(30))
    );
    assert_eq!(
        since(Case::new(Ledger::Disabled).open().stored(DENIED, 2, 7)),
        Some(before(7))
    );
    let granted = || Case::new(Ledger::Disabled).stored(GRANTED, 2, 7);
    assert_eq!(since(granted()), Some(before(30)));
    assert_eq!(since(granted().open()), None);
}
