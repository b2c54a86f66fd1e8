//! The WorkloadDeployments that the federator holds because nothing proves that their copies are on the hub in use.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use api::{ProjectName, annotations};
use multicluster::Metrics;
use tracing::error;

use crate::hub::identity::{HubIdentity, is_federated, recorded_hub};
use crate::projects::ProjectCaches;
use crate::runtime::keys::ProjectKey;

/// The WorkloadDeployments that are held because they are not proved to be on the hub in use. The metric counts them,
/// and `/readyz` shows their number. Cheap to clone.
#[derive(Clone, Default)]
pub struct HeldByHub {
    keys: Arc<Mutex<HashSet<ProjectKey>>>,
    metrics: Metrics,
}

impl HeldByHub {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            keys: Arc::default(),
        }
    }

    /// Notes that a WorkloadDeployment is held for this reason. The log contains the first one.
    pub(super) fn hold(&self, key: &ProjectKey, problem: &str) {
        let is_first = self.change(|keys| keys.insert(key.clone()) && keys.len() == 1);
        if is_first {
            error!(
                project = %key.project, namespace = key.namespace, name = key.name, problem,
                "WorkloadDeployments may be on another hub than the one in use: for them, nothing is written or deleted on the hub"
            );
        }
    }

    /// Notes that a WorkloadDeployment is not held, or is gone.
    pub(super) fn release(&self, key: &ProjectKey) {
        self.change(|keys| keys.remove(key));
    }

    /// Forgets the WorkloadDeployments of a project.
    pub(crate) fn forget_project(&self, project: &ProjectName) {
        self.change(|keys| keys.retain(|key| key.project != *project));
    }

    /// Returns a line for `/readyz` if WorkloadDeployments are held. The line names no project.
    pub fn warning(&self) -> Option<String> {
        let count = self.change(|keys| keys.len());
        (count > 0).then(|| {
            format!(
                "{count} WorkloadDeployments may be on another hub than the one in use (HubContradicted): check \
                 --federation-kubeconfig"
            )
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashSet<ProjectKey>) -> T) -> T {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let former = keys.len();
        let changed = change(&mut keys);
        if keys.len() != former {
            self.metrics.hub_contradictions(keys.len());
        }
        changed
    }
}

impl fmt::Debug for HeldByHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldByHub").finish_non_exhaustive()
    }
}

/// Returns the reason why a new WorkloadDeployment must not be written to this hub, if there is one: a
/// WorkloadDeployment of its project is on another hub, or may be. `has_namespace` says whether this hub has the hub
/// namespace of the new WorkloadDeployment.
pub(super) fn neighbour(
    project: &ProjectCaches,
    namespace: &str,
    hub: &HubIdentity,
    has_namespace: bool,
) -> Option<String> {
    let key = annotations::HUB_UID;
    let problem = project.hub_contradiction(hub);
    if problem.is_some() || has_namespace {
        return problem;
    }
    // A WorkloadDeployment without a record is adopted only if the hub has the hub namespace. So the hub namespace must
    // not be created for a new WorkloadDeployment while such a WorkloadDeployment exists.
    let neighbours = project.deployments.metadata(namespace);
    let unrecorded = neighbours
        .iter()
        .find(|it| recorded_hub(it).is_none() && is_federated(it))?;
    let name = unrecorded.name.as_deref().unwrap_or_default();
    Some(format!(
        "annotation {key} of WorkloadDeployment {name} of this namespace is missing, and the hub in use does not have \
         the hub namespace"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_deployments_are_counted_once_each() {
        let held = HeldByHub::default();
        let key = |project: &str, name: &str| {
            ProjectKey::new(&ProjectName::new(project).unwrap(), "default", name)
        };
        let count = || {
            let warning = held.warning();
            warning.map(|line| line.split(' ').next().unwrap().to_owned())
        };
        assert_eq!(count(), None);
        for (project, name) in [("a", "web"), ("a", "web"), ("a", "api"), ("b", "web")] {
            held.hold(&key(project, name), "why");
        }
        assert_eq!(count().as_deref(), Some("3"));
        held.release(&key("a", "web"));
        held.release(&key("a", "web"));
        assert_eq!(count().as_deref(), Some("2"));
        held.forget_project(&ProjectName::new("a").unwrap());
        assert_eq!(count().as_deref(), Some("1"));
        held.release(&key("b", "web"));
        assert_eq!(count(), None);
    }
}
