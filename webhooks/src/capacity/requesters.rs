//! The bytes that the requests of each requester hold while their access reviews are in flight. All tenants of an API
//! server share its source address, so only this limit keeps the reviews of one tenant from using up all bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::overload::Overloaded;

/// The requesters with requests that wait for access reviews.
#[derive(Debug)]
pub(super) struct Requesters {
    /// The largest number of bytes of one requester, unless a single request needs more.
    most: usize,
    /// By the hash of project and user. If two requesters have the same hash, they share a limit.
    held: Mutex<HashMap<u64, usize>>,
    hasher: RandomState,
}

/// The bytes that one request holds of the limit of its requester. Dropping the value gives them back.
#[derive(Debug)]
pub(crate) struct RequesterShare {
    requesters: Arc<Requesters>,
    key: u64,
    bytes: usize,
}

impl Requesters {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            held: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Takes bytes of the limit of a requester. Its only request may need any number of bytes.
    ///
    /// # Errors
    ///
    /// [`Overloaded`] if other requests of this requester hold too many bytes.
    pub(super) fn hold(
        self: &Arc<Self>,
        project: &str,
        user: &str,
        bytes: usize,
    ) -> Result<RequesterShare, Overloaded> {
        let key = self.hasher.hash_one((project, user));
        let mut held = self.lock();
        let former = held.get(&key).copied().unwrap_or_default();
        let all = former.saturating_add(bytes);
        if former > 0 && all > self.most {
            return Err(Overloaded);
        }
        held.insert(key, all);
        Ok(RequesterShare {
            requesters: Arc::clone(self),
            key,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequesterShare {
    fn drop(&mut self) {
        let mut held = self.requesters.lock();
        let left = held.get(&self.key).copied().unwrap_or_default();
        match left.saturating_sub(self.bytes) {
            0 => held.remove(&self.key),
            left => held.insert(self.key, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_requester_leaves_bytes_for_others_and_is_forgotten_with_its_last_request() {
        let requesters = Arc::new(Requesters::new(10));
        let large = requesters.hold("p1", "ada", 12).unwrap();
        assert!(requesters.hold("p1", "ada", 1).is_err());
        drop(large);
        let held = [4, 6].map(|bytes| requesters.hold("p1", "ada", bytes).unwrap());
        assert!(requesters.hold("p1", "ada", 1).is_err());
        assert!(requesters.hold("p1", "bob", 10).is_ok());
        assert!(requesters.hold("p2", "ada", 10).is_ok());
        drop(held);
        assert!(requesters.lock().is_empty());
    }
}
