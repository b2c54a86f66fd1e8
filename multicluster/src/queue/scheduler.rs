//! Decides which key is reconciled next.

mod outage;
#[cfg(test)]
mod recount;
mod waits;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::context::Writes;
use super::key::Key;
use super::limits::Limits;
use super::outcome::{Failure, Outage, Outcome};
use super::tenant::{KeyEntry, KeyState, Next, TenantState, Ticket};
use super::timers::Timers;
use super::write_budget::WriteBudget;

/// Time after which a running reconciliation counts as stalled. At most [`Limits::stalled`] stalled reconciliations are
/// left out of [`Limits::concurrency`], and none counts towards [`Limits::probing`]. Most reconciliations end within
/// some milliseconds. One that takes longer than a second waits for an API server.
const STALLED: Duration = Duration::from_secs(1);

/// Added to the ticket of a tenant whose API server has failed more than once in a row. So the first probe of an outage
/// does not wait behind API servers that have been unreachable for long.
const REPEATED: u64 = 1 << 63;

/// The keys of a queue by tenant, and the tenants that may run next.
///
/// Tenants take turns. In each turn, one key of the tenant is taken.
#[derive(Debug)]
pub(super) struct Scheduler<K: Key> {
    controller: &'static str,
    limits: Limits,
    tenants: HashMap<K::Tenant, TenantState<K>>,
    /// The tenants with a key that may be taken, by ticket. The tenant with the lowest ticket is next.
    turns: BTreeMap<u64, K::Tenant>,
    /// The tenants whose API servers are unreachable and may be probed, by ticket.
    probes: BTreeMap<u64, K::Tenant>,
    tickets: u64,
    timers: Timers<Due<K>>,
    /// Number of keys in any state.
    keys: usize,
    /// Number of running reconciliations.
    running: usize,
    /// Number of running reconciliations that have stalled.
    stalled: usize,
    counts: QueueCounts,
}

/// An action with a due time.
#[derive(Debug)]
enum Due<K: Key> {
    /// The key is ready again.
    Key(Arc<K>),
    /// The API server of the tenant may be probed.
    Probe(K::Tenant),
    /// The write budget of the tenant allows the next write.
    Unthrottle(K::Tenant),
    /// The tenant has no keys, and its write budget is full again.
    Whole(K::Tenant),
    /// The reconciliation of the key has run for [`STALLED`].
    Stalled(Arc<K>),
}

/// The number of keys and tenants in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueCounts {
    /// Keys that wait for a worker.
    pub(super) ready: usize,
    /// Tenants whose API servers are unreachable.
    pub(super) unreachable: usize,
    /// Reconciliations that run for tenants whose API servers are unreachable, without those that have stalled.
    pub(super) probing: usize,
    /// Tenants that are suspended.
    pub(super) suspended: usize,
    /// Tenants whose write budget is used up.
    pub(super) busy: usize,
}

impl<K: Key> Scheduler<K> {
    pub(super) fn new(controller: &'static str, limits: Limits) -> Self {
        Self {
            controller,
            limits,
            tenants: HashMap::new(),
            turns: BTreeMap::new(),
            probes: BTreeMap::new(),
            tickets: 0,
            timers: Timers::new(),
            keys: 0,
            running: 0,
            stalled: 0,
            counts: QueueCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// Returns the number of keys in any state.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the time at which [`Self::expire`] must be called next.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Adds a key because of an event at this time.
    pub(super) fn add(&mut self, key: K, at: Instant) {
        let tenant = match self.tenants.get_mut(key.tenant()) {
            Some(tenant) => tenant,
            None => self
                .tenants
                .entry(key.tenant().clone())
                .or_insert_with(TenantState::new),
        };
        let Some(entry) = tenant.entries.get_mut(&key) else {
            let key = Arc::new(key);
            tenant.entries.insert(Arc::clone(&key), KeyEntry::new(at));
            tenant.ready.push_back(Arc::clone(&key));
            self.counts.ready += 1;
            self.keys += 1;
            self.schedule(key.tenant());
            return;
        };
        if let KeyState::Running { again, .. } = &mut entry.state {
            again.get_or_insert(at);
            return;
        }
        entry.since.get_or_insert(at);
        if let Some(timer) = entry.state.shorten()
            && let Some(Due::Key(key)) = self.timers.cancel(timer)
        {
            self.wake(&key);
        }
    }

    /// Runs the actions that are due.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(due) = self.timers.expired(now) {
            match due {
                Due::Key(key) => self.end_wait(&key),
                Due::Probe(tenant) => self.probe(&tenant),
                Due::Unthrottle(tenant) => self.unthrottle(&tenant),
                Due::Whole(tenant) => self.forget_idle(&tenant),
                Due::Stalled(key) => self.stall(&key),
            }
        }
    }

