//! Which key comes next.

mod trouble;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use tokio::time::Instant;

use super::group::{Entry, Group, Next, Place, Ticket};
use super::timers::Timers;
use super::{Failure, Key, Limits, Outcome, Trouble};

/// All keys by group, and the groups that wait for their turn.
#[derive(Debug)]
pub(super) struct State<K: Key> {
    controller: &'static str,
    limits: Limits,
    groups: HashMap<K::Group, Group<K>>,
    /// The line of the groups of which a key may be taken, the next one first.
    turns: BTreeMap<u64, K::Group>,
    /// The line of those among them whose API servers could not be reached.
    probes: BTreeMap<u64, K::Group>,
    tickets: u64,
    timers: Timers<Due<K>>,
    counts: Counts,
}

/// What is due at a time.
#[derive(Debug)]
enum Due<K: Key> {
    /// The key may be worked off.
    Key(Arc<K>),
    /// The API server of the group may be tried.
    Probe(K::Group),
    /// The group has rested.
    Rest(K::Group),
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Keys that wait for a place.
    pub(super) ready: usize,
    /// Groups whose API servers cannot be reached.
    pub(super) unreachable: usize,
    /// Places that those groups have.
    pub(super) probing: usize,
    /// Groups that are suspended.
    pub(super) suspended: usize,
    /// Groups that have more to write than they may now.
    pub(super) busy: usize,
}

