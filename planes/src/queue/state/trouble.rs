//! Groups that are in trouble: left in peace, and tried again.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Due, State};
use crate::queue::failures::backoff;
use crate::queue::group::{Pause, Place, Report};
use crate::queue::{Failure, Key, Trouble};

/// Longest wait until an API server that could not be reached is tried again: as long as lists are not tried again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl<K: Key> State<K> {
    /// Notes what the end of a reconciliation says of the group.
    pub(super) fn note<E: Failure>(&mut self, id: &K::Group, report: Report, failure: Option<&E>) {
        match (report.trouble, failure) {
            (Some(Trouble::Unreachable), Some(error)) => self.pause(id, error),
            (Some(Trouble::Suspended), Some(error)) => self.suspend(id, error),
            _ => {}
        }
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let none_parked = group.parked.is_empty();
        if report.reached {
            group.reached += 1;
            self.resume(id);
        }
        if report.allowed && none_parked {
            self.unsuspend(id);
        }
    }

    /// Tries a group again in which something may have changed.
    pub(crate) fn release(&mut self, id: &K::Group) {
        self.resume(id);
        self.unsuspend(id);
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        for key in mem::take(&mut group.parked) {
            let Some(group) = self.groups.get(id) else {
                return;
            };
            if let Some(Place::Waiting(timer)) = group.entries.get(&key).map(|entry| &entry.place) {
                self.timers.cancel(*timer);
                self.wake(&key);
            }
        }
        self.line_up(id);
    }

    /// Lets the next key of a group be tried.
    pub(super) fn probe(&mut self, id: &K::Group) {
        if let Some(group) = self.groups.get_mut(id)
            && let Some(pause) = &mut group.pause
        {
            pause.timer = None;
            self.line_up(id);
        }
    }

    /// Leaves a group in peace for a while, which is longer each time.
    fn pause(&mut self, id: &K::Group, error: &impl Failure) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let failures = match &group.pause {
            None => {
                self.counts.unreachable += 1;
                self.counts.probing += group.running;
                1
            }
            // It had begun before the group was left in peace.
            Some(pause) if pause.timer.is_some() => return,
            Some(pause) => pause.failures.saturating_add(1),
        };
        let controller = self.controller;
        // Once, for the group: a first failure is often the only one.
        if failures == 2 {
            warn!(controller, group = ?id, %error, "not reached again; until it is, one object at a time is tried");
        } else {
            debug!(controller, group = ?id, %error, "not reached");
        }
        let timer = self
            .timers
            .add(backoff(failures, PAUSE_MAX), Due::Probe(id.clone()));
        group.pause = Some(Pause {
            failures,
            timer: Some(timer),
        });
    }

    /// Leaves a group that was not reached in peace for at least as long as its API server has asked for.
    pub(crate) fn leave_in_peace(&mut self, id: &K::Group, time: Duration) {
        let time = time.min(PAUSE_MAX);
        if let Some(group) = self.groups.get_mut(id)
            && let Some(pause) = &mut group.pause
            && let Some(timer) = &mut pause.timer
            && timer.at() < Instant::now() + time
        {
            self.timers.cancel(*timer);
            *timer = self.timers.add(time, Due::Probe(id.clone()));
        }
    }

    /// Ends the pause of a group.
    pub(super) fn resume(&mut self, id: &K::Group) {
        if let Some(group) = self.groups.get_mut(id)
            && let Some(pause) = group.pause.take()
        {
            self.counts.unreachable -= 1;
            self.counts.probing -= group.running;
            if let Some(timer) = pause.timer {
                self.timers.cancel(timer);
            }
            if pause.failures > 1 {
                info!(controller = self.controller, group = ?id, "reached again");
            }
        }
    }

    fn suspend(&mut self, id: &K::Group, error: &impl Failure) {
        if let Some(group) = self.groups.get_mut(id)
            && !mem::replace(&mut group.suspended, true)
        {
            self.counts.suspended += 1;
            let controller = self.controller;
            warn!(controller, group = ?id, %error, "suspended; what is refused is tried again every few minutes");
        }
    }

    pub(super) fn unsuspend(&mut self, id: &K::Group) {
        if let Some(group) = self.groups.get_mut(id)
            && mem::take(&mut group.suspended)
        {
            self.counts.suspended -= 1;
        }
    }
}
