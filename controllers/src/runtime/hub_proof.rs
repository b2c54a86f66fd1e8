//! Reads of the hub that may prove that an object is absent there.

use api::DEFAULT_NAMESPACE;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};

use super::ReconcileError;
use super::write::{Collection, Object};
use crate::cell::CellCaches;
use crate::hub::HubCaches;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::objects::{Namespace, describe};

/// Returns the error of an object that another hub contradicts, if there is a problem.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] with the problem.
pub(crate) fn require_no_contradiction(
    problem: Option<String>,
    object: impl FnOnce() -> String,
) -> Result<(), ReconcileError> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(ReconcileError::Contradiction {
            object: object(),
            problem,
        }),
    }
}

/// Checks that the hub of a cell is the hub that a Namespace of the cell has recorded. Another hub does not have the
/// copies of this cell, or has copies of an earlier time.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if it is another hub, and the errors of [`Collection::read`].
pub(crate) async fn require_hub_of_cell(
    cell: &CellCaches,
    namespace: &str,
) -> Result<(), ReconcileError> {
    let namespaces = Collection::<Namespace>::of_plane(&cell.client, None);
    match namespaces.read(namespace).await {
        Ok(Some(namespace)) => require_recorded_hub(&cell.hub, &namespace).await,
        Ok(None) => Ok(()),
        // The rights of a former version do not include Namespaces of the cell.
        Err(error) if error.is_forbidden() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that a hub is the hub that an object has recorded, or replaces it. Without a record, nothing is known.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if it is another hub, and the errors of [`Collection::read`].
async fn require_recorded_hub(hub: &Client, object: &Namespace) -> Result<(), ReconcileError> {
    let Some(record) = recorded_hub(object.meta()) else {
        return Ok(());
    };
    let namespaces = Collection::<Namespace>::of_plane(hub, None);
    let default = namespaces.read(DEFAULT_NAMESPACE).await?;
    let identity = HubIdentity::of(default.as_ref().map(Resource::meta));
    let problem = identity.contradiction(Some(record), None);
    require_no_contradiction(problem, || describe(object))
}

/// Reads an object from the hub's API server. Returns `None` only if the answer proves that the object is absent, and
/// the hub that answers is the hub `identity`. The hub is identified again for each proof, because the address of the
/// hub can lead to another hub.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if another hub answers, and the errors of [`Collection::read`] and
/// [`Collection::find`].
pub(crate) async fn read_from_hub<K: Object<Scope = NamespaceResourceScope>>(
    hub: &HubCaches,
    identity: &HubIdentity,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, ReconcileError> {
    let objects = Collection::<K>::new(&hub.client, namespace, None);
    if let Some(object) = objects.read(name).await? {
        return Ok(Some(object));
    }
    let namespaces = Collection::<Namespace>::of_plane(&hub.client, None);
    let default = namespaces.find(DEFAULT_NAMESPACE).await?;
    let answered = HubIdentity::of(default.as_ref());
    if answered.uid().is_some() && answered.uid() == identity.uid() {
        return Ok(None);
    }
    Err(ReconcileError::Contradiction {
        object: format!("{} {namespace}/{name}", K::kind(&())),
        problem: format!(
            "hub {} answers that it is absent, and the hub in use is {}",
            answered.uid().unwrap_or("without a UID"),
            identity.uid().unwrap_or("without a UID"),
        ),
    })
}
