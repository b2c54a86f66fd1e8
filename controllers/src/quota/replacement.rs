//! Asks for the quota that a larger replacement of an Instance needs, before the Instance is deleted
//! (docs/concepts/flow.md#quota).

use std::sync::Arc;
use std::time::Duration;

use api::quota::ResourceRequest;
use api::reasons::quota_granted as reason;
use api::{Instance, InstanceSpec, finalizers};
use jiff::SignedDuration;
use kube::ResourceExt;

use super::amounts;
use super::ledger::Ledgers;
use super::plan::intervals::{RETRY, interval};
use super::plan::{LedgerProblem, Remedy, is_gated};
use crate::cell::CellCaches;
use crate::hub::upstream::Upstream;
use crate::objects::has_finalizer;

/// Looks at the quota that projects have left. It reserves nothing.
pub(crate) struct ReplacementQuota {
    cell: Arc<CellCaches>,
    /// `None` if the cell does not enforce quota.
    ledgers: Option<Arc<Ledgers>>,
}

/// Why an Instance is not replaced now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Reason of `ReplicasReady`.
    pub(crate) reason: &'static str,
    /// Message of `ReplicasReady`.
    pub(crate) message: String,
}

impl ReplacementQuota {
    pub(crate) fn new(cell: Arc<CellCaches>, ledgers: Option<Arc<Ledgers>>) -> Self {
        Self { cell, ledgers }
    }

    /// Returns why an Instance must not be replaced now by one of this spec. Returns `None` if the new one needs no more
    /// quota, if its project has the difference left, and if the cell may not see what is left. An Instance whose gate
    /// is closed does not run, so nothing is lost with it.
    pub(crate) async fn holds(&self, instance: &Instance, spec: &InstanceSpec) -> Option<Held> {
        let ledgers = self.ledgers.as_ref().filter(|_| !is_gated(instance))?;
        // An Instance without the finalizer holds no quota.
        let former = match has_finalizer(instance, finalizers::QUOTA_CLAIM) {
            true => amounts::requests(&instance.spec),
            false => Vec::new(),
        };
        let more = amounts::beyond(&former, &amounts::requests(spec));
        if more.is_empty() {
            return None;
        }
        let (reason, cause) = match self.lacks(ledgers, instance, &more).await {
            Ok(lacks) => (reason::QUOTA_EXCEEDED, describe(&lacks)?),
            Err(problem) => {
                let reason = match problem.remedy {
                    Remedy::Wait(_) | Remedy::Repeat => reason::BACKEND_UNAVAILABLE,
                    Remedy::Correct | Remedy::ProjectGone => reason::MISCONFIGURED,
                };
                (reason, problem.message)
            }
        };
        let name = instance.name_any();
        Some(Held {
            reason,
            message: format!("Instance {name} keeps its former template: {cause}"),
        })
    }

    async fn lacks(
        &self,
        ledgers: &Ledgers,
        instance: &Instance,
        requests: &[ResourceRequest],
    ) -> Result<Vec<ResourceRequest>, LedgerProblem> {
        let namespace = instance.namespace().unwrap_or_default();
        let metadata = self.cell.namespaces.metadata_of("", &namespace);
        let upstream = Upstream::of(&metadata.unwrap_or_default());
        let upstream = upstream.map_err(|error| LedgerProblem {
            reason: reason::PROJECT_ID_UNRESOLVABLE,
            message: format!("Namespace {namespace} does not identify its project: {error}"),
            remedy: Remedy::Correct,
        })?;
        let ledger = ledgers.of(&upstream.project)?;
        ledger.lacks(requests).await
    }
}

/// Returns when the quota for a replacement is asked for again. `held` is the time since it was missing. A raised quota
/// triggers no event, so the interval is that of denied claims.
pub(crate) fn asked_again(held: SignedDuration) -> Duration {
    interval(RETRY, held)
}

/// Returns a sentence about amounts that a project does not have. Returns `None` if there are none.
fn describe(lacks: &[ResourceRequest]) -> Option<String> {
    let amounts = lacks
        .iter()
        .map(|it| format!("{} more {}", it.amount, it.resource_type));
    let amounts: Vec<_> = amounts.collect();
    (!amounts.is_empty()).then(|| format!("the project has no quota for {}", amounts.join(", ")))
}
