//! Claims quota for the Instances of a cell, and opens their gate `Quota` (docs/concepts/flow.md#quota).
//!
//! The quota of a project is in the control plane of the project. The Instance is in the cell. `ledger` sends all
//! requests to projects, and `plan` decides.

mod access;
mod amounts;
mod bounded;
mod claim;
mod handover;
mod ledger;
mod plan;
#[cfg(test)]
mod reconcile_tests;
mod release;
mod replacement;
pub(crate) mod sweeper;
pub(crate) mod triggers;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use api::quota::{ResourceClaim, ResourceRequest};
use api::{Instance, finalizers};
use jiff::Timestamp;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use kube::{Resource, ResourceExt};
use multicluster::queue::Limits;
use multicluster::{Metrics, Outcome};
use serde_json::json;
use tracing::warn;

use crate::cell::CellCaches;
use crate::gate;
use crate::lock::lock;
use crate::objects::{StringMap, has_finalizer, is_terminating};
use crate::runtime::keys::ClaimKey;
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use crate::waiting::WaitingInstances;
pub(crate) use claim::is_stray;
pub(crate) use handover::Handovers;
pub use ledger::ConnectLedger;
pub(crate) use ledger::{Ledgers, QuotaWatches};
use plan::{
    Ledger, Observed, Plan, QuotaStep, Try, fits, holds_denied_part, is_denied, is_denied_claim,
    is_granted, is_managed, is_of_another, is_pending, is_put_off, is_settled, plan, waiting_since,
};
pub(crate) use replacement::{Held, ReplacementQuota, asked_again};
use sweeper::record::LeftClaims;

/// The most steps of one reconciliation. An Instance needs fewer. The limit ends a loop that two writers of one field
/// would cause.
const STEPS_MAX: usize = 8;
/// The wait after [`STEPS_MAX`].
const DISPUTED: Duration = Duration::from_mins(1);

/// An Instance with only its metadata.
type PartialInstance = PartialObjectMeta<Instance>;

pub(crate) struct QuotaController {
    cell: Arc<CellCaches>,
    writer: Writer,
    /// `None` if the cell does not enforce quota.
    ledgers: Option<Arc<Ledgers>>,
    /// When this process began. A former process can have made claims without an answer until then.
    began: OnceLock<Timestamp>,
    /// When a claim was last made for each Instance whose claim was denied.
    tries: Mutex<HashMap<ClaimKey, Try>>,
    /// The Instances that had a claim that this process has deleted. The watch may still show it.
    deleted: Mutex<HashSet<ClaimKey>>,
    /// The terminating Instances whose machine could still run, and since when their claim may end.
    ending: Mutex<HashMap<ClaimKey, Option<Timestamp>>>,
    left: Arc<LeftClaims>,
    handovers: Arc<Handovers>,
    waiting: WaitingInstances<ClaimKey>,
}

impl Controller for QuotaController {
    const NAME: &'static str = "quota";
    type Key = ClaimKey;
    /// A project may be far away, so a reconciliation mostly waits. One project leaves half of the places to the others.
    const LIMITS: Limits = Limits {
        per_tenant: 32,
        ..Limits::DEFAULT
    };

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ClaimKey,
    ) -> Result<Outcome, ReconcileError> {
        self.began.get_or_init(|| context.now());
        // The Namespace names another project now. Its event has added the right key.
        if self.cell.project_of(&key.namespace) != key.project {
            self.forget(&key);
            return Ok(Outcome::Gone);
        }
        if let Some(instance) = self.terminating(&key) {
            self.note_waiting(&key, None);
            return self.release(context, &key, instance).await;
        }
        lock(&self.ending).remove(&key);
        let Some(instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
            return self.clean(context, &key).await;
        };
        self.claim(context, &key, instance).await
    }
}

