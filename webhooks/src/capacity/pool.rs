//! A pool of slots or bytes. A request takes a number of them and gives them back.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::overload::Overloaded;

/// A number of equal things, for example bytes. Nothing waits for them.
#[derive(Debug)]
pub(super) struct Pool {
    max: usize,
    taken: AtomicUsize,
}

impl Pool {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            taken: AtomicUsize::new(0),
        }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of things that nobody has taken.
    pub(super) fn free(&self) -> usize {
        self.max.saturating_sub(self.taken.load(Ordering::Acquire))
    }

    /// Takes `count` things if as many are free.
    pub(super) fn take(&self, count: usize) -> Result<(), Overloaded> {
        self.take_up_to(self.max, count)
    }

    /// Takes `count` things if at most `max` are taken then.
    pub(super) fn take_up_to(&self, max: usize, count: usize) -> Result<(), Overloaded> {
        let max = max.min(self.max);
        let add = |taken: usize| taken.checked_add(count).filter(|sum| *sum <= max);
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        taken.map(|_| ()).map_err(|_| Overloaded)
    }

    pub(super) fn give(&self, count: usize) {
        self.taken.fetch_sub(count, Ordering::AcqRel);
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}
