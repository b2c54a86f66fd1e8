//! The requests of each requester and of each project whose access reviews are in flight, and the bytes that these
//! requests hold. All tenants of an API server share its source address, so only these limits keep the reviews of some
//! tenants from using up all bytes, or all connections of the source address.
//!
//! All requests together have three quarters. Of what other projects leave of them, a project may have one half, and a
//! requester at most one quarter of everything.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http_error::HttpError;
use crate::overload::Overloaded;

/// The requesters with requests that wait for access reviews.
#[derive(Debug)]
pub(super) struct Requesters {
    /// The limit of one requester.
    of_requester: Held,
    /// The limit of all requests together.
    of_all: Held,
    waiting: Mutex<Waiting>,
    hasher: RandomState,
}

/// The requests that wait for access reviews.
#[derive(Debug, Default)]
struct Waiting {
    /// By the hash of a project, or of a project and a user. If two have the same hash, they share a limit.
    held: HashMap<u64, Held>,
    all: Held,
}

/// The requests of a requester or of a project, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

impl Held {
    /// Returns these numbers, changed by a function.
    fn map(self, change: impl Fn(usize) -> usize) -> Self {
        Self {
            requests: change(self.requests),
            bytes: change(self.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns whether there is no room for another request with these bytes.
    fn is_full(self, most: Self, bytes: usize) -> bool {
        self.requests >= most.requests || self.bytes.saturating_add(bytes) > most.bytes
    }
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
    /// `everything` is what all requests of the protocol have, also those without access reviews.
    pub(super) fn new(everything: Held) -> Self {
        Self {
            of_requester: everything.map(|all| all / 4),
            of_all: everything.map(|all| (all - all / 4).max(1)),
            waiting: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request and its bytes for a requester and for its project. Their only request may have any size.
    ///
    /// # Errors
    ///
    /// [`HttpError::TooManyReviews`] if this requester or this project has too many other requests, or if they hold too
    /// many bytes. [`HttpError::Overloaded`] if all requests together are too many.
    pub(super) fn hold(
        self: &Arc<Self>,
        project: &str,
        user: &str,
        bytes: usize,
    ) -> Result<RequesterShare, HttpError> {
        let of_project = self.hasher.hash_one(project);
        let of_user = self.hasher.hash_one((project, user));
        let mut waiting = self.lock();
        let held = |key| waiting.held.get(&key).copied().unwrap_or_default();
        let others = waiting.all.minus(held(of_project));
        let most_of_project = self.of_all.minus(others).map(|left| left.div_ceil(2));
        let limits = [(of_user, self.of_requester), (of_project, most_of_project)];
        let is_beyond = |(key, most): (u64, Held)| {
            let held = held(key);
            held.requests > 0 && held.is_full(most, bytes)
        };
        if limits.into_iter().any(is_beyond) {
            return Err(HttpError::TooManyReviews);
        }
        if waiting.all.requests > 0 && waiting.all.is_full(self.of_all, bytes) {
            return Err(Overloaded.into());
        }
        let keys = [of_user, of_project];
        for key in keys {
            waiting.held.entry(key).or_default().add(bytes);
        }
        waiting.all.add(bytes);
        Ok(RequesterShare {
            requesters: Arc::clone(self),
            keys,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequesterShare {
    fn drop(&mut self) {
        let mut waiting = self.requesters.lock();
        let one = Held {
            requests: 1,
            bytes: self.bytes,
        };
        for key in self.keys {
            let Some(left) = waiting.held.get_mut(&key) else {
                continue;
            };
            *left = left.minus(one);
            if left.requests == 0 {
                waiting.held.remove(&key);
            }
        }
        waiting.all = waiting.all.minus(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_requester_leaves_bytes_for_others_and_is_forgotten_with_its_last_request() {
        let requesters = Arc::new(Requesters::new(Held {
            requests: 400,
            bytes: 40,
        }));
        let request = |project, user, bytes| requesters.hold(project, user, bytes);
        let large = request("p1", "ada", 12).unwrap();
        assert!(request("p1", "ada", 1).is_err());
        drop(large);
        let held = [4, 6].map(|bytes| request("p1", "ada", bytes).unwrap());
        assert!(request("p1", "ada", 1).is_err());
        // The project has half of 30 bytes.
        assert!(request("p1", "bob", 6).is_err());
        let of_bob = request("p1", "bob", 5).unwrap();
        assert!(request("p1", "eve", 1).is_err());
        assert!(request("p2", "ada", 10).is_ok());
        drop((held, of_bob));
        let waiting = requesters.lock();
        assert!(waiting.held.is_empty() && waiting.all == Held::default());
    }

    #[test]
    fn some_requesters_and_projects_leave_connections_for_others() {
        let requesters = Arc::new(Requesters::new(Held {
            requests: 40,
            bytes: 1000,
        }));
        let mut held = Vec::new();
        // Each project takes what it gets.
        let mut taken = Vec::new();
        for project in ["p1", "p2", "p3", "p4", "p5"] {
            let before = held.len();
            for user in ["ada", "bob", "eve"] {
                let of_user = held.len();
                while let Ok(share) = requesters.hold(project, user, 1) {
                    held.push(share);
                }
                assert!(held.len() - of_user <= 10, "{project} {user}");
            }
            taken.push(held.len() - before);
        }
        assert_eq!(taken, [15, 8, 4, 2, 1]);
        let refused = requesters.hold("p6", "ada", 1);
        assert!(matches!(refused, Err(HttpError::Overloaded(_))));
        // A quarter is left for requests without access reviews.
        assert_eq!(held.len(), 30);
        held.pop();
        assert!(requesters.hold("p6", "ada", 1).is_ok());
        let refused = requesters.hold("p1", "ada", 1);
        assert!(matches!(refused, Err(HttpError::TooManyReviews)));
        drop(held);
        assert!(requesters.lock().held.is_empty());
    }

    #[test]
    fn one_connection_is_enough_for_a_request() {
        let requesters = Arc::new(Requesters::new(Held {
            requests: 1,
            bytes: 10,
        }));
        let share = requesters.hold("p1", "ada", 20).unwrap();
        assert!(requesters.hold("p2", "ada", 1).is_err());
        drop(share);
        assert!(requesters.hold("p2", "ada", 1).is_ok());
    }
}
