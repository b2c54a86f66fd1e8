//! Tenants in an outage: a circuit breaker for unreachable API servers, and the state of suspended tenants.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Due, Scheduler};
use crate::queue::failures::backoff;
use crate::queue::key::Key;
use crate::queue::outcome::{Failure, Outage};
use crate::queue::tenant::{CircuitBreaker, PROBE_WAIT_MAX, TenantReport};

impl<K: Key> Scheduler<K> {
    /// Records the result of a reconciliation in the state of its tenant.
    pub(super) fn note<E: Failure>(
        &mut self,
        id: &K::Tenant,
        report: TenantReport,
        failure: Option<&E>,
    ) {
        match (report.outage, failure) {
            (Some(Outage::Unreachable), Some(error)) => {
                self.open_breaker(id, error);
                if let Some(wait) = error.retry_after() {
                    self.defer(id, wait);
                }
            }
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
        if report.unsuspended && none_refused {
            self.unsuspend(id);
        }
    }

    /// Retries a tenant immediately, because its outage may have ended.
    pub(crate) fn release(&mut self, id: &K::Tenant) {
        self.close_breaker(id);
        self.unsuspend(id);
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        for key in mem::take(&mut tenant.refused_keys) {
            let Some(tenant) = self.tenants.get_mut(id) else {
                return;
            };
            let entry = tenant.entries.get_mut(&key);
            if let Some(timer) = entry.and_then(|entry| entry.state.shorten()) {
                self.timers.cancel(timer);
                self.wake(&key);
            }
        }
        self.schedule(id);
    }

    /// Allows the next key of an unreachable tenant to probe the API server.
    pub(super) fn probe(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && let Some(breaker) = &mut tenant.breaker
        {
            breaker.timer = None;
            self.schedule(id);
        }
    }

    /// Opens the circuit breaker of a tenant. With each failure in a row it stays open longer.
    fn open_breaker(&mut self, id: &K::Tenant, error: &impl Failure) {
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        let failures = match &tenant.breaker {
            None => {
                self.counts.unreachable += 1;
                self.counts.probing += tenant.unstalled();
                1
            }
            // This reconciliation began before the breaker opened.
            Some(breaker) if breaker.timer.is_some() => return,
            Some(breaker) => breaker.failures.saturating_add(1),
        };
        let controller = self.controller;
        // Logs a warning once per outage, at the second failure. A first failure is often the only one.
        if failures == 2 {
            warn!(controller, tenant = ?id, %error, "API server unreachable; it is probed with one object at a time");
        } else {
            debug!(controller, tenant = ?id, %error, "API server unreachable");
        }
        let timer = self
            .timers
            .add(backoff(failures, PROBE_WAIT_MAX), Due::Probe(id.clone()));
        tenant.breaker = Some(CircuitBreaker {
            failures,
            timer: Some(timer),
        });
    }

    /// Keeps the circuit breaker of a tenant open for at least this Retry-After, but at most for [`PROBE_WAIT_MAX`].
    fn defer(&mut self, id: &K::Tenant, time: Duration) {
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

    /// Closes the circuit breaker of a tenant.
    pub(super) fn close_breaker(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && let Some(breaker) = tenant.breaker.take()
        {
            self.counts.unreachable -= 1;
            self.counts.probing -= tenant.unstalled();
            if let Some(timer) = breaker.timer {
                self.timers.cancel(timer);
            }
            if breaker.failures > 1 {
                info!(controller = self.controller, tenant = ?id, "API server reachable again");
            }
        }
    }

    fn suspend(&mut self, id: &K::Tenant, error: &impl Failure) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && !mem::replace(&mut tenant.suspended, true)
        {
            self.counts.suspended += 1;
            let controller = self.controller;
            warn!(controller, tenant = ?id, %error, "tenant suspended; refused writes are tried again every few minutes");
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
