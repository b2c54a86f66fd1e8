//! Tests of the quota controller, with in-memory API servers of a cell and of a project. The tests do the work of the
//! quota system.

mod ending;
mod handover;
mod promises;
mod sweeping;
mod warnings;

use api::condition::{self, ConditionStatus};
use api::instance::QUOTA_GRANTED;
use api::quota::ResourceClaim;
use api::{ProjectName, labels};
use apiserver::{ApiServer, Fault, objects};
use jiff::SignedDuration;
use kube::core::Status;
use multicluster::Tasks;
use multicluster::cache::ListLimiter;
use serde_json::Value;

use super::sweeper::QuotaSweeper;
use super::*;
use crate::fixtures::servers::{CellPlanes, HUB_NAMESPACE, settle, take_writes, terminating_json};
use crate::fixtures::{instance, now};
use crate::runtime::Clock;
use crate::runtime::keys::LedgerKey;

const NAME: &str = "web-0";
const CLAIM: &str = "instance-dfw1-web-0";
const CREATE: &str = "create resourceclaims default/instance-dfw1-web-0";
const DELETE: &str = "delete resourceclaims default/instance-dfw1-web-0";
const ADOPT: &str = "patch resourceclaims default/instance-dfw1-web-0";
const CONDITION: &str = "patch instances/status ns-1/web-0";
const INSTANCE: &str = "patch instances ns-1/web-0";

/// A cell with one Instance, and its project.
struct System {
    planes: CellPlanes,
    project: ApiServer,
    controller: QuotaController,
    sweeper: QuotaSweeper,
    /// The projects for which the sweeper was woken.
    left: Arc<Mutex<Vec<ProjectName>>>,
    _tasks: Tasks,
}

/// Returns an Instance as the deployment controller creates it.
fn new_instance() -> Value {
    let mut instance = json!(instance(HUB_NAMESPACE, NAME));
    instance["metadata"]["finalizers"] = json!([finalizers::QUOTA_CLAIM]);
    instance["metadata"]["creationTimestamp"] = json!(now());
    instance["spec"]["controller"] =
        json!({"templateHash": "h", "schedulingGates": [{"name": "Network"}, {"name": "Quota"}]});
    instance
}

/// Returns a claim of this name that a cell has made for the Instance without the annotation.
fn claim_of(name: &str, cell: &str) -> Value {
    json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {
            labels::SOURCE_CLUSTER: cell, labels::INSTANCE_NAMESPACE: HUB_NAMESPACE,
        }},
        "spec": {"requests": amounts::requests(&instance(HUB_NAMESPACE, NAME).spec)},
    })
}

/// Returns the answers of an API server that does not have the project.
fn absent_project() -> Fault {
    let project = json!({"group": "resourcemanager.miloapis.com", "kind": "projects", "name": "p"});
    let answer = json!({
        "status": "Failure", "code": 404, "reason": "NotFound", "message": "m", "details": project,
    });
    Fault::answer(404, answer.to_string())
}

impl System {
    async fn start(instance: Value) -> Self {
        Self::start_with(instance, true).await
    }

    async fn start_with(instance: Value, enforces_quota: bool) -> Self {
        Self::start_watched(instance, enforces_quota, false).await
    }

    /// Starts like [`Self::start_with`], perhaps with watches of the project.
    async fn start_watched(instance: Value, enforces_quota: bool, watches_quota: bool) -> Self {
        let default = objects::namespace("default", "cell-default");
        let planes = CellPlanes::start(vec![instance, default], Vec::new()).await;
        let project = ApiServer::new().with_clock(now);
        project.put(objects::namespace("default", "1"));
        let system = Self::with_planes(planes, project, enforces_quota, watches_quota);
        // No former process can have sent anything within the last minute.
        let began = now() - SignedDuration::from_hours(1);
        system.controller.began.set(began).unwrap();
        system
    }

    /// Ends the process, and starts another one.
    fn restart(self, watches_quota: bool) -> Self {
        Self::with_planes(self.planes, self.project, true, watches_quota)
    }

