//! Decides whether the ConfigMaps and Secrets of an Instance are in the cell.

use std::collections::BTreeMap;
use std::time::Duration;

use api::condition::{Condition, ConditionStatus};
use api::reasons::referenced_data as reason;
use api::references::{Source, references};
use api::{CellName, Instance, WorkloadDeployment, annotations};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::gate::{GateStep, REFERENCED_DATA};
use crate::referenced_data::version::{MeantVersions, Problem, SourceVersion, expected};
use crate::template::template_hash;

/// How often companions are looked for while the Instance is young.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// The ages of an Instance from which companions are looked for less often, and how often.
const LATER: [(Duration, Duration); 2] = [
    (Duration::from_mins(10), Duration::from_secs(15)),
    (Duration::from_mins(1), Duration::from_secs(5)),
];

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) instance: &'a Instance,
    /// The companions that the Instance waits for, or why they are not known.
    pub(super) needs: &'a Result<Needed, Unmet>,
    /// The companions that the Instance needs and the cell has, and the version of their source.
    pub(super) companions: &'a BTreeMap<Source, SourceVersion>,
    /// Whether Instances are held back for their data.
    pub(super) awaits_data: bool,
    pub(super) cell: &'a CellName,
    pub(super) now: Timestamp,
}

/// The next step, and when to look again.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Option<GateStep>,
    pub(super) look_again: Option<Duration>,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed { instance, now, .. } = *observed;
    let is_closed = REFERENCED_DATA.is_closed(instance);
    let has_condition = REFERENCED_DATA.stored(instance).is_some();
    let is_followed = has_condition && observed.awaits_data;
    if !is_closed && !is_followed {
        return Plan::default();
    }
    let (condition, is_awaited) = wanted(observed);
    Plan {
        step: REFERENCED_DATA.step(instance, condition),
        look_again: is_awaited.then(|| interval(instance, now)),
    }
}

/// Returns the condition, and whether companions are awaited.
fn wanted(observed: &Observed<'_>) -> (Condition, bool) {
    let condition = |status, reason: &str, message: &str| {
        Condition::new(
            REFERENCED_DATA.condition,
            status,
            reason,
            message,
            observed.now,
        )
    };
    if !observed.awaits_data {
        let message = "the cell does not hold instances back for their data";
        let disabled = condition(ConditionStatus::True, reason::DISABLED, message);
        return (disabled, false);
    }
    let needed = match observed.needs {
        Err(Unmet::Problem(Problem { reason, message })) => {
            return (condition(ConditionStatus::False, reason, message), false);
        }
        Err(Unmet::Unresolved(message)) => {
            let unresolved = condition(ConditionStatus::Unknown, reason::RESOLVING, message);
            return (unresolved, false);
        }
        Ok(needed) => needed,
    };
    let has = |source: &Source, least: &Option<SourceVersion>| {
        let there = observed.companions.get(source);
        there.is_some_and(|it| least.as_ref().is_none_or(|least| it.is_at_least(least)))
    };
    let lacking = needed.iter().filter(|(source, least)| !has(source, least));
    let lacking: Vec<_> = lacking.map(|(source, _)| source.to_string()).collect();
    if lacking.is_empty() {
        let message = "the ConfigMaps and Secrets of the instance are in the cell";
        let ready = condition(ConditionStatus::True, reason::READY, message);
        return (ready, false);
    }
    let (cell, lacking) = (observed.cell, lacking.join(", "));
    let message = format!("cell {cell} does not have {lacking} yet");
    let (status, reason) = (ConditionStatus::False, reason::AWAITING_PROPAGATION);
    (condition(status, reason, &message), true)
}

/// The companions that an Instance needs, and the version that each must have at least.
pub(super) type Needed = BTreeMap<Source, Option<SourceVersion>>;

/// Why it is not known what an Instance needs.
pub(super) enum Unmet {
    /// The data cannot be determined.
    Problem(Problem),
    /// The data have not been determined yet.
    Unresolved(&'static str),
}

/// Returns what an Instance waits for. A machine that runs has its data, so it waits for nothing.
///
/// # Errors
///
/// The reason why this is not known.
pub(super) fn needs(
    instance: &Instance,
    deployment: Option<&WorkloadDeployment>,
) -> Result<Needed, Unmet> {
    if let Some(problem) = deployment.and_then(|it| Problem::of(&it.metadata)) {
        return Err(Unmet::Problem(problem));
    }
    if !REFERENCED_DATA.is_closed(instance) {
        return Ok(Needed::new());
    }
    let deployment = deployment.ok_or(Unmet::Unresolved(
        "the cell does not have its WorkloadDeployment",
    ))?;
    let metadata = &deployment.metadata;
    let undetermined = Unmet::Unresolved("the ConfigMaps and Secrets have not been determined yet");
    let Some(listed) = expected(metadata) else {
        return Err(undetermined);
    };
    let meant = MeantVersions::of(metadata);
    // The Go manager writes no versions. Without them, any version will do.
    let has_versions = deployment
        .annotations()
        .contains_key(annotations::UPSTREAM_GENERATION);
    let hash = instance
        .spec
        .controller
        .as_ref()
        .map(|it| it.template_hash.as_str());
    let is_of_template = || hash == Some(template_hash(deployment).as_str());
    if has_versions && (meant.is_none() || !is_of_template()) {
        return Err(undetermined);
    }
    // Later, the record tells whether the Instance has older data.
    let recorded = instance
        .annotations()
        .get(annotations::REFERENCED_DATA_VERSIONS);
    if meant.is_some()
        && deployment.rolls_on_data_change()
        && recorded
            != deployment
                .annotations()
                .get(annotations::REFERENCED_DATA_VERSIONS)
    {
        return Err(Unmet::Unresolved(
            "the versions of the data have not been recorded yet",
        ));
    }
    let mut needed = Needed::new();
    for (source, used) in references(&instance.spec) {
        if !listed.contains(&source) {
            // An optional source that is missing is not listed.
            if used.is_optional {
                continue;
            }
            return Err(undetermined);
        }
        let least = meant
            .as_ref()
            .and_then(|it| it.sources.get(&source.to_string()));
        needed.insert(source, least.cloned());
    }
    Ok(needed)
}

fn interval(instance: &Instance, now: Timestamp) -> Duration {
    let created = instance.metadata.creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| {
        Duration::try_from(now.duration_since(created.0)).unwrap_or_default()
    });
    let later = LATER.iter().find(|(from, _)| age >= *from);
    later.map_or(SOON, |(_, interval)| *interval)
}

#[cfg(test)]
mod tests;
