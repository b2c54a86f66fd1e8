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
use super::ledger::{Ledgers, Needed, ProjectLedger, QuotaLeft, Replaced};
use super::plan::intervals::{RETRY, interval};
use super::plan::{LedgerProblem, Remedy, has_lost_quota};
use crate::cell::CellCaches;
use crate::gate::has_gates;
use crate::objects::{controller_uid, has_finalizer};

/// Looks at the quota that projects have left. It claims nothing.
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

    /// Returns for each of these Instances of one namespace why it must not be replaced now by one of this spec. `None`
    /// means that the new one needs no more quota, that the project has the difference left, or that the cell may not
    /// see what is left. An Instance with a closed gate has never run, so nothing is lost with it.
    pub(crate) async fn holds(
        &self,
        instances: &[Arc<Instance>],
        spec: &InstanceSpec,
    ) -> Vec<Option<Held>> {
        self.ask(instances, spec, false).await
    }

    /// Returns as [`Self::holds`] why this Instance must not be replaced, which is to be deleted next. If it may be, the
    /// difference is promised to its replacement.
    pub(crate) async fn promise(
        &self,
        instance: &Arc<Instance>,
        spec: &InstanceSpec,
    ) -> Option<Held> {
        let asked = self.ask(std::slice::from_ref(instance), spec, true).await;
        asked.into_iter().next().flatten()
    }

    async fn ask(
        &self,
        instances: &[Arc<Instance>],
        spec: &InstanceSpec,
        is_next: bool,
    ) -> Vec<Option<Held>> {
        let wanted = amounts::requests(spec);
        let more: Vec<_> = instances.iter().map(|it| beyond(it, &wanted)).collect();
        let asks = more.iter().any(|more| !more.is_empty());
        let (Some(ledgers), Some(first), true) = (&self.ledgers, instances.first(), asks) else {
            return vec![None; instances.len()];
        };
        let left = self.left(ledgers, first).await;
        let instances = instances.iter().zip(&more);
        instances
            .map(|(instance, more)| {
                let needed = Needed {
                    more,
                    whole: &wanted,
                    is_next,
                };
                held(instance, needed, &left)
            })
            .collect()
    }

    async fn left(&self, ledgers: &Ledgers, instance: &Instance) -> Left {
        let namespace = instance.namespace().unwrap_or_default();
        let upstream = self
            .cell
            .upstream_of(&namespace)
            .map_err(|message| LedgerProblem {
                reason: reason::PROJECT_ID_UNRESOLVABLE,
                message,
                remedy: Remedy::Correct,
            })?;
        let ledger = ledgers.of(&upstream.project)?;
        Ok(ledger.left().await?.map(|left| (ledger, left)))
    }
}

/// The quota that a project has left, or `None` if the cell may not see it.
type Left = Result<Option<(Arc<ProjectLedger>, Arc<QuotaLeft>)>, LedgerProblem>;

/// Returns what an Instance needs beyond what it holds. Without the finalizer it holds nothing, nor if it has lost its
/// quota.
fn beyond(instance: &Instance, wanted: &[ResourceRequest]) -> Vec<ResourceRequest> {
    if has_gates(instance) {
        return Vec::new();
    }
    let holds = has_finalizer(instance, finalizers::QUOTA_CLAIM) && !has_lost_quota(instance);
    let former = match holds {
        true => amounts::requests(&instance.spec),
        false => Vec::new(),
    };
    amounts::beyond(&former, wanted)
}

/// Returns why an Instance stays whose replacement needs this.
fn held(instance: &Instance, needed: Needed<'_>, left: &Left) -> Option<Held> {
    if needed.more.is_empty() {
        return None;
    }
    let lacks = match left {
        Ok(None) => return None,
        Ok(Some((ledger, left))) => left.lacks(replaced(instance), needed, ledger.promises()),
        Err(problem) => Err(problem.clone()),
    };
    let (reason, cause) = match lacks {
        Ok(lacks) => (reason::QUOTA_EXCEEDED, describe(&lacks)?),
        Err(problem) => {
            let reason = match problem.remedy {
                Remedy::Wait(_) | Remedy::Repeat => reason::BACKEND_UNAVAILABLE,
                Remedy::Correct | Remedy::Resume | Remedy::ProjectGone => reason::MISCONFIGURED,
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

/// Returns an Instance as one that is replaced, or that replaces another one.
pub(super) fn replaced(instance: &Instance) -> Replaced<'_> {
    Replaced {
        deployment: controller_uid(instance).unwrap_or_default(),
        namespace: instance.metadata.namespace.as_deref().unwrap_or_default(),
        name: instance.metadata.name.as_deref().unwrap_or_default(),
        uid: instance.metadata.uid.as_deref().unwrap_or_default(),
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
