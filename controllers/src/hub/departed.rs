//! The identities of hub namespaces that were deleted a moment ago. Each kind has its own watch, so the deletion of a
//! Namespace can be reported before the last events of its objects. Those events must still find their project.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::Change;

use super::upstream::Upstream;

/// How many deleted hub namespaces are remembered. The events of their objects arrive within seconds, so this is the
/// number of hub namespaces that may be deleted together. Beyond it, the resync finds what the events missed.
const REMEMBERED: usize = 1024;

/// The identities of the hub namespaces that were deleted last, in the order of their deletion.
#[derive(Debug, Default)]
pub(crate) struct DepartedNamespaces(Mutex<VecDeque<(String, Upstream)>>);

impl DepartedNamespaces {
    /// Notes a change of a hub namespace.
    pub(crate) fn note(&self, change: Change<'_>) {
        let name = |metadata: &ObjectMeta| metadata.name.clone();
        let Some(name) = change.current.or(change.former).and_then(name) else {
            return;
        };
        let mut departed = self.lock();
        departed.retain(|(departed, _)| *departed != name);
        let upstream = change.former.map(Upstream::of);
        if let (None, Some(Ok(upstream))) = (change.current, upstream) {
            departed.truncate(REMEMBERED - 1);
            departed.push_front((name, upstream));
        }
    }

    /// Returns the identity that a deleted hub namespace had.
    pub(crate) fn get(&self, name: &str) -> Option<Upstream> {
        let departed = self.lock();
        let found = departed.iter().find(|(departed, _)| departed == name);
        found.map(|(_, upstream)| upstream.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Upstream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::fakes::hub_namespace;

    #[test]
    fn the_last_deleted_namespaces_are_remembered() {
        let departed = DepartedNamespaces::default();
        let change = |former: Option<&ObjectMeta>, current: Option<&ObjectMeta>| {
            departed.note(Change { former, current });
        };
        let of_acme = hub_namespace("ns-1", Some(("acme", "default")));
        change(None, Some(&of_acme));
        assert_eq!(departed.get("ns-1"), None);
        change(Some(&of_acme), None);
        assert_eq!(departed.get("ns-1").unwrap().to_string(), "acme/default");
        // It exists again.
        change(None, Some(&of_acme));
        assert_eq!(departed.get("ns-1"), None);
        change(Some(&of_acme), None);
        for index in 0..REMEMBERED {
            assert!(departed.get("ns-1").is_some(), "{index}");
            let other = hub_namespace(&format!("other-{index}"), Some(("acme", "default")));
            change(Some(&other), None);
        }
        assert_eq!(departed.get("ns-1"), None);
        assert_eq!(departed.lock().len(), REMEMBERED);
        change(Some(&hub_namespace("plain", None)), None);
        assert_eq!(departed.get("plain"), None);
    }
}
