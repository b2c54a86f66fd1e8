//! The bytes that the requests of each requester and of each project hold while their access reviews are in flight. All
//! tenants of an API server share its source address, so only these limits keep the reviews of one tenant from using up
//! all bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::overload::Overloaded;

/// The requesters with requests that wait for access reviews.
#[derive(Debug)]
pub(super) struct Requesters {
    /// The largest number of bytes of one requester, unless a single request needs more. All requesters of one project
    /// together have twice as many.
    most: usize,
    /// By the hash of a project, or of a project and a user. If two have the same hash, they share a limit.
    held: Mutex<HashMap<u64, usize>>,
    hasher: RandomState,
}

/// The bytes that one request holds of the limits of its requester and of its project. Dropping the value gives them
/// back.
#[derive(Debug)]
pub(crate) struct RequesterShare {
    requesters: Arc<Requesters>,
    keys: [u64; 2],
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

    /// Takes bytes of the limits of a requester and of its project. Their only request may need any number of bytes.
    ///
    /// # Errors
    ///
    /// [`Overloaded`] if other requests of this requester or of this project hold too many bytes.
    pub(super) fn hold(
        self: &Arc<Self>,
        project: &str,
        user: &str,
        bytes: usize,
    ) -> Result<RequesterShare, Overloaded> {
        let keys = [
            self.hasher.hash_one((project, user)),
            self.hasher.hash_one(project),
        ];
        let mut held = self.lock();
        for (key, most) in keys.into_iter().zip([self.most, 2 * self.most]) {
            let former = held.get(&key).copied().unwrap_or_default();
            if former > 0 && former.saturating_add(bytes) > most {
                return Err(Overloaded);
            }
        }
        for key in keys {
            let held = held.entry(key).or_default();
            *held = held.saturating_add(bytes);
        }
        Ok(RequesterShare {
            requesters: Arc::clone(self),
            keys,
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
        for key in self.keys {
            let left = held.get(&key).copied().unwrap_or_default();
            match left.saturating_sub(self.bytes) {
                0 => held.remove(&key),
                left => held.insert(key, left),
            };
        }
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
        // All requesters of a project have twice as many bytes as one.
        let of_bob = requesters.hold("p1", "bob", 10).unwrap();
        assert!(requesters.hold("p1", "eve", 1).is_err());
        assert!(requesters.hold("p2", "eve", 10).is_ok());
        drop((held, of_bob));
        assert!(requesters.lock().is_empty());
    }
}
