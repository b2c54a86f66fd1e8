//! Groups that are in outage: left in peace, and tried again.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Due, Scheduler};
use crate::queue::failures::backoff;
use crate::queue::key::Key;
use crate::queue::outcome::{Failure, Outage};
use crate::queue::tenant::{CircuitBreaker, KeyState, TenantReport};

/// Longest wait until an API server that could not be reached is tried again: as long as lists are not tried again.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(30);

impl<K: Key> Scheduler<K> {
    /// Notes what the end of a reconciliation says of the tenant.
    pub(super) fn note<E: Failure>(
        &mut self,
        id: &K::Tenant,
        report: TenantReport,
        failure: Option<&E>,
    ) {
        match (report.outage, failure) {
            (Some(Outage::Unreachable), Some(error)) => self.open_breaker(id, error),
            (Some(Outage::Suspended), Some(error)) => self.suspend(id, error),
            _ => {}
        }
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        let none_refused = tenant.refused_keys.is_empty();
        if report.reached {
            tenant.reached += 1;
            self.close_breaker(id);
        }
        if report.allowed && none_refused {
            self.unsuspend(id);
        }
    }

    /// Tries a tenant again in which something may have changed.
    pub(crate) fn release(&mut self, id: &K::Tenant) {
        self.close_breaker(id);
        self.unsuspend(id);
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        for key in mem::take(&mut tenant.refused_keys) {
            let Some(tenant) = self.tenants.get(id) else {
                return;
            };
            if let Some(KeyState::Waiting(timer)) =
                tenant.entries.get(&key).map(|entry| &entry.state)
            {
                self.timers.cancel(*timer);
                self.wake(&key);
            }
        }
        self.line_up(id);
    }

    /// Lets the next key of a tenant be tried.
    pub(super) fn probe(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && let Some(breaker) = &mut tenant.breaker
        {
            breaker.timer = None;
            self.line_up(id);
        }
    }

    /// Leaves a tenant in peace for a while, which is longer each time.
    fn open_breaker(&mut self, id: &K::Tenant, error: &impl Failure) {
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        let failures = match &tenant.breaker {
            None => {
                self.counts.unreachable += 1;
                self.counts.probing += tenant.running;
                1
            }
            // It had begun before the tenant was left in peace.
            Some(breaker) if breaker.timer.is_some() => return,
            Some(breaker) => breaker.failures.saturating_add(1),
        };
        let controller = self.controller;
        // Once, for the tenant: a first failure is often the only one.
        if failures == 2 {
            warn!(controller, tenant = ?id, %error, "not reached again; until it is, one object at a time is tried");
        } else {
            debug!(controller, tenant = ?id, %error, "not reached");
        }
        let timer = self
            .timers
            .add(backoff(failures, PROBE_WAIT_MAX), Due::Probe(id.clone()));
        tenant.breaker = Some(CircuitBreaker {
            failures,
            timer: Some(timer),
        });
    }

    /// Leaves a tenant that was not reached in peace for at least as long as its API server has asked for.
    pub(crate) fn defer(&mut self, id: &K::Tenant, time: Duration) {
        let time = time.min(PROBE_WAIT_MAX);
        if let Some(tenant) = self.tenants.get_mut(id)
            && let Some(breaker) = &mut tenant.breaker
            && let Some(timer) = &mut breaker.timer
            && timer.at() < Instant::now() + time
        {
            self.timers.cancel(*timer);
            *timer = self.timers.add(time, Due::Probe(id.clone()));
        }
    }

    /// Ends the breaker of a tenant.
    pub(super) fn close_breaker(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && let Some(breaker) = tenant.breaker.take()
        {
            self.counts.unreachable -= 1;
            self.counts.probing -= tenant.running;
            if let Some(timer) = breaker.timer {
                self.timers.cancel(timer);
            }
            if breaker.failures > 1 {
                info!(controller = self.controller, tenant = ?id, "reached again");
            }
        }
    }

    fn suspend(&mut self, id: &K::Tenant, error: &impl Failure) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && !mem::replace(&mut tenant.suspended, true)
        {
            self.counts.suspended += 1;
            let controller = self.controller;
            warn!(controller, tenant = ?id, %error, "suspended; what is refused is tried again every few minutes");
        }
    }

    pub(super) fn unsuspend(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && mem::take(&mut tenant.suspended)
        {
            self.counts.suspended -= 1;
        }
    }
}
