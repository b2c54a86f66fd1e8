//! Reads ConfigMaps and Secrets of projects. Only facts about them are kept in memory, never their values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use api::ProjectName;
use api::references::{Source, SourceKind};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;

use super::resolve::{Found, SourceFacts};
use super::version::SourceVersion;
use crate::lock::lock;
use crate::projects::ProjectCaches;
use crate::runtime::ReconcileError;
use crate::runtime::keys::SourceKey;
use crate::runtime::write::Collection;

/// A source as the API server of the project has it.
pub(super) enum Content {
    ConfigMap(ConfigMap),
    Secret(Secret),
}

impl Content {
    /// Reads a source. Returns `None` if the project does not have it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`] and [`ReconcileError::NotServed`].
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        source: &Source,
    ) -> Result<Option<Self>, ReconcileError> {
        let name = &source.name;
        Ok(match source.kind {
            SourceKind::ConfigMap => {
                let all = Collection::<ConfigMap>::new(client, namespace, None);
                all.read(name).await?.map(Self::ConfigMap)
            }
            SourceKind::Secret => {
                let all = Collection::<Secret>::new(client, namespace, None);
                all.read(name).await?.map(Self::Secret)
            }
        })
    }

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::ConfigMap(it) => &it.metadata,
            Self::Secret(it) => &it.metadata,
        }
    }

    /// Returns the facts about the source. Returns `None` if it has no version.
    pub(super) fn facts(&self) -> Option<SourceFacts> {
        let version = SourceVersion::of(self.metadata())?;
        Some(match self {
            Self::ConfigMap(it) => {
                let text = it.data.iter().flatten();
                let text = text.map(|(key, value)| (key.as_str(), value.as_bytes(), true));
                let bytes = of_bytes(it.binary_data.as_ref(), false);
                SourceFacts::new(version, text.chain(bytes))
            }
            Self::Secret(it) => SourceFacts::new(version, of_bytes(it.data.as_ref(), true)),
        })
    }
}

fn of_bytes(
    values: Option<&BTreeMap<String, ByteString>>,
    may_be_text: bool,
) -> impl Iterator<Item = (&str, &[u8], bool)> + Clone {
    let values = values.into_iter().flatten();
    values.map(move |(key, ByteString(value))| (key.as_str(), value.as_slice(), may_be_text))
}

/// The facts about the sources that templates use.
#[derive(Default)]
pub(super) struct Sources {
    facts: Mutex<HashMap<SourceKey, SourceFacts>>,
}

impl Sources {
    /// Returns what is known about a source. Reads it if the facts are not those of its current version.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotListed`] if the kind has not been listed yet. Otherwise as [`Content::read`].
    pub(super) async fn find(
        &self,
        project: &ProjectCaches,
        key: &SourceKey,
    ) -> Result<Found, ReconcileError> {
        let Some(current) = current_version(project, key)? else {
            self.forget(key);
            return Ok(Found::Missing);
        };
        let current = match current {
            Current::Version(version) => version,
            Current::Unauthorized => return Ok(Found::Unauthorized),
        };
        let known = lock(&self.facts).get(key).cloned();
        if let Some(facts) = known.filter(|facts| facts.version == current) {
            return Ok(Found::Facts(facts));
        }
        match Content::read(&project.client, &key.namespace, &key.source).await {
            Ok(Some(content)) => Ok(self
                .note(key, &content)
                .map_or(Found::Missing, Found::Facts)),
            Ok(None) => Ok(Found::Missing),
            Err(error) if error.is_forbidden() => Ok(Found::Unauthorized),
            Err(error) => Err(error),
        }
    }

    /// Keeps the facts about a source that has been read.
    pub(super) fn note(&self, key: &SourceKey, content: &Content) -> Option<SourceFacts> {
        let facts = content.facts()?;
        lock(&self.facts).insert(key.clone(), facts.clone());
        Some(facts)
    }

    /// Forgets the facts about a source that no WorkloadDeployment uses.
    pub(super) fn forget(&self, key: &SourceKey) {
        lock(&self.facts).remove(key);
    }

    /// Forgets the facts about all sources of a project that is no longer served.
    pub(super) fn forget_project(&self, project: &ProjectName) {
        lock(&self.facts).retain(|key, _| key.project != *project);
    }
}

/// A source that exists, according to the watch of its kind.
pub(super) enum Current {
    Version(SourceVersion),
    /// The API server of the project refuses to list the kind.
    Unauthorized,
}

/// Looks for a source in the cache of its kind. Returns `None` if the source does not exist.
///
/// # Errors
///
/// [`ReconcileError::NotListed`] if the kind has not been listed yet.
pub(super) fn current_version(
    project: &ProjectCaches,
    key: &SourceKey,
) -> Result<Option<Current>, ReconcileError> {
    let SourceKey {
        namespace, source, ..
    } = key;
    let data = &project.data;
    let refusal = match source.kind {
        SourceKind::ConfigMap => data.config_maps.refusal(),
        SourceKind::Secret => data.secrets.refusal(),
    };
    if refusal.is_some() {
        return Ok(Some(Current::Unauthorized));
    }
    let metadata = match source.kind {
        SourceKind::ConfigMap => {
            project.require(&data.config_maps)?;
            data.config_maps.metadata_of(namespace, &source.name)
        }
        SourceKind::Secret => {
            project.require(&data.secrets)?;
            data.secrets.metadata_of(namespace, &source.name)
        }
    };
    let version = metadata.as_ref().and_then(SourceVersion::of);
    Ok(version.map(Current::Version))
}