    /// Takes the next key of the tenant whose turn it is. Returns the key and the time of the first event that added
    /// it, if an event added it. Probes have priority while fewer than [`Limits::probing`] probes run. Returns `None`
    /// if no key may be taken, or if as many reconciliations run as may run at a time.
    pub(super) fn take(&mut self) -> Option<(Arc<K>, Option<Instant>)> {
        let counted = self.running - self.stalled.min(self.limits.stalled);
        if counted >= self.limits.concurrency {
            return None;
        }
        let probe = match self.counts.probing < self.limits.probing {
            true => self.probes.pop_first(),
            false => None,
        };
        let (_, id) = match probe {
            Some(probe) => probe,
            None => self.turns.pop_first()?,
        };
        let tenant = self.tenants.get_mut(&id)?;
        tenant.ticket = None;
        let key = tenant.next()?;
        tenant.running += 1;
        self.running += 1;
        self.counts.ready -= 1;
        self.counts.probing += usize::from(tenant.breaker.is_some());
        let entry = tenant.entries.get_mut(&key)?;
        let since = entry.since;
        entry.state = KeyState::Running {
            again: None,
            forgotten: false,
            stalls: Some(self.timers.add(STALLED, Due::Stalled(Arc::clone(&key)))),
        };
        self.schedule(&id);
        Some((key, since))
    }

    /// Records the result of the reconciliation of a key that was taken before, and whether the reconciliation has
    /// written.
    pub(super) fn finished<E: Failure>(
        &mut self,
        key: &Arc<K>,
        writes: Writes,
        result: &Result<Outcome, E>,
    ) {
        let Some(tenant) = self.tenants.get_mut(key.tenant()) else {
            return;
        };
        let Some(entry) = tenant.entries.get_mut(key) else {
            return;
        };
        let KeyState::Running {
            again,
            forgotten,
            stalls,
        } = entry.state
        else {
            return;
        };
        match stalls {
            Some(timer) => {
                self.timers.cancel(timer);
                self.counts.probing -= usize::from(tenant.breaker.is_some());
            }
            None => (self.stalled, tenant.stalled) = (self.stalled - 1, tenant.stalled - 1),
        }
        self.running -= 1;
        tenant.running -= 1;
        if writes != Writes::None {
            tenant.write_budget.wrote(&self.limits, Instant::now());
        }
        let wrote = writes == Writes::Done;
        let failure = result.as_ref().err().filter(|_| !forgotten);
        let report = entry.report(failure, wrote, tenant.breaker.is_some(), tenant.reached);
        let next = match result {
            _ if forgotten => Next::Never,
            Ok(outcome) => entry.succeeded(key, *outcome),
            Err(error) => entry.failed(self.controller, key, report.outage, error),
        };
        match (next, again) {
            (Next::First, _) => {
                tenant.ready.push_front(Arc::clone(key));
                (entry.state, self.counts.ready) = (KeyState::Ready, self.counts.ready + 1);
            }
            (Next::Deferred { retry_after, whole }, again) => {
                entry.since = entry.since.or(again);
                entry.state = KeyState::Deferred {
                    timer: self.timers.add(retry_after, Due::Key(Arc::clone(key))),
                    until: again.is_none().then(|| Instant::now() + whole),
                };
                if report.outage == Some(Outage::Suspended) {
                    tenant.refused_keys.insert(Arc::clone(key));
                }
            }
            (_, Some(again)) => {
                entry.since.get_or_insert(again);
                tenant.ready.push_back(Arc::clone(key));
                (entry.state, self.counts.ready) = (KeyState::Ready, self.counts.ready + 1);
            }
            (Next::After(wait), None) => {
                entry.state = KeyState::Waiting(self.timers.add(wait, Due::Key(Arc::clone(key))));
                if report.outage == Some(Outage::Suspended) {
                    tenant.refused_keys.insert(Arc::clone(key));
                }
            }
            (Next::Never, None) => {
                tenant.entries.remove(key);
                self.keys -= 1;
            }
        }
        if !forgotten {
            self.note(key.tenant(), report, failure);
        }
        self.schedule(key.tenant());
    }

