//! Follows an API server: lists, watches, and resumes watches.

use std::io::Error;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::core::{Status, WatchEvent};
use kube::runtime::watcher::{self, Event};
use tokio::time::{Instant, sleep, timeout};
use tower_http::timeout::TimeoutError;
use tracing::info;

use super::{CacheEntry, Debug, DeserializeOwned, Follower, Reflector, Resource, Tolerant};
use crate::cache::list_watch::WatchEvents;
use crate::cache::sync_state::{SyncState, answer};

/// Shortest time between the starts of two watches, if the API server ends them normally.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest time for which a cache counts as current while its watch waits for a slot: 30 s, as long as a request may
/// hang before the cache fails.
const UNWATCHED: Duration = Duration::from_secs(30);

impl<K> Follower<K> {
    /// Waits for a free slot. If the cache holds a slot, for example for a check, releases it first: otherwise caches
    /// that hold slots would wait for each other.
    pub(super) async fn take_slot(&mut self) {
        self.permit.end();
        self.permit = self.lists.permit_after(&self.permit).await;
    }

    /// Tells the other caches of the API server that it was restored, unless they know it.
    pub(super) fn restored(&mut self) -> End {
        self.lists.note_restored(&mut self.restored);
        End::Lost("the API server has lost a change; it was restored from a snapshot")
    }
}

/// The reason why a watch ended.
pub(super) enum End {
    /// The API server ended the watch, or was silent for too long. The watch continues.
    Normal,
    /// Everything must be listed again.
    Lost(&'static str),
    Failed(watcher::Error),
}

impl End {
    /// Returns the end of a watch that has failed or could not begin. A 410 is no failure of the API server: it no
    /// longer has the version of the watch, for example after a change of the CRD.
    fn of(error: watcher::Error) -> Self {
        match answer(&error) {
            Some(status) if status.code == 410 => {
                Self::Lost("the API server no longer has the version of the watch")
            }
            _ => Self::Failed(error),
        }
    }
}

impl<K> Reflector<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Lists if necessary, then watches until an error, and returns the error.
    pub(super) async fn follow(&mut self, follower: &mut Follower<K>) -> watcher::Error {
        loop {
            let Some(version) = follower.position.version().map(str::to_owned) else {
                if let Err(error) = self.list(follower).await {
                    return error;
                }
                self.succeeded(follower);
                continue;
            };
            let begin = Instant::now();
            let end = self.watch(follower, &version).await;
            match end {
                End::Normal => {
                    self.has_broken = false;
                    self.until_turn(follower, begin.elapsed()).await;
                }
                End::Lost(reason) => {
                    if !follower.retry.lost() {
                        return expired(reason);
                    }
                    info!(plane = %self.plane, kind = %K::kind(&()), reason, "all objects are listed again");
                    follower.position.lose();
                    // The wait for the slot and the list can be long, and the objects may be of a lost history.
                    self.not_current(reason);
                    follower.take_slot().await;
                }
                End::Failed(error) => {
                    // The API server cannot send the next event of this version.
                    if matches!(&error, watcher::Error::WatchError(status) if status.code >= 500)
                        && follower.position.version() == Some(&version)
                    {
                        follower.position.lose();
                    }
                    return error;
                }
            }
        }
    }

    /// Watches from this version, and returns why the watch has ended.
    async fn watch(&mut self, follower: &mut Follower<K>, version: &str) -> End {
        let watch = follower.source.watch(version);
        let mut events = match follower.permit.hold(watch).await {
            Ok(events) => events,
            Err(error) => return End::of(watcher::Error::WatchStartFailed(error)),
        };
        match self.check(follower, &mut events).await {
            Ok(None) => {
                self.succeeded(follower);
                follower.retry.watched();
                self.apply_events(follower, &mut events).await
            }
            Ok(Some(end)) => end,
            Err(error) => End::of(error),
        }
    }

