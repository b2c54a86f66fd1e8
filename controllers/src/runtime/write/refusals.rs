//! The texts of refused writes that conditions show.
//!
//! An API server can refuse the same write with another text each time, for example with the number of the request. If
//! a condition showed each text, the event of its write would cause the next attempt, without an end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

/// Shortest time between two texts about the same version of an object.
const TEXT: SignedDuration = SignedDuration::from_mins(1);

/// The shown texts of one controller. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ShownRefusals(Arc<Mutex<Texts>>);

#[derive(Default)]
struct Texts {
    by_part: BTreeMap<ObjectPart, Shown>,
    /// The number of texts at which old texts are dropped.
    drop_at: usize,
}

/// The UID and the generation of an object, and the part that the refusal is about.
type ObjectPart = (String, Option<i64>, String);

struct Shown {
    text: String,
    since: Timestamp,
}

impl ShownRefusals {
    /// Returns the text to show: this text, or the text of the last minute about the same part of the same version of
    /// the object.
    pub(super) fn shown(
        &self,
        object: &impl ResourceExt,
        part: &str,
        text: String,
        now: Timestamp,
    ) -> String {
        let uid = object.uid().unwrap_or_default();
        let key = (uid, object.meta().generation, part.to_owned());
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |shown: &Shown| now.duration_since(shown.since) < TEXT;
        if let Some(shown) = texts.by_part.get(&key).filter(|shown| is_recent(shown)) {
            return shown.text.clone();
        }
        if texts.by_part.len() >= texts.drop_at {
            texts.by_part.retain(|_, shown| is_recent(shown));
            // The next search follows only after many more texts.
            texts.drop_at = 2 * texts.by_part.len() + 16;
        }
        let shown = Shown {
            text: text.clone(),
            since: now,
        };
        texts.by_part.insert(key, shown);
        text
    }
}
