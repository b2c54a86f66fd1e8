//! Limits how much a tenant writes.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;

const SECOND: Duration = Duration::from_secs(1);

/// The recent writes of a tenant, as a leaky bucket. The stored value is the time at which the bucket will be empty
/// (the GCRA of ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBudget {
    /// The time at which the recent writes would end if they were spread evenly; `None` before the first write.
    evenly: Option<Instant>,
}

impl WriteBudget {
    /// Records that a reconciliation has written, or has tried to write.
    pub(super) fn wrote(&mut self, limits: &Limits, now: Instant) {
        let evenly = self.evenly.map_or(now, |evenly| evenly.max(now));
        self.evenly = Some(evenly + each(limits));
    }

    /// Returns how long the tenant must wait before another reconciliation may write.
    pub(super) fn wait(&self, limits: &Limits, now: Instant) -> Duration {
        let at_once = each(limits) * limits.writing_at_once.max(1);
        (self.whole_after(now) + each(limits)).saturating_sub(at_once)
    }

    /// Returns the time after which the budget is whole again if the tenant does not write.
    pub(super) fn whole_after(&self, now: Instant) -> Duration {
        let ahead = self
            .evenly
            .map(|evenly| evenly.saturating_duration_since(now));
        ahead.unwrap_or_default()
    }
}

fn each(limits: &Limits) -> Duration {
    SECOND / limits.writing_per_second.max(1)
}
