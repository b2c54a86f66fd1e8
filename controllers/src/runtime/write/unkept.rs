//! Objects that an API server does not store as they are written. If its CRD is older, it prunes a field: the same
//! write would have the same result, so it is repeated only once an hour. If its CRD is newer, it adds defaults:
//! everything that was written is stored, so the write is not repeated. A status of which a part is pruned is repeated
//! only once an hour, too.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::collection::Object;
use crate::objects::{contains, describe};
use crate::runtime::error::ReconcileError;

/// Time between two writes of an object of which a part is not stored. An administrator may have corrected the cause in
/// the meantime, and no event reports that.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Objects that nobody writes any more must not stay in memory. An object that is still written comes back once in
/// [`REPEAT_AFTER`].
const KEPT: SignedDuration = SignedDuration::from_hours(2);
/// Shortest time between two searches for records to drop. After a start, a process may record many objects at once,
/// and must not look through all records for each of them.
const DROP_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// How an API server has stored an object, compared with the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// As it was written.
    AsWritten,
    /// With everything that was written, and more: for example defaults of a newer CRD.
    WithAdditions,
    /// Without a part of what was written.
    Otherwise,
}

impl Stored {
    /// Compares a part of an object with the same part as it was written.
    pub(crate) fn compare<T: PartialEq + Serialize>(stored: &T, written: &T) -> Self {
        if stored == written {
            Self::AsWritten
        } else if contains(&json!(stored), &json!(written)) {
            Self::WithAdditions
        } else {
            Self::Otherwise
        }
    }
}

impl From<bool> for Stored {
    fn from(is_as_written: bool) -> Self {
        match is_as_written {
            true => Self::AsWritten,
            false => Self::Otherwise,
        }
    }
}

/// The writes of one controller. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnkeptWrites(Arc<Mutex<Records>>);

#[derive(Default)]
struct Records {
    by_uid: BTreeMap<String, UnkeptWrite>,
    /// The last search for records to drop.
    searched_at: Option<Timestamp>,
}

impl Records {
    /// Drops records of objects that nobody writes any more.
    fn drop_old(&mut self, now: Timestamp) {
        let is_recent = |at: Timestamp| now.duration_since(at) < DROP_EVERY;
        if !self.searched_at.is_some_and(is_recent) {
            self.searched_at = Some(now);
            self.by_uid
                .retain(|_, write| now.duration_since(write.at) < KEPT);
        }
    }
}

struct UnkeptWrite {
    /// Hash of the written body, without its resource version.
    body: u64,
    /// Hash of the written spec.
    spec: u64,
    /// Hash of the object after the write, without its status. If it changes, another writer has changed the object.
    object: u64,
    /// Generation of the object after the write.
    generation: Option<i64>,
    stored: Stored,
    /// The time of the write, or the time when the object was last found with additions.
    at: Timestamp,
}

/// Whether a write is known to have no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KnownResult {
    /// It is not known. The write may be new.
    Unknown,
    /// The same write was made. The API server stored all of it, with additions. It must not be repeated.
    WithAdditions,
    /// The same write was made in the last hour. It must not be repeated.
    Recent,
    /// The same write was made earlier.
    Old,
}

impl UnkeptWrites {
    /// Returns whether this body was already written to the object as it is stored now.
    pub(super) fn result(
        &self,
        object: &(impl ResourceExt + Serialize),
        body: &Value,
        now: Timestamp,
    ) -> KnownResult {
        let records = self.records();
        let write = object.uid().and_then(|uid| records.by_uid.get(&uid));
        match write {
            Some(write) if write.body == body_hash(body) && write.object == object_hash(object) => {
                if write.stored == Stored::WithAdditions {
                    match body.get("spec").is_none_or(|spec| has_all_of(object, spec)) {
                        true => KnownResult::WithAdditions,
                        false => KnownResult::Unknown,
                    }
                } else if now.duration_since(write.at) < REPEAT_AFTER {
                    KnownResult::Recent
                } else {
                    KnownResult::Old
                }
            }
            _ => KnownResult::Unknown,
        }
    }

    /// Returns whether the spec of the object is this written spec with additions of the API server.
    pub(super) fn has_additions_to(
        &self,
        object: &(impl ResourceExt + Serialize),
        spec: &impl Serialize,
        now: Timestamp,
    ) -> bool {
        let has_all = |write: &UnkeptWrite| {
            let spec = json!(spec);
            write.spec == hash_of(&spec) && has_all_of(object, &spec)
        };
        let mut records = self.records();
        let write = object.uid().and_then(|uid| records.by_uid.get_mut(&uid));
        let Some(write) = write.filter(|write| {
            write.stored == Stored::WithAdditions
                && write.generation == object.meta().generation
                && has_all(write)
        }) else {
            return false;
        };
        write.at = now;
        true
    }

