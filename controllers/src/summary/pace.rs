//! The shortest time between two evaluations of a summary. Many cells can report at the same time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::keys::ProjectKey;

/// Shortest time between two evaluations of a summary.
pub(crate) const EVALUATED_EVERY: Duration = Duration::from_secs(1);

/// When each summary of a project was evaluated last, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<BTreeMap<(String, String), Instant>>);

impl Pace {
    /// Returns how long the summary must wait. Returns `None` if it may be evaluated now, and notes the time.
    pub(super) fn wait(&self, key: &ProjectKey, now: Instant) -> Option<Duration> {
        let mut evaluated = self.lock();
        let id = (key.namespace.clone(), key.name.clone());
        if let Some(last) = evaluated.get(&id) {
            let wait = EVALUATED_EVERY.saturating_sub(now.duration_since(*last));
            if !wait.is_zero() {
                return Some(wait);
            }
        }
        evaluated.insert(id, now);
        None
    }

    /// Forgets a summary that no longer exists.
    pub(super) fn forget(&self, key: &ProjectKey) {
        let id = (key.namespace.clone(), key.name.clone());
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::servers::project_key;

    #[test]
    fn a_summary_waits_until_a_second_has_passed() {
        let (pace, key) = (Pace::default(), project_key("web"));
        let begin = Instant::now();
        assert_eq!(pace.wait(&key, begin), None);
        let later = begin + Duration::from_millis(300);
        assert_eq!(pace.wait(&key, later), Some(Duration::from_millis(700)));
        assert_eq!(pace.wait(&project_key("other"), later), None);
        let later = begin + Duration::from_secs(1);
        assert_eq!(pace.wait(&key, later), None);
        assert_eq!(pace.wait(&key, later), Some(EVALUATED_EVERY));
        pace.forget(&key);
        assert_eq!(pace.wait(&key, later), None);
    }
}
