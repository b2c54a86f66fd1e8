//! Which key comes next.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::mem;
use std::sync::Arc;

use tokio::time::Instant;

use super::group::{Entry, Group, Place, rest};
use super::timers::Timers;
use super::{Key, Limits, Outcome};

/// All keys by group, and the groups that wait for their turn.
#[derive(Debug)]
pub(super) struct State<K: Key> {
    controller: &'static str,
    limits: Limits,
    groups: HashMap<K::Group, Group<K>>,
    /// The line of the groups of which a key may be taken, the next one first.
    turns: BTreeMap<u64, K::Group>,
    tickets: u64,
    timers: Timers<Arc<K>>,
    ready: usize,
}

impl<K: Key> State<K> {
    pub(super) fn new(controller: &'static str, limits: Limits) -> Self {
        Self {
            controller,
            limits,
            groups: HashMap::new(),
            turns: BTreeMap::new(),
            tickets: 0,
            timers: Timers::new(),
            ready: 0,
        }
    }

    /// How many keys wait for a place.
    pub(super) fn ready(&self) -> usize {
        self.ready
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
            self.ready += 1;
            self.line_up(key.group());
            return;
        };
        if let Place::Running { again, .. } = &mut entry.place {
            again.get_or_insert(at);
            return;
        }
        entry.since.get_or_insert(at);
        if let Place::Waiting(timer) = entry.place
            && let Some(key) = self.timers.cancel(timer)
        {
            self.wake(&key);
        }
    }

    /// Lets the keys be worked off whose time has come.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(key) = self.timers.expired(now) {
            self.wake(&key);
        }
    }

    /// The next key of the group whose turn it is, and when an event told of it, if one has.
    pub(super) fn take(&mut self) -> Option<(Arc<K>, Option<Instant>)> {
        let (_, id) = self.turns.pop_first()?;
        let group = self.groups.get_mut(&id)?;
        group.ticket = None;
        let key = group.ready.pop_front()?;
        self.ready -= 1;
        group.running += 1;
        let entry = group.entries.get_mut(&key)?;
        let since = entry.since;
        entry.place = Place::Running {
            again: None,
            forgotten: false,
        };
        self.line_up(&id);
        Some((key, since))
    }

    /// Notes how the reconciliation of a key that was taken has ended.
    pub(super) fn finished<E: Display>(&mut self, key: &Arc<K>, result: &Result<Outcome, E>) {
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
        let wait = match result {
            _ if forgotten => None,
            Ok(outcome) => {
                (entry.since, entry.failures) = (None, None);
                match outcome {
                    Outcome::Settled => Some(rest(key.as_ref())),
                    Outcome::Again(after) => Some(*after),
                    Outcome::Gone => None,
                }
            }
            Err(error) => {
                let failures = entry.failures.get_or_insert_default();
                Some(failures.add(self.controller, key, &error.to_string()))
            }
        };
        if again.is_some() {
            entry.since = entry.since.or(again);
            entry.place = Place::Ready;
            group.ready.push_back(Arc::clone(key));
            self.ready += 1;
        } else if let Some(wait) = wait {
            entry.place = Place::Waiting(self.timers.add(wait, Arc::clone(key)));
        } else {
            group.entries.remove(key);
        }
        self.line_up(key.group());
    }

    /// Forgets all keys of a group. Those that are being worked off are forgotten when they have ended: a key that is added
    /// anew waits until then.
    pub(super) fn forget(&mut self, id: &K::Group) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        self.ready -= mem::take(&mut group.ready).len();
        group.entries.retain(|_, entry| match &mut entry.place {
            Place::Running { again, forgotten } => {
                (*again, *forgotten) = (None, true);
                (entry.since, entry.failures) = (None, None);
                true
            }
            Place::Ready => false,
            Place::Waiting(timer) => {
                self.timers.cancel(*timer);
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
            group.ready.push_back(Arc::clone(key));
            self.ready += 1;
            self.line_up(key.group());
        }
    }

    /// Gives a group its place in the line, or takes it away, as its keys are now. One without keys is forgotten.
    fn line_up(&mut self, id: &K::Group) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        match (group.ticket, group.may_run(self.limits.per_group)) {
            (None, true) => {
                self.tickets += 1;
                group.ticket = Some(self.tickets);
                self.turns.insert(self.tickets, id.clone());
            }
            (Some(ticket), false) => {
                group.ticket = None;
                self.turns.remove(&ticket);
            }
            _ => {}
        }
        if group.entries.is_empty() {
            self.groups.remove(id);
        }
    }

    /// How many groups, keys and timers there are.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 3] {
        let keys = self.groups.values().map(|group| group.entries.len());
        [self.groups.len(), keys.sum(), self.timers.len()]
    }
}