    fn with_planes(
        planes: CellPlanes,
        project: ApiServer,
        enforces_quota: bool,
        watches_quota: bool,
    ) -> Self {
        let client = project.client();
        let connect: ConnectLedger = Box::new(move |_| Ok(client.clone()));
        let connect = enforces_quota.then_some(connect);
        let tasks = Tasks::default();
        let watches = QuotaWatches {
            cell: planes.caches.name.clone(),
            tasks: tasks.clone(),
            metrics: planes.metrics.clone(),
            lists: ListLimiter::default(),
            on_claim: Arc::new(|_, _| {}),
            on_bucket: Arc::new(|_| {}),
        };
        let watches = watches_quota.then_some(watches);
        let ledgers = connect.map(|connect| Arc::new(Ledgers::new(connect, watches)));
        let (caches, metrics) = (&planes.caches, &planes.metrics);
        let woken = Arc::<Mutex<Vec<_>>>::default();
        let wake = {
            let woken = Arc::clone(&woken);
            move |project: &ProjectName| lock(&woken).push(project.clone())
        };
        let left = Arc::new(LeftClaims::new(Arc::clone(caches), wake));
        let handovers = Arc::new(Handovers::new(Arc::clone(caches)));
        let controller = QuotaController::new(
            Arc::clone(caches),
            ledgers.clone(),
            Arc::clone(&left),
            Arc::clone(&handovers),
            metrics,
        );
        let sweeper = QuotaSweeper::new(Arc::clone(caches), ledgers, left, handovers, metrics);
        Self {
            planes,
            project,
            controller,
            sweeper,
            left: woken,
            _tasks: tasks,
        }
    }

    async fn reconcile(&self) -> Outcome {
        self.reconcile_at(now).await
    }

    /// Reconciles at the time of this clock.
    async fn reconcile_at(&self, clock: Clock) -> Outcome {
        let outcome = self.try_reconcile_at(clock).await.unwrap();
        settle().await;
        outcome
    }

    async fn try_reconcile_at(&self, clock: Clock) -> Result<Outcome, ReconcileError> {
        let key = ClaimKey {
            project: Some(ProjectName::new("p").unwrap()),
            namespace: HUB_NAMESPACE.to_owned(),
            name: NAME.to_owned(),
        };
        let context = ReconcileContext::new(clock, None);
        self.controller.reconcile(&context, key).await
    }

    /// Looks for claims that were left in the project.
    async fn sweep(&self) -> Outcome {
        let key = LedgerKey(ProjectName::new("p").unwrap());
        let context = ReconcileContext::new(now, None);
        let outcome = self.sweeper.reconcile(&context, key).await.unwrap();
        settle().await;
        outcome
    }

    fn writes(&self) -> Vec<String> {
        take_writes(&[&self.project, &self.planes.cell])
    }

    fn instance(&self) -> Option<Instance> {
        self.planes.cell.get(HUB_NAMESPACE, NAME)
    }

    fn gates(&self) -> Vec<String> {
        let controller = self.instance().unwrap().spec.controller.unwrap();
        let gates = controller.scheduling_gates.into_iter();
        gates.map(|gate| gate.name).collect()
    }

    /// Returns the status and the reason of the condition.
    fn condition(&self) -> Option<(ConditionStatus, String)> {
        let status = self.instance()?.status?;
        let granted = condition::find(&status.conditions, QUOTA_GRANTED)?;
        Some((granted.status, granted.reason.clone()))
    }

    fn claim(&self) -> Option<ResourceClaim> {
        self.project.get("default", CLAIM)
    }

    /// Decides about a claim, as the quota system does.
    fn decide(&self, name: &str, status: &str, reason: &str, allocations: &[&str]) {
        let allocations: Vec<_> = allocations
            .iter()
            .map(|status| json!({"resourceType": status, "status": status}))
            .collect();
        let status = json!({"allocations": allocations, "conditions": [{
            "type": "Granted", "status": status, "reason": reason, "message": "told",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }]});
        self.project
            .modify::<ResourceClaim>("default", name, |claim| claim["status"] = status);
    }

    fn grant(&self, name: &str) {
        self.decide(name, "True", "QuotaAvailable", &["Granted"]);
    }

    async fn delete_instance(&self) {
        let metadata = self.instance().unwrap();
        self.planes.cell.put(terminating_json(json!(metadata)));
        settle().await;
        self.writes();
    }
}

