//! The Networks and the LocationBindings that a Workload needs before WorkloadDeployments are created for it
//! (docs/concepts/milo.md#locations-and-networks).

use std::collections::BTreeSet;

pub(super) use api::reasons::workload::NETWORK_NOT_FOUND;
use api::workload::AVAILABLE;
use api::{Workload, condition};
use kube::ResourceExt;

use super::observed::{Listed, Observed};
use super::size;

/// Maximum number of cities that a message names for one obstacle, and of Networks that it names.
const NAMED_MAX: usize = 16;

/// The known state of the needs of a Workload.
pub(super) struct Needs<'a> {
    workload: &'a Workload,
    cities: Listed<'a>,
    /// Names of the missing Networks, in the order of the template. `Err` is the reason why they are unknown.
    missing: Result<Vec<&'a str>, &'a str>,
    excess: Option<String>,
}

/// A city for which no WorkloadDeployment is written now.
#[derive(Debug, PartialEq)]
pub(super) struct Gap<'a> {
    pub(super) placement: &'a str,
    pub(super) city: &'a str,
    pub(super) obstacle: Obstacle,
}

/// The reason why no WorkloadDeployment is written for a city.
#[derive(Debug, PartialEq)]
pub(super) enum Obstacle {
    /// The project does not offer the city.
    NotOffered,
    /// The Workload waits for a prerequisite. [`Needs::prerequisite`] describes it.
    Waits,
    /// The WorkloadDeployment exists and cannot be decoded. The sentence names it.
    Undecodable(String),
}

impl<'a> Needs<'a> {
    pub(super) fn new(observed: &Observed<'a>) -> Self {
        let Observed {
            workload, networks, ..
        } = *observed;
        // The namespace in the reference is ignored (docs/concepts/milo.md#locations-and-networks).
        let interfaces = workload.spec.template.spec.network_interfaces.iter();
        let names = interfaces.map(|interface| interface.network.name.as_str());
        let mut known = BTreeSet::new();
        let mut wanted: Vec<&str> = names.filter(|name| known.insert(*name)).collect();
        let missing = networks.map(|exists| {
            wanted.retain(|name| !exists(name));
            wanted
        });
        Self {
            workload,
            cities: observed.cities,
            missing,
            excess: size::excess(workload),
        }
    }

    /// Returns why the Workload asks for more than the limits, if it does.
    pub(super) fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    /// Returns a message with the names of the missing Networks, if it is known that some are missing.
    pub(super) fn missing_networks(&self) -> Option<String> {
        let missing = self.missing.as_deref().unwrap_or_default();
        let namespace = self.workload.namespace().unwrap_or_default();
        let named = missing.iter().take(NAMED_MAX);
        let named: Vec<_> = named.map(|name| format!("{namespace}/{name}")).collect();
        match named.as_slice() {
            [] => None,
            [name] => Some(format!("Network {name} does not exist")),
            named => {
                let more = more(missing.len(), named.len());
                Some(format!("Networks {}{more} do not exist", named.join(", ")))
            }
        }
    }

    /// Returns whether a Network was missing in the last complete list, if the Networks are currently unknown.
    pub(super) fn was_missing(&self) -> bool {
        let status = self.workload.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice());
        self.missing.is_err()
            && condition::find(conditions.unwrap_or_default(), AVAILABLE)
                .is_some_and(|former| former.reason == NETWORK_NOT_FOUND)
    }

    /// Returns why a city gets no WorkloadDeployment. A known obstacle has priority over an unknown one.
    pub(super) fn obstacle(&self, city: &str) -> Option<Obstacle> {
        if self.cities.is_ok_and(|offers| !offers(city)) {
            return Some(Obstacle::NotOffered);
        }
        self.waits().then_some(Obstacle::Waits)
    }

    /// Returns whether the Workload waits for a prerequisite.
    fn waits(&self) -> bool {
        self.cities.is_err()
            || self
                .missing
                .as_ref()
                .map_or(true, |missing| !missing.is_empty())
    }

    /// Returns a message about the prerequisite that the Workload waits for.
    pub(super) fn prerequisite(&self) -> Option<String> {
        let unknown = self
            .cities
            .err()
            .or_else(|| self.missing.as_ref().err().copied());
        self.missing_networks()
            .or_else(|| unknown.map(str::to_owned))
    }
}

/// Returns how many more there are than those that a message names.
fn more(all: usize, named: usize) -> String {
    match all.saturating_sub(named) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Returns a message about the cities of one placement without a WorkloadDeployment, with the obstacles.
/// `prerequisite` is that of the Workload.
pub(super) fn describe(gaps: &[&Gap<'_>], prerequisite: Option<&str>) -> Option<String> {
    let mut by_obstacle: Vec<(&Obstacle, Vec<&str>)> = Vec::new();
    for gap in gaps {
        let known = by_obstacle
            .iter_mut()
            .find(|(obstacle, _)| **obstacle == gap.obstacle);
        match known {
            Some((_, cities)) => cities.push(gap.city),
            None => by_obstacle.push((&gap.obstacle, vec![gap.city])),
        }
    }
    let described = by_obstacle.into_iter().map(|(obstacle, cities)| {
        let named: Vec<_> = cities.iter().take(NAMED_MAX).copied().collect();
        let more = more(cities.len(), named.len());
        let why = match obstacle {
            Obstacle::NotOffered => "the project has no usable LocationBinding there",
            Obstacle::Waits => prerequisite.unwrap_or_default(),
            Obstacle::Undecodable(sentence) => return sentence.clone(),
        };
        format!("no deployment in {}{more}: {why}", named.join(", "))
    });
    let described: Vec<_> = described.collect();
    (!described.is_empty()).then(|| described.join("; "))
}
