//! Whether a deployment on the hub is no one's: a hub that was restored to an older state brings back what has ended since.

use api::{HubNamespace, WorkloadDeployment};
use kube::Resource;

use crate::namespace::UpstreamNamespace;
use crate::objects::recorded_hub_namespace;

/// A deployment on the hub that seems to have none in its project, and what the project's API server has just said.
pub(crate) struct Suspect<'a> {
    pub(crate) hub_namespace: &'a HubNamespace,
    /// The project's namespace that the hub namespace stands for.
    pub(crate) upstream: UpstreamNamespace,
    /// The project's deployment of this name, in the namespace of the name that the hub namespace has as a label.
    pub(crate) deployment: Option<&'a WorkloadDeployment>,
}

/// Whether it is proved to be an orphan (I-12): who knows the very namespace has no such deployment, or has that namespace
/// no more, nor a deployment that speaks for it.
pub(crate) fn is_orphan(suspect: &Suspect<'_>) -> bool {
    let Suspect {
        hub_namespace,
        ref upstream,
        deployment,
    } = *suspect;
    let recorded = deployment.and_then(|deployment| recorded_hub_namespace(deployment.meta()));
    match upstream {
        UpstreamNamespace::There => deployment.is_none(),
        UpstreamNamespace::Absent(_) => recorded != Some(hub_namespace.as_str()),
        UpstreamNamespace::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::UpstreamNamespace::{Absent, There, Unknown};
    use super::*;
    use crate::fixtures::{deployment, object};
    use crate::namespace::Proof;
    use serde_json::json;

    #[test]
    fn only_what_is_proved_to_have_no_deployment_is_an_orphan() {
        let hub_namespace = HubNamespace::new("ns-1").unwrap();
        let recorded = |record: &str| {
            let mut deployment = deployment("default", "web", "DFW", 1);
            let annotations = json!({"compute.datumapis.com/federation-namespace": record});
            deployment.metadata.annotations = object(annotations);
            Some(deployment)
        };
        let bare = || Some(deployment("default", "web", "DFW", 1));
        let not_found = || Absent(Proof::NotFound);
        let other = || Absent(Proof::OtherUid("2".into()));
        for (upstream, deployment, expected) in [
            (There, None, true),
            (There, recorded("ns-1"), false),
            // It has been made just now, or is misled.
            (There, bare(), false),
            (There, recorded("ns-2"), false),
            (not_found(), None, true),
            (not_found(), recorded("ns-1"), false),
            // It is that of a namespace which was made anew.
            (other(), None, true),
            (other(), bare(), true),
            (other(), recorded("ns-2"), true),
            (other(), recorded("ns-1"), false),
            (Unknown, None, false),
            (Unknown, recorded("ns-2"), false),
        ] {
            let suspect = Suspect {
                hub_namespace: &hub_namespace,
                upstream: upstream.clone(),
                deployment: deployment.as_ref(),
            };
            assert_eq!(is_orphan(&suspect), expected, "{upstream:?} {deployment:?}");
        }
    }
}