impl QuotaController {
    /// Makes the controller. `ledgers` is `None` if the cell does not enforce quota.
    pub(crate) fn new(
        cell: Arc<CellCaches>,
        ledgers: Option<Arc<Ledgers>>,
        left: Arc<LeftClaims>,
        handovers: Arc<Handovers>,
        metrics: &Metrics,
    ) -> Self {
        metrics.quota_enforced(ledgers.is_some());
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            ledgers,
            began: OnceLock::new(),
            tries: Mutex::default(),
            deleted: Mutex::default(),
            ending: Mutex::default(),
            left,
            handovers,
            waiting: WaitingInstances::new(metrics, Metrics::quota_waiting),
        }
    }

    /// Takes all steps of an Instance that are possible now.
    async fn claim(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: Arc<Instance>,
    ) -> Result<Outcome, ReconcileError> {
        let watched = self.watched_claims(key);
        let is_put_off = is_put_off(&instance);
        let holds_nothing = || {
            !has_finalizer(instance.as_ref(), finalizers::QUOTA_CLAIM)
                || (watched.is_empty() && self.follows_claims(key))
        };
        if !is_managed(&instance) || (is_put_off && holds_nothing()) {
            self.note_waiting(key, None);
            return Ok(Outcome::Settled);
        }
        if is_settled(&instance) && watched.iter().any(|claim| is_granted(claim)) {
            self.note_waiting(key, None);
            return Ok(Outcome::Settled);
        }
        let requests = amounts::requests(&instance.spec);
        if is_denied(&instance)
            && let Some(outcome) = self.wait_for_quota(context, key, &instance, &requests)
        {
            return Ok(outcome);
        }
        // A watch that is behind can show a claim without a UID that was made for a former Instance.
        let is_certain = !is_put_off && !lock(&self.deleted).contains(key);
        let usable = watched
            .into_iter()
            .find(|claim| is_certain && is_granted(claim) && fits(claim, &instance, &requests));
        let mut access = self.look(key, usable).await;
        self.note_try(key, &access.ledger);
        // The Instance may have changed during the requests to the project.
        let Some(mut instance) = self.newest(key, &instance)? else {
            return Ok(Outcome::Settled);
        };
        for _ in 0..STEPS_MAX {
            self.keep_promise(key, &instance, &access.ledger);
            let requests = amounts::requests(&instance.spec);
            if let Ledger::Failed(problem) = &mut access.ledger {
                let text = mem::take(&mut problem.message);
                problem.message =
                    self.writer
                        .shown_refusal(context, instance.as_ref(), problem.reason, text);
            }
            let has_room = is_denied(&instance) && access.has_room(&requests);
            let plan = plan(&Observed {
                instance: &instance,
                ledger: &access.ledger,
                requests: &requests,
                has_room,
                is_renamed: self.is_renamed(&access.ledger),
                is_watched: !self.watched_claims(key).is_empty(),
                last_try: self.last_try(key),
                now: context.now(),
            });
            self.note_waiting(key, waiting_since(&instance));
            let Plan { step, look_again } = plan;
            match step {
                None => return Ok(look_again.map_or(Outcome::Settled, Outcome::Again)),
                Some(QuotaStep::CreateClaim) => {
                    let uid = instance.uid().unwrap_or_default();
                    self.create(context, (key, &uid), &mut access, &requests, has_room)
                        .await;
                    match self.newest(key, &instance)? {
                        Some(newest) => instance = newest,
                        None => return Ok(Outcome::Settled),
                    }
                }
                Some(QuotaStep::AdoptClaim | QuotaStep::DeleteClaim)
                    if is_of_another(&access.ledger, instance.meta())
                        && self
                            .current(key, instance.as_ref())
                            .await?
                            .is_none_or(|it| is_terminating(&it)) =>
                {
                    return Ok(Outcome::Settled);
                }
                Some(QuotaStep::AdoptClaim) => {
                    self.adopt(context, key, &instance, &mut access).await;
                }
                Some(QuotaStep::DeleteClaim) => self.delete(context, key, &mut access).await,
                Some(step) => match self.write(context, &instance, step).await {
                    Ok(Some(written)) => instance = Arc::new(written),
                    Ok(None) => return Ok(Outcome::Settled),
                    Err(error) => {
                        // What the claim holds must not depend on what the Instance shows.
                        if holds_denied_part(&access.ledger) {
                            self.delete(context, key, &mut access).await;
                        }
                        return Err(error);
                    }
                },
            }
        }
        warn!(?key, "the quota of the Instance does not settle");
        Ok(Outcome::Again(DISPUTED))
    }

    /// Returns when to look again for an Instance that was denied, if its claim as the watch shows it needs no change.
    /// Then nothing is read: each change of the quota of a project calls all its Instances.
    fn wait_for_quota(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: &Arc<Instance>,
        requests: &[ResourceRequest],
    ) -> Option<Outcome> {
        let project = self.ledgers.as_ref()?.used(key.project.as_ref()?)?;
        if !project.follows_claims() {
            return None;
        }
        let watched = self.watched_claims(key);
        // A watch can break without a sign, so a claim is read until it is decided.
        if watched.iter().any(|claim| is_pending(claim)) {
            return None;
        }
        let staying = watched.iter().find(|claim| !is_terminating(claim.as_ref()));
        let claim = staying.or_else(|| watched.first());
        let claim = claim.map(|it| Box::new(ResourceClaim::clone(it)));
        let plan = plan(&Observed {
            instance,
            ledger: &Ledger::Known(claim),
            requests,
            has_room: project.has_room(requests),
            is_renamed: false,
            is_watched: !watched.is_empty(),
            last_try: self.last_try(key),
            now: context.now(),
        });
        self.note_waiting(key, waiting_since(instance));
        match plan.step {
            None => Some(plan.look_again.map_or(Outcome::Settled, Outcome::Again)),
            Some(_) => None,
        }
    }

    /// Writes to an Instance, and returns it as it is stored.
    async fn write(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        step: QuotaStep,
    ) -> Result<Option<Instance>, ReconcileError> {
        let namespace = instance.namespace().unwrap_or_default();
        let cell = &self.cell;
        let instances = Collection::new(&cell.client, &namespace, Some(&cell.instances));
        let written = match step {
            QuotaStep::AddFinalizer => {
                let finalizer = finalizers::QUOTA_CLAIM;
                self.writer
                    .add_finalizer(context, &instances, instance, finalizer, &StringMap::new())
                    .await?
            }
            QuotaStep::WriteConditions(conditions) => {
                let status = json!({"conditions": conditions});
                self.writer
                    .patch_status(context, &instances, instance, status)
                    .await?
            }
            QuotaStep::OpenGate => {
                return gate::QUOTA
                    .open(&self.writer, context, &instances, instance)
                    .await;
            }
            QuotaStep::CreateClaim
            | QuotaStep::AdoptClaim
            | QuotaStep::DeleteClaim
            | QuotaStep::Release(_) => return Ok(None),
        };
        Ok(Some(written))
    }

    /// Returns the newest Instance from the cache. Returns `None` if it is gone or terminating, because its event
    /// triggers the next reconciliation.
    fn newest(
        &self,
        key: &ClaimKey,
        instance: &Instance,
    ) -> Result<Option<Arc<Instance>>, ReconcileError> {
        let newest = self.cell.instances.get(&key.namespace, &key.name)?;
        Ok(newest
            .filter(|newest| newest.uid() == instance.uid() && !is_terminating(newest.as_ref())))
    }

    /// Asks the cell for this Instance. Returns `None` if it is not the one of this name any more. A cache that is behind
    /// can have a former one, and the claim can be that of the next one.
    async fn current(
        &self,
        key: &ClaimKey,
        instance: &impl ResourceExt,
    ) -> Result<Option<PartialInstance>, ReconcileError> {
        let instances = Collection::<PartialInstance>::new(&self.cell.client, &key.namespace, None);
        let current = instances.read(&key.name).await?;
        Ok(current.filter(|it| it.uid() == instance.uid()))
    }

    /// Returns the newest metadata of an Instance, if it is terminating.
    fn terminating(&self, key: &ClaimKey) -> Option<PartialInstance> {
        let metadata = self.cell.instances.metadata_of(&key.namespace, &key.name)?;
        let instance: PartialInstance = metadata.into_response_partial();
        is_terminating(&instance).then_some(instance)
    }

    /// Records when a claim was made that this process has not made itself. A former process can have sent another create
    /// until this process began.
    fn note_try(&self, key: &ClaimKey, ledger: &Ledger) {
        if let Ledger::Known(Some(claim)) = ledger
            && let Some(created) = &claim.metadata.creation_timestamp
        {
            let found = Try {
                at: created.0,
                had_room: false,
                unanswered: self.began.get().copied(),
                is_denied: false,
            };
            let mut tries = self.tries();
            let last = tries.entry(key.clone()).or_insert(found);
            last.is_denied = is_denied_claim(claim);
        }
    }

    /// Ends the promise of quota to the replacement of an Instance when this is the new Instance and its claim is decided.
    fn keep_promise(&self, key: &ClaimKey, instance: &Instance, ledger: &Ledger) {
        let ledgers = self.ledgers.as_ref().zip(key.project.as_ref());
        if let Ledger::Known(Some(claim)) = ledger
            && !is_pending(claim)
            && !is_of_another(ledger, instance.meta())
            && let Some((ledgers, project)) = ledgers
            && let Some(project) = ledgers.used(project)
        {
            project.promises().keep(replacement::replaced(instance));
        }
    }

    /// Records that a claim is made now, and that there is no answer yet. Returns when the last earlier create without an
    /// answer can have been sent. Before the first create of this process, this is the beginning of the process.
    fn note_new_try(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        had_room: bool,
    ) -> Option<Timestamp> {
        let at = context.now();
        let new = Try {
            at,
            had_room,
            unanswered: Some(at),
            is_denied: false,
        };
        match self.tries().insert(key.clone(), new) {
            Some(last) => last.unanswered,
            None => self.began.get().copied(),
        }
    }

    /// Returns whether the API server of the project can make a claim later, because a create had no answer. A create of a
    /// former process can have had none too.
    fn may_come_late(&self, context: &ReconcileContext, key: &ClaimKey) -> bool {
        let last = self.last_try(key);
        last.is_none_or(|last| last.may_come_late(context.now()))
    }

    /// Records since when an Instance waits. Without a waiting Instance, it does not matter what quota a project has left.
    fn note_waiting(&self, key: &ClaimKey, since: Option<Timestamp>) {
        self.waiting.note(key, since);
        if let (Some(ledgers), Some(project)) = (&self.ledgers, &key.project)
            && !self
                .waiting
                .has_any(|key| key.project.as_ref() == Some(project))
            && let Some(ledger) = ledgers.used(project)
        {
            ledger.forget_room();
        }
    }

    /// Returns whether the watch shows all claims of the project of an Instance.
    fn follows_claims(&self, key: &ClaimKey) -> bool {
        let ledgers = self.ledgers.as_ref().zip(key.project.as_ref());
        let ledger = ledgers.and_then(|(ledgers, project)| ledgers.used(project));
        ledger.is_some_and(|ledger| ledger.follows_claims())
    }

    fn last_try(&self, key: &ClaimKey) -> Option<Try> {
        self.tries().get(key).copied()
    }

    fn tries(&self) -> MutexGuard<'_, HashMap<ClaimKey, Try>> {
        lock(&self.tries)
    }

    /// Forgets an Instance that is gone, and the client of its project if it was the last one.
    fn forget(&self, key: &ClaimKey) {
        self.tries().remove(key);
        lock(&self.deleted).remove(key);
        lock(&self.ending).remove(key);
        self.handovers.end(&key.object());
        self.waiting.forget(key);
        if let (Some(ledgers), Some(project)) = (&self.ledgers, &key.project)
            && !self.cell.has_instances_of(project)
        {
            ledgers.forget(project);
        }
    }
}
