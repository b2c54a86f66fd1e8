//! The copy of a WorkloadDeployment on the hub: builds it, compares it with the stored copy, and deletes it.

use std::sync::Arc;

use api::{HubNamespace, WorkloadDeployment, annotations};
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use serde_json::{Value, json};

use super::plan::{DesiredCopy, same_mirrored};
use crate::hub::HubCaches;
use crate::objects::is_terminating;
use crate::runtime::write::{Collection, Stored, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Returns how the hub has stored the copy of a WorkloadDeployment.
pub(super) fn compare_copy(copy: &WorkloadDeployment, desired: &DesiredCopy) -> Stored {
    let ending = annotations::ENDING;
    let has_annotations = same_mirrored(copy.annotations(), &desired.annotations)
        && copy.annotations().get(ending) == desired.annotations.get(ending);
    match has_annotations {
        true => Stored::compare(&copy.spec, &desired.spec),
        false => Stored::Otherwise,
    }
}

/// Returns the body of an apply. The apply succeeds only on this version of the existing copy. If the cache of the hub
/// is behind, the copy may carry a newer generation of the project than the cache of the project has.
pub(super) fn copy_body(
    deployment: &WorkloadDeployment,
    hub_namespace: &HubNamespace,
    existing: Option<&WorkloadDeployment>,
    desired: &DesiredCopy,
) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {
            "name": deployment.name_any(),
            "namespace": hub_namespace.as_str(),
            "resourceVersion": existing.and_then(ResourceExt::resource_version),
            "labels": desired.labels,
            "annotations": desired.annotations,
        },
        "spec": desired.spec,
    })
}

/// The copy of a WorkloadDeployment in the cache.
pub(super) struct CachedCopy {
    pub(super) copy: Option<Arc<WorkloadDeployment>>,
    /// Whether the copy can be decoded. If not, only its metadata are its own.
    pub(super) is_decoded: bool,
}

/// Returns the copy of a WorkloadDeployment from the cache, with the spec as it was written, without additions of the
/// hub.
///
/// # Errors
///
/// Those of [`copy_of`].
pub(super) fn cached_copy(
    writer: &Writer,
    hub: &HubCaches,
    context: &ReconcileContext,
    deployment: &WorkloadDeployment,
    hub_namespace: &HubNamespace,
) -> Result<CachedCopy, ReconcileError> {
    let mut cached = copy_of(hub, deployment, hub_namespace)?;
    if let Some(copy) = &mut cached.copy
        && !is_terminating(deployment)
        && writer.has_additions_to(context, copy.as_ref(), &deployment.spec)
    {
        Arc::make_mut(copy).spec = deployment.spec.clone();
    }
    Ok(cached)
}

/// Returns the copy of a WorkloadDeployment from the cache. The deletion needs only the metadata of the copy. So a
/// copy that cannot be decoded does not block the end of its WorkloadDeployment: it is returned without its status.
///
/// # Errors
///
/// [`ReconcileError::Undecodable`] if the copy cannot be decoded, and the WorkloadDeployment is not terminating.
fn copy_of(
    hub: &HubCaches,
    deployment: &WorkloadDeployment,
    hub_namespace: &HubNamespace,
) -> Result<CachedCopy, ReconcileError> {
    let (copies, name) = (&hub.deployments, deployment.name_any());
    let undecodable = match copies.get(hub_namespace.as_str(), &name) {
        Ok(copy) => {
            let is_decoded = true;
            return Ok(CachedCopy { copy, is_decoded });
        }
        Err(undecodable) => undecodable,
    };
    match copies.metadata_of(hub_namespace.as_str(), &name) {
        Some(metadata) if is_terminating(deployment) => Ok(CachedCopy {
            copy: Some(Arc::new(WorkloadDeployment {
                metadata,
                spec: deployment.spec.clone(),
                status: None,
            })),
            is_decoded: false,
        }),
        _ => Err(undecodable.into()),
    }
}

/// Deletes the copy. If the copy cannot be decoded, the answer of the API server is not decoded either.
pub(super) async fn delete_copy(
    writer: &Writer,
    hub: &HubCaches,
    context: &ReconcileContext,
    copies: &Collection<'_, WorkloadDeployment>,
    copy: &WorkloadDeployment,
) -> Result<(), ReconcileError> {
    let (namespace, name) = (copy.namespace().unwrap_or_default(), copy.name_any());
    if hub.deployments.get(&namespace, &name).is_ok() {
        return writer.delete(context, copies, copy).await;
    }
    let copies = Collection::new(&hub.client, &namespace, None);
    let copy: PartialObjectMeta<WorkloadDeployment> = copy.metadata.clone().into_response_partial();
    writer.delete(context, &copies, &copy).await
}
