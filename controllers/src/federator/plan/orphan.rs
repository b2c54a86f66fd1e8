//! Decides whether a WorkloadDeployment on the hub is an orphan: its project does not have it. Orphans appear when the
//! hub's etcd is restored from an older snapshot.

use api::{HubNamespace, WorkloadDeployment};
use kube::Resource;

use crate::hub::upstream_namespace::{Identity, UpstreamNamespace, answered};
use crate::objects::{Namespace, recorded_hub_namespace};

/// The evidence about a WorkloadDeployment on the hub that seems to have no WorkloadDeployment in its project.
pub(crate) struct Suspect<'a> {
    pub(crate) hub_namespace: &'a HubNamespace,
    /// The hub namespace object.
    pub(crate) on_hub: &'a Namespace,
    pub(crate) identity: Identity<'a>,
    /// The answer of the project's API server for the WorkloadDeployment of the key.
    pub(crate) deployment: Option<&'a WorkloadDeployment>,
}

/// Returns whether it is proved that the project has no such WorkloadDeployment (I-12). The name of the hub namespace
/// contains the UID of a Namespace. If the project's API server has the Namespace with this UID, its answer about the
/// WorkloadDeployment is proof. If this Namespace is gone, only the API server that the annotations of the hub
/// namespace identify can prove it. Another API server may belong to another project or another installation.
pub(crate) fn is_orphan(suspect: &Suspect<'_>) -> bool {
    let (hub_namespace, identity) = (suspect.hub_namespace, &suspect.identity);
    if !identity.is_of(hub_namespace, suspect.on_hub) {
        return false;
    }
    match answered(hub_namespace, identity.namespace) {
        UpstreamNamespace::There => suspect.deployment.is_none(),
        // A newer Namespace of the same name may exist.
        _ => {
            let recorded = suspect
                .deployment
                .and_then(|deployment| recorded_hub_namespace(deployment.meta()));
            recorded != Some(hub_namespace.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{deployment, object};

    fn namespace(uid: &str) -> Namespace {
        object(json!({"metadata": {"uid": uid}}))
    }

    fn on_hub(known_by: Option<&str>) -> Namespace {
        let key = annotations::UPSTREAM_CLUSTER_UID;
        let annotations = known_by.map(|known_by| json!({key: known_by}));
        object(json!({"metadata": {"annotations": annotations}}))
    }

    #[test]
    fn an_orphan_is_proved_by_its_namespace_or_its_api_server() {
        let hub_namespace = HubNamespace::new("ns-1").unwrap();
        let (own, other, default, empty) = (
            namespace("1"),
            namespace("2"),
            namespace("d"),
            namespace(""),
        );
        let mut same = deployment("default", "web", "DFW", 1);
        let of_same_name = same.clone();
        let recorded = [(annotations::FEDERATION_NAMESPACE.into(), "ns-1".into())];
        same.metadata.annotations = Some(recorded.into());
        for (namespace, known_by, default, deployment, expected) in [
            (Some(&own), None, None, None, true),
            (Some(&own), None, None, Some(&of_same_name), false),
            (Some(&own), Some("d"), Some(&default), Some(&same), false),
            // The namespace is gone.
            (None, Some("d"), Some(&default), None, true),
            (Some(&other), Some("d"), Some(&default), None, true),
            (
                Some(&other),
                Some("d"),
                Some(&default),
                Some(&of_same_name),
                true,
            ),
            (Some(&other), Some("d"), Some(&default), Some(&same), false),
            // The answer may come from another API server.
            (None, None, Some(&default), None, false),
            (None, Some("e"), Some(&default), None, false),
            (None, Some("d"), None, None, false),
            (None, Some(""), Some(&empty), None, false),
            (None, None, None, None, false),
            (Some(&empty), Some("d"), Some(&default), None, false),
        ] {
            let on_hub = on_hub(known_by);
            let is = is_orphan(&Suspect {
                hub_namespace: &hub_namespace,
                on_hub: &on_hub,
                identity: Identity { namespace, default },
                deployment,
            });
            let uid = namespace.and_then(ResourceExt::uid);
            assert_eq!(
                is,
                expected,
                "{uid:?} {known_by:?} {:?}",
                deployment.is_some()
            );
        }
    }
}