    /// Waits until a watch that the API server has ended after this time may be resumed.
    async fn until_turn(&self, follower: &mut Follower<K>, after: Duration) {
        if follower.source.is_early(after) {
            follower.position.doubt();
        }
        let shortest = SHORTEST.saturating_sub(after);
        if !follower.position.is_doubtful() {
            return sleep(shortest).await;
        }
        // An API server that shuts down ends all its watches at once.
        sleep(shortest.max(follower.source.delay())).await;
        let mut slot = pin!(follower.take_slot());
        if timeout(UNWATCHED, slot.as_mut()).await.is_err() {
            self.not_current("the watch has ended, and waits for its turn to be resumed");
            slot.await;
        }
    }

    fn not_current(&self, reason: &str) {
        let problem = reason.to_owned();
        let failing = SyncState::Failing { problem };
        self.cache.inner.set_sync_state(failing);
    }

    /// Lists everything.
    async fn list(&mut self, follower: &mut Follower<K>) -> watcher::Result<()> {
        follower.restored.mark_unchanged();
        self.apply(Event::Init);
        let mut token = None;
        loop {
            let page = follower.permit.hold(follower.source.page(token)).await;
            let page = page.map_err(watcher::Error::InitialListFailed)?;
            for object in page.items {
                self.apply(Event::InitApply(object));
            }
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_some() {
                continue;
            }
            let version = page.metadata.resource_version;
            let version = version.filter(|version| !version.is_empty());
            let version = version.ok_or(watcher::Error::NoResourceVersion)?;
            let newest =
                self.listed
                    .values()
                    .reduce(|newest, entry| match entry.is_newer(newest) {
                        true => entry,
                        false => newest,
                    });
            follower
                .position
                .listed(version, newest.map(CacheEntry::metadata));
            // The handlers may ask whether the kind is refused.
            self.cache.inner.forget_refusal();
            self.apply(Event::InitDone);
            return Ok(());
        }
    }

    /// Applies events until the watch ends.
    async fn apply_events(
        &mut self,
        follower: &mut Follower<K>,
        events: &mut WatchEvents<K>,
    ) -> End {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                Ok(()) = follower.restored.changed() => {
                    return End::Lost("another kind shows that the API server was restored");
                }
            };
            if let Err(end) = self.apply_event(follower, event) {
                return end;
            }
        }
    }

    /// Applies an event, unless the event ends the watch.
    pub(super) fn apply_event(
        &mut self,
        follower: &mut Follower<K>,
        event: Option<kube::Result<WatchEvent<Tolerant<K>>>>,
    ) -> Result<(), End> {
        let Some(event) = event else {
            return Err(End::Normal);
        };
        let continues = match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                let continues = follower.position.changed(object.meta());
                if continues {
                    self.apply(Event::Apply(object));
                }
                continues
            }
            Ok(WatchEvent::Deleted(object)) => {
                let continues = follower.position.deleted(object.meta());
                if continues {
                    self.apply(Event::Delete(object));
                }
                continues
            }
            Ok(WatchEvent::Bookmark(bookmark)) => follower
                .position
                .advance(&bookmark.metadata.resource_version),
            Ok(WatchEvent::Error(status)) => {
                return Err(End::of(watcher::Error::WatchError(status)));
            }
            Err(kube::Error::ReadEvents(error)) if is_silence(&error) => {
                // Kinds that never change are silent. The check finds out whether the API server was restored.
                follower.position.doubt();
                return Err(End::Normal);
            }
            Err(error) => return Err(End::Failed(watcher::Error::WatchFailed(error))),
        };
        match continues {
            true => Ok(()),
            false => Err(follower.restored()),
        }
    }
}

/// Returns the error of a version that the API server no longer has.
fn expired(reason: &str) -> watcher::Error {
    let status = Status::failure(reason, "Expired").with_code(410);
    watcher::Error::WatchError(status.boxed())
}

/// Returns whether a watch was silent for longer than [`WATCH_SILENCE`].
///
/// [`WATCH_SILENCE`]: crate::connect::WATCH_SILENCE
fn is_silence(error: &Error) -> bool {
    let mut source = error
        .get_ref()
        .map(|error| error as &(dyn std::error::Error + 'static));
    while let Some(error) = source {
        if error.is::<TimeoutError>() {
            return true;
        }
        source = error.source();
    }
    false
}
