//! Locks that prevent the use of an object while the object is being deleted. The same process decides about uses and
//! deletions, so locks in memory suffice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The locks of all objects that are used or deleted at present. Cheap to clone.
#[derive(Debug)]
pub(crate) struct DeletionLocks<K: Ord>(Arc<Mutex<BTreeMap<K, Use>>>);

#[derive(Debug)]
enum Use {
    /// The number of uses that begin.
    Uses(usize),
    Deletion,
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct DeletionLock<K: Ord> {
    of: K,
    all: DeletionLocks<K>,
}

impl<K: Ord> Clone for DeletionLocks<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord> Default for DeletionLocks<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Ord + Clone> DeletionLocks<K> {
    /// Locks an object that is going to be used. Take the lock before you check that the object exists. Hold it until
    /// the object is used and this is in the cache. Returns `None` while the object is being deleted.
    pub(crate) fn for_a_use(&self, of: K) -> Option<DeletionLock<K>> {
        self.lock(of, |present| match present {
            None => Some(Use::Uses(1)),
            Some(Use::Uses(count)) => Some(Use::Uses(count + 1)),
            Some(Use::Deletion) => None,
        })
    }

    /// Locks an object for its deletion. Take the lock before you check that the object is unneeded. Hold it until the
    /// object is deleted and out of the cache. Returns `None` while a use of the object begins.
    pub(crate) fn for_a_deletion(&self, of: K) -> Option<DeletionLock<K>> {
        self.lock(of, |present| present.is_none().then_some(Use::Deletion))
    }

    fn lock(
        &self,
        of: K,
        next: impl FnOnce(Option<&Use>) -> Option<Use>,
    ) -> Option<DeletionLock<K>> {
        let mut uses = lock(&self.0);
        let next = next(uses.get(&of))?;
        uses.insert(of.clone(), next);
        let all = self.clone();
        Some(DeletionLock { of, all })
    }
}

impl<K: Ord> Drop for DeletionLock<K> {
    fn drop(&mut self) {
        let mut uses = lock(&self.all.0);
        match uses.get_mut(&self.of) {
            Some(Use::Uses(count)) if *count > 1 => *count -= 1,
            _ => drop(uses.remove(&self.of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_and_a_deletion_exclude_each_other() {
        let all = DeletionLocks::default();
        let use_of = || all.for_a_use("a");
        let deletion = || all.for_a_deletion("a");
        let (first, second) = (use_of().unwrap(), use_of().unwrap());
        assert!(deletion().is_none());
        drop(first);
        assert!(deletion().is_none());
        drop(second);
        let held = deletion().unwrap();
        assert!(use_of().is_none() && deletion().is_none());
        assert!(all.for_a_use("b").is_some());
        drop(held);
        assert!(use_of().is_some());
        assert!(all.0.lock().unwrap().is_empty());
    }
}
