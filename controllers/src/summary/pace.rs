//! How often the summaries of a project are evaluated. Many cells can report at the same time, and a project can have many
//! summaries.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::keys::ProjectKey;

/// Shortest time between two evaluations of a summary.
pub(crate) const EVALUATED_EVERY: Duration = Duration::from_secs(1);

/// The pause of all summaries of a project after an evaluation, as a multiple of the duration of the evaluation. So the
/// summaries of one project use about a tenth of a processor.
pub(crate) const PAUSE_PER_EVALUATION: u32 = 9;

/// The pace of the summaries of a project.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Evaluations>);

#[derive(Debug, Default)]
struct Evaluations {
    /// When each summary was evaluated last, by namespace and name.
    last: BTreeMap<(String, String), Instant>,
    /// The end of the pause of all summaries.
    paused_until: Option<Instant>,
}

impl Pace {
    /// Returns how long the summary must wait. Returns `None` if it may be evaluated now, and notes the time.
    pub(super) fn wait(&self, key: &ProjectKey, now: Instant) -> Option<Duration> {
        let mut evaluations = self.lock();
        let id = (key.namespace.clone(), key.name.clone());
        let next = evaluations
            .last
            .get(&id)
            .map(|last| *last + EVALUATED_EVERY);
        let next = next.max(evaluations.paused_until);
        let wait = next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        if !wait.is_zero() {
            return Some(wait);
        }
        evaluations.last.insert(id, now);
        None
    }

    /// Notes how long an evaluation took.
    pub(super) fn note(&self, begin: Instant, end: Instant) {
        let pause = end.saturating_duration_since(begin) * PAUSE_PER_EVALUATION;
        let mut evaluations = self.lock();
        evaluations.paused_until = evaluations.paused_until.max(Some(end + pause));
    }

    /// Forgets a summary that no longer exists.
    pub(super) fn forget(&self, key: &ProjectKey) {
        let id = (key.namespace.clone(), key.name.clone());
        self.lock().last.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Evaluations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::servers::project_key;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_summary_waits_until_a_second_has_passed() {
        let (pace, key) = (Pace::default(), project_key("web"));
        let begin = Instant::now();
        assert_eq!(pace.wait(&key, begin), None);
        let later = begin + ms(300);
        assert_eq!(pace.wait(&key, later), Some(ms(700)));
        assert_eq!(pace.wait(&project_key("other"), later), None);
        let later = begin + EVALUATED_EVERY;
        assert_eq!(pace.wait(&key, later), None);
        assert_eq!(pace.wait(&key, later), Some(EVALUATED_EVERY));
        pace.forget(&key);
        assert_eq!(pace.wait(&key, later), None);
    }

    #[test]
    fn a_long_evaluation_pauses_all_summaries_of_the_project() {
        let (pace, other) = (Pace::default(), project_key("other"));
        let begin = Instant::now();
        let end = begin + ms(200);
        pace.note(begin, end);
        assert_eq!(pace.wait(&other, end), Some(ms(1800)));
        // A shorter evaluation does not end the pause.
        pace.note(end, end + ms(1));
        assert_eq!(pace.wait(&other, end + ms(100)), Some(ms(1700)));
        assert_eq!(pace.wait(&other, end + ms(1800)), None);
    }
}