    /// Records that the API server stored this object instead of the body.
    pub(super) fn record(
        &self,
        object: &impl ResourceExt,
        stored: Stored,
        body: &Value,
        now: Timestamp,
    ) {
        let mut records = self.records();
        records.drop_old(now);
        let write = UnkeptWrite {
            body: body_hash(body),
            spec: hash_of(body.get("spec").unwrap_or(&Value::Null)),
            object: object_hash(object),
            generation: object.meta().generation,
            stored,
            at: now,
        };
        records
            .by_uid
            .insert(object.uid().unwrap_or_default(), write);
    }

    /// Returns whether this status was written to this version of the object in the last hour, and changed nothing.
    pub(super) fn is_idle_status(
        &self,
        object: &impl ResourceExt,
        body: &Value,
        now: Timestamp,
    ) -> bool {
        let records = self.records();
        let write = records.by_uid.get(&status_key(object));
        write.is_some_and(|write| {
            write.body == body_hash(body)
                && write.object == version_hash(object)
                && now.duration_since(write.at) < REPEAT_AFTER
        })
    }

    /// Records whether a status has changed the object. `written` is the object after the write. Returns whether this
    /// is the first record of a status that changes nothing.
    pub(super) fn record_status(
        &self,
        object: &impl ResourceExt,
        written: &impl ResourceExt,
        body: &Value,
        now: Timestamp,
    ) -> bool {
        let key = status_key(object);
        let mut records = self.records();
        if object.resource_version() != written.resource_version() {
            records.by_uid.remove(&key);
            return false;
        }
        records.drop_old(now);
        let write = UnkeptWrite {
            body: body_hash(body),
            spec: 0,
            object: version_hash(object),
            generation: None,
            stored: Stored::Otherwise,
            at: now,
        };
        records.by_uid.insert(key, write).is_none()
    }

    /// Records that the API server stored the object as it was written.
    pub(super) fn forget(&self, object: &impl ResourceExt) {
        if let Some(uid) = &object.meta().uid {
            self.records().by_uid.remove(uid);
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the record of an object's status.
fn status_key(object: &impl ResourceExt) -> String {
    format!("{}/status", object.uid().unwrap_or_default())
}

fn version_hash(object: &impl ResourceExt) -> u64 {
    hash_of(&json!(object.resource_version()))
}

/// Returns a hash of the fields that writers change, except for the status. The generation stands for the spec.
fn object_hash(object: &impl ResourceExt) -> u64 {
    let metadata = object.meta();
    hash_of(&json!([
        metadata.generation,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
    ]))
}

/// Returns whether an object has everything of this spec. If an older CRD replaces the CRD, the API server prunes a
/// field when it reads the object, and the generation stays.
fn has_all_of(object: &impl Serialize, spec: &Value) -> bool {
    let object = json!(object);
    contains(object.get("spec").unwrap_or(&Value::Null), spec)
}

/// Returns a hash of a body. The resource version is a precondition of the write, and nothing that is written.
fn body_hash(body: &Value) -> u64 {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    hash_of(&body)
}

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the written object if the API server stored it as wanted.
///
/// # Errors
///
/// [`ReconcileError::DoesNotStay`] if the API server stored something else.
pub(crate) fn stays<K: Object>(
    written: K,
    as_wanted: impl Fn(&K) -> bool,
) -> Result<K, ReconcileError> {
    if as_wanted(&written) {
        Ok(written)
    } else {
        Err(does_not_stay(&written))
    }
}

pub(super) fn does_not_stay<K: Object>(object: &K) -> ReconcileError {
    ReconcileError::DoesNotStay {
        object: describe(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{deployment, now};

    /// A process that starts finds many objects that are not stored as they were written.
    #[test]
    fn old_records_are_dropped_at_most_once_a_minute() {
        let unkept = UnkeptWrites::default();
        let record_at = |name: &str, seconds: i64| {
            let object = deployment("ns-1", name, "DFW", 1);
            let at = now() + SignedDuration::from_secs(seconds);
            unkept.record(&object, Stored::Otherwise, &json!({}), at);
            let records = unkept.records();
            let uids: Vec<_> = records.by_uid.keys().cloned().collect();
            uids.join(" ")
        };
        let two_hours = 2 * 60 * 60;
        assert_eq!(record_at("a", 0), "a-uid");
        assert_eq!(record_at("b", two_hours - 30), "a-uid b-uid");
        // The records were looked through 40 s ago.
        assert_eq!(record_at("c", two_hours + 10), "a-uid b-uid c-uid");
        assert_eq!(record_at("d", two_hours + 30), "b-uid c-uid d-uid");
    }
}
