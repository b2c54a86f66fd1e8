//! The policies that the hub refuses to create, with the message of its API server. The policy controller records them,
//! and the federator shows the message on the WorkloadDeployments that wait for the policy.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::{CityCode, HubNamespace};

/// The refusals, by hub namespace and city.
#[derive(Debug, Default)]
pub(crate) struct PolicyRefusals(Mutex<BTreeMap<HubNamespace, BTreeMap<CityCode, String>>>);

impl PolicyRefusals {
    /// Returns the message of the API server if it refuses the policy of this city.
    pub(crate) fn get(&self, namespace: &HubNamespace, city: &CityCode) -> Option<String> {
        self.lock().get(namespace)?.get(city).cloned()
    }

    /// Adds refusals to those of a hub namespace.
    pub(crate) fn extend(&self, namespace: &HubNamespace, refusals: BTreeMap<CityCode, String>) {
        if !refusals.is_empty() {
            let mut all = self.lock();
            all.entry(namespace.clone()).or_default().extend(refusals);
        }
    }

    /// Replaces the refusals of a hub namespace.
    pub(crate) fn set(&self, namespace: &HubNamespace, refusals: BTreeMap<CityCode, String>) {
        let mut all = self.lock();
        match refusals.is_empty() {
            true => all.remove(namespace),
            false => all.insert(namespace.clone(), refusals),
        };
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HubNamespace, BTreeMap<CityCode, String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_last_until_they_are_replaced() {
        let all = PolicyRefusals::default();
        let namespace = |name| HubNamespace::new(name).unwrap();
        let city = |code| CityCode::new(code).unwrap();
        let get = |name, code| all.get(&namespace(name), &city(code));
        all.set(&namespace("ns-1"), [(city("DFW"), "no".to_owned())].into());
        assert_eq!(get("ns-1", "DFW").as_deref(), Some("no"));
        assert_eq!((get("ns-1", "ORD"), get("ns-2", "DFW")), (None, None));
        all.set(&namespace("ns-1"), BTreeMap::new());
        assert_eq!(get("ns-1", "DFW"), None);
        assert!(all.lock().is_empty());
    }
}
