//! How often the summaries of a project are evaluated. Many cells can report at the same time, and a project can have many
//! summaries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::keys::ProjectKey;

/// Shortest time between two evaluations of a summary.
pub(crate) const EVALUATED_EVERY: Duration = Duration::from_secs(1);

/// Bytes of its status that a summary writes per second at most, on average. Each write has the whole status, so a summary
/// with a large status is evaluated less often.
pub(crate) const BYTES_PER_SECOND: u32 = 16 * 1024;

/// The pause of all summaries of a project after an evaluation, as a multiple of the duration of the evaluation. So the
/// summaries of one project use about a tenth of a processor.
pub(crate) const PAUSE_PER_EVALUATION: u32 = 9;

/// Longest pause after an evaluation.
pub(crate) const EVALUATION_PAUSE_MAX: Duration = Duration::from_mins(1);

/// The time between the next attempts of two summaries of a project that wait for others.
const SLOT: Duration = Duration::from_millis(10);

/// The pace of the summaries of a project. One of them is evaluated at a time.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Evaluations>);

/// Namespace and name of a summary.
type Id = (String, String);

fn id(key: &ProjectKey) -> Id {
    (key.namespace.clone(), key.name.clone())
}

#[derive(Debug, Default)]
struct Evaluations {
    /// When each summary may be evaluated again.
    next: BTreeMap<Id, Instant>,
    /// When each summary that waits for others tries again.
    slots: BTreeMap<Id, Instant>,
    /// The last of all slots.
    last_slot: Option<Instant>,
    /// Whether a summary is being evaluated.
    is_busy: bool,
    /// The end of the pause of all summaries.
    paused_until: Option<Instant>,
    /// The summaries whose status could not be written.
    failed: BTreeSet<Id>,
}

/// The turn of a summary to be evaluated. No other summary of the project has one at the same time.
#[derive(Debug)]
pub(super) struct Turn<'p> {
    pace: &'p Pace,
    begin: Instant,
}

impl Pace {
    /// Begins the turn of a summary.
    ///
    /// # Errors
    ///
    /// How long the summary must wait, if it has no turn now. Summaries that wait for others wait for different times.
    pub(super) fn begin(&self, key: &ProjectKey, now: Instant) -> Result<Turn<'_>, Duration> {
        let mut evaluations = self.lock();
        let id = id(key);
        let is_later = |time: &Instant| *time > now;
        if let Some(next) = evaluations.next.get(&id).copied().filter(is_later) {
            return Err(next - now);
        }
        let slot = evaluations.slots.get(&id).copied();
        if let Some(slot) = slot.filter(is_later) {
            return Err(slot - now);
        }
        // Without a slot of its own, a summary must not overtake those that wait.
        let others = evaluations.last_slot.filter(|_| slot.is_none());
        let paused = evaluations.paused_until.max(others).filter(is_later);
        if paused.is_none() && !evaluations.is_busy {
            evaluations.is_busy = true;
            evaluations.slots.remove(&id);
            let begin = now;
            let pace = self;
            return Ok(Turn { pace, begin });
        }
        let after = evaluations.paused_until.max(evaluations.last_slot);
        let slot = after.map_or(now, |after| after.max(now)) + SLOT;
        evaluations.slots.insert(id, slot);
        evaluations.last_slot = Some(slot);
        Err(slot - now)
    }

    /// Forgets a summary that no longer exists.
    pub(super) fn forget(&self, key: &ProjectKey) {
        let id = id(key);
        let mut evaluations = self.lock();
        evaluations.next.remove(&id);
        evaluations.slots.remove(&id);
        evaluations.failed.remove(&id);
    }

    /// Notes that a status of this size was written, or that no write was needed. `begin` is the begin of the turn.
    pub(super) fn written(&self, key: &ProjectKey, begin: Instant, bytes: usize) {
        let id = id(key);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let interval = Duration::from_secs(1) * bytes / BYTES_PER_SECOND;
        let mut evaluations = self.lock();
        evaluations.failed.remove(&id);
        let next = begin + interval.max(EVALUATED_EVERY);
        evaluations.next.insert(id, next);
    }

    /// Notes that a status could not be written. The queue decides when to try again.
    pub(super) fn failed(&self, key: &ProjectKey) {
        self.lock().failed.insert(id(key));
    }

    /// Returns whether the last status could not be written. Then a wait must not count as a success.
    pub(super) fn has_failed(&self, key: &ProjectKey) -> bool {
        self.lock().failed.contains(&id(key))
    }

    fn lock(&self) -> MutexGuard<'_, Evaluations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Ends the evaluation. Returns when it began.
    pub(super) fn end(self, end: Instant) -> Instant {
        let pause = end.saturating_duration_since(self.begin);
        let pause = pause.saturating_mul(PAUSE_PER_EVALUATION);
        self.pace.lock().paused_until = Some(end + pause.min(EVALUATION_PAUSE_MAX));
        self.begin
    }
}

