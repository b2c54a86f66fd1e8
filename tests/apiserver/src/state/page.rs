//! Pages of a list, also of the objects at an earlier version.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Key, KindStore, State, Stored};
use crate::kinds::KindId;
use crate::refusal::Refusal;
use crate::selector::Query;

impl State {
    /// Checks that the objects of a kind at a version are known.
    pub(crate) fn check_version(&self, kind: KindId, version: u64) -> Result<(), Refusal> {
        if version < self.collection(kind).forgotten {
            return Err(Refusal::expired_version());
        }
        match version > self.version {
            true => Err(Refusal::future_version(version, self.version)),
            false => Ok(()),
        }
    }

    /// Returns at most `limit` objects after a key, whether more objects exist, and the version of the API server. With
    /// `at`, returns the objects as they were at this version.
    pub(crate) fn page(
        &self,
        query: &Query,
        at: Option<u64>,
        after: Option<Key>,
        limit: usize,
    ) -> (Vec<Arc<Stored>>, bool, u64) {
        let collection = self.collection(query.kind);
        let namespace = query.namespace.as_deref();
        let first = match (after, namespace) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(namespace)) => Bound::Included((namespace.to_owned(), String::new())),
            (None, None) => Bound::Unbounded,
        };
        let range = (first, Bound::Unbounded);
        let former = at.map_or_else(BTreeMap::new, |at| collection.changed_after(at));
        let unchanged = collection
            .objects
            .range(range.clone())
            .take_while(|((of, _), _)| namespace.is_none_or(|namespace| of == namespace))
            .filter(|(key, _)| !former.contains_key(key))
            .map(|(_, object)| object)
            .filter(|object| query.selects(object));
        let mut page: Vec<_> = unchanged.take(limit.saturating_add(1)).cloned().collect();
        let former = former.range(range).filter_map(|(_, object)| object.clone());
        page.extend(former.filter(|object| query.selects(object)));
        page.sort_by(|one, other| one.key.cmp(&other.key));
        let has_more = page.len() > limit;
        page.truncate(limit);
        (page, has_more, self.version)
    }
}

impl KindStore {
    /// Returns the objects that have changed after a version, as they were at this version.
    fn changed_after(&self, version: u64) -> BTreeMap<Key, Option<Arc<Stored>>> {
        let first = self.log.partition_point(|event| event.version <= version);
        let mut changed = BTreeMap::new();
        for event in self.log.range(first..) {
            let key = event.object.key.clone();
            changed.entry(key).or_insert_with(|| event.former.clone());
        }
        changed
    }
}
