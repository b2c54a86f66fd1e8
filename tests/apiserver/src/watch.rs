//! The response to a watch.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::answer::Disconnected;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::selector::Query;
use crate::server::{ApiServer, Interruption, OpenWatch};
use crate::state::{Event, Stored, WatchEventType};

/// Time between two bookmarks, as in a kube-apiserver.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// A running watch.
struct Watch {
    server: ApiServer,
    query: Query,
    /// The last version of the kind at the start of the watch.
    first: u64,
    /// The version of the last sent event. Only later events are sent.
    version: u64,
    changed: watch::Receiver<u64>,
    interrupted: watch::Receiver<Interruption>,
    /// The time of the next bookmark. `None` if the client does not allow bookmarks.
    bookmark: Option<Instant>,
    end: Instant,
    open: Option<OpenWatch>,
}

/// Sends the events of the selected objects after a version, until the timeout of the watch.
pub(crate) fn watch(
    server: &ApiServer,
    query: Query,
    request: &Request,
) -> Result<impl Stream<Item = Result<Bytes, Disconnected>> + Send + use<>, Refusal> {
    let version = match request.parameter("resourceVersion") {
        None => 0,
        Some(version) => version
            .parse()
            .map_err(|_| Refusal::bad(format!("invalid resource version {version:?}")))?,
    };
    let now = Instant::now();
    let watch = Watch {
        changed: server.changes(query.kind),
        interrupted: server.interruptions(),
        first: version.max(*server.changes(query.kind).borrow()),
        version,
        bookmark: request
            .is_set("allowWatchBookmarks")
            .then_some(now + BOOKMARKS),
        end: now + request.timeout(),
        open: Some(server.open_watch()),
        server: server.clone(),
        query,
    };
    Ok(stream::unfold(watch, |mut watch| async {
        watch.open.as_ref()?;
        let chunk = watch.next().await;
        if !matches!(chunk, Some(Ok(_))) {
            watch.open = None;
        }
        Some((chunk?, watch))
    }))
}

impl Watch {
    /// Returns the next lines, or `None` after the end of the watch.
    async fn next(&mut self) -> Option<Result<Bytes, Disconnected>> {
        loop {
            if self.interrupted.has_changed().ok()? {
                return match *self.interrupted.borrow_and_update() {
                    Interruption::Break => Some(Err(Disconnected)),
                    Interruption::End => None,
                };
            }
            self.changed.mark_unchanged();
            let (events, version) = match self.server.since(self.query.kind, self.version) {
                Ok(found) => found,
                Err(refusal) => {
                    self.end = Instant::now();
                    self.version = u64::MAX;
                    return Some(Ok(error_event(&refusal)));
                }
            };
            self.version = self.version.max(version);
            let lines = self.lines(&events);
            if !lines.is_empty() {
                return Some(Ok(lines.into()));
            }
            let wake = self.bookmark.map_or(self.end, |due| due.min(self.end));
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                changed = self.interrupted.changed() => {
                    changed.ok()?;
                    self.interrupted.mark_changed();
                }
                () = sleep_until(wake) => {
                    if Instant::now() >= self.end {
                        return None;
                    }
                    self.bookmark = self.bookmark.map(|due| due + BOOKMARKS);
                    // A kube-apiserver sends no bookmark until an object of the kind has changed.
                    if *self.changed.borrow() > self.first {
                        return Some(Ok(self.bookmark_event().into()));
                    }
                }
            }
        }
    }

    fn lines(&self, events: &[Event]) -> String {
        let mut lines = String::new();
        for event in events {
            let Some(type_) = self.type_of(event) else {
                continue;
            };
            let object = match (type_, &event.former) {
                // A DELETED event contains the last version of the object that matched the selectors.
                ("DELETED", Some(former)) => self.query.show(&former.at(event.version)),
                _ => self.query.show(&event.object),
            };
            let object = String::from_utf8_lossy(&object);
            // Writing to a String cannot fail.
            let _ = writeln!(lines, r#"{{"type":"{type_}","object":{object}}}"#);
        }
        lines
    }

    /// Returns the type of the event for this client. The type is ADDED when the object begins to match the selectors,
    /// and DELETED when it no longer matches.
    fn type_of(&self, event: &Event) -> Option<&'static str> {
        let selects = |stored: &Stored| self.query.selects(stored);
        let was = event.former.as_deref().is_some_and(selects);
        let is = event.type_ != WatchEventType::Deleted && selects(&event.object);
        match (was, is) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    fn bookmark_event(&self) -> String {
        let (name, api_version) = self.query.form();
        let version = self.version;
        let metadata = format!(r#"{{"resourceVersion":"{version}","creationTimestamp":null}}"#);
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"{name}","apiVersion":"{api_version}","metadata":{metadata}}}}}"#
        ) + "\n"
    }
}

fn error_event(refusal: &Refusal) -> Bytes {
    format!(
        "{}\n",
        serde_json::json!({"type": "ERROR", "object": refusal.status()})
    )
    .into()
}
