//! Proofs of the hub: that it is the one in use, and that an object is absent there.

use api::DEFAULT_NAMESPACE;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};

use super::ReconcileError;
use super::write::{Collection, Object};
use crate::cell::CellCaches;
use crate::hub::HubCaches;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::objects::{Namespace, describe};
use crate::projects::ProjectCaches;

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

/// Checks that the hub in use is the hub that a hub namespace and the WorkloadDeployments of its project have recorded.
/// Another hub can have a hub namespace of the same name, with objects of an earlier time. `project` is `None` if the
/// project does not exist.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if it may be another hub.
pub(crate) fn require_own_hub(
    hub: &HubCaches,
    namespace: &Namespace,
    project: Option<&ProjectCaches>,
) -> Result<(), ReconcileError> {
    let identity = hub.identity()?;
    let problem = identity
        .contradiction(recorded_hub(namespace.meta()), Some(namespace))
        .or_else(|| project?.hub_contradiction(&identity));
    require_no_contradiction(problem, || describe(namespace))
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
    // If two hubs at one address answer in turn, one answer is that of the other hub.
    for _ in 0..2 {
        let default = namespaces.read(DEFAULT_NAMESPACE).await?;
        let identity = HubIdentity::of(default.as_ref().map(Resource::meta));
        let problem = identity.contradiction(Some(record), None);
        require_no_contradiction(problem, || describe(object))?;
    }
    Ok(())
}

/// Reads an object from the hub's API server. Returns `None` only if the answers prove that the object is absent, and
/// the hub that answers is the hub `identity`.
///
/// The hub is identified again for each proof, because the address of the hub can lead to another hub. It is identified
/// twice: if two hubs at one address answer in turn, one answer is that of the other hub. The object is read before and
/// after that: if the address has moved from one hub to another, one of the two answers is that of the hub `identity`.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if another hub answers, and the errors of [`Collection::read`] and
/// [`Collection::find`].
pub(crate) async fn read_from_hub<K: Object<Scope = NamespaceResourceScope>>(
    hub: &Client,
    identity: &HubIdentity,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, ReconcileError> {
    let objects = Collection::<K>::new(hub, namespace, None);
    if let Some(object) = objects.read(name).await? {
        return Ok(Some(object));
    }
    require_answering_hub(hub, identity, || {
        format!("{} {namespace}/{name}", K::kind(&()))
    })
    .await?;
    objects.read(name).await
}

/// Checks that the hub in use is the one that answers. If two hubs at one address answer in turn, one answer is that of
/// the other hub.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if another hub has answered. `what` is the object that an answer was about, or that
/// is to be created.
pub(crate) async fn require_answering_hub(
    hub: &Client,
    identity: &HubIdentity,
    what: impl Fn() -> String,
) -> Result<(), ReconcileError> {
    let namespaces = Collection::<Namespace>::of_plane(hub, None);
    for _ in 0..2 {
        let default = namespaces.find(DEFAULT_NAMESPACE).await?;
        let answered = HubIdentity::of(default.as_ref());
        require_no_contradiction(other_hub(&answered, identity), &what)?;
    }
    Ok(())
}

/// Returns the problem of an answer, if the hub `answered` is not the hub `identity`.
fn other_hub(answered: &HubIdentity, identity: &HubIdentity) -> Option<String> {
    let is_same = answered.uid().is_some() && answered.uid() == identity.uid();
    (!is_same).then(|| {
        format!(
            "hub {} answers, and the hub in use is {}",
            answered.uid().unwrap_or("without a UID"),
            identity.uid().unwrap_or("without a UID"),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::slice;

    use api::WorkloadDeployment;
    use apiserver::{ApiServer, objects};

    use super::*;
    use crate::fixtures::servers::{HUB_NAMESPACE, HUB_UID, copy};

    const NAME: &str = "web-dfw";

    fn hub(uid: &str) -> ApiServer {
        let hub = ApiServer::new();
        hub.put(objects::namespace(DEFAULT_NAMESPACE, uid));
        hub
    }

    /// Reads the copy from these hubs, which answer in turn.
    async fn read(hubs: &[ApiServer]) -> Result<Option<WorkloadDeployment>, ReconcileError> {
        let own = objects::namespace(DEFAULT_NAMESPACE, HUB_UID);
        let own: Namespace = serde_json::from_value(own).unwrap();
        let client = ApiServer::client_in_turn(hubs);
        read_from_hub(
            &client,
            &HubIdentity::of(Some(own.meta())),
            HUB_NAMESPACE,
            NAME,
        )
        .await
    }

    #[tokio::test]
    async fn another_hub_at_the_same_address_does_not_prove_that_an_object_is_absent() {
        let (own, another) = (hub(HUB_UID), hub("another"));
        assert!(matches!(read(slice::from_ref(&own)).await, Ok(None)));
        own.put(copy(NAME));
        assert!(matches!(read(slice::from_ref(&own)).await, Ok(Some(_))));
        let turns = [
            // The hubs answer in turn.
            [true, false, true, false],
            [false, true, false, true],
            // The address moves to the other hub, or back.
            [false, true, true, true],
            [false, false, true, true],
            [false, false, false, true],
            [false, false, false, false],
        ];
        for turns in turns {
            let hubs = turns.map(|is_own| match is_own {
                true => own.clone(),
                false => another.clone(),
            });
            let result = read(&hubs).await;
            assert!(!matches!(result, Ok(None)), "{turns:?}");
        }
    }
}
