//! Whether the project's Namespace that a hub namespace stands for exists. Its absence must be proved (I-12).

use api::HubNamespace;
use kube::ResourceExt;

use crate::objects::Namespace;

/// What is known of the project's namespace with the UID that the name of the hub namespace has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamNamespace {
    There,
    /// It is not in the cache, which proves nothing.
    Unknown,
    Absent(Proof),
}

/// Why the project's namespace is gone. A UID is never given twice, so that it stays gone, but for that of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The project's API server says that there is none of its name.
    NotFound,
    /// The one of its name has this UID.
    OtherUid(String),
    /// There is no such project. One can be made anew over what a former one has stored.
    NoProject,
}

/// What a cache says of the project's namespace of the name that the hub namespace has as a label.
pub(crate) fn seen(hub: &HubNamespace, namespace: Option<&Namespace>) -> UpstreamNamespace {
    match namespace.is_some_and(|namespace| is_of(hub, namespace)) {
        true => UpstreamNamespace::There,
        false => UpstreamNamespace::Unknown,
    }
}

/// What the answer of the project's API server proves: nothing was found, or this.
pub(crate) fn answered(hub: &HubNamespace, namespace: Option<&Namespace>) -> UpstreamNamespace {
    match namespace.map(|namespace| (is_of(hub, namespace), namespace.uid())) {
        None => UpstreamNamespace::Absent(Proof::NotFound),
        Some((true, _)) => UpstreamNamespace::There,
        Some((false, Some(uid))) if !uid.is_empty() => {
            UpstreamNamespace::Absent(Proof::OtherUid(uid))
        }
        Some((false, _)) => UpstreamNamespace::Unknown,
    }
}

fn is_of(hub: &HubNamespace, namespace: &Namespace) -> bool {
    let uid = namespace.uid().unwrap_or_default();
    HubNamespace::of_project_namespace(&uid).is_ok_and(|derived| derived == *hub)
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
    fn a_cache_proves_nothing_and_an_answer_only_what_it_says() {
        use UpstreamNamespace::{Absent, There, Unknown};
        for (uid, in_cache, in_answer) in [
            (Some("1"), There, There),
            (Some("2"), Unknown, Absent(Proof::OtherUid("2".into()))),
            (Some(""), Unknown, Unknown),
            (None, Unknown, Unknown),
        ] {
            let namespace = namespace(uid);
            assert_eq!(seen(&hub(), Some(&namespace)), in_cache, "{uid:?}");
            assert_eq!(answered(&hub(), Some(&namespace)), in_answer, "{uid:?}");
        }
        assert_eq!(seen(&hub(), None), Unknown);
        assert_eq!(answered(&hub(), None), Absent(Proof::NotFound));
    }
}
