//! Deletes the claims that Instances of the cell have left in projects (docs/concepts/flow.md#quota).
//!
//! An Instance that ends without proof that its claim is gone is released nevertheless. Before that, its project is
//! recorded in the cell. The record survives the process, and the Namespace of the Instance. The sweeper finds the
//! claims by the label with the name of the cell, and deletes those whose Instances do not exist.

mod plan;
pub(crate) mod record;
pub(crate) mod triggers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{Instance, ProjectName};
use jiff::SignedDuration;
use kube::Resource;
use kube::core::PartialObjectMeta;
use multicluster::{Metrics, Outcome};
use tokio::time::Instant;
use tracing::{info, warn};

use super::handover::Handovers;
use super::ledger::{Ledgers, PartialClaim, ProjectLedger};
use super::plan::intervals::{LATE, SWEPT, interval};
use super::plan::{LedgerProblem, Remedy};
use crate::cell::CellCaches;
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::runtime::error::FirstError;
use crate::runtime::keys::{LedgerKey, ObjectKey};
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{Claimed, Holder, owner, sweep};
use record::LeftClaims;

/// How long the record stays for a project that is gone. Until then, a backup of the project can be restored, and an API
/// server can be the wrong one for a moment.
const PROJECT_GONE: Duration = Duration::from_hours(1);

pub(crate) struct QuotaSweeper {
    cell: Arc<CellCaches>,
    writer: Writer,
    /// `None` if the cell does not enforce quota.
    ledgers: Option<Arc<Ledgers>>,
    left: Arc<LeftClaims>,
    handovers: Arc<Handovers>,
    /// Since when there has been no answer that some project is clean.
    pending: Mutex<HashMap<ProjectName, Instant>>,
}

impl Controller for QuotaSweeper {
    const NAME: &'static str = "quota-sweeper";
    type Key = LedgerKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        LedgerKey(project): LedgerKey,
    ) -> Result<Outcome, ReconcileError> {
        let Some(ledgers) = &self.ledgers else {
            return Ok(Outcome::Settled);
        };
        let ledger = ledgers.used(&project);
        let has_strays = ledger.is_some_and(|ledger| ledger.has_stray_claims(&self.cell));
        if !has_strays && !self.left.has(&project) {
            self.forget(ledgers, &project);
            return Ok(Outcome::Gone);
        }
        let swept = match ledgers.to_sweep(&project) {
            Ok(ledger) => self.sweep(context, &ledger).await?,
            Err(problem) => Err(problem),
        };
        match swept {
            Ok(true) => {}
            Err(problem) if problem.remedy == Remedy::ProjectGone => {
                let (left, writer) = (&self.left, &self.writer);
                let is_over = left.note_clean(context, writer, &project, PROJECT_GONE);
                if !is_over.await? {
                    return Ok(Outcome::Again(self.again(&project, Some(&problem))));
                }
                self.forget(ledgers, &project);
                info!(%project, "the project is gone, and so are the claims that Instances of this cell have left");
                return Ok(Outcome::Gone);
            }
            Ok(false) => return Ok(Outcome::Again(self.again(&project, None))),
            Err(problem) => return Ok(Outcome::Again(self.again(&project, Some(&problem)))),
        }
        lock(&self.pending).remove(&project);
        // A claim can come late, so the record stays until nothing was found twice.
        let (left, writer) = (&self.left, &self.writer);
        if !left.note_clean(context, writer, &project, LATE).await? {
            return Ok(Outcome::Again(LATE));
        }
        self.forget(ledgers, &project);
        info!(%project, "no Instance of this cell has left a claim in the project");
        Ok(Outcome::Gone)
    }
}

