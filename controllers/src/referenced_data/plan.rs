//! Decides which ConfigMaps and Secrets a WorkloadDeployment of a project lists, and what its condition says.

use std::collections::{BTreeMap, BTreeSet};

use api::condition::{self, Condition, ConditionStatus};
use api::instance::REFERENCED_DATA_READY;
use api::reasons::referenced_data as reason;
use api::references::{References, Source};
use api::{WorkloadDeployment, annotations, finalizers};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::releases::Release;
use super::resolve::Resolved;
use super::version::{MeantVersions, Problem, SourceVersion, expected};
use crate::objects::{has_finalizer, is_terminating};

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// The sources that the template uses.
    pub(super) references: &'a References,
    /// The sources that exist, or what is wrong with them.
    pub(super) resolved: Result<Resolved, Problem>,
    /// Since which version of each source its companion has the content that it has. Only known for a template with
    /// [`annotations::ROLL_ON_DATA_CHANGE`], and once the companion has been written.
    pub(super) contents: &'a BTreeMap<Source, SourceVersion>,
    /// The hash of the template.
    pub(super) template_hash: &'a str,
    /// The sources that are being released, see [`Plan::release`].
    pub(super) releases: &'a BTreeMap<Source, Release>,
    /// Why sources that are listed cannot be copied to the hub.
    pub(super) not_copied: Vec<String>,
    pub(super) now: Timestamp,
}

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Have the WorkloadDeployment taken out of the companions of these sources, and those deleted that nobody needs.
    pub(super) release: Vec<Source>,
    /// Those of them of which this is not proved. The list and the finalizer stay meanwhile.
    pub(super) pending: Vec<Source>,
    /// The sources that `metadata` adds to the list.
    pub(super) begin: Vec<Source>,
    /// Merge this into the metadata, in one write.
    pub(super) metadata: Option<Value>,
    /// Write these conditions.
    pub(super) conditions: Option<Vec<Condition>>,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let deployment = observed.deployment;
    let is_held = has_finalizer(deployment, finalizers::REFERENCED_DATA);
    let listed = expected(&deployment.metadata).unwrap_or_default();
    if is_terminating(deployment) {
        // As long as the hub may have the copy, its cells need the data.
        if !is_held || has_finalizer(deployment, finalizers::FEDERATOR) {
            return Plan::default();
        }
        // A customer may have edited the list.
        let all: BTreeSet<_> = listed
            .into_iter()
            .chain(observed.references.keys().cloned())
            .collect();
        let release: Vec<_> = all.into_iter().collect();
        let pending = pending(observed, &release);
        let finalizers = json!({"finalizers": other_finalizers(deployment)});
        return Plan {
            metadata: pending.is_empty().then_some(finalizers),
            release,
            pending,
            ..Plan::default()
        };
    }
    let uses_data = !observed.references.is_empty();
    if !uses_data && !is_held {
        // Annotations of another writer are left alone.
        return Plan::default();
    }
    let mut wanted = match &observed.resolved {
        Ok(resolved) => wanted(deployment, resolved, &listed),
        // Running Instances keep their data.
        Err(_) => listed.iter().cloned().collect(),
    };
    let release = listed.iter().filter(|it| !wanted.contains(it));
    let release: Vec<_> = release.cloned().collect();
    let pending = pending(observed, &release);
    if !pending.is_empty() {
        wanted.extend(release.iter().cloned());
    }
    let is_needed = uses_data || !wanted.is_empty();
    Plan {
        release,
        pending,
        begin: wanted
            .iter()
            .filter(|it| !listed.contains(it))
            .cloned()
            .collect(),
        metadata: metadata(observed, &wanted, is_needed, is_held),
        conditions: conditions(observed, is_needed),
    }
}

/// Returns the sources among these whose companions may still name the WorkloadDeployment.
fn pending(observed: &Observed<'_>, release: &[Source]) -> Vec<Source> {
    let is_proved = |it: &Source| observed.releases.get(it) == Some(&Release::Proved);
    release
        .iter()
        .filter(|it| !is_proved(it))
        .cloned()
        .collect()
}

/// Returns the sources to list. Instances of a former template may use a source that the template does not use any
/// more, so it is listed until all Instances are of the template. An optional source that cannot be copied at present
/// stays as it is.
fn wanted(
    deployment: &WorkloadDeployment,
    resolved: &Resolved,
    listed: &[Source],
) -> BTreeSet<Source> {
    let mut wanted: BTreeSet<_> = resolved.sources.keys().cloned().collect();
    let is_rolled_out = is_rolled_out(deployment);
    let stays = |source: &&Source| !is_rolled_out || resolved.unusable.contains(*source);
    wanted.extend(listed.iter().filter(stays).cloned());
    wanted
}

/// Returns whether all Instances are of the current template, as far as the cells have reported.
fn is_rolled_out(deployment: &WorkloadDeployment) -> bool {
    let Some(status) = &deployment.status else {
        return false;
    };
    status.observed_generation.is_some()
        && status.observed_generation == deployment.metadata.generation
        && status.updated_replicas.unwrap_or_default() >= status.replicas
}

fn other_finalizers(deployment: &WorkloadDeployment) -> Vec<&String> {
    let all = deployment.finalizers().iter();
    all.filter(|it| *it != finalizers::REFERENCED_DATA)
        .collect()
}

