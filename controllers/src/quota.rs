//! Claims quota for the Instances of a cell, and opens their gate `Quota` (docs/concepts/flow.md#quota).
//!
//! The quota of a project is in the control plane of the project. The Instance is in the cell. `ledger` sends all
//! requests to projects, and `plan` decides.

mod amounts;
mod claim;
mod ledger;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::identity::IdentityError;
use api::instance::QUOTA_GATE;
use api::{Instance, finalizers};
use jiff::Timestamp;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use kube::{Resource, ResourceExt};
use multicluster::queue::Limits;
use multicluster::{Metrics, Outcome};
use serde_json::json;
use tracing::{info, warn};

use crate::cell::CellCaches;
use crate::hub::upstream::Upstream;
use crate::objects::{StringMap, is_terminating};
use crate::runtime::keys::ClaimKey;
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use claim::Claimant;
pub use ledger::ConnectLedger;
use ledger::{FoundClaim, Ledgers, ProjectLedger};
use plan::{
    ClaimProof, Ledger, LedgerProblem, Observed, Plan, QuotaStep, end, gate_position, is_managed,
    plan, waiting_since,
};
use waiting::WaitingInstances;

/// The most steps of one reconciliation. An Instance needs fewer. The limit ends a loop that two writers of one field
/// would cause.
const STEPS_MAX: usize = 8;
/// The wait after [`STEPS_MAX`].
const DISPUTED: Duration = Duration::from_mins(1);
/// The list of gates in an Instance.
const GATES: &str = "/spec/controller/schedulingGates";

/// An Instance with only its metadata.
type PartialInstance = PartialObjectMeta<Instance>;

pub(crate) struct QuotaController {
    cell: Arc<CellCaches>,
    writer: Writer,
    /// `None` if the cell does not enforce quota.
    ledgers: Option<Ledgers>,
    /// When a claim was last made for each Instance whose claim was denied.
    tries: Mutex<HashMap<ClaimKey, Timestamp>>,
    waiting: WaitingInstances,
}

/// The claim of an Instance, and what is needed to change it.
struct ClaimAccess {
    ledger: Ledger,
    target: Option<ClaimTarget>,
}

/// Where the claim of an Instance is.
struct ClaimTarget {
    project: Arc<ProjectLedger>,
    upstream: Upstream,
    /// The name of a new claim.
    free_name: String,
}

impl Controller for QuotaController {
    const NAME: &'static str = "quota";
    type Key = ClaimKey;
    /// A project may be far away, so a reconciliation mostly waits.
    const LIMITS: Limits = Limits {
        per_tenant: 16,
        ..Limits::DEFAULT
    };

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ClaimKey,
    ) -> Result<Outcome, ReconcileError> {
        // The Namespace names another project now. Its event has added the right key.
        if self.cell.project_of(&key.namespace) != key.project {
            self.forget(&key);
            return Ok(Outcome::Gone);
        }
        if let Some(instance) = self.terminating(&key) {
            self.waiting.note(&key, None, context.now());
            return self.release(context, &key, instance).await;
        }
        let Some(instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
            self.forget(&key);
            return Ok(Outcome::Gone);
        };
        self.claim(context, &key, instance).await
    }
}