impl QuotaSweeper {
    /// Makes the controller. `ledgers` is `None` if the cell does not enforce quota.
    pub(crate) fn new(
        cell: Arc<CellCaches>,
        ledgers: Option<Arc<Ledgers>>,
        left: Arc<LeftClaims>,
        handovers: Arc<Handovers>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            ledgers,
            left,
            handovers,
            pending: Mutex::default(),
        }
    }

    /// Deletes the claims in a project whose Instances are gone. Returns whether there was none, or the first problem.
    async fn sweep(
        &self,
        context: &ReconcileContext,
        ledger: &ProjectLedger,
    ) -> Result<Result<bool, LedgerProblem>, ReconcileError> {
        let mut claims = Vec::new();
        for name in [&self.cell.name].into_iter().chain(&self.cell.former_names) {
            match ledger.claims_of(name).await {
                Ok(listed) => claims.extend(listed),
                Err(problem) => return Ok(Err(problem)),
            }
        }
        let plan = sweep(self.claimed(claims).await?);
        if !plan.is_clean {
            self.left.note_unclean(ledger.project()).await;
        }
        let mut first = None;
        for claim in &plan.delete {
            // Its Instance may exist by now.
            if self.current_holder(claim).await? != Holder::Gone {
                continue;
            }
            let Err(problem) = self.delete(context, ledger, claim).await else {
                continue;
            };
            // The answer is about this claim only, if it is an answer.
            let is_over = matches!(problem.remedy, Remedy::Wait(_) | Remedy::ProjectGone);
            first.get_or_insert(problem);
            if is_over {
                break;
            }
        }
        Ok(first.map_or(Ok(plan.is_clean), Err))
    }

    async fn delete(
        &self,
        context: &ReconcileContext,
        ledger: &ProjectLedger,
        claim: &PartialClaim,
    ) -> Result<(), LedgerProblem> {
        let upstream = Upstream {
            project: ledger.project().clone(),
            namespace: claim.metadata.namespace.clone().unwrap_or_default(),
        };
        ledger
            .delete(&self.writer, context, &upstream, claim)
            .await?;
        let name = claim.metadata.name.as_deref();
        info!(%upstream, name, "claim of an Instance that is gone deleted");
        Ok(())
    }

    /// Returns the claims that are for an Instance of the cell, with what is known of it.
    async fn claimed(
        &self,
        claims: Vec<PartialClaim>,
    ) -> Result<Vec<Claimed<PartialClaim>>, ReconcileError> {
        let mut claimed = Vec::with_capacity(claims.len());
        for claim in claims {
            let Some(key) = owner(claim.meta()) else {
                continue;
            };
            let holder = match self.cell.instances.metadata_of(&key.namespace, &key.name) {
                Some(instance) => self.or_successor(&key, Holder::of(&instance)),
                // The cache of Instances may be behind.
                None => self.read_holder(&key).await?,
            };
            claimed.push(Claimed { claim, holder });
        }
        Ok(claimed)
    }

    /// Asks the cell for the Instance of a claim.
    ///
    /// # Errors
    ///
    /// [`ReconcileError`] if no further Instance can be asked for at present.
    async fn current_holder(&self, claim: &PartialClaim) -> Result<Holder, ReconcileError> {
        match owner(claim.meta()) {
            Some(key) => self.read_holder(&key).await,
            None => Ok(Holder::Unknown),
        }
    }

    async fn read_holder(&self, key: &ObjectKey) -> Result<Holder, ReconcileError> {
        let instances =
            Collection::<PartialObjectMeta<Instance>>::new(&self.cell.client, &key.namespace, None);
        match instances.read(&key.name).await {
            Ok(instance) => {
                let holder = instance.map_or(Holder::Gone, |it| Holder::of(&it.metadata));
                Ok(self.or_successor(key, holder))
            }
            Err(error) => {
                let mut errors = FirstError::default();
                warn!(?key, %error, "it is not known whether the Instance of a claim exists");
                errors.note(Err::<(), _>(error));
                match errors.must_wait() {
                    true => errors.result().map(|()| Holder::Unknown),
                    false => Ok(Holder::Unknown),
                }
            }
        }
    }

    /// Returns what is known of an Instance, or of its successor that takes over its claim.
    fn or_successor(&self, key: &ObjectKey, holder: Holder) -> Holder {
        match holder == Holder::Gone && self.handovers.waits(key, None).is_some() {
            true => Holder::Ends,
            false => holder,
        }
    }

    /// Returns when a project that is not known to be clean is asked again.
    fn again(&self, project: &ProjectName, problem: Option<&LedgerProblem>) -> Duration {
        let mut pending = lock(&self.pending);
        if !pending.contains_key(project)
            && let Some(LedgerProblem { message, .. }) = problem
        {
            info!(%project, message, "claims that Instances have left cannot be looked for");
        }
        let since = pending.entry(project.clone()).or_insert_with(Instant::now);
        let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        interval(SWEPT, passed)
    }

    /// Drops the client of a project that has no Instance in this cell.
    fn forget(&self, ledgers: &Ledgers, project: &ProjectName) {
        lock(&self.pending).remove(project);
        if !self.cell.has_instances_of(project) {
            ledgers.forget(project);
        }
    }
}
