//! Checks after a broken connection whether the API server was restored.

use std::time::Duration;

use futures::StreamExt;
use kube::core::{Status, WatchEvent};
use kube::runtime::watcher;
use tokio::time::{Instant, sleep_until};

use super::follow::End;
use super::{Debug, DeserializeOwned, Follower, NamespacedName, Reflector, Resource};
use crate::cache::entry::{ObjectVersion, key};
use crate::cache::list_watch::WatchEvents;
use crate::cache::position::Verdict;

/// Longest wait for the event of a change that a check has found. API servers send such an event at once, unless they
/// are overloaded.
const REPORTED: Duration = Duration::from_secs(5);

impl<K> Reflector<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Checks whether the API server was restored, if the connection was broken. Returns `None` if the watch continues.
    pub(super) async fn check(
        &mut self,
        follower: &mut Follower<K>,
        events: &mut WatchEvents<K>,
    ) -> watcher::Result<Option<End>> {
        if !follower.position.is_doubtful() {
            return Ok(None);
        }
        let check = follower.source.check(&follower.position);
        let verdict = follower.permit.hold(check).await;
        let reported = match verdict.map_err(watcher::Error::WatchStartFailed)? {
            Verdict::Continues => None,
            Verdict::ContinuesIfKnown { reported } => match self.is_known(follower).await {
                Ok(true) => reported,
                Ok(false) => return Ok(Some(follower.restored())),
                // After a 410 only a list shows the changes. This is no proof of a restore, so other kinds are not listed.
                Err(error) => return Err(watcher::Error::WatchStartFailed(error)),
            },
            Verdict::Restored => return Ok(Some(follower.restored())),
        };
        if let Some(object) = reported
            && let Err(end) = self.until_reported(follower, events, &object).await
        {
            return Ok(Some(end));
        }
        follower.position.trust();
        Ok(None)
    }

    /// Returns whether the API server had the objects of the cache at the version of the watch. The version of the
    /// object that changed last is sufficient. If the last change was perhaps a deletion, all objects are compared: each
    /// of them can be older than the snapshot from which the API server was restored.
    async fn is_known(&self, follower: &mut Follower<K>) -> kube::Result<bool> {
        let version = follower.position.version().unwrap_or_default();
        let witness = follower.position.newest();
        let mut known = match witness {
            Some((key, version)) => [(key.clone(), version.clone())].into(),
            None => self.cache.inner.read().reported(),
        };
        let key_of_witness = witness.map(|(key, _)| key);
        let mut token = None;
        loop {
            let page = follower.source.page_at(version, key_of_witness, token);
            let page = follower.permit.hold(page).await?;
            for object in &page.items {
                let found = ObjectVersion::of(object.meta());
                if known.remove(&key(object.meta())) != Some(found) {
                    return Ok(false);
                }
            }
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(known.is_empty());
            }
        }
    }

    /// Applies events until the watch has reported a change of this object.
    ///
    /// # Errors
    ///
    /// The reason why the watch ended. A watch that does not report the change in time has failed. This is no proof of
    /// a restore, because the API server had the known objects: the API server is slow, or the watch and the check were
    /// answered by servers of different histories. If the watch has reported nothing else either, the kind is listed
    /// after the backoff. Otherwise the watch continues.
    async fn until_reported(
        &mut self,
        follower: &mut Follower<K>,
        events: &mut WatchEvents<K>,
        object: &NamespacedName,
    ) -> Result<(), End> {
        follower.permit.end();
        let until = Instant::now() + REPORTED;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep_until(until) => return Err(End::Failed(late())),
            };
            let is_expected = match &event {
                Some(Ok(
                    WatchEvent::Added(changed)
                    | WatchEvent::Modified(changed)
                    | WatchEvent::Deleted(changed),
                )) => key(changed.meta()) == *object,
                _ => false,
            };
            self.apply_event(follower, event)?;
            if is_expected {
                return Ok(());
            }
        }
    }
}

/// Returns the error of a watch that does not report a change in time.
fn late() -> watcher::Error {
    let message = "the watch has not reported a change in time";
    let status = Status::failure(message, "Timeout").with_code(504);
    watcher::Error::WatchError(status.boxed())
}
