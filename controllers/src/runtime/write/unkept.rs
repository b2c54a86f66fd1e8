//! Objects that an API server does not store as they are written, for example because its CRD is older and prunes a
//! field. The same write would have the same result, so it is repeated only once an hour.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Time between two writes of an object that is not stored as it is written. An administrator may have corrected the
/// cause in the meantime, and no event reports that.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The objects by UID. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnkeptWrites(Arc<Mutex<BTreeMap<String, UnkeptWrite>>>);

struct UnkeptWrite {
    /// Hash of the written body.
    body: u64,
    /// Hash of the object after the write, without its status. If it changes, another writer has changed the object.
    stored: u64,
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
    /// Returns whether this body was already written to the object as it is stored now.
    pub(super) fn result(
        &self,
        object: &impl ResourceExt,
        body: &Value,
        now: Timestamp,
    ) -> KnownResult {
        let writes = self.writes();
        let write = object.uid().and_then(|uid| writes.get(&uid));
        match write {
            Some(write) if write.body == hash_of(body) && write.stored == stored_hash(object) => {
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
            body: hash_of(body),
            stored: stored_hash(stored),
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

/// Returns a hash of the fields that writers change, except for the status. The generation stands for the spec.
fn stored_hash(object: &impl ResourceExt) -> u64 {
    let metadata = object.meta();
    hash_of(&json!([
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
    ]))
}

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
