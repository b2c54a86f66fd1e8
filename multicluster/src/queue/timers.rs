//! Timers of keys that wait for a time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Longest timer: 24 h. This is longer than any wait in use, and short enough that an `Instant` plus the timer cannot
/// overflow.
const LONGEST: Duration = Duration::from_hours(24);

/// The due time of an action. No two timers are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    at: Instant,
    number: u64,
}

impl Timer {
    pub(super) fn at(&self) -> Instant {
        self.at
    }
}

/// Actions by due time. Unlike `tokio_util`'s `DelayQueue`, this type frees the memory of expired timers.
#[derive(Debug)]
pub(super) struct Timers<T> {
    due: BTreeMap<Timer, T>,
    made: u64,
}

impl<T> Timers<T> {
    pub(super) fn new() -> Self {
        Self {
            due: BTreeMap::new(),
            made: 0,
        }
    }

    pub(super) fn add(&mut self, after: Duration, what: T) -> Timer {
        self.made += 1;
        let timer = Timer {
            at: Instant::now() + after.min(LONGEST),
            number: self.made,
        };
        self.due.insert(timer, what);
        timer
    }

    pub(super) fn cancel(&mut self, timer: Timer) -> Option<T> {
        self.due.remove(&timer)
    }

    /// Returns the due time of the next action.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(timer, _)| timer.at)
    }

    /// Removes and returns the next action, if it is due now.
    pub(super) fn expired(&mut self, now: Instant) -> Option<T> {
        let entry = self.due.first_entry()?;
        (entry.key().at <= now).then(|| entry.remove())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }
}
