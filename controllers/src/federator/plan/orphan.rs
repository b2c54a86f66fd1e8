//! Whether a deployment on the hub is no one's: a hub that was restored to an older state brings back what has ended since.

use api::WorkloadDeployment;

use crate::namespace::UpstreamNamespace;

/// A deployment on the hub that seems to have none in its project, and what the project's API server has just said.
pub(crate) struct Suspect<'a> {
    /// The project's namespace that the hub namespace stands for.
    pub(crate) upstream: UpstreamNamespace,
    /// The project's deployment of this name in that namespace.
    pub(crate) deployment: Option<&'a WorkloadDeployment>,
}

/// Whether it is proved to be an orphan (I-12): who has the very namespace, with its UID, has no such deployment. An API
/// server without that namespace may be another project's, or another installation's.
pub(crate) fn is_orphan(suspect: &Suspect<'_>) -> bool {
    suspect.upstream == UpstreamNamespace::There && suspect.deployment.is_none()
}

#[cfg(test)]
mod tests {
    use super::UpstreamNamespace::{Absent, There, Unknown};
    use super::*;
    use crate::fixtures::deployment;
    use crate::namespace::Proof;

    #[test]
    fn only_who_has_the_very_namespace_can_prove_that_there_is_no_deployment() {
        let own = deployment("default", "web", "DFW", 1);
        for (upstream, is_expected) in [
            (There, true),
            (Absent(Proof::NotFound), false),
            (Absent(Proof::OtherUid("2".into())), false),
            (Unknown, false),
        ] {
            let found = |deployment| {
                let upstream = upstream.clone();
                is_orphan(&Suspect {
                    upstream,
                    deployment,
                })
            };
            assert_eq!(found(None), is_expected, "{upstream:?}");
            assert!(!found(Some(&own)), "{upstream:?}");
        }
    }
}
