//! Decides whether the project's Namespace still exists. The name of a hub namespace contains the UID of this
//! Namespace. The absence of the Namespace must be proved (I-12).

use api::HubNamespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::objects::Namespace;

/// The state of the project's Namespace whose UID is in the name of the hub namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamNamespace {
    There,
    /// The Namespace is not in the cache. This does not prove that it was deleted.
    Unknown,
    Absent(Proof),
}

/// The proof that the project's Namespace is gone. Kubernetes never reuses the UID of a Namespace, so the Namespace
/// stays gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The project's API server has no Namespace of this name.
    NotFound,
    /// The project's API server has a Namespace of this name, but its UID is another one. The text is that UID.
    OtherUid(String),
    /// The project does not exist. A new project of the same name could get the stored objects of this project.
    NoProject,
}

/// Returns the state that the cache of the project proves. `namespace` is the metadata of the Namespace that the hub
/// namespace's label identifies. The Namespace need not be decodable.
pub(crate) fn seen(hub: &HubNamespace, namespace: Option<&ObjectMeta>) -> UpstreamNamespace {
    match namespace.is_some_and(|namespace| is_of(hub, namespace)) {
        true => UpstreamNamespace::There,
        false => UpstreamNamespace::Unknown,
    }
}

/// Returns the state that a response of the project's API server proves. `namespace` is the Namespace in the response.
/// It is `None` if the response is an authoritative 404.
pub(crate) fn answered(hub: &HubNamespace, namespace: Option<&Namespace>) -> UpstreamNamespace {
    match namespace.map(|namespace| (is_of(hub, namespace.meta()), namespace.uid())) {
        None => UpstreamNamespace::Absent(Proof::NotFound),
        Some((true, _)) => UpstreamNamespace::There,
        Some((false, Some(uid))) if !uid.is_empty() => {
            UpstreamNamespace::Absent(Proof::OtherUid(uid))
        }
        Some((false, _)) => UpstreamNamespace::Unknown,
    }
}

fn is_of(hub: &HubNamespace, namespace: &ObjectMeta) -> bool {
    let uid = namespace.uid.as_deref().unwrap_or_default();
    HubNamespace::of_project_namespace(uid).is_ok_and(|derived| derived == *hub)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    fn namespace(uid: Option<&str>) -> Namespace {
        object(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": uid}}),
        )
    }

    fn hub() -> HubNamespace {
        HubNamespace::new("ns-1").unwrap()
    }

    #[test]
    fn only_an_answer_of_the_api_server_proves_absence() {
        use UpstreamNamespace::{Absent, There, Unknown};
        for (uid, in_cache, in_answer) in [
            (Some("1"), There, There),
            (Some("2"), Unknown, Absent(Proof::OtherUid("2".into()))),
            (Some(""), Unknown, Unknown),
            (None, Unknown, Unknown),
        ] {
            let namespace = namespace(uid);
            assert_eq!(seen(&hub(), Some(namespace.meta())), in_cache, "{uid:?}");
            assert_eq!(answered(&hub(), Some(&namespace)), in_answer, "{uid:?}");
        }
        assert_eq!(seen(&hub(), None), Unknown);
        assert_eq!(answered(&hub(), None), Absent(Proof::NotFound));
    }
}
