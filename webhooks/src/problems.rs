//! Which problems have been reported: a bad object in a tenant's namespace is one line in the log, not one per call.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};

/// Problems that are remembered. Beyond them the oldest is reported again.
const REMEMBERED: usize = 4096;

/// The problems that were reported last.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    hasher: RandomState,
    reported: Mutex<Reported>,
}

#[derive(Debug, Default)]
struct Reported {
    hashes: HashSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl Problems {
    /// Whether this problem has not been reported yet.
    pub(crate) fn is_new(&self, problem: impl Hash) -> bool {
        let hash = self.hasher.hash_one(problem);
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.hashes.insert(hash) {
            return false;
        }
        reported.oldest_first.push_back(hash);
        if reported.oldest_first.len() > REMEMBERED
            && let Some(oldest) = reported.oldest_first.pop_front()
        {
            reported.hashes.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_new_once_and_the_memory_is_bounded() {
        let problems = Problems::default();
        assert!(problems.is_new(("ns", "name", "broken")));
        assert!(!problems.is_new(("ns", "name", "broken")));
        assert!(problems.is_new(("ns", "other", "broken")));
        for index in 0..REMEMBERED {
            problems.is_new(index);
        }
        assert!(problems.is_new(("ns", "name", "broken")));
        assert!(problems.reported.lock().unwrap().hashes.len() <= REMEMBERED);
    }
}
