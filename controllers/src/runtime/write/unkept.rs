//! Objects that an API server does not store as they are written, for example because its CRD is older and prunes a
//! field. The same write would have the same result, so it is repeated only once an hour.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::Value;

/// Time between two writes of an object that is not stored as it is written. An administrator may have corrected the
/// cause in the meantime, and no event reports that.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The objects by UID. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnkeptWrites(Arc<Mutex<BTreeMap<String, UnkeptWrite>>>);

struct UnkeptWrite {
    /// Hash of the written body.
    body: u64,
    /// Generation of the object after the write. If it changes, another writer has changed the object.
    generation: Option<i64>,
    at: Timestamp,
}

/// Whether a write is known to have no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KnownResult {
    /// It is not known. The write may be new.
    Unknown,
    /// The same write was made in the last hour. It must not be repeated.
    Recent,
    /// The same write was made earlier.
    Old,
}

impl UnkeptWrites {
    /// Returns whether this body was already written to this version of the spec.
    pub(super) fn result(
        &self,
        object: &impl ResourceExt,
        body: &Value,
        now: Timestamp,
    ) -> KnownResult {
        let writes = self.writes();
        let write = object.uid().and_then(|uid| writes.get(&uid));
        match write {
            Some(write)
                if write.body == hash(body) && write.generation == object.meta().generation =>
            {
                if now.duration_since(write.at) < REPEAT_AFTER {
                    KnownResult::Recent
                } else {
                    KnownResult::Old
                }
            }
            _ => KnownResult::Unknown,
        }
    }

    /// Records that the API server stored this object instead of the body.
    pub(super) fn record(&self, stored: &impl ResourceExt, body: &Value, now: Timestamp) {
        let mut writes = self.writes();
        // Objects that nobody writes any more must not stay in memory.
        let limit = REPEAT_AFTER + REPEAT_AFTER;
        writes.retain(|_, write| now.duration_since(write.at) < limit);
        let write = UnkeptWrite {
            body: hash(body),
            generation: stored.meta().generation,
            at: now,
        };
        writes.insert(stored.uid().unwrap_or_default(), write);
    }

    /// Records that the API server stored the object as it was written.
    pub(super) fn forget(&self, stored: &impl ResourceExt) {
        if let Some(uid) = &stored.meta().uid {
            self.writes().remove(uid);
        }
    }

    fn writes(&self) -> MutexGuard<'_, BTreeMap<String, UnkeptWrite>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}
