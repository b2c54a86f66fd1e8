//! The requests of each requester and of each project whose access reviews are in flight, and the bytes that these
//! requests hold. All tenants of an API server share its source address, so only these limits keep the reviews of one
//! tenant from using up all bytes, or all connections of the source address.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::overload::Overloaded;

/// The requesters with requests that wait for access reviews.
#[derive(Debug)]
pub(super) struct Requesters {
    /// The limit of one requester. All requesters of one project together have twice as much.
    most: Held,
    /// By the hash of a project, or of a project and a user. If two have the same hash, they share a limit.
    held: Mutex<HashMap<u64, Held>>,
    hasher: RandomState,
}

/// The requests of a requester or of a project, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

/// One request and its bytes, which count in the limits of its requester and of its project. Dropping the value gives
/// them back.
#[derive(Debug)]
pub(crate) struct RequesterShare {
    requesters: Arc<Requesters>,
    keys: [u64; 2],
    bytes: usize,
}

impl Requesters {
    pub(super) fn new(most: Held) -> Self {
        Self {
            most,
            held: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request and its bytes for a requester and for its project. Their only request is always accepted.
    ///
    /// # Errors
    ///
    /// [`Overloaded`] if this requester or this project has too many other requests, or if they hold too many bytes.
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
        let most_of_project = Held {
            requests: self.most.requests.saturating_mul(2),
            bytes: self.most.bytes.saturating_mul(2),
        };
        let mut held = self.lock();
        for (key, most) in keys.into_iter().zip([self.most, most_of_project]) {
            let former = held.get(&key).copied().unwrap_or_default();
            let is_full =
                former.requests >= most.requests || former.bytes.saturating_add(bytes) > most.bytes;
            if former.requests > 0 && is_full {
                return Err(Overloaded);
            }
        }
        for key in keys {
            let held = held.entry(key).or_default();
            held.requests += 1;
            held.bytes = held.bytes.saturating_add(bytes);
        }
        Ok(RequesterShare {
            requesters: Arc::clone(self),
            keys,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequesterShare {
    fn drop(&mut self) {
        let mut held = self.requesters.lock();
        for key in self.keys {
            let Some(left) = held.get_mut(&key) else {
                continue;
            };
            left.requests -= 1;
            left.bytes = left.bytes.saturating_sub(self.bytes);
            if left.requests == 0 {
                held.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_requester_leaves_bytes_for_others_and_is_forgotten_with_its_last_request() {
        let requesters = Arc::new(Requesters::new(Held {
            requests: 10,
            bytes: 10,
        }));
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

    #[test]
    fn one_requester_and_one_project_leave_connections_for_others() {
        let requesters = Arc::new(Requesters::new(Held {
            requests: 2,
            bytes: 1000,
        }));
        let request = |project, user| requesters.hold(project, user, 1);
        let mut held = Vec::from(["ada", "ada", "bob"].map(|user| request("p1", user).unwrap()));
        assert!(request("p1", "ada").is_err());
        held.push(request("p1", "bob").unwrap());
        // All requesters of a project have twice as many requests as one.
        assert!(request("p1", "eve").is_err());
        assert!(request("p2", "ada").is_ok());
        held.pop();
        assert!(request("p1", "eve").is_ok());
        drop(held);
        assert!(requesters.lock().is_empty());
    }
}