    /// Forgets all keys of a tenant. A key whose reconciliation is running is forgotten when the reconciliation ends.
    /// If the key is added again before that, it waits until the reconciliation ends.
    pub(super) fn forget(&mut self, id: &K::Tenant) {
        self.close_breaker(id);
        self.unsuspend(id);
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        self.counts.ready -= mem::take(&mut tenant.ready).len();
        tenant.refused_keys = HashSet::new();
        tenant.write_budget = WriteBudget::default();
        let keys = tenant.entries.len();
        tenant.entries.retain(|_, entry| match entry.state {
            KeyState::Running { stalls, .. } => {
                *entry = KeyEntry {
                    state: KeyState::Running {
                        again: None,
                        forgotten: true,
                        stalls,
                    },
                    ..KeyEntry::default()
                };
                true
            }
            KeyState::Ready => false,
            KeyState::Waiting(timer) | KeyState::Deferred { timer, .. } => {
                self.timers.cancel(timer);
                false
            }
        });
        self.keys -= keys - tenant.entries.len();
        tenant.entries.shrink_to_fit();
        self.schedule(id);
    }

    /// Marks a reconciliation as stalled (see [`STALLED`]). So an API server that hangs does not delay the tenants of
    /// other API servers.
    fn stall(&mut self, key: &Arc<K>) {
        if let Some(tenant) = self.tenants.get_mut(key.tenant())
            && let Some(entry) = tenant.entries.get_mut(key)
            && let KeyState::Running { stalls, .. } = &mut entry.state
            && stalls.take().is_some()
        {
            self.stalled += 1;
            tenant.stalled += 1;
            self.counts.probing -= usize::from(tenant.breaker.is_some());
        }
    }

    /// Forgets a tenant that has no keys and whose write budget is full.
    fn forget_idle(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id) {
            tenant.idle = None;
            self.schedule(id);
        }
    }

    /// Lets a tenant write again after its write budget was used up.
    fn unthrottle(&mut self, id: &K::Tenant) {
        if let Some(tenant) = self.tenants.get_mut(id)
            && tenant.throttled.take().is_some()
        {
            self.counts.busy -= 1;
            self.schedule(id);
        }
    }

    /// Puts a tenant into `turns` or `probes`, depending on its state, or removes it from both. Forgets a tenant
    /// without keys, as soon as its write budget is full.
    fn schedule(&mut self, id: &K::Tenant) {
        let Some(tenant) = self.tenants.get_mut(id) else {
            return;
        };
        let mut may_run = tenant.may_run(self.limits.per_tenant);
        if may_run && tenant.throttled.is_none() {
            let wait = tenant.write_budget.wait(&self.limits, Instant::now());
            if !wait.is_zero() {
                tenant.throttled = Some(self.timers.add(wait, Due::Unthrottle(id.clone())));
                self.counts.busy += 1;
            }
        }
        may_run &= tenant.throttled.is_none();
        let probe = may_run.then_some(tenant.breaker.is_some());
        if probe != tenant.ticket.map(|ticket| ticket.probe) {
            if let Some(Ticket { number, probe }) = tenant.ticket.take() {
                let line = if probe {
                    &mut self.probes
                } else {
                    &mut self.turns
                };
                line.remove(&number);
            }
            if let Some(probe) = probe {
                let line = if probe {
                    &mut self.probes
                } else {
                    &mut self.turns
                };
                self.tickets += 1;
                let breaker = tenant.breaker.as_ref();
                let is_repeated = breaker.is_some_and(|breaker| breaker.failures > 1);
                let number = self.tickets + if is_repeated { REPEATED } else { 0 };
                line.insert(number, id.clone());
                tenant.ticket = Some(Ticket { number, probe });
            }
        }
        if tenant.entries.is_empty() {
            if let Some(timer) = tenant.throttled.take() {
                self.timers.cancel(timer);
                self.counts.busy -= 1;
            }
            let whole_after = tenant.write_budget.whole_after(Instant::now());
            if !whole_after.is_zero() {
                let id = id.clone();
                let timers = &mut self.timers;
                tenant
                    .idle
                    .get_or_insert_with(|| timers.add(whole_after, Due::Whole(id)));
                return;
            }
            if let Some(timer) = tenant.idle {
                self.timers.cancel(timer);
            }
            // The tenant has no keys left. This also forgets an outage that its former keys detected.
            self.tenants.remove(id);
        }
    }
}
