//! Decides whether the cache of the project may be used to change a copy. Each copy carries the UID and the generation
//! of the project's WorkloadDeployment from which the copy was written. A cache that is behind the project must not
//! bring back an older spec, and must not remove Instances.

use api::{WorkloadDeployment, annotations};
use kube::ResourceExt;

use crate::objects::StringMap;

/// The generation that the copy carries, compared with the generation in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// The generation in the cache, or an older one.
    NotNewer { is_current: bool },
    /// A newer generation than the one in the cache. The cache is behind, or the project was restored.
    Newer,
    /// Not a generation of the WorkloadDeployment in the cache. The project has made the WorkloadDeployment again, or
    /// an older version wrote the copy, or someone edited the annotations. Generations of two objects say nothing about
    /// their order.
    Unknown { may_stay: bool },
}

/// Returns the annotations with which a copy carries the UID and the generation of its WorkloadDeployment.
pub(super) fn carried_annotations(deployment: &WorkloadDeployment) -> StringMap {
    let metadata = &deployment.metadata;
    let carried = [
        (annotations::UPSTREAM_UID, metadata.uid.clone()),
        (
            annotations::UPSTREAM_GENERATION,
            metadata.generation.map(|generation| generation.to_string()),
        ),
    ];
    let present = carried
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    present.collect()
}

/// Compares the UID and the generation that the copy carries with the WorkloadDeployment in the cache.
pub(super) fn carried(copy: &WorkloadDeployment, deployment: &WorkloadDeployment) -> Carried {
    let annotation = |key| copy.annotations().get(key).map(String::as_str);
    let uid = annotation(annotations::UPSTREAM_UID);
    let is_own = uid.is_some() && uid == deployment.metadata.uid.as_deref();
    let carried = annotation(annotations::UPSTREAM_GENERATION);
    let generation = carried.and_then(|carried| carried.parse::<i64>().ok());
    match (generation, deployment.metadata.generation) {
        (Some(carried), Some(current)) if is_own && carried > current => Carried::Newer,
        (Some(carried), Some(current)) if is_own => Carried::NotNewer {
            is_current: carried == current,
        },
        (generation, current) => Carried::Unknown {
            may_stay: uid.is_none()
                && (carried.is_none() || generation.is_some() && generation == current),
        },
    }
}

impl Carried {
    /// Returns whether the annotations must be written although the rest of the copy is as desired. They are not added
    /// to a copy of an older version, because Karmada would write every object to its cells again.
    pub(super) fn must_be_written(self) -> bool {
        match self {
            Self::NotNewer { is_current } => !is_current,
            Self::Newer => true,
            Self::Unknown { may_stay } => !may_stay,
        }
    }

    /// Returns whether the project's API server must confirm the WorkloadDeployment before it is written to the copy.
    pub(super) fn needs_confirmation(
        self,
        copy: &WorkloadDeployment,
        deployment: &WorkloadDeployment,
    ) -> bool {
        match self {
            Self::NotNewer { .. } => may_shrink(copy, deployment),
            Self::Newer | Self::Unknown { .. } => true,
        }
    }
}

/// Returns whether the WorkloadDeployment can have fewer Instances than its copy. Any change of the settings of an
/// autoscaler can have this effect.
fn may_shrink(copy: &WorkloadDeployment, deployment: &WorkloadDeployment) -> bool {
    let is_less = |read: fn(&WorkloadDeployment) -> i32| read(deployment) < read(copy);
    let (former, wanted) = (&copy.spec.scale_settings, &deployment.spec.scale_settings);
    is_less(|it| it.spec.desired_replicas())
        || is_less(|it| it.spec.scale_settings.min_replicas)
        || (former.is_autoscaled() && former != wanted)
}

#[cfg(test)]
mod tests {
    use api::WorkloadDeploymentSpec;
    use api::workload::MetricSpec;

    use super::*;
    use crate::fixtures::deployment;

    fn copy(uid: Option<&str>, generation: Option<&str>, replicas: i32) -> WorkloadDeployment {
        let mut copy = deployment("ns-1", "web", "DFW", replicas);
        let carried = [
            uid.map(|it| (annotations::UPSTREAM_UID.into(), it.into())),
            generation.map(|it| (annotations::UPSTREAM_GENERATION.into(), it.into())),
        ];
        copy.metadata.annotations = Some(carried.into_iter().flatten().collect());
        copy
    }

    #[test]
    fn a_copy_is_written_without_asking_only_when_it_grows_to_a_newer_generation() {
        // The cache has generation 5 and two replicas.
        let cached = deployment("default", "web", "DFW", 2);
        let (own, other) = (cached.metadata.uid.as_deref(), Some("other"));
        for (uid, generation, replicas, must_be_written, needs_confirmation) in [
            (own, Some("5"), 2, false, false),
            (own, Some("5"), 1, false, false),
            (own, Some("5"), 3, false, true),
            (own, Some("4"), 2, true, false),
            (own, Some("4"), 1, true, false),
            (own, Some("4"), 3, true, true),
            (own, Some("6"), 2, true, true),
            (own, Some("6"), 1, true, true),
            (own, None, 2, true, true),
            (own, Some("five"), 2, true, true),
            (own, Some(""), 2, true, true),
            // A WorkloadDeployment of the same name that was deleted, or that the cache does not have yet.
            (other, Some("4"), 1, true, true),
            (other, Some("5"), 2, true, true),
            (other, Some("6"), 2, true, true),
            (Some(""), Some("5"), 2, true, true),
            // An older version wrote the copy.
            (None, None, 2, false, true),
            (None, Some("5"), 2, false, true),
            (None, Some("4"), 1, true, true),
            (None, Some("6"), 2, true, true),
            (None, Some("five"), 2, true, true),
        ] {
            let copy = copy(uid, generation, replicas);
            let carried = carried(&copy, &cached);
            let decided = (
                carried.must_be_written(),
                carried.needs_confirmation(&copy, &cached),
            );
            let expected = (must_be_written, needs_confirmation);
            assert_eq!(decided, expected, "{uid:?} {generation:?} {replicas}");
        }
    }

    #[test]
    fn each_change_that_can_end_instances_is_confirmed() {
        type Change = fn(&mut WorkloadDeploymentSpec);
        let base = || {
            let mut base = deployment("ns-1", "web", "DFW", 2);
            base.spec.replicas = Some(5);
            let settings = &mut base.spec.scale_settings;
            settings.max_replicas = Some(20);
            settings.metrics = vec![MetricSpec::default()];
            base
        };
        assert!(base().spec.scale_settings.is_autoscaled());
        let changes: [(Change, bool); 8] = [
            (|_| {}, false),
            (|spec| spec.replicas = Some(6), false),
            (|spec| spec.city_code = "ORD".to_owned(), false),
            (|spec| spec.replicas = Some(4), true),
            (|spec| spec.scale_settings.min_replicas = 1, true),
            (|spec| spec.scale_settings.max_replicas = Some(3), true),
            (|spec| spec.scale_settings.max_replicas = None, true),
            (|spec| spec.scale_settings.metrics.clear(), true),
        ];
        for (index, (change, expected)) in changes.into_iter().enumerate() {
            let mut wanted = base();
            change(&mut wanted.spec);
            assert_eq!(may_shrink(&base(), &wanted), expected, "{index}");
        }
        // Without an autoscaler, the number is that of the minimum.
        let fixed = deployment("ns-1", "web", "DFW", 2);
        let mut other = fixed.clone();
        other.spec.scale_settings.max_replicas = Some(3);
        assert!(!may_shrink(&fixed, &other));
    }
}
