//! Asks for the quota that a larger replacement of an Instance needs, before the Instance is deleted
//! (docs/concepts/flow.md#quota).

use std::sync::Arc;

use api::quota::ResourceRequest;
use api::reasons::workload_deployment as reason;
use api::{Instance, InstanceSpec, finalizers};
use kube::ResourceExt;

use super::amounts;
use super::ledger::{Ledgers, ProjectLedger};
use super::plan::{LedgerProblem, Remedy};
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

    /// Returns why an Instance must not be replaced now by one of this spec. Returns `None` if its project has the quota
    /// for both together, if no more quota is needed, and if the project does not tell how much is left.
    pub(crate) async fn holds(&self, instance: &Instance, spec: &InstanceSpec) -> Option<Held> {
        let ledgers = self.ledgers.as_ref()?;
        let wanted = amounts::requests(spec);
        // An Instance without the finalizer holds no quota.
        let former = match has_finalizer(instance, finalizers::QUOTA_CLAIM) {
            true => amounts::requests(&instance.spec),
            false => Vec::new(),
        };
        let more = amounts::beyond(&former, &wanted);
        if more.is_empty() {
            return None;
        }
        let name = instance.name_any();
        let (reason, cause) = match self.lacks(ledgers, instance, &more).await {
            Ok(lacks) => (reason::QUOTA_EXCEEDED, describe(&lacks)?),
            Err(problem) => match problem.remedy {
                Remedy::Wait(_) | Remedy::Repeat => (reason::PENDING_QUOTA, problem.message),
                Remedy::Correct | Remedy::ProjectGone => return None,
            },
        };
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
        // Without a project there is no quota to look at. The new Instance shows the problem.
        let Ok(upstream) = Upstream::of(&metadata.unwrap_or_default()) else {
            return Ok(Vec::new());
        };
        let ledger: Arc<ProjectLedger> = ledgers.of(&upstream.project)?;
        ledger.lacks(requests).await
    }
}

/// Returns a sentence about amounts that a project does not have. Returns `None` if there are none.
fn describe(lacks: &[ResourceRequest]) -> Option<String> {
    let amounts = lacks
        .iter()
        .map(|it| format!("{} more {}", it.amount, it.resource_type));
    let amounts: Vec<_> = amounts.collect();
    (!amounts.is_empty()).then(|| format!("the project has no quota for {}", amounts.join(", ")))
}
