//! Finds, creates and deletes the claim of an Instance.

use std::sync::Arc;

use api::Instance;
use api::quota::{ResourceClaim, ResourceRequest};
use kube::{Resource, ResourceExt};
use tracing::info;

use super::QuotaController;
use super::claim::{self, Claimant};
use super::ledger::{FoundClaim, ProjectLedger};
use super::plan::{Ledger, LedgerProblem, Remedy, is_gated};
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::runtime::ReconcileContext;
use crate::runtime::keys::ClaimKey;

/// The claim of an Instance, and what is needed to change it.
pub(super) struct ClaimAccess {
    pub(super) ledger: Ledger,
    /// Whether another claim of the Instance stays too, if all of them were looked for.
    pub(super) has_others: bool,
    target: Option<ClaimTarget>,
}

/// Where the claim of an Instance is.
pub(super) struct ClaimTarget {
    project: Arc<ProjectLedger>,
    upstream: Upstream,
    /// The name of a new claim.
    free_name: Option<String>,
}

impl ClaimAccess {
    fn without_target(ledger: Ledger) -> Self {
        Self {
            ledger,
            has_others: false,
            target: None,
        }
    }

    /// Returns whether the project is seen to have these amounts left.
    pub(super) fn has_room(&self, requests: &[ResourceRequest]) -> bool {
        let target = self.target.as_ref();
        target.is_some_and(|target| target.project.has_room(requests))
    }
}

impl QuotaController {
    /// Returns the claims of the Instance that the watch shows.
    pub(super) fn watched_claims(&self, key: &ClaimKey) -> Vec<Arc<ResourceClaim>> {
        let ledgers = self.ledgers.as_ref();
        let ledger = ledgers.zip(self.upstream(key).ok());
        let ledger = ledger.and_then(|(ledgers, it)| Some((ledgers.used(&it.project)?, it)));
        ledger.map_or_else(Vec::new, |(ledger, upstream)| {
            ledger.watched_claims(&self.claimant(key), &upstream)
        })
    }

    /// Reads the claim of an Instance. A claim that the watch shows and that needs no change is not read.
    pub(super) async fn look(
        &self,
        key: &ClaimKey,
        usable: Option<Arc<ResourceClaim>>,
    ) -> ClaimAccess {
        match usable {
            Some(claim) => ClaimAccess::without_target(Ledger::Known(Some(Box::new(
                Arc::unwrap_or_clone(claim),
            )))),
            None => self.find(key, 1).await,
        }
    }

    /// Reads the claims of an Instance that ends. Returns the first one that is not terminating, if there is one.
    pub(super) async fn look_for_all(&self, key: &ClaimKey) -> ClaimAccess {
        // Whether there are more than two does not matter.
        self.find(key, 2).await
    }

    async fn find(&self, key: &ClaimKey, most: usize) -> ClaimAccess {
        let without = ClaimAccess::without_target;
        let Some(ledgers) = &self.ledgers else {
            return without(Ledger::Disabled);
        };
        let upstream = match self.upstream(key) {
            Ok(upstream) => upstream,
            Err(problem) => return without(Ledger::Unidentified(problem)),
        };
        let project = match ledgers.of(&upstream.project) {
            Ok(project) => project,
            Err(problem) => return without(Ledger::Failed(problem)),
        };
        match project.find(&self.claimant(key), &upstream, most).await {
            Ok(FoundClaim {
                claim,
                free_name,
                staying,
            }) => ClaimAccess {
                ledger: Ledger::Known(claim.map(Box::new)),
                has_others: staying > 1,
                target: Some(ClaimTarget {
                    project,
                    upstream,
                    free_name,
                }),
            },
            Err(problem) => without(Ledger::Failed(problem)),
        }
    }

