//! What is due at which time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Where "never" would be: longer than anyone waits, and a time that can be told.
const LONGEST: Duration = Duration::from_hours(24);

/// When something is due; no two are equal.
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

/// What is due at which time. Unlike a `DelayQueue`, it gives back the memory of what is done.
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

    /// When the next is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(timer, _)| timer.at)
    }

    /// The next, if it is due now.
    pub(super) fn expired(&mut self, now: Instant) -> Option<T> {
        let entry = self.due.first_entry()?;
        (entry.key().at <= now).then(|| entry.remove())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }
}
