//! Checks of the scheduler's counts, for tests.

use super::{QueueCounts, Scheduler};
use crate::queue::key::Key;
use crate::queue::tenant::{KeyState, TenantState};

impl<K: Key> Scheduler<K> {
    /// Counts the keys and tenants again, as a check of the stored counts.
    pub(in crate::queue) fn recount(&self) -> QueueCounts {
        let tenants = || self.tenants.values();
        let keys = tenants().map(|tenant| tenant.entries.len());
        assert_eq!(self.keys, keys.sum::<usize>());
        let unreachable = || tenants().filter(|tenant| tenant.breaker.is_some());
        assert_eq!(
            self.running,
            tenants().map(|tenant| tenant.running).sum::<usize>()
        );
        let entries = tenants().flat_map(|tenant| tenant.entries.values());
        let stalled =
            entries.filter(|entry| matches!(entry.state, KeyState::Running { stalls: None, .. }));
        assert_eq!(self.stalled, stalled.count());
        assert_eq!(
            self.stalled,
            tenants().map(|tenant| tenant.stalled).sum::<usize>()
        );
        QueueCounts {
            ready: tenants().map(|tenant| tenant.ready.len()).sum(),
            unreachable: unreachable().count(),
            probing: unreachable().map(TenantState::unstalled).sum(),
            suspended: tenants().filter(|tenant| tenant.suspended).count(),
            busy: tenants()
                .filter(|tenant| tenant.throttled.is_some())
                .count(),
        }
    }

    /// Returns the numbers of tenants, keys and timers.
    pub(in crate::queue) fn sizes(&self) -> [usize; 3] {
        let keys = self.tenants.values().map(|tenant| tenant.entries.len());
        [self.tenants.len(), keys.sum(), self.timers.len()]
    }
}