    /// Creates a claim for the Instance with this UID. `had_room` is whether the project is seen to have the amounts left.
    pub(super) async fn create(
        &self,
        context: &ReconcileContext,
        (key, uid): (&ClaimKey, &str),
        access: &mut ClaimAccess,
        requests: &[ResourceRequest],
        had_room: bool,
    ) {
        let Some(target) = &access.target else {
            return;
        };
        let claimant = self.claimant(key);
        let readable = || claimant.names().into_iter().next().unwrap_or_default();
        let name = target.free_name.clone().unwrap_or_else(readable);
        let body = claim::body(&name, (&claimant, uid), &target.upstream, requests);
        let unanswered = self.note_new_try(context, key, had_room);
        let created = target
            .project
            .create(&self.writer, context, &target.upstream, &body)
            .await;
        access.ledger = known(created.map(|claim| Some(Box::new(claim))));
        if !is_unanswered(&access.ledger)
            && let Some(last) = self.tries().get_mut(key)
        {
            last.unanswered = unanswered;
        }
    }

    /// Writes to the claim that was found that it is for this Instance of this cell. If the API server refuses this, the
    /// claim of an Instance that has not run is deleted, unless the project is suspended: then no other one could be made.
    pub(super) async fn adopt(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        instance: &Instance,
        access: &mut ClaimAccess,
    ) {
        let (Some(target), Ledger::Known(Some(claim))) = (&access.target, &access.ledger) else {
            return;
        };
        let uid = instance.uid().unwrap_or_default();
        let owner = claim::ownership((&self.claimant(key), &uid));
        let adopted = target
            .project
            .patch(&self.writer, context, claim, owner)
            .await;
        let is_refused = |problem: &LedgerProblem| problem.remedy == Remedy::Correct;
        if is_gated(instance) && adopted.as_ref().is_err_and(is_refused) {
            return self.delete(context, key, access).await;
        }
        if let Ok(claim) = &adopted {
            info!(?key, claim = claim.name_any(), "claim taken over");
            self.handovers.end(&key.object());
        }
        access.ledger = known(adopted.map(|claim| Some(Box::new(claim))));
    }

    /// Returns whether a claim was made when the cell had another name.
    pub(super) fn is_renamed(&self, ledger: &Ledger) -> bool {
        matches!(ledger, Ledger::Known(Some(claim))
            if claim::names_another_cell(claim.meta(), &self.cell.name))
    }

    /// Deletes the claim that was found. From now on, a claim of the Instance is read before its gate opens.
    pub(super) async fn delete(
        &self,
        context: &ReconcileContext,
        key: &ClaimKey,
        access: &mut ClaimAccess,
    ) {
        let (Some(target), Ledger::Known(Some(claim))) = (&access.target, &access.ledger) else {
            return;
        };
        // A request without an answer can have been carried out.
        lock(&self.deleted).insert(key.clone());
        let deleted = target
            .project
            .delete(&self.writer, context, &target.upstream, claim.as_ref())
            .await;
        if deleted.is_ok() {
            info!(?key, claim = claim.name_any(), "claim deleted");
        }
        access.ledger = known(deleted.map(|()| None));
    }

    pub(super) fn claimant<'k>(&'k self, key: &'k ClaimKey) -> Claimant<'k> {
        Claimant {
            cell: &self.cell.name,
            former_cells: &self.cell.former_names,
            namespace: &key.namespace,
            name: &key.name,
        }
    }

    /// Returns the project's namespace that the claim is in, or a sentence about why it is unknown.
    pub(super) fn upstream(&self, key: &ClaimKey) -> Result<Upstream, String> {
        self.cell.upstream_of(&key.namespace)
    }
}

/// Returns whether the API server has not answered.
fn is_unanswered(ledger: &Ledger) -> bool {
    matches!(ledger, Ledger::Failed(problem) if matches!(problem.remedy, Remedy::Wait(_)))
}

fn known(answer: Result<Option<Box<ResourceClaim>>, LedgerProblem>) -> Ledger {
    match answer {
        Ok(claim) => Ledger::Known(claim),
        Err(problem) => Ledger::Failed(problem),
    }
}
