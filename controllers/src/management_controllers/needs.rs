//! The inputs of the placement of Workloads, and which of their changes requeue the Workloads of a project.

use std::collections::BTreeSet;
use std::sync::Arc;

use multicluster::cache::SyncState;

use crate::projects::ProjectCaches;

/// Whether the objects of a kind are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// The kind has not been listed yet, or the API server does not answer.
    #[default]
    No,
    /// The API server does not serve the kind, or forbids to list it.
    Refused,
    /// The cache of the kind is current.
    Yes,
}

impl Known {
    fn of(sync_state: &SyncState) -> Self {
        match sync_state {
            SyncState::Current => Self::Yes,
            SyncState::Listing | SyncState::Failing { .. } => Self::No,
            SyncState::Forbidden { .. } | SyncState::NotServed { .. } => Self::Refused,
        }
    }

    /// Replaces the state by a later one. A refusal stays until the kind is known again.
    fn update(&mut self, later: Self) -> Effect {
        let recovered = later == Self::Yes && *self != Self::Yes;
        let refused = later == Self::Refused && *self != Self::Refused;
        if (*self, later) != (Self::Refused, Self::No) {
            *self = later;
        }
        Effect {
            changed: recovered || refused,
            recovered,
        }
    }
}

/// The inputs of the placement of Workloads.
#[derive(Debug, Default)]
pub(super) struct Needs {
    bindings: Known,
    networks: Known,
    /// Whether the conditions of Workloads must name Namespaces, Workloads, WorkloadDeployments and Instances, because
    /// the kind cannot be listed.
    unlisted: [bool; 4],
    /// The cities at the time when LocationBindings were last known.
    cities: Option<Arc<BTreeSet<String>>>,
    is_suspended: bool,
}

/// The effect of a change of [`Needs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Whether the Workloads of the project must be reconciled.
    pub(super) changed: bool,
    /// Whether failed writes may succeed now, because the API server answers again or the project is reinstated.
    pub(super) recovered: bool,
}

impl Effect {
    /// Returns the joint effect of two changes.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            changed: self.changed || other.changed,
            recovered: self.recovered || other.recovered,
        }
    }
}

impl Needs {
    /// Returns the current inputs of a project.
    pub(super) fn observe(caches: &ProjectCaches) -> Self {
        let project = &caches.locations;
        Self {
            bindings: Known::of(&project.bindings_state()),
            networks: Known::of(&caches.networks.sync_state().borrow()),
            unlisted: caches.list_problems().map(|problem| problem.is_some()),
            cities: project.cities().ok(),
            is_suspended: project.is_suspended(),
        }
    }

    /// Returns whether a kind has not been listed, and the API server has not refused the list.
    pub(super) fn is_unknown(&self) -> bool {
        [self.bindings, self.networks].contains(&Known::No)
    }

    /// Replaces the inputs by later ones, and returns the effect of the difference.
    pub(super) fn update(&mut self, later: Self) -> Effect {
        let suspension = Effect {
            changed: self.is_suspended != later.is_suspended,
            recovered: self.is_suspended && !later.is_suspended,
        };
        self.is_suspended = later.is_suspended;
        let cities = Effect {
            changed: later.cities.is_some() && self.cities != later.cities,
            recovered: false,
        };
        self.cities = later.cities.or_else(|| self.cities.take());
        let bindings = self.bindings.update(later.bindings);
        let networks = self.networks.update(later.networks);
        // The placement does not need these kinds.
        let unlisted = Effect {
            changed: self.unlisted != later.unlisted,
            recovered: false,
        };
        self.unlisted = later.unlisted;
        suspension
            .and(cities)
            .and(bindings)
            .and(networks)
            .and(unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(bindings: Known, networks: Known, cities: &[&str]) -> Needs {
        let cities = cities.iter().map(|&city| city.to_owned()).collect();
        Needs {
            bindings,
            networks,
            unlisted: [false; 4],
            cities: (bindings == Known::Yes).then(|| Arc::new(cities)),
            is_suspended: false,
        }
    }

    #[test]
    fn a_recovery_and_a_change_requeue_once_and_a_failure_does_not() {
        use Known::{No, Refused, Yes};
        let nothing = Effect::default();
        let changed = Effect {
            changed: true,
            recovered: false,
        };
        let recovered = Effect {
            changed: true,
            recovered: true,
        };
        let mut known = Needs::default();
        for (later, expected) in [
            (needs(No, No, &[]), nothing),
            (needs(Yes, No, &["DFW"]), recovered),
            (needs(Yes, Yes, &["DFW"]), recovered),
            (needs(Yes, Yes, &["DFW"]), nothing),
            (needs(Yes, Yes, &["DFW", "ORD"]), changed),
            // The API server stops answering, and the lists fail again and again.
            (needs(No, No, &[]), nothing),
            (needs(No, No, &[]), nothing),
            (needs(Yes, Yes, &["DFW", "ORD"]), recovered),
            // A kind is refused. Between two refusals, the API server does not answer.
            (needs(Yes, Refused, &["DFW", "ORD"]), changed),
            (needs(Yes, No, &["DFW", "ORD"]), nothing),
            (needs(Yes, Refused, &["DFW", "ORD"]), nothing),
            (needs(Yes, Yes, &["DFW", "ORD"]), recovered),
        ] {
            let text = format!("{later:?}");
            assert_eq!(known.update(later), expected, "{text}");
        }
        let suspended = Needs {
            is_suspended: true,
            ..needs(Yes, Yes, &["DFW", "ORD"])
        };
        assert_eq!(known.update(suspended), changed);
        assert_eq!(known.update(needs(Yes, Yes, &["DFW", "ORD"])), recovered);
    }

    #[test]
    fn an_unlisted_kind_requeues_when_its_problem_begins_and_ends() {
        let unlisted = |instances| Needs {
            unlisted: [false, false, false, instances],
            ..needs(Known::Yes, Known::Yes, &["DFW"])
        };
        let mut known = Needs::default();
        known.update(unlisted(false));
        for (later, changed) in [
            (false, false),
            (true, true),
            (true, false),
            (false, true),
            (false, false),
        ] {
            let expected = Effect {
                changed,
                recovered: false,
            };
            assert_eq!(known.update(unlisted(later)), expected, "{later}");
        }
    }
}
