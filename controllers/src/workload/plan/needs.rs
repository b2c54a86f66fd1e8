//! What a Workload needs of its project before anything new is made for it (compute.md 2.1): Networks, and
//! LocationBindings of its cities.

use api::workload::AVAILABLE;
use api::{Workload, condition};
use kube::ResourceExt;

use super::observed::{Listed, Observed};

/// `Available` is False for this reason while a Network does not exist (compute.md 1.1).
pub(super) const NETWORK_NOT_FOUND: &str = "NetworkNotFound";

/// Most cities that are named for one obstacle.
const CITIES_NAMED: usize = 16;

/// What is known of what a Workload needs.
pub(super) struct Needs<'a> {
    workload: &'a Workload,
    cities: Listed<'a>,
    /// Names of the Networks that do not exist, in the order of the template; or why that is not known.
    missing: Result<Vec<&'a str>, &'a str>,
}

/// A city that gets no deployment now.
#[derive(Debug, PartialEq)]
pub(super) struct Gap<'a> {
    pub(super) placement: &'a str,
    pub(super) city: &'a str,
    pub(super) obstacle: Obstacle,
}

/// Why a city gets no deployment.
#[derive(Debug, PartialEq)]
pub(super) enum Obstacle {
    /// The project does not offer it.
    NotOffered,
    /// This must be mended first, or known.
    Waits(String),
}

impl<'a> Needs<'a> {
    pub(super) fn new(observed: &Observed<'a>) -> Self {
        let Observed {
            workload, networks, ..
        } = *observed;
        let mut wanted: Vec<&str> = Vec::new();
        for interface in &workload.spec.template.spec.network_interfaces {
            // The namespace of the reference does not count (compute.md 2.1).
            let name = interface.network.name.as_str();
            if !wanted.contains(&name) {
                wanted.push(name);
            }
        }
        let missing = networks.map(|exists| {
            wanted.retain(|name| !exists(name));
            wanted
        });
        Self {
            workload,
            cities: observed.cities,
            missing,
        }
    }

    /// Which Networks do not exist, if any is known not to.
    pub(super) fn missing_networks(&self) -> Option<String> {
        let missing = self.missing.as_deref().unwrap_or_default();
        let namespace = self.workload.namespace().unwrap_or_default();
        let names: Vec<_> = missing
            .iter()
            .map(|name| format!("{namespace}/{name}"))
            .collect();
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("Network {name} does not exist")),
            names => Some(format!("Networks {} do not exist", names.join(", "))),
        }
    }

    /// Whether a Network did not exist when that was known last.
    pub(super) fn was_missing(&self) -> bool {
        let status = self.workload.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice());
        self.missing.is_err()
            && condition::find(conditions.unwrap_or_default(), AVAILABLE)
                .is_some_and(|former| former.reason == NETWORK_NOT_FOUND)
    }

    /// What keeps a city from getting a deployment: what is known before what is not.
    pub(super) fn obstacle(&self, city: &str) -> Option<Obstacle> {
        if self.cities.is_ok_and(|offers| !offers(city)) {
            return Some(Obstacle::NotOffered);
        }
        let unknown = self
            .cities
            .err()
            .or_else(|| self.missing.as_ref().err().copied());
        let waits = self
            .missing_networks()
            .or_else(|| unknown.map(str::to_owned));
        waits.map(Obstacle::Waits)
    }
}

/// Names the cities of a placement that get no deployment, and why.
pub(super) fn describe(gaps: &[Gap<'_>], placement: &str) -> Option<String> {
    let mut by_obstacle: Vec<(&Obstacle, Vec<&str>)> = Vec::new();
    for gap in gaps.iter().filter(|gap| gap.placement == placement) {
        let known = by_obstacle
            .iter_mut()
            .find(|(obstacle, _)| **obstacle == gap.obstacle);
        match known {
            Some((_, cities)) => cities.push(gap.city),
            None => by_obstacle.push((&gap.obstacle, vec![gap.city])),
        }
    }
    let described = by_obstacle.into_iter().map(|(obstacle, cities)| {
        let named: Vec<_> = cities.iter().take(CITIES_NAMED).copied().collect();
        let more = match cities.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = match obstacle {
            Obstacle::NotOffered => "the project has no usable LocationBinding there",
            Obstacle::Waits(why) => why,
        };
        format!("no deployment in {}{more}: {why}", named.join(", "))
    });
    let described: Vec<_> = described.collect();
    (!described.is_empty()).then(|| described.join("; "))
}
