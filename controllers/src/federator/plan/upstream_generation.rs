//! Decides whether the cache of the project may be used to change a copy. Each copy carries a generation: the
//! generation of the WorkloadDeployment in the project when the copy was written. A cache that is behind the project
//! must not bring back an older spec, and must not remove Instances.

use api::{WorkloadDeployment, annotations};
use kube::ResourceExt;

/// The generation that the copy carries, compared with the generation in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// The generation in the cache, or an older one.
    NotNewer { is_current: bool },
    /// A newer generation than the one in the cache. The cache is behind, or the project was restored.
    Newer,
    /// Nothing readable. An older version wrote the copy, or someone edited the annotation.
    Unknown { is_absent: bool },
}

/// Compares the generation that the copy carries with the WorkloadDeployment in the cache.
pub(super) fn carried(copy: &WorkloadDeployment, deployment: &WorkloadDeployment) -> Carried {
    let carried = copy.annotations().get(annotations::UPSTREAM_GENERATION);
    let generation = carried.and_then(|carried| carried.parse::<i64>().ok());
    match (generation, deployment.metadata.generation) {
        (Some(carried), Some(current)) if carried > current => Carried::Newer,
        (Some(carried), Some(current)) => Carried::NotNewer {
            is_current: carried == current,
        },
        _ => Carried::Unknown {
            is_absent: carried.is_none(),
        },
    }
}

impl Carried {
    /// Returns whether the annotation must be written although the rest of the copy is as desired. The annotation is
    /// not added to a copy of an older version, because Karmada would write every object to its cells again.
    pub(super) fn must_be_written(self) -> bool {
        match self {
            Self::NotNewer { is_current } => !is_current,
            Self::Newer => true,
            Self::Unknown { is_absent } => !is_absent,
        }
    }

    /// Returns whether the project's API server must confirm the WorkloadDeployment before it is written to the copy.
    pub(super) fn needs_confirmation(
        self,
        copy: &WorkloadDeployment,
        deployment: &WorkloadDeployment,
    ) -> bool {
        match self {
            Self::NotNewer { .. } => shrinks(copy, deployment),
            Self::Newer | Self::Unknown { .. } => true,
        }
    }
}

/// Returns whether the WorkloadDeployment wants fewer Instances than its copy.
fn shrinks(copy: &WorkloadDeployment, deployment: &WorkloadDeployment) -> bool {
    let is_less = |read: fn(&WorkloadDeployment) -> i32| read(deployment) < read(copy);
    is_less(|it| it.spec.desired_replicas()) || is_less(|it| it.spec.scale_settings.min_replicas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::deployment;

    fn copy(carried: Option<&str>, replicas: i32) -> WorkloadDeployment {
        let mut copy = deployment("ns-1", "web", "DFW", replicas);
        let carried = carried.map(|it| (annotations::UPSTREAM_GENERATION.into(), it.into()));
        copy.metadata.annotations = carried.map(|it| [it].into());
        copy
    }

    #[test]
    fn a_copy_is_written_without_asking_only_when_it_grows_to_a_newer_generation() {
        // The cache has generation 5 and two replicas.
        let cached = deployment("default", "web", "DFW", 2);
        for (carried_generation, replicas, must_be_written, needs_confirmation) in [
            (Some("5"), 2, false, false),
            (Some("5"), 1, false, false),
            (Some("5"), 3, false, true),
            (Some("4"), 2, true, false),
            (Some("4"), 1, true, false),
            (Some("4"), 3, true, true),
            (Some("6"), 2, true, true),
            (Some("6"), 1, true, true),
            (None, 2, false, true),
            (Some("five"), 2, true, true),
            (Some(""), 2, true, true),
        ] {
            let copy = copy(carried_generation, replicas);
            let carried = carried(&copy, &cached);
            let decided = (
                carried.must_be_written(),
                carried.needs_confirmation(&copy, &cached),
            );
            let expected = (must_be_written, needs_confirmation);
            assert_eq!(decided, expected, "{carried_generation:?} {replicas}");
        }
    }
}
