//! Remembers the problems that were logged, so that callers do not log the same problem for each request. For example,
//! a bad object of a tenant does not cause one warning per request.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};

/// Maximum number of remembered problems. Above this number the oldest problem is removed, and can be logged again.
const REMEMBERED_MAX: usize = 4096;

/// Remembers the problems that were logged.
#[derive(Debug, Default)]
pub struct LogDedup {
    hasher: RandomState,
    logged: Mutex<LoggedProblems>,
}

/// Hashes of the logged problems.
#[derive(Debug, Default)]
struct LoggedProblems {
    hashes: HashSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl LogDedup {
    /// Remembers the problem. Returns true if the problem was not remembered yet. The caller must then log it.
    pub fn is_first(&self, problem: impl Hash) -> bool {
        let hash = self.hasher.hash_one(problem);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if !logged.hashes.insert(hash) {
            return false;
        }
        logged.oldest_first.push_back(hash);
        if logged.oldest_first.len() > REMEMBERED_MAX
            && let Some(oldest) = logged.oldest_first.pop_front()
        {
            logged.hashes.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_first_once_and_the_memory_is_bounded() {
        let dedup = LogDedup::default();
        assert!(dedup.is_first(("ns", "name", "broken")));
        assert!(!dedup.is_first(("ns", "name", "broken")));
        assert!(dedup.is_first(("ns", "other", "broken")));
        for index in 0..REMEMBERED_MAX {
            dedup.is_first(index);
        }
        assert!(dedup.is_first(("ns", "name", "broken")));
        assert!(dedup.logged.lock().unwrap().hashes.len() <= REMEMBERED_MAX);
    }
}