/// Returns the change of the finalizers and annotations, if there is one.
fn metadata(
    observed: &Observed<'_>,
    wanted: &BTreeSet<Source>,
    is_needed: bool,
    is_held: bool,
) -> Option<Value> {
    let deployment = observed.deployment;
    let texts: Vec<_> = wanted.iter().map(ToString::to_string).collect();
    let mut desired = BTreeMap::new();
    let mut is_to_be_held = is_held && is_needed;
    match &observed.resolved {
        _ if !is_needed => {
            desired.insert(annotations::EXPECTED_REFERENCED_DATA, None);
            desired.insert(annotations::REFERENCED_DATA_VERSIONS, None);
            desired.insert(annotations::REFERENCED_DATA_ERROR, None);
        }
        Ok(resolved) => {
            let versions = versions(observed, resolved);
            desired.insert(annotations::EXPECTED_REFERENCED_DATA, Some(json!(texts)));
            desired.insert(annotations::REFERENCED_DATA_VERSIONS, Some(json!(versions)));
            desired.insert(annotations::REFERENCED_DATA_ERROR, None);
            is_to_be_held = true;
        }
        Err(problem) => {
            desired.insert(annotations::REFERENCED_DATA_ERROR, Some(json!(problem)));
        }
    }
    let stored = deployment.annotations();
    let mut changed = serde_json::Map::new();
    for (key, value) in desired {
        let text = value.map(|value| value.to_string());
        if stored.get(key) != text.as_ref() {
            changed.insert(key.to_owned(), json!(text));
        }
    }
    let mut metadata = serde_json::Map::new();
    if is_to_be_held != is_held {
        let mut finalizers: Vec<_> = other_finalizers(deployment).into_iter().cloned().collect();
        if is_to_be_held {
            finalizers.push(finalizers::REFERENCED_DATA.to_owned());
        }
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if !changed.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(changed));
    }
    (!metadata.is_empty()).then_some(Value::Object(metadata))
}

/// Returns the versions that the template needs at least. A later version of a source changes nothing: the companion is
/// written again, and the WorkloadDeployment is not.
fn versions(observed: &Observed<'_>, resolved: &Resolved) -> MeantVersions {
    let sources = resolved.sources.iter();
    let mut current = MeantVersions {
        template: observed.template_hash.to_owned(),
        sources: sources
            .map(|(source, version)| (source.to_string(), version.clone()))
            .collect(),
    };
    let Some(former) = MeantVersions::of(&observed.deployment.metadata) else {
        return current;
    };
    let is_of_template = former.template == current.template;
    if observed.deployment.rolls_on_data_change() {
        if is_of_template {
            return rolled_versions(observed, resolved, &former);
        }
        current.sources.extend(unusable(resolved, &former));
        return current;
    }
    let is_still_meant = is_of_template
        && former.sources.keys().eq(current.sources.keys())
        // After a restore of the project, the versions are earlier ones.
        && former.sources.iter().zip(&current.sources).all(|((_, former), (_, current))| current.is_at_least(former));
    match is_still_meant {
        true => former,
        false => current,
    }
}

/// Returns the versions for a template whose Instances are replaced when a version gets later. So the version of a
/// source is changed only when its companion has another content. A source that was not listed before is left out until
/// its companion is there. An optional source that cannot be read at present keeps its version.
fn rolled_versions(
    observed: &Observed<'_>,
    resolved: &Resolved,
    former: &MeantVersions,
) -> MeantVersions {
    let version_of = |source: &Source, current: &SourceVersion| {
        // After a restore of the project, the versions are earlier ones, and the companion has not followed yet.
        let copied = observed.contents.get(source);
        let copied = copied.filter(|copied| current.is_at_least(copied));
        let Some(had) = former.sources.get(&source.to_string()) else {
            return copied.cloned();
        };
        if !current.is_at_least(had) {
            return Some(current.clone());
        }
        let later = copied.filter(|copied| !had.is_at_least(copied));
        Some(later.unwrap_or(had).clone())
    };
    let known = resolved.sources.iter().filter_map(|(source, current)| {
        let version = version_of(source, current)?;
        Some((source.to_string(), version))
    });
    MeantVersions {
        sources: known.chain(unusable(resolved, former)).collect(),
        template: former.template.clone(),
    }
}

/// Returns the former versions of optional sources that cannot be read at present. Instances have them.
fn unusable<'a>(
    resolved: &'a Resolved,
    former: &'a MeantVersions,
) -> impl Iterator<Item = (String, SourceVersion)> + 'a {
    resolved.unusable.iter().filter_map(|source| {
        let name = source.to_string();
        let had = former.sources.get(&name)?.clone();
        Some((name, had))
    })
}

/// Returns the conditions of the WorkloadDeployment, if they change.
fn conditions(observed: &Observed<'_>, is_needed: bool) -> Option<Vec<Condition>> {
    let Observed {
        deployment,
        resolved,
        not_copied,
        now,
        ..
    } = observed;
    let former = deployment.status.as_ref();
    let former = former.map_or(&[][..], |it| &it.conditions);
    let mut conditions = former.to_vec();
    if is_needed {
        let (status, reason, message) = match resolved {
            Err(Problem { reason, message }) => {
                (ConditionStatus::False, reason.as_str(), message.clone())
            }
            Ok(_) if !not_copied.is_empty() => {
                let problems = not_copied.join("; ");
                (ConditionStatus::False, reason::NOT_COPIED, problems)
            }
            Ok(_) => {
                let message = "the ConfigMaps and Secrets of the template are known".to_owned();
                (ConditionStatus::True, reason::READY, message)
            }
        };
        let wanted = Condition::new(REFERENCED_DATA_READY, status, reason, message, *now);
        let generation = deployment.metadata.generation;
        condition::set(&mut conditions, wanted.observed(generation));
    } else {
        condition::remove(&mut conditions, REFERENCED_DATA_READY);
    }
    (conditions != former).then_some(conditions)
}

#[cfg(test)]
mod tests;