impl QuotaController {
    /// Makes the controller. `connect` is `None` if the cell does not enforce quota.
    pub(crate) fn new(
        cell: Arc<CellCaches>,
        connect: Option<ConnectLedger>,
        metrics: &Metrics,
    ) -> Self {
        metrics.quota_enforced(connect.is_some());
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            ledgers: connect.map(Ledgers::new),
            tries: Mutex::default(),
            waiting: WaitingInstances::new(metrics),
        }
    }

    /// Takes all steps of an Instance that are possible now.
    async fn claim(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: Arc<Instance>,
    ) -> Result<Outcome, ReconcileError> {
        if !is_managed(&instance) {
            return Ok(Outcome::Settled);
        }
        let mut access = self.look(key).await;
        self.note_try(key, &access.ledger);
        // The Instance may have changed during the requests to the project.
        let Some(mut instance) = self.newest(key, &instance)? else {
            return Ok(Outcome::Settled);
        };
        for _ in 0..STEPS_MAX {
            let requests = amounts::requests(&instance.spec);
            let plan = plan(&Observed {
                instance: &instance,
                ledger: &access.ledger,
                requests: &requests,
                last_try: self.last_try(key),
                now: context.now(),
            });
            self.waiting
                .note(key, waiting_since(&instance), context.now());
            let Plan { step, look_again } = plan;
            match step {
                None => return Ok(look_again.map_or(Outcome::Settled, Outcome::Again)),
                Some(QuotaStep::CreateClaim) => {
                    self.create(context, key, &mut access, &requests).await;
                    match self.newest(key, &instance)? {
                        Some(newest) => instance = newest,
                        None => return Ok(Outcome::Settled),
                    }
                }
                Some(QuotaStep::DeleteClaim) => self.delete(context, key, &mut access).await,
                Some(step) => match self.write(context, &instance, step).await? {
                    Some(written) => instance = Arc::new(written),
                    None => return Ok(Outcome::Settled),
                },
            }
        }
        warn!(?key, "the quota of the Instance does not settle");
        Ok(Outcome::Again(DISPUTED))
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
                let Some(position) = gate_position(instance) else {
                    return Ok(None);
                };
                self.writer
                    .remove_item(context, &instances, instance, (GATES, position, QUOTA_GATE))
                    .await?
            }
            QuotaStep::CreateClaim | QuotaStep::DeleteClaim | QuotaStep::Release(_) => {
                return Ok(None);
            }
        };
        Ok(Some(written))
    }

    /// Deletes the claim of a terminating Instance and removes the finalizer.
    async fn release(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: PartialInstance,
    ) -> Result<Outcome, ReconcileError> {
        if end(instance.meta(), &Ledger::Known(None), context.now())
            .step
            .is_none()
        {
            return Ok(Outcome::Settled);
        }
        for _ in 0..STEPS_MAX {
            let mut access = self.look(key).await;
            let Plan { step, look_again } = end(instance.meta(), &access.ledger, context.now());
            let proof = match step {
                Some(QuotaStep::Release(proof)) => proof,
                Some(QuotaStep::DeleteClaim) => {
                    self.delete(context, key, &mut access).await;
                    if let Ledger::Failed(problem) = &access.ledger {
                        info!(?key, problem = problem.message, "the claim is not deleted");
                        let plan = end(instance.meta(), &access.ledger, context.now());
                        if let Some(wait) = plan.look_again {
                            return Ok(Outcome::Again(wait));
                        }
                    }
                    // The Instance can have a claim of the Go manager too.
                    continue;
                }
                _ => return Ok(look_again.map_or(Outcome::Settled, Outcome::Again)),
            };
            if proof == ClaimProof::None {
                warn!(
                    ?key,
                    "the Instance ends, but its ResourceClaim may stay: the quota system has not answered"
                );
            }
            // Other finalizers may have been removed during the requests to the project.
            let newest = self.terminating(key);
            let newest = newest.filter(|newest| newest.uid() == instance.uid());
            let Some(newest) = newest else {
                return Ok(Outcome::Settled);
            };
            let instances = Collection::new(&self.cell.client, &key.namespace, None);
            self.writer
                .remove_finalizer(context, &instances, &newest, finalizers::QUOTA_CLAIM)
                .await?;
            return Ok(Outcome::Settled);
        }
        Ok(Outcome::Again(DISPUTED))
    }

    /// Reads the claim of an Instance.
    async fn look(&self, key: &ClaimKey) -> ClaimAccess {
        let without = |ledger| ClaimAccess {
            ledger,
            target: None,
        };
        let Some(ledgers) = &self.ledgers else {
            return without(Ledger::Disabled);
        };
        let upstream = match self.upstream(&key.namespace) {
            Ok(upstream) => upstream,
            Err(problem) => return without(Ledger::Unidentified(problem)),
        };
        let project = match ledgers.of(&upstream.project) {
            Ok(project) => project,
            Err(problem) => return without(Ledger::Failed(problem)),
        };
        match project.find(&self.claimant(key), &upstream).await {
            Ok(FoundClaim { claim, free_name }) => ClaimAccess {
                ledger: Ledger::Known(claim.map(Box::new)),
                target: Some(ClaimTarget {
                    project,
                    upstream,
                    free_name,
                }),
            },
            Err(problem) => without(Ledger::Failed(problem)),
        }
    }

    async fn create(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        access: &mut ClaimAccess,
        requests: &[api::quota::ResourceRequest],
    ) {
        let Some(target) = &access.target else {
            return;
        };
        self.tries().insert(key.clone(), context.now());
        let created = target
            .project
            .create(
                &self.writer,
                context,
                (&target.free_name, &self.claimant(key)),
                &target.upstream,
                requests,
            )
            .await;
        access.ledger = known(created.map(|claim| Some(Box::new(claim))));
    }

    /// Deletes the claim that was found.
    async fn delete(&self, context: &ReconcileContext, key: &ClaimKey, access: &mut ClaimAccess) {
        let (Some(target), Ledger::Known(Some(claim))) = (&access.target, &access.ledger) else {
            return;
        };
        let deleted = target
            .project
            .delete(&self.writer, context, &target.upstream, claim)
            .await;
        info!(?key, claim = claim.name_any(), "claim deleted");
        access.ledger = known(deleted.map(|()| None));
    }

    fn claimant<'k>(&'k self, key: &'k ClaimKey) -> Claimant<'k> {
        Claimant {
            cell: &self.cell.name,
            namespace: &key.namespace,
            name: &key.name,
        }
    }

    /// Returns the project's namespace that a Namespace of the cell belongs to, or a sentence about why it is unknown.
    fn upstream(&self, namespace: &str) -> Result<Upstream, String> {
        let metadata = self.cell.namespaces.metadata_of("", namespace);
        let metadata = metadata.unwrap_or_default();
        Upstream::of(&metadata).map_err(|error: IdentityError| {
            format!("Namespace {namespace} does not identify its project: {error}")
        })
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

    /// Returns the newest metadata of an Instance, if it is terminating.
    fn terminating(&self, key: &ClaimKey) -> Option<PartialInstance> {
        let metadata = self.cell.instances.metadata_of(&key.namespace, &key.name)?;
        let instance: PartialInstance = metadata.into_response_partial();
        is_terminating(&instance).then_some(instance)
    }

    /// Records when a claim was made that this process has not made itself.
    fn note_try(&self, key: &ClaimKey, ledger: &Ledger) {
        if let Ledger::Known(Some(claim)) = ledger
            && let Some(created) = &claim.metadata.creation_timestamp
        {
            self.tries().entry(key.clone()).or_insert(created.0);
        }
    }

    fn last_try(&self, key: &ClaimKey) -> Option<Timestamp> {
        self.tries().get(key).copied()
    }

    fn tries(&self) -> std::sync::MutexGuard<'_, HashMap<ClaimKey, Timestamp>> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets an Instance that is gone, and the client of its project if it was the last one.
    fn forget(&self, key: &ClaimKey) {
        self.tries().remove(key);
        self.waiting.forget(key);
        if let (Some(ledgers), Some(project)) = (&self.ledgers, &key.project)
            && !self.cell.has_instances_of(project)
        {
            ledgers.forget(project);
        }
    }
}

fn known(answer: Result<Option<Box<api::quota::ResourceClaim>>, LedgerProblem>) -> Ledger {
    match answer {
        Ok(claim) => Ledger::Known(claim),
        Err(problem) => Ledger::Failed(problem),
    }
}
