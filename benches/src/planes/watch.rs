//! The answer to a watch, which goes on until its time is over.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::kinds::KindId;
use super::plane::{Event, Plane, Stored};
use super::refusal::Refusal;

/// Time between bookmarks, as API servers have it.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// Which objects are asked for, and what of them.
pub(super) struct Query {
    pub(super) kind: KindId,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// Labels and their values.
    pub(super) labels: Vec<(String, String)>,
    pub(super) metadata_only: bool,
}

impl Query {
    pub(super) fn asks_for(&self, object: &Stored) -> bool {
        let (namespace, name) = &object.key;
        self.namespace
            .as_ref()
            .is_none_or(|asked| asked == namespace)
            && self.name.as_ref().is_none_or(|asked| asked == name)
            && (self.labels.is_empty() || {
                let metadata: serde_json::Value =
                    serde_json::from_slice(&object.metadata).unwrap_or_default();
                let mut labels = self.labels.iter();
                labels.all(|(label, value)| metadata["labels"][label] == *value)
            })
    }

    /// The object as JSON, in the form that is asked for.
    pub(super) fn show(&self, object: &Stored) -> Bytes {
        if !self.metadata_only {
            return object.body.clone();
        }
        let metadata = String::from_utf8_lossy(&object.metadata);
        let partial =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
        format!("{partial}{metadata}}}").into()
    }

    fn bookmark(&self, version: u64) -> String {
        let kind = self.kind.kind();
        let (name, api_version) = match self.metadata_only {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            false => (kind.name, kind.api_version()),
        };
        let metadata = format!(r#"{{"resourceVersion":"{version}","creationTimestamp":null}}"#);
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"{name}","apiVersion":"{api_version}","metadata":{metadata}}}}}"#
        ) + "\n"
    }
}

/// A watch that goes on.
struct Watch {
    plane: Arc<Plane>,
    query: Query,
    version: u64,
    changed: watch::Receiver<u64>,
    bookmark: Instant,
    end: Instant,
}

/// Tells what becomes of the objects that are asked for from a version on.
pub(super) fn watch(
    plane: &Arc<Plane>,
    query: Query,
    version: u64,
    time: Duration,
) -> Result<Body, Refusal> {
    let changed = plane.changes(query.kind);
    // What is too old is refused before anything is told.
    plane.since(query.kind, version)?;
    let now = Instant::now();
    let watch = Watch {
        plane: Arc::clone(plane),
        query,
        version,
        changed,
        bookmark: now + BOOKMARKS,
        end: now + time,
    };
    Ok(Body::from_stream(stream::unfold(
        watch,
        |mut watch| async {
            let chunk = watch.next().await?;
            Some((Ok::<_, Infallible>(chunk), watch))
        },
    )))
}

impl Watch {
    /// What is told next; nothing once the time is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.changed.mark_unchanged();
            let Ok((events, version)) = self.plane.since(self.query.kind, self.version) else {
                return None;
            };
            self.version = version;
            let told = self.tell(&events);
            if !told.is_empty() {
                return Some(told.into());
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = sleep_until(self.bookmark.min(self.end)) => {
                    if Instant::now() >= self.end {
                        return None;
                    }
                    self.bookmark += BOOKMARKS;
                    return Some(self.query.bookmark(self.version).into());
                }
            }
        }
    }

    fn tell(&self, events: &[Event]) -> String {
        let mut told = String::new();
        let asked = events.iter().filter(|it| self.query.asks_for(&it.object));
        for event in asked {
            let object = self.query.show(&event.object);
            let object = String::from_utf8_lossy(&object);
            // A String takes everything.
            let _ = writeln!(told, r#"{{"type":"{}","object":{object}}}"#, event.type_);
        }
        told
    }
}