impl<K: Key> State<K> {
    pub(super) fn new(controller: &'static str, limits: Limits) -> Self {
        Self {
            controller,
            limits,
            groups: HashMap::new(),
            turns: BTreeMap::new(),
            probes: BTreeMap::new(),
            tickets: 0,
            timers: Timers::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// An event has told of the key at this time.
    pub(super) fn add(&mut self, key: K, at: Instant) {
        let group = match self.groups.get_mut(key.group()) {
            Some(group) => group,
            None => self
                .groups
                .entry(key.group().clone())
                .or_insert_with(Group::new),
        };
        let Some(entry) = group.entries.get_mut(&key) else {
            let key = Arc::new(key);
            group.entries.insert(Arc::clone(&key), Entry::new(at));
            group.ready.push_back(Arc::clone(&key));
            self.counts.ready += 1;
            self.line_up(key.group());
            return;
        };
        if let Place::Running { again, .. } = &mut entry.place {
            again.get_or_insert(at);
            return;
        }
        entry.since.get_or_insert(at);
        if let Place::Waiting(timer) = entry.place
            && let Some(Due::Key(key)) = self.timers.cancel(timer)
        {
            self.wake(&key);
        }
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(due) = self.timers.expired(now) {
            match due {
                Due::Key(key) => self.wake(&key),
                Due::Probe(group) => self.probe(&group),
                Due::Rest(group) => self.rested(&group),
            }
        }
    }

    /// The next key of the group whose turn it is, and when an event told of it, if one has.
    pub(super) fn take(&mut self) -> Option<(Arc<K>, Option<Instant>)> {
        let probe = match self.counts.probing < self.limits.probing {
            true => self.probes.pop_first(),
            false => None,
        };
        let (_, id) = match probe {
            Some(probe) => probe,
            None => self.turns.pop_first()?,
        };
        let group = self.groups.get_mut(&id)?;
        group.ticket = None;
        let key = group.next()?;
        group.running += 1;
        self.counts.ready -= 1;
        self.counts.probing += usize::from(group.pause.is_some());
        let entry = group.entries.get_mut(&key)?;
        let since = entry.since;
        entry.place = Place::Running {
            again: None,
            forgotten: false,
        };
        self.line_up(&id);
        Some((key, since))
    }

    /// Notes how the reconciliation of a key that was taken has ended, and whether it wrote.
    pub(super) fn finished<E: Failure>(
        &mut self,
        key: &Arc<K>,
        wrote: bool,
        result: &Result<Outcome, E>,
    ) {
        let Some(group) = self.groups.get_mut(key.group()) else {
            return;
        };
        let Some(entry) = group.entries.get_mut(key) else {
            return;
        };
        let Place::Running { again, forgotten } = entry.place else {
            return;
        };
        group.running -= 1;
        self.counts.probing -= usize::from(group.pause.is_some());
        if wrote {
            group.spending.wrote(&self.limits, Instant::now());
        }
        let failure = result.as_ref().err().filter(|_| !forgotten);
        let report = entry.report(failure, wrote, group.pause.is_some(), group.reached);
        let next = match result {
            _ if forgotten => Next::Never,
            Ok(outcome) => entry.succeeded(key, *outcome),
            Err(error) => entry.failed(self.controller, key, report.trouble, error),
        };
        match (next, again) {
            (Next::First, _) => {
                group.ready.push_front(Arc::clone(key));
                (entry.place, self.counts.ready) = (Place::Ready, self.counts.ready + 1);
            }
            (_, Some(again)) => {
                entry.since.get_or_insert(again);
                group.ready.push_back(Arc::clone(key));
                (entry.place, self.counts.ready) = (Place::Ready, self.counts.ready + 1);
            }
            (Next::After(wait), None) => {
                entry.place = Place::Waiting(self.timers.add(wait, Due::Key(Arc::clone(key))));
                if report.trouble == Some(Trouble::Suspended) {
                    group.parked.insert(Arc::clone(key));
                }
            }
            (Next::Never, None) => {
                group.entries.remove(key);
            }
        }
        if !forgotten {
            self.note(key.group(), report, failure);
        }
        self.line_up(key.group());
    }

    /// Forgets all keys of a group. Those that are being worked off are forgotten when they have ended: a key that is added
    /// anew waits until then.
    pub(super) fn forget(&mut self, id: &K::Group) {
        self.resume(id);
        self.unsuspend(id);
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        self.counts.ready -= mem::take(&mut group.ready).len();
        group.parked = HashSet::new();
        group.entries.retain(|_, entry| match entry.place {
            Place::Running { .. } => {
                *entry = Entry {
                    place: Place::Running {
                        again: None,
                        forgotten: true,
                    },
                    ..Entry::default()
                };
                true
            }
            Place::Ready => false,
            Place::Waiting(timer) => {
                self.timers.cancel(timer);
                false
            }
        });
        group.entries.shrink_to_fit();
        self.line_up(id);
    }

    /// Lets a key be worked off whose timer is over.
    fn wake(&mut self, key: &Arc<K>) {
        let Some(group) = self.groups.get_mut(key.group()) else {
            return;
        };
        if let Some(entry) = group.entries.get_mut(key) {
            entry.place = Place::Ready;
            group.parked.remove(key);
            group.ready.push_back(Arc::clone(key));
            self.counts.ready += 1;
            self.line_up(key.group());
        }
    }

    /// Lets a group write again.
    fn rested(&mut self, id: &K::Group) {
        if let Some(group) = self.groups.get_mut(id)
            && group.rest.take().is_some()
        {
            self.counts.busy -= 1;
            self.line_up(id);
        }
    }

    /// Gives a group its place in the line that it belongs to as it is now. One without keys is forgotten.
    fn line_up(&mut self, id: &K::Group) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let mut may_run = group.may_run(self.limits.per_group);
        if may_run && group.rest.is_none() {
            let rest = group.spending.rest(&self.limits, Instant::now());
            if !rest.is_zero() {
                group.rest = Some(self.timers.add(rest, Due::Rest(id.clone())));
                self.counts.busy += 1;
            }
        }
        may_run &= group.rest.is_none();
        let probe = may_run.then_some(group.pause.is_some());
        if probe != group.ticket.map(|ticket| ticket.probe) {
            if let Some(Ticket { number, probe }) = group.ticket.take() {
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
                line.insert(self.tickets, id.clone());
                group.ticket = Some(Ticket {
                    number: self.tickets,
                    probe,
                });
            }
        }
        if group.entries.is_empty() {
            if let Some(timer) = group.rest {
                self.timers.cancel(timer);
                self.counts.busy -= 1;
            }
            // Trouble has ended with the keys that told of it.
            self.groups.remove(id);
        }
    }

    /// The counts as the groups say.
    #[cfg(test)]
    pub(super) fn recount(&self) -> Counts {
        let groups = || self.groups.values();
        let paused = || groups().filter(|group| group.pause.is_some());
        Counts {
            ready: groups().map(|group| group.ready.len()).sum(),
            unreachable: paused().count(),
            probing: paused().map(|group| group.running).sum(),
            suspended: groups().filter(|group| group.suspended).count(),
            busy: groups().filter(|group| group.rest.is_some()).count(),
        }
    }

    /// How many groups, keys and timers there are.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        let keys = self.groups.values().map(|group| group.entries.len());
        [self.groups.len(), keys.sum(), self.timers.len()]
    }
}