/// I-30: a gate opens only after its condition is stored.
#[tokio::test(start_paused = true)]
async fn a_grant_costs_three_writes_and_then_none() {
    let system = System::start(new_instance()).await;
    assert_eq!(
        system.reconcile().await,
        Outcome::Again(Duration::from_secs(1))
    );
    assert_eq!(system.writes(), [CREATE]);
    assert_eq!(system.gates(), ["Network", "Quota"]);
    system.grant(CLAIM);
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert_eq!(system.writes(), [CONDITION, INSTANCE]);
    let granted = (ConditionStatus::True, "QuotaAvailable".to_owned());
    assert_eq!(system.condition(), Some(granted));
    assert_eq!(system.gates(), ["Network"]);
    for _ in 0..3 {
        assert_eq!(system.reconcile().await, Outcome::Settled);
    }
    assert_eq!(system.writes(), [""; 0]);
    let claim = system.claim().unwrap();
    assert_eq!(claim.labels()[labels::SOURCE_CLUSTER], "dfw1");
    assert_eq!(claim.spec.consumer_ref.unwrap().name, "p");
}

/// An Instance with a closed gate holds nothing while it is suspended. The gate stays closed, and opens soon after.
#[tokio::test(start_paused = true)]
async fn a_suspended_instance_holds_nothing_unless_it_has_run() {
    let set = async |system: &System, suspended: Option<bool>| {
        let cell = &system.planes.cell;
        cell.modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            let status = instance["status"].as_object_mut();
            match (suspended, status) {
                (Some(_), _) => instance["status"]["suspended"] = json!(suspended),
                (None, status) => drop(status.unwrap().remove("suspended")),
            }
        });
        settle().await;
    };
    for watches_quota in [false, true] {
        let system = System::start_watched(new_instance(), true, watches_quota).await;
        set(&system, Some(true)).await;
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.writes(), [""; 0]);
        set(&system, None).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [CREATE]);
        // The grant arrives during a suspension.
        set(&system, Some(true)).await;
        system.grant(CLAIM);
        settle().await;
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.writes(), [DELETE]);
        assert_eq!(system.gates(), ["Network", "Quota"]);
        // While the watch shows that there is no claim, the project is not asked.
        let requests = system.project.requests();
        assert_eq!(system.reconcile().await, Outcome::Settled);
        assert_eq!(system.project.requests() == requests, watches_quota);
        set(&system, None).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [CREATE]);
        system.grant(CLAIM);
        settle().await;
        system.reconcile().await;
        assert_eq!(system.writes(), [CONDITION, INSTANCE]);
        assert_eq!(system.gates(), ["Network"]);
        set(&system, Some(true)).await;
        system.reconcile().await;
        assert_eq!(system.writes(), [""; 0]);
        assert!(system.claim().is_some());
    }
}

/// I-31: the suspension ends before the watch reports that the claim was deleted.
#[tokio::test(start_paused = true)]
async fn a_gate_does_not_open_with_a_claim_that_was_just_deleted() {
    let system = System::start_watched(new_instance(), true, true).await;
    system.reconcile().await;
    let suspend = async |suspended: bool| {
        let cell = &system.planes.cell;
        cell.modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["status"]["suspended"] = json!(suspended);
        });
        settle().await;
    };
    suspend(true).await;
    system.grant(CLAIM);
    settle().await;
    let granted = json!(system.claim().unwrap());
    system.writes();
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE]);
    // The watch still shows the claim that no read finds.
    system.project.put(granted);
    system.project.fail(Fault::absent::<ResourceClaim>(CLAIM));
    suspend(false).await;
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network", "Quota"]);
    system.project.heal();
    system.project.remove::<ResourceClaim>("default", CLAIM);
    settle().await;
    system.writes();
    system.reconcile().await;
    assert_eq!(system.writes(), [CREATE]);
    system.grant(CLAIM);
    settle().await;
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network"]);
}

/// The write of the condition succeeds, and the process dies before the gate is opened.
#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_stored_keeps_the_gate_closed() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.planes.cell.fail(
        Fault::refuse(500)
            .on_writes()
            .part(apiserver::ObjectPart::Status)
            .times(1),
    );
    system.try_reconcile_at(now).await.unwrap_err();
    assert_eq!(system.gates(), ["Network", "Quota"]);
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network"]);
}

