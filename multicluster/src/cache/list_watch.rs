//! The requests that keep a cache current: lists, watches, and the check whether the API server was restored.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::core::{ObjectList, PartialObjectMeta, Request, WatchEvent};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::entry::NamespacedName;
use super::position::{Position, Verdict};
use super::tolerant::Tolerant;
use crate::connect::WATCH_SILENCE;

/// Objects in one page of a list (client-go's default).
const PAGE: u32 = 500;
/// Longest duration of a watch, and the maximum by which a watch is shorter, in seconds. kube allows durations below
/// 295 s.
const LONGEST_WATCH: u32 = 290;
const SPREAD: u32 = 120;
/// Longest wait before a watch that ended early is resumed: 250 ms, which delays events less than a user notices.
const DELAY_MAX: Duration = Duration::from_millis(250);
/// A watch that ends this long before its duration counts as broken. API servers are exact to the second.
const EARLY: Duration = Duration::from_secs(10);
// A restored API server sends no events for a watch from a resource version that it has not reached yet. Such a watch
// must hit the silence limit before it ends normally. The silence limit causes a check. A normal end would resume the
// watch from the same version.
const _: () = assert!(WATCH_SILENCE.as_secs() < (LONGEST_WATCH - SPREAD) as u64);

/// The events of one watch.
pub(super) type WatchEvents<K> = BoxStream<'static, kube::Result<WatchEvent<Tolerant<K>>>>;

/// Lists and watches all objects of a kind on one plane.
pub(super) struct ListWatch<K> {
    client: Client,
    api: Api<Tolerant<K>>,
    /// Selects the objects by their labels.
    labels: Option<String>,
    seconds: u32,
}

impl<K> ListWatch<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    pub(super) fn new(client: Client, plane: &str, labels: Option<String>) -> Self {
        Self {
            api: Api::all(client.clone()),
            client,
            labels,
            seconds: watch_seconds(plane, &K::kind(&())),
        }
    }

    /// Returns one page of the list.
    pub(super) async fn page(
        &self,
        continue_token: Option<String>,
    ) -> kube::Result<ObjectList<Tolerant<K>>> {
        let params = ListParams {
            limit: Some(PAGE),
            continue_token,
            label_selector: self.labels.clone(),
            ..ListParams::default()
        };
        self.api.list(&params).await
    }

    /// Starts a watch from this resource version.
    pub(super) async fn watch(&self, version: &str) -> kube::Result<WatchEvents<K>> {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            ..WatchParams::default().timeout(self.seconds)
        };
        Ok(self.api.watch(&params, version).await?.boxed())
    }

    /// Returns whether a watch that ended normally after this time ended too early.
    pub(super) fn is_early(&self, after: Duration) -> bool {
        after + EARLY < Duration::from_secs(u64::from(self.seconds))
    }

    /// Returns the wait before a watch that ended early is resumed. Like the duration of the watch, it depends on the
    /// plane and the kind. Thousands of watches that end together are therefore not resumed together.
    pub(super) fn delay(&self) -> Duration {
        DELAY_MAX * (LONGEST_WATCH - self.seconds) / SPREAD
    }

    /// Asks the API server for its current resource version and for the object that changed last, and compares both
    /// with the position. The request reads the metadata of at most one object.
    pub(super) async fn check(&self, position: &Position) -> kube::Result<Verdict> {
        let list = self.metadata(position.witness(), ListParams::default().limit(1));
        let list = list.await?;
        let found = list.items.first().map(Resource::meta);
        Ok(position.verdict(list.metadata.resource_version.as_deref(), found))
    }

    /// Returns one page of the metadata of the objects as they were at this version. If `key` is set, returns only this
    /// object.
    ///
    /// # Errors
    ///
    /// The API server answers with 410 if it no longer has this version.
    pub(super) async fn page_at(
        &self,
        version: &str,
        key: Option<&NamespacedName>,
        continue_token: Option<String>,
    ) -> kube::Result<ObjectList<Tolerant<PartialObjectMeta<K>>>> {
        let params = ListParams {
            limit: Some(PAGE),
            continue_token,
            resource_version: Some(version.to_owned()),
            version_match: Some(VersionMatch::Exact),
            ..ListParams::default()
        };
        self.metadata(key, params).await
    }

    /// Lists the metadata of one object, or of all objects.
    async fn metadata(
        &self,
        key: Option<&NamespacedName>,
        mut params: ListParams,
    ) -> kube::Result<ObjectList<Tolerant<PartialObjectMeta<K>>>> {
        let namespace = key.map(|(namespace, _)| namespace.as_str());
        params.label_selector.clone_from(&self.labels);
        let path = K::url_path(&(), namespace.filter(|namespace| !namespace.is_empty()));
        if let Some((_, name)) = key {
            params = params.fields(&format!("metadata.name={name}"));
        }
        let request = Request::new(path).list_metadata(&params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}

/// Returns the duration of a watch in seconds, which is a few minutes. The duration depends on the plane and the kind.
/// Thousands of watches that began together therefore do not end together.
fn watch_seconds(plane: &str, kind: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    (plane, kind).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % u64::from(SPREAD)).unwrap_or_default();
    LONGEST_WATCH - share
}
