//! The WorkloadDeployment that owns a projection. The cache of the project may be behind, and its object may not be
//! decodable.

use std::sync::Arc;

use api::{WorkloadDeployment, WorkloadDeploymentSpec};

use crate::hub::upstream::Upstream;
use crate::projects::ProjectCaches;
use crate::runtime::ReconcileError;
use crate::runtime::write::Collection;

/// Returns the WorkloadDeployment. If it cannot be decoded, only its metadata are known, and its city code is empty. A
/// projection needs no more.
pub(super) fn known_deployment(
    project: &ProjectCaches,
    namespace: &str,
    name: &str,
) -> Option<Arc<WorkloadDeployment>> {
    let deployments = &project.deployments;
    deployments.get(namespace, name).unwrap_or_else(|_| {
        let metadata = deployments.metadata_of(namespace, name)?;
        let unknown = WorkloadDeployment::new(name, WorkloadDeploymentSpec::default());
        Some(Arc::new(WorkloadDeployment {
            metadata,
            ..unknown
        }))
    })
}

/// Confirms with the project's API server that a WorkloadDeployment exists or is absent as the cache says, unless the
/// watches are current. Another object of the same name is another owner: the garbage collector would delete a
/// projection with the former owner.
///
/// # Errors
///
/// [`ReconcileError::NotYet`] if the cache is behind, and the errors of [`Collection::find`].
pub(super) async fn confirm_owner(
    project: &ProjectCaches,
    upstream: &Upstream,
    name: &str,
    cached: Option<&WorkloadDeployment>,
) -> Result<(), ReconcileError> {
    let is_current = project.deployments.sync_state().borrow().is_current()
        && project.namespaces.sync_state().borrow().is_current();
    if is_current {
        return Ok(());
    }
    let namespace = &upstream.namespace;
    let deployments = Collection::<WorkloadDeployment>::new(&project.client, namespace, None);
    let found = deployments.find(name).await?.and_then(|found| found.uid);
    match found == cached.and_then(|cached| cached.metadata.uid.clone()) {
        true => Ok(()),
        false => Err(ReconcileError::NotYet {
            object: format!("WorkloadDeployment {upstream}/{name}"),
            missing: "the watch to report it as it is now".to_owned(),
        }),
    }
}