#[tokio::test(start_paused = true)]
async fn a_denied_instance_holds_nothing_and_is_tried_again() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.decide(CLAIM, "False", "QuotaExceeded", &["Granted", "Denied"]);
    system.writes();
    assert_eq!(
        system.reconcile().await,
        Outcome::Again(Duration::from_secs(15))
    );
    assert_eq!(system.writes(), [DELETE, CONDITION]);
    let denied = Some((ConditionStatus::False, "QuotaExceeded".to_owned()));
    assert_eq!(system.condition(), denied);
    assert!(system.claim().is_none());
    // An event of the Instance does not lead to another try.
    assert_eq!(
        system.reconcile().await,
        Outcome::Again(Duration::from_secs(15))
    );
    assert_eq!(system.writes(), [""; 0]);
    let later: Clock = || now() + SignedDuration::from_secs(15);
    system.reconcile_at(later).await;
    assert_eq!(system.writes(), [CREATE]);
    assert_eq!(system.condition(), denied);
    system.grant(CLAIM);
    system.reconcile_at(later).await;
    assert_eq!(system.writes(), [CONDITION, INSTANCE]);
    assert_eq!(system.gates(), ["Network"]);
}

/// The parts would be missing elsewhere, for as long as the status cannot be written.
#[tokio::test(start_paused = true)]
async fn a_denied_instance_holds_nothing_although_its_status_is_refused() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    let refused = Fault::refuse(403).on_writes();
    let cell = &system.planes.cell;
    cell.fail(refused.part(apiserver::ObjectPart::Status));
    system.decide(CLAIM, "False", "QuotaExceeded", &["Granted", "Denied"]);
    system.writes();
    system.try_reconcile_at(now).await.unwrap_err();
    assert_eq!(system.writes(), [DELETE, CONDITION]);
    // The interval of a denied claim counts nevertheless.
    let interval = Outcome::Again(Duration::from_secs(15));
    assert_eq!(system.reconcile().await, interval);
    let later: Clock = || now() + SignedDuration::from_secs(15);
    // The project's clock is behind, so the new claim is shown at once.
    system.try_reconcile_at(later).await.unwrap_err();
    assert_eq!(system.writes(), [CREATE, CONDITION]);
}

/// Returns the quota that the project has left.
fn bucket(resource: &str, available: i64) -> Value {
    json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "AllowanceBucket",
        "metadata": {"name": resource, "namespace": "milo-system", "uid": resource},
        "spec": {"resourceType": resource, "consumerRef": {"kind": "Project", "name": "p"}},
        "status": {"available": available},
    })
}

