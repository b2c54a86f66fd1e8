//! How much a tenant writes.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::Limits;

const SECOND: Duration = Duration::from_secs(1);

/// What a tenant has written lately: a leaky bucket, known by when it will be empty (the GCRA of ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBudget {
    /// When what has been written would be over, had it been written evenly.
    evenly: Option<Instant>,
}

impl WriteBudget {
    /// Notes that a reconciliation has written.
    pub(super) fn wrote(&mut self, limits: &Limits, now: Instant) {
        let evenly = self.evenly.map_or(now, |evenly| evenly.max(now));
        self.evenly = Some(evenly + each(limits));
    }

    /// For how long the tenant has to rest until another one may write.
    pub(super) fn rest(&self, limits: &Limits, now: Instant) -> Duration {
        let ahead = self
            .evenly
            .map(|evenly| evenly.saturating_duration_since(now));
        let at_once = each(limits) * limits.writing_at_once.max(1);
        (ahead.unwrap_or_default() + each(limits)).saturating_sub(at_once)
    }
}

fn each(limits: &Limits) -> Duration {
    SECOND / limits.writing_per_second.max(1)
}
