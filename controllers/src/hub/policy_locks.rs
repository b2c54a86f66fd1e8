//! Locks that prevent the creation of a copy while the policy of its city is being deleted. The same process decides
//! about copies and policies, so locks in memory suffice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::{CityCode, HubNamespace};

type Policies = (HubNamespace, CityCode);

/// The locks of all cities in all hub namespaces. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyLocks(Arc<Mutex<BTreeMap<Policies, Use>>>);

#[derive(Debug)]
enum Use {
    /// The number of copies that are being created.
    Copies(usize),
    /// A policy is being deleted.
    Deletion,
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct PolicyLock {
    of: Policies,
    all: PolicyLocks,
}

impl PolicyLocks {
    /// Locks the policies of a city for the creation of a copy. Take the lock before you check that a policy exists.
    /// Hold it until the copy is created and in the cache. Returns `None` while a policy of the city is being deleted.
    pub(crate) fn for_a_copy(
        &self,
        namespace: &HubNamespace,
        city: &CityCode,
    ) -> Option<PolicyLock> {
        self.lock(namespace, city, |present| match present {
            None => Some(Use::Copies(1)),
            Some(Use::Copies(count)) => Some(Use::Copies(count + 1)),
            Some(Use::Deletion) => None,
        })
    }

    /// Locks the policies of a city for a deletion. Take the lock before you check that the policy is unneeded. Hold it
    /// until the policy is deleted and out of the cache. Returns `None` while a copy of the city is being created.
    pub(crate) fn for_a_deletion(
        &self,
        namespace: &HubNamespace,
        city: &CityCode,
    ) -> Option<PolicyLock> {
        self.lock(namespace, city, |present| {
            present.is_none().then_some(Use::Deletion)
        })
    }

    fn lock(
        &self,
        namespace: &HubNamespace,
        city: &CityCode,
        next: impl FnOnce(Option<&Use>) -> Option<Use>,
    ) -> Option<PolicyLock> {
        let of = (namespace.clone(), city.clone());
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(uses.get(&of))?;
        uses.insert(of.clone(), next);
        let all = self.clone();
        Some(PolicyLock { of, all })
    }
}

impl Drop for PolicyLock {
    fn drop(&mut self) {
        let mut uses = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get_mut(&self.of) {
            Some(Use::Copies(count)) if *count > 1 => *count -= 1,
            _ => drop(uses.remove(&self.of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_a_deletion_exclude_each_other() {
        let all = PolicyLocks::default();
        let namespace = |name| HubNamespace::new(name).unwrap();
        let city = |code| CityCode::new(code).unwrap();
        let copy = || all.for_a_copy(&namespace("ns-1"), &city("DFW"));
        let deletion = || all.for_a_deletion(&namespace("ns-1"), &city("DFW"));
        let (first, second) = (copy().unwrap(), copy().unwrap());
        assert!(deletion().is_none());
        drop(first);
        assert!(deletion().is_none());
        drop(second);
        let held = deletion().unwrap();
        assert!(copy().is_none() && deletion().is_none());
        assert!(
            all.for_a_copy(&namespace("ns-1"), &city("dfw")).is_some()
                && all.for_a_copy(&namespace("ns-2"), &city("DFW")).is_some()
        );
        drop(held);
        assert!(copy().is_some());
        assert!(all.0.lock().unwrap().is_empty());
    }
}