/// Many Instances that wait do not keep the project busy.
#[tokio::test(start_paused = true)]
async fn an_undecided_claim_is_read_rarely_while_it_is_watched() {
    let later: Clock = || now() + SignedDuration::from_secs(3);
    for (watches_quota, seconds) in [(false, 1), (true, 15)] {
        let system = System::start_watched(new_instance(), true, watches_quota).await;
        system.reconcile().await;
        settle().await;
        let wait = Outcome::Again(Duration::from_secs(seconds));
        assert_eq!(system.reconcile_at(later).await, wait);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_the_watch_shows_needs_no_request_to_the_project() {
    let system = System::start_watched(new_instance(), true, true).await;
    system.reconcile().await;
    system.grant(CLAIM);
    settle().await;
    system.writes();
    let requests = system.project.requests();
    system.reconcile().await;
    assert_eq!(system.writes(), [CONDITION, INSTANCE]);
    assert_eq!(system.project.requests(), requests);
}

/// A claim of the Go manager does not say for which Instance it was made, and the watch can be behind.
#[tokio::test(start_paused = true)]
async fn a_watched_claim_without_a_uid_is_read_before_the_gate_opens() {
    let system = System::start_watched(new_instance(), true, true).await;
    system.reconcile().await;
    system
        .project
        .modify::<ResourceClaim>("default", CLAIM, |claim| {
            claim["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: NAME});
        });
    system.grant(CLAIM);
    settle().await;
    let requests = system.project.requests();
    system.reconcile().await;
    // The claim is read, and written to.
    assert_eq!(system.project.requests(), requests + 2);
    assert_eq!(system.gates(), ["Network"]);
    let uid = api::annotations::INSTANCE_UID;
    assert_eq!(system.claim().unwrap().annotations()[uid], "web-0-uid");
}

#[tokio::test(start_paused = true)]
async fn a_denied_instance_is_tried_again_as_soon_as_the_project_has_room() {
    let system = System::start_watched(new_instance(), true, true).await;
    system.project.put(objects::namespace("milo-system", "2"));
    let requests = amounts::requests(&system.instance().unwrap().spec);
    let offer = |more: i64| {
        for request in &requests {
            let resource = request.resource_type.replace('/', ".");
            let mut bucket = bucket(&request.resource_type, request.amount + more);
            bucket["metadata"]["name"] = json!(resource);
            system.project.put(bucket);
        }
    };
    offer(-1);
    system.reconcile().await;
    system.decide(CLAIM, "False", "QuotaExceeded", &["Denied"]);
    let interval = Outcome::Again(Duration::from_secs(15));
    assert_eq!(system.reconcile().await, interval);
    // The buckets are watched from now on.
    assert_eq!(system.reconcile().await, interval);
    system.writes();
    // A change that gives no room costs no request: all Instances of the project are called.
    offer(-2);
    settle().await;
    system.project.fail(Fault::hang());
    assert_eq!(system.reconcile().await, interval);
    system.project.heal();
    offer(0);
    settle().await;
    let a_part = Outcome::Again(Duration::from_secs(15) / 8);
    assert_eq!(system.reconcile().await, a_part);
    let later: Clock = || now() + SignedDuration::from_secs(2);
    system.reconcile_at(later).await;
    assert_eq!(system.writes(), [DELETE, CREATE]);
    system.grant(CLAIM);
    // The watch shows the grant.
    settle().await;
    system.reconcile_at(later).await;
    assert_eq!(system.gates(), ["Network"]);
    // No Instance waits, so the watch has ended.
    let ledger = system.controller.ledgers.as_ref().unwrap();
    let ledger = ledger.used(&ProjectName::new("p").unwrap()).unwrap();
    assert!(!ledger.follows_room());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_size_is_made_anew_before_the_gate_opens() {
    let system = System::start(new_instance()).await;
    let mut larger = claim_of(CLAIM, "dfw1");
    larger["spec"]["requests"] =
        json!([{"resourceType": "compute.datumapis.com/instances", "amount": 2}]);
    larger["metadata"]["annotations"] = json!({api::annotations::INSTANCE_NAME: NAME});
    system.project.put(larger);
    system.grant(CLAIM);
    system.reconcile().await;
    assert_eq!(system.writes(), [DELETE, CREATE]);
    assert_eq!(system.gates(), ["Network", "Quota"]);
    system.grant(CLAIM);
    system.reconcile().await;
    assert_eq!(system.gates(), ["Network"]);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_keeps_the_gate_closed() {
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::disconnect());
    let later: Clock = || now() + SignedDuration::from_secs(10);
    assert_eq!(
        system.reconcile_at(later).await,
        Outcome::Again(Duration::from_secs(1))
    );
    let away = Some((ConditionStatus::False, "QuotaBackendUnavailable".to_owned()));
    assert_eq!(system.condition(), away);
    assert_eq!(system.writes(), [CONDITION]);
    system.reconcile_at(later).await;
    assert_eq!(system.writes(), [""; 0]);
    system.project.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    system.reconcile_at(later).await;
    system.grant(CLAIM);
    system.reconcile_at(later).await;
    assert_eq!(system.gates(), ["Network"]);
    // An Instance that has quota keeps it.
    system.writes();
    system.project.fail(Fault::refuse(403));
    let again = Outcome::Again(Duration::from_secs(15));
    assert_eq!(system.reconcile().await, again);
    assert_eq!(system.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_shown() {
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::refuse(403).on_writes());
    system.reconcile().await;
    let refused = Some((ConditionStatus::False, "QuotaMisconfigured".to_owned()));
    assert_eq!(system.condition(), refused);
    assert_eq!(system.gates(), ["Network", "Quota"]);
}

/// A gateway may put the number of the request into its text. Each text that is written would cause the next attempt.
#[tokio::test(start_paused = true)]
async fn a_text_that_changes_with_each_refusal_is_shown_once_a_minute() {
    let system = System::start(new_instance()).await;
    let mut writes = Vec::new();
    for request in 0..5 {
        let status = Status::failure(&format!("request {request} is refused"), "Forbidden");
        let body = json!(status.with_code(403)).to_string();
        system.project.heal();
        system.project.fail(Fault::answer(403, body));
        system.reconcile().await;
        writes.extend(system.writes());
    }
    assert_eq!(writes, [CONDITION]);
}

/// Milo's admission may fail while reads are answered.
#[tokio::test(start_paused = true)]
async fn writes_that_are_not_answered_are_tried_ever_more_rarely() {
    let system = System::start(new_instance()).await;
    system.project.fail(Fault::webhook_down().on_writes());
    let mut waits = Vec::new();
    for _ in 0..5 {
        let Outcome::Again(wait) = system.reconcile().await else {
            panic!("it settles");
        };
        waits.push(wait.as_secs());
        tokio::time::sleep(wait).await;
    }
    assert_eq!(waits, [1, 2, 4, 8, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_deleted_by_hand_is_made_again() {
    let system = System::start(new_instance()).await;
    system.reconcile().await;
    system.grant(CLAIM);
    system.reconcile().await;
    system.writes();
    system.project.remove::<ResourceClaim>("default", CLAIM);
    system.reconcile().await;
    assert_eq!(system.writes(), [CREATE]);
    system.grant(CLAIM);
    system.reconcile().await;
    assert_eq!(system.writes(), [""; 0]);
    // The quota system revokes the grant. The machine goes on.
    system.decide(CLAIM, "False", "QuotaExceeded", &[]);
    system.reconcile().await;
    assert_eq!(system.writes(), [CONDITION]);
    assert_eq!(system.gates(), ["Network"]);
}

#[tokio::test(start_paused = true)]
async fn without_enforcement_a_gate_is_opened_and_nothing_is_claimed() {
    let system = System::start_with(new_instance(), false).await;
    // Without enforcement, no Namespaces are watched, so no key has a project. The fixture watches them.
    system.reconcile().await;
    assert_eq!(system.writes(), [CONDITION, INSTANCE]);
    let disabled = Some((ConditionStatus::True, "QuotaDisabled".to_owned()));
    assert_eq!(system.condition(), disabled);
    system.reconcile().await;
    assert_eq!(system.writes(), [""; 0]);
    assert_eq!(system.project.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_gate_and_finalizer_is_left_alone() {
    let system = System::start(json!(instance(HUB_NAMESPACE, NAME))).await;
    assert_eq!(system.reconcile().await, Outcome::Settled);
    assert_eq!(system.project.requests(), 0);
    assert_eq!(system.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_a_project_is_shown() {
    let system = System::start(new_instance()).await;
    system
        .planes
        .cell
        .modify::<crate::objects::Namespace>("", HUB_NAMESPACE, |namespace| {
            namespace["metadata"]["labels"] = json!({});
        });
    settle().await;
    // The key with the project is dropped. The event of the Namespace has added the other one.
    assert_eq!(system.reconcile().await, Outcome::Gone);
    let key = ClaimKey {
        project: None,
        namespace: HUB_NAMESPACE.to_owned(),
        name: NAME.to_owned(),
    };
    // The watch of Namespaces can be behind.
    let context = ReconcileContext::new(now, None);
    let outcome = system.controller.reconcile(&context, key.clone()).await;
    assert_eq!(outcome.unwrap(), Outcome::Again(Duration::from_secs(1)));
    assert_eq!(system.condition(), None);
    let later: Clock = || now() + SignedDuration::from_secs(2);
    let context = ReconcileContext::new(later, None);
    system.controller.reconcile(&context, key).await.unwrap();
    let unknown = Some((
        ConditionStatus::False,
        "QuotaProjectIDUnresolvable".to_owned(),
    ));
    assert_eq!(system.condition(), unknown);
}
