//! Decides whether the ConfigMaps and Secrets of an Instance are in the cell.

use std::collections::BTreeMap;
use std::time::Duration;

use api::condition::{Condition, ConditionStatus};
use api::reasons::referenced_data as reason;
use api::{CellName, Instance, WorkloadDeployment, annotations};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::gate::{GateStep, REFERENCED_DATA};
use crate::referenced_data::references::{Source, references};
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
    pub(super) deployment: Option<&'a WorkloadDeployment>,
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
    let stored = REFERENCED_DATA.stored(instance);
    // An Instance that never had the gate is none of ours.
    if !is_closed && stored.is_none() {
        return Plan::default();
    }
    let (wanted, is_awaited) = wanted(observed, is_closed);
    let Some((status, reason, message)) = wanted else {
        return Plan::default();
    };
    let wanted = Condition::new(REFERENCED_DATA.condition, status, &reason, message, now);
    Plan {
        step: REFERENCED_DATA.step(instance, wanted),
        look_again: is_awaited.then(|| interval(instance, now)),
    }
}

type Wanted = (ConditionStatus, String, String);

/// Returns the status, reason and message of the condition, and whether companions are awaited. Returns `None` if the
/// condition stays.
fn wanted(observed: &Observed<'_>, is_closed: bool) -> (Option<Wanted>, bool) {
    let condition =
        |status, reason: &str, message: String| Some((status, reason.to_owned(), message));
    let ready = || {
        let message = "the ConfigMaps and Secrets of the instance are in the cell".to_owned();
        condition(ConditionStatus::True, reason::READY, message)
    };
    if !observed.awaits_data {
        let message = "the cell does not hold instances back for their data".to_owned();
        let disabled = condition(ConditionStatus::True, reason::DISABLED, message);
        return (disabled.filter(|_| is_closed), false);
    }
    let needed = match needs(observed.instance, observed.deployment) {
        Err(Unmet::Problem(Problem { reason, message })) => {
            return (condition(ConditionStatus::False, &reason, message), false);
        }
        // A machine that runs has its data.
        _ if !is_closed => return (ready(), false),
        Err(Unmet::Unresolved(message)) => {
            let message = message.to_owned();
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
        return (ready(), false);
    }
    let message = format!(
        "cell {} does not have {} yet",
        observed.cell,
        lacking.join(", ")
    );
    let awaiting = condition(
        ConditionStatus::False,
        reason::AWAITING_PROPAGATION,
        message,
    );
    (awaiting, true)
}

/// Why it is not known what an Instance needs.
pub(super) enum Unmet {
    /// The data cannot be determined.
    Problem(Problem),
    /// The data have not been determined yet.
    Unresolved(&'static str),
}

/// Returns the companions that an Instance needs, and the version that each must have at least.
///
/// # Errors
///
/// The reason why this is not known.
pub(super) fn needs(
    instance: &Instance,
    deployment: Option<&WorkloadDeployment>,
) -> Result<BTreeMap<Source, Option<SourceVersion>>, Unmet> {
    let deployment = deployment.ok_or(Unmet::Unresolved(
        "the cell does not have its WorkloadDeployment",
    ))?;
    let metadata = &deployment.metadata;
    if let Some(problem) = Problem::of(metadata) {
        return Err(Unmet::Problem(problem));
    }
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
    let is_of_template = hash == Some(template_hash(deployment).as_str());
    if has_versions && (meant.is_none() || !is_of_template) {
        return Err(undetermined);
    }
    let mut needed = BTreeMap::new();
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
