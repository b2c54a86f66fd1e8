//! Detects Instances that were made for older ConfigMaps and Secrets, if their template has them replaced
//! (docs/concepts/referenced-data.md#change-of-a-source).

use std::collections::BTreeMap;

use api::annotations::REFERENCED_DATA_VERSIONS;
use api::references::Source;
use api::{Instance, WorkloadDeployment};
use kube::ResourceExt;

use crate::gate::REFERENCED_DATA;
use crate::referenced_data::version::{MeantVersions, SourceVersion};

/// The versions of sources.
pub(in crate::deployment) type DataVersions = BTreeMap<Source, SourceVersion>;

/// Returns the annotation that a new Instance gets: the versions of its data. Returns `None` if the template does not
/// ask for it, or if the versions are not known.
pub(in crate::deployment) fn data_record(deployment: &WorkloadDeployment) -> Option<&String> {
    meant_data(deployment)?;
    deployment.annotations().get(REFERENCED_DATA_VERSIONS)
}

/// Returns the versions that Instances must have, if the template has Instances with older ones replaced.
pub(super) fn meant_data(deployment: &WorkloadDeployment) -> Option<MeantVersions> {
    let rolls = deployment.rolls_on_data_change();
    MeantVersions::of(&deployment.metadata).filter(|_| rolls)
}

/// Returns the sources of which the Instance was made for an older version, or for none, and their versions. An
/// Instance without a record gets one. An Instance that still waits for its data starts with the current ones.
pub(super) fn newer_data(meant: Option<&MeantVersions>, instance: &Instance) -> DataVersions {
    let recorded = MeantVersions::of(&instance.metadata);
    let (Some(meant), Some(recorded), false) =
        (meant, recorded, REFERENCED_DATA.is_closed(instance))
    else {
        return DataVersions::new();
    };
    let mut newer = all_data(meant);
    newer.retain(|source, version| {
        let had = recorded.sources.get(&source.to_string());
        !had.is_some_and(|had| had.is_at_least(version))
    });
    newer
}

/// Returns all these versions, by source.
pub(super) fn all_data(meant: &MeantVersions) -> DataVersions {
    let sources = meant.sources.iter();
    sources
        .filter_map(|(source, version)| Some((Source::parse(source)?, version.clone())))
        .collect()
}

/// Returns whether the Instance must get the current versions as its record: it has no newer data to be replaced for,
/// but another record.
pub(super) fn lacks_record(
    deployment: &WorkloadDeployment,
    meant: Option<&MeantVersions>,
    instance: &Instance,
) -> bool {
    let wanted = meant.and_then(|_| data_record(deployment));
    wanted.is_some()
        && wanted != instance.annotations().get(REFERENCED_DATA_VERSIONS)
        && newer_data(meant, instance).is_empty()
}