impl Drop for Turn<'_> {
    /// Lets others begin, also if the evaluation was stopped.
    fn drop(&mut self) {
        self.pace.lock().is_busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::servers::project_key;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Returns how long the summary must wait. Otherwise it is evaluated at once.
    fn wait(pace: &Pace, name: &str, now: Instant) -> Option<Duration> {
        let turn = pace.begin(&project_key(name), now);
        turn.map(|turn| end(pace, name, turn, now, 0)).err()
    }

    /// Ends the evaluation of a summary whose status of this size is then written.
    fn end(pace: &Pace, name: &str, turn: Turn<'_>, now: Instant, bytes: usize) {
        let begin = turn.end(now);
        pace.written(&project_key(name), begin, bytes);
    }

    #[test]
    fn a_summary_waits_until_a_second_has_passed() {
        let pace = Pace::default();
        let begin = Instant::now();
        assert_eq!(wait(&pace, "web", begin), None);
        let later = begin + ms(300);
        assert_eq!(wait(&pace, "web", later), Some(ms(700)));
        assert_eq!(wait(&pace, "other", later), None);
        let later = begin + EVALUATED_EVERY;
        assert_eq!(wait(&pace, "web", later), None);
        assert_eq!(wait(&pace, "web", later), Some(EVALUATED_EVERY));
        pace.forget(&project_key("web"));
        assert_eq!(wait(&pace, "web", later), None);
    }

    #[test]
    fn a_large_status_is_written_less_often() {
        let (pace, key, begin) = (Pace::default(), project_key("web"), Instant::now());
        for (bytes, expected) in [
            (0, ms(1000)),
            (16 * 1024, ms(1000)),
            (24 * 1024, ms(1500)),
            (256 * 1024, ms(16_000)),
        ] {
            pace.forget(&key);
            let turn = pace.begin(&key, begin).unwrap();
            end(&pace, "web", turn, begin, bytes);
            assert_eq!(wait(&pace, "web", begin), Some(expected));
        }
    }

    #[test]
    fn one_summary_of_a_project_is_evaluated_at_a_time() {
        let (pace, begin) = (Pace::default(), Instant::now());
        let turn = pace.begin(&project_key("web"), begin).unwrap();
        assert_eq!(wait(&pace, "a", begin), Some(SLOT));
        end(&pace, "web", turn, begin + ms(5), 0);
        // An evaluation that does not end, as that of a worker that stops, keeps no other one waiting.
        let later = begin + ms(60);
        drop(pace.begin(&project_key("b"), later).unwrap());
        assert_eq!(wait(&pace, "a", later), None);
    }

    #[test]
    fn a_long_evaluation_pauses_all_summaries_of_the_project() {
        let (pace, begin) = (Pace::default(), Instant::now());
        let ended = begin + ms(200);
        let turn = pace.begin(&project_key("web"), begin).unwrap();
        end(&pace, "web", turn, ended, 0);
        // They wait for different times, and keep them.
        for _ in 0..2 {
            assert_eq!(wait(&pace, "a", ended), Some(ms(1800) + SLOT));
            assert_eq!(wait(&pace, "b", ended), Some(ms(1800) + 2 * SLOT));
        }
        let free = ended + ms(1800);
        // One that comes later does not overtake them.
        assert_eq!(wait(&pace, "c", free), Some(3 * SLOT));
        assert_eq!(wait(&pace, "a", free + SLOT), None);

        let turn = pace.begin(&project_key("b"), free + 2 * SLOT).unwrap();
        let ended = free + Duration::from_hours(1);
        end(&pace, "b", turn, ended, 0);
        assert_eq!(wait(&pace, "web", ended), Some(EVALUATION_PAUSE_MAX + SLOT));
    }
}
