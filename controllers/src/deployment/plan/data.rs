//! Detects Instances that were made for older ConfigMaps and Secrets, if their template has them replaced
//! (docs/concepts/referenced-data.md#change-of-a-source).

use api::annotations::REFERENCED_DATA_VERSIONS;
use api::{Instance, WorkloadDeployment};
use kube::ResourceExt;

use crate::referenced_data::version::MeantVersions;

/// Returns the annotation that an Instance must have: the versions that it was made for. An Instance without one gets
/// the versions that are meant now. Returns `None` if the template does not ask for it, or if no versions are known.
pub(in crate::deployment) fn data_record<'a>(
    deployment: &'a WorkloadDeployment,
    instance: Option<&'a Instance>,
) -> Option<&'a String> {
    if !deployment.rolls_on_data_change() {
        return None;
    }
    let recorded = instance.and_then(|it| it.annotations().get(REFERENCED_DATA_VERSIONS));
    recorded.or_else(|| deployment.annotations().get(REFERENCED_DATA_VERSIONS))
}

/// Returns whether the Instance lacks the annotation.
pub(super) fn lacks_record(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
    let wanted = data_record(deployment, Some(instance));
    wanted.is_some() && wanted != instance.annotations().get(REFERENCED_DATA_VERSIONS)
}

/// Returns whether the Instance was made for an older version of a source than `meant`. An Instance without a record
/// is not outdated: it gets one.
pub(super) fn is_outdated(meant: Option<&MeantVersions>, instance: &Instance) -> bool {
    let recorded = MeantVersions::of(&instance.metadata);
    let (Some(meant), Some(recorded)) = (meant, recorded) else {
        return false;
    };
    let is_current = |(source, version)| {
        let had = recorded.sources.get(source);
        had.is_some_and(|had| had.is_at_least(version))
    };
    !meant.sources.iter().all(is_current)
}
