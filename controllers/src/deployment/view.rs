//! The objects that one reconciliation sees. A deletion is decided on objects of the API server, because the cache of a
//! process can be behind (docs/concepts/flow.md#rollout).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Instance, WorkloadDeployment};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::plan::{Observed, Plan, RolloutStep, plan};
use crate::runtime::ReconcileError;
use crate::runtime::write::Collection;

/// The WorkloadDeployment and the Instances of its namespace. They are the objects of the caches, except those that
/// were read from the API server.
pub(super) struct View {
    pub(super) deployment: Arc<WorkloadDeployment>,
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) undecodable: Vec<Arc<InvalidObject>>,
    pub(super) now: Timestamp,
}

impl View {
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            deployment: &self.deployment,
            instances: &self.instances,
            undecodable: &self.undecodable,
            now: self.now,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed())
    }

    /// Reads the WorkloadDeployment and the Instance from the API server if the next step of the rollout deletes this
    /// Instance, until the next step follows from such answers. Each Instance is read at most once. Without a deletion,
    /// no request is sent.
    ///
    /// # Errors
    ///
    /// The errors of [`Collection::current`]. The next step is then not confirmed.
    pub(super) async fn confirm_deletion(
        &mut self,
        deployments: &Collection<'_, WorkloadDeployment>,
        instances: &Collection<'_, Instance>,
    ) -> Result<(), ReconcileError> {
        let (mut deployment_read, mut read) = (false, BTreeSet::new());
        loop {
            let step = self.plan().steps.into_iter().next();
            let Some(RolloutStep::Replace(cached) | RolloutStep::Delete(cached)) = step else {
                return Ok(());
            };
            if !deployment_read {
                self.deployment = Arc::new(deployments.current(&self.deployment).await?);
                deployment_read = true;
                continue;
            }
            let name = cached.name_any();
            if !read.insert(name.clone()) {
                return Ok(());
            }
            let current = Arc::new(instances.current(&cached).await?);
            for instance in &mut self.instances {
                if instance.metadata.name.as_ref() == Some(&name) {
                    *instance = Arc::clone(&current);
                }
            }
        }
    }
}
