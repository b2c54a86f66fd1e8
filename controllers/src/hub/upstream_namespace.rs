//! Decides whether the project's Namespace still exists. The name of a hub namespace contains the UID of this
//! Namespace. The absence of the Namespace must be proved (I-12).

use api::{DEFAULT_NAMESPACE, HubNamespace, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::objects::Namespace;
use crate::projects::ProjectCaches;

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

/// The answers of the API server of a project about the Namespaces that identify it.
pub(crate) struct Identity<'a> {
    /// The answer for the Namespace that the labels of the hub namespace identify.
    pub(crate) namespace: Option<&'a Namespace>,
    /// The answer for the Namespace `default`.
    pub(crate) default: Option<&'a Namespace>,
}

impl Identity<'_> {
    /// Returns whether the API server is the one whose objects are in a hub namespace, so that its other answers prove
    /// something about them: it has the Namespace whose UID is in the name of the hub namespace, or that Namespace is
    /// gone, and the annotations of the hub namespace identify the API server. `on_hub` is the hub namespace object.
    pub(crate) fn is_of(&self, hub: &HubNamespace, on_hub: &Namespace) -> bool {
        match answered(hub, self.namespace) {
            UpstreamNamespace::There => true,
            UpstreamNamespace::Absent(_) => self.is_the_cluster(on_hub),
            UpstreamNamespace::Unknown => false,
        }
    }

    fn is_the_cluster(&self, on_hub: &Namespace) -> bool {
        let uid = self.default.and_then(ResourceExt::uid);
        known_by(on_hub).is_some_and(|known_by| uid.as_ref() == Some(known_by))
    }
}

/// Returns the UID of the API server whose objects are in a hub namespace.
fn known_by(on_hub: &Namespace) -> Option<&String> {
    let known_by = on_hub.annotations().get(annotations::UPSTREAM_CLUSTER_UID);
    known_by.filter(|known_by| !known_by.is_empty())
}

/// Returns whether [`Identity::is_of`] may hold, according to caches. If it cannot, the requests are skipped.
pub(crate) fn may_be_of(
    project: &ProjectCaches,
    namespace: &str,
    hub: &HubNamespace,
    on_hub: &Namespace,
) -> bool {
    let namespace = project.namespaces.metadata_of("", namespace);
    if seen(hub, namespace.as_ref()) == UpstreamNamespace::There {
        return true;
    }
    let default = project.namespaces.metadata_of("", DEFAULT_NAMESPACE);
    let known_by = known_by(on_hub);
    known_by.is_some() && known_by == default.and_then(|it| it.uid).as_ref()
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
