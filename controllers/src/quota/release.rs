//! Deletes the claims of Instances that end, and of Instances that are gone.
//!
//! Metadata are sufficient for this, so an Instance that cannot be decoded does not block the deletion of its
//! WorkloadDeployment.

use api::finalizers;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use tracing::{info, warn};

use super::plan::ending::{end, is_due};
use super::plan::{ClaimProof, Ledger, Plan, QuotaStep, Remedy, is_of_another};
use super::{DISPUTED, PartialInstance, QuotaController, STEPS_MAX};
use crate::lock::lock;
use crate::objects::{has_finalizer, is_terminating};
use crate::runtime::keys::ClaimKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

impl QuotaController {
    /// Deletes the claim of a terminating Instance and removes the finalizer.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: PartialInstance,
    ) -> Result<Outcome, ReconcileError> {
        if !has_finalizer(&instance, finalizers::QUOTA_CLAIM) {
            return Ok(Outcome::Settled);
        }
        let due_since = self.note_ending(context, key, &instance);
        if !is_due(&instance) {
            return Ok(Outcome::Settled);
        }
        let mut is_disputed = false;
        for _ in 0..STEPS_MAX {
            let mut access = self.look_for_all(key).await;
            self.note_try(key, &access.ledger);
            if is_of_another(&access.ledger, instance.meta())
                && self.current(key, &instance).await?.is_none()
            {
                return Ok(Outcome::Settled);
            }
            // Of several claims, only one would pass on.
            if !access.has_others
                && self.handovers.begin(&key.object(), &access.ledger)
                && let Ok(upstream) = self.upstream(key)
            {
                // The process can end before the next Instance takes over the claim.
                let project = &upstream.project;
                self.left.add(context, &self.writer, project).await?;
                return self.let_go(context, key, &instance).await;
            }
            let Plan { step, look_again } =
                end(&instance, &access.ledger, due_since, context.now());
            let proof = match step {
                Some(QuotaStep::Release(proof)) => proof,
                Some(QuotaStep::DeleteClaim) => {
                    self.delete(context, key, &mut access).await;
                    let Ledger::Failed(problem) = &access.ledger else {
                        // The Instance can have a claim of the Go manager too.
                        continue;
                    };
                    info!(?key, problem = problem.message, "the claim is not deleted");
                    if problem.remedy == Remedy::Repeat && !is_disputed {
                        // The quota system has decided about it meanwhile.
                        is_disputed = true;
                        continue;
                    }
                    let Plan { step, look_again } =
                        end(&instance, &access.ledger, due_since, context.now());
                    match step {
                        Some(QuotaStep::Release(proof)) => proof,
                        _ => return Ok(look_again.map_or(Outcome::Settled, Outcome::Again)),
                    }
                }
                _ => return Ok(look_again.map_or(Outcome::Settled, Outcome::Again)),
            };
            if proof != ClaimProof::NoClaim || self.may_come_late(context, key) {
                self.leave(context, key).await?;
            }
            return self.let_go(context, key, &instance).await;
        }
        Ok(Outcome::Again(DISPUTED))
    }

    /// Removes the finalizer of a terminating Instance.
    async fn let_go(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: &PartialInstance,
    ) -> Result<Outcome, ReconcileError> {
        // Other finalizers may have been removed during the requests to the project.
        let newest = self.terminating(key);
        if let Some(newest) = newest.filter(|newest| newest.uid() == instance.uid()) {
            let instances = Collection::new(&self.cell.client, &key.namespace, None);
            self.writer
                .remove_finalizer(context, &instances, &newest, finalizers::QUOTA_CLAIM)
                .await?;
        }
        Ok(Outcome::Settled)
    }

    /// Returns since when the claim of a terminating Instance may end. Without a former observation of this process,
    /// this is the time of its deletion, so that no restart makes the wait longer.
    fn note_ending(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: &PartialInstance,
    ) -> Option<Timestamp> {
        let mut ending = lock(&self.ending);
        if !is_due(instance) {
            ending.insert(key.clone(), None);
            return None;
        }
        let deleted = instance.metadata.deletion_timestamp.as_ref();
        match ending.get_mut(key) {
            None => deleted.map(|it| it.0),
            Some(since) => Some(*since.get_or_insert_with(|| context.now())),
        }
    }

    /// Records that the claim of an Instance that ends may still exist.
    ///
    /// # Errors
    ///
    /// The errors of [`LeftClaims::add`].
    ///
    /// [`LeftClaims::add`]: super::sweeper::record::LeftClaims::add
    async fn leave(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
    ) -> Result<(), ReconcileError> {
        let upstream = match self.ledgers {
            Some(_) => self.upstream(key),
            None => Err("the cell does not enforce quota".to_owned()),
        };
        match upstream {
            Ok(upstream) => {
                self.left
                    .add(context, &self.writer, &upstream.project)
                    .await?;
                warn!(
                    ?key,
                    "the Instance ends, but its ResourceClaim may still exist: it is deleted when the quota system answers"
                );
            }
            Err(problem) => warn!(
                ?key,
                problem,
                "the Instance ends, but its ResourceClaim may still exist: an operator must delete it"
            ),
        }
        Ok(())
    }

    /// Deletes the claim of an Instance that is gone, if the watch shows it.
    pub(super) async fn clean(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
    ) -> Result<Outcome, ReconcileError> {
        self.waiting.forget(key);
        let watched = self.watched_claims(key);
        let mut waits = watched
            .iter()
            .filter_map(|it| self.handovers.waits(&key.object(), Some(it)));
        if let Some(left) = waits.next() {
            return Ok(Outcome::Again(left));
        }
        if watched.is_empty() {
            return self.finish(context, key).await;
        }
        // The cache of Instances may be behind.
        let instances = Collection::<PartialInstance>::new(&self.cell.client, &key.namespace, None);
        if instances.read(&key.name).await?.is_some() {
            return Ok(Outcome::Settled);
        }
        for _ in 0..STEPS_MAX {
            let mut access = self.look(key, None).await;
            if let Ledger::Known(Some(claim)) = &access.ledger
                && !is_terminating(claim.as_ref())
            {
                self.delete(context, key, &mut access).await;
            } else if is_gone(&access.ledger) {
                return self.finish(context, key).await;
            }
            if let Ledger::Failed(problem) = &access.ledger {
                return Ok(Outcome::Again(match problem.remedy {
                    Remedy::Wait(wait) => wait,
                    Remedy::Repeat | Remedy::Correct | Remedy::Resume | Remedy::ProjectGone => {
                        DISPUTED
                    }
                }));
            }
        }
        Ok(Outcome::Again(DISPUTED))
    }

    /// Forgets an Instance that has ended. Another claim of it can come, if the Instance has lost its finalizer.
    async fn finish(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
    ) -> Result<Outcome, ReconcileError> {
        let last = self.last_try(key);
        if last.is_some_and(|last| last.may_come_late(context.now())) {
            self.leave(context, key).await?;
        }
        self.forget(key);
        Ok(Outcome::Gone)
    }
}

/// Returns whether no claim can exist: the API server of the project has answered, or the whole project is gone.
fn is_gone(ledger: &Ledger) -> bool {
    match ledger {
        Ledger::Failed(problem) => problem.remedy == Remedy::ProjectGone,
        _ => true,
    }
}
