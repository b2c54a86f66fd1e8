//! The waits of keys, and their ends.

use std::mem;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Due, Scheduler};
use crate::queue::key::Key;
use crate::queue::tenant::KeyState;
use crate::queue::timers::Timer;

impl KeyState {
    /// Ends a wait early, because of an event or a release. Returns the timer to cancel if the wait ends now. A key
    /// that waits for a Retry-After is ready when that time is over.
    pub(super) fn shorten(&mut self) -> Option<Timer> {
        match self {
            Self::Waiting(timer) => Some(*timer),
            Self::Deferred { until, .. } => {
                *until = None;
                None
            }
            Self::Ready | Self::Running { .. } => None,
        }
    }
}

impl<K: Key> Scheduler<K> {
    /// Ends the wait of a key after its timer has expired. After a Retry-After, the rest of the wait follows.
    pub(super) fn end_wait(&mut self, key: &Arc<K>) {
        if let Some(tenant) = self.tenants.get_mut(key.tenant())
            && let Some(entry) = tenant.entries.get_mut(key)
            && let KeyState::Deferred { until, .. } = entry.state
            && let Some(rest) = until.and_then(|it| it.checked_duration_since(Instant::now()))
            && !rest.is_zero()
        {
            entry.state = KeyState::Waiting(self.timers.add(rest, Due::Key(Arc::clone(key))));
            return;
        }
        self.wake(key);
    }

    /// Makes a key ready after its wait.
    pub(super) fn wake(&mut self, key: &Arc<K>) {
        let Some(tenant) = self.tenants.get_mut(key.tenant()) else {
            return;
        };
        if let Some(entry) = tenant.entries.get_mut(key) {
            // During an outage, the keys at the back are probed first. A key that was deferred has been tried before.
            match mem::replace(&mut entry.state, KeyState::Ready) {
                KeyState::Deferred { .. } => tenant.ready.push_front(Arc::clone(key)),
                _ => tenant.ready.push_back(Arc::clone(key)),
            }
            tenant.refused_keys.remove(key);
            self.counts.ready += 1;
            self.schedule(key.tenant());
        }
    }
}
