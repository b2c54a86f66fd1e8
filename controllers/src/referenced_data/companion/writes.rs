//! Writes and deletes the companion of a source in one hub namespace.

use std::collections::BTreeMap;

use api::{DEFAULT_NAMESPACE, HubNamespace, WorkloadDeployment, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use serde_json::{Value, json};

use super::Companions;
use super::state::{State, Wanted};
use crate::hub::upstream_namespace::{Identity, may_be_of};
use crate::lock::lock;
use crate::objects::{Namespace, StringMap, covers, describe};
use crate::projects::ProjectCaches;
use crate::referenced_data::companion_kind::{Companion, is_companion};
use crate::referenced_data::sources::{Content, Current, current_version};
use crate::referenced_data::users::Users;
use crate::referenced_data::version::SourceVersion;
use crate::runtime::hub_proof::{require_answering_hub, require_own_hub};
use crate::runtime::keys::SourceKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

impl Companions {
    /// Brings the companion in one hub namespace to its state.
    pub(super) async fn sync_in<K: Companion>(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        namespace: &Namespace,
        wanted: &Wanted<'_>,
    ) -> Result<State, ReconcileError> {
        let Wanted {
            key,
            hub_namespace,
            referenced_by,
            ..
        } = wanted;
        let hub = &self.hub.client;
        let name = &key.source.name;
        let existing = Collection::<K>::new(hub, hub_namespace.as_str(), None)
            .read_metadata(name)
            .await?;
        let existing = match existing {
            Some(object) if !is_companion(&object.metadata) => {
                let problem = format!("the hub has another object of the name {}", key.source);
                return Ok(match referenced_by.is_empty() {
                    true => State::Absent,
                    false => State::Foreign(problem),
                });
            }
            existing => existing,
        };
        require_own_hub(&self.hub, namespace, Some(project))?;
        if referenced_by.is_empty() {
            let Some(companion) = existing else {
                return Ok(State::Absent);
            };
            project.require(&project.namespaces)?;
            if may_be_of(project, &key.namespace, hub_namespace, namespace) {
                self.delete(context, project, namespace, wanted, &companion)
                    .await?;
            }
            return Ok(State::Absent);
        }
        let version = existing
            .as_ref()
            .and_then(|it| SourceVersion::of_companion(&it.metadata));
        let changed = self.changed_source(project, key, version.as_ref()).await?;
        match (changed.and_then(K::from_source), existing) {
            (Some(source), existing) => {
                if existing.is_none() {
                    // The cache can be that of another hub, and a creation names no UID.
                    let what = || format!("the copy of {}", key.source);
                    require_answering_hub(hub, &self.hub.identity()?, what).await?;
                }
                let written = self.write(context, wanted, existing.as_ref(), source).await;
                if let (Err(error), Some(companion)) = (&written, &existing)
                    && error.lasting_refusal().is_some()
                {
                    // A WorkloadDeployment can end although the hub refuses the content.
                    self.write_users(context, wanted, companion).await?;
                }
                written.map(State::Content)
            }
            (None, Some(companion)) => {
                self.write_users(context, wanted, &companion).await?;
                Ok(State::Content(SourceVersion::of_content(
                    &companion.metadata,
                )))
            }
            // The condition of the WorkloadDeployments says what is wrong with the source.
            (None, None) => Ok(State::Absent),
        }
    }

    /// Reads a source of which the hub has another version. Returns `None` if it is missing, too large or may not be
    /// read: running Instances keep their data.
    async fn changed_source(
        &self,
        project: &ProjectCaches,
        key: &SourceKey,
        copied: Option<&SourceVersion>,
    ) -> Result<Option<Content>, ReconcileError> {
        let current = match current_version(project, key)? {
            Some(Current::Version(version)) => version,
            None | Some(Current::Unauthorized) => return Ok(None),
        };
        if copied == Some(&current) {
            return Ok(None);
        }
        let read = Content::read(&project.client, &key.namespace, &key.source).await;
        let source = match read {
            Err(error) if error.is_forbidden() || error.is_undecodable() => return Ok(None),
            read => read?,
        };
        Ok(source.filter(|source| {
            let facts = self.sources.note(key, source);
            facts.is_some_and(|it| !it.is_too_large() && Some(&it.version) != copied)
        }))
    }

    /// Writes the content of a companion. Returns since which version of the source the content is as it is: a change of
    /// the labels of a source has a version of its own.
    async fn write<K: Companion>(
        &self,
        context: &ReconcileContext,
        wanted: &Wanted<'_>,
        existing: Option<&PartialObjectMeta<K>>,
        source: K,
    ) -> Result<Option<SourceVersion>, ReconcileError> {
        let Wanted {
            key,
            hub_namespace,
            referenced_by,
            ..
        } = wanted;
        let Some(version) = SourceVersion::of(source.meta()) else {
            return Ok(None);
        };
        let to = Collection::<K>::new(&self.hub.client, hub_namespace.as_str(), None);
        let stored = match existing {
            Some(_) => to.read(&key.source.name).await?,
            None => None,
        };
        let same = stored.filter(|stored| stored.content() == source.content());
        let since = since(same.as_ref().map(K::meta), &version, wanted.meant);
        let annotations = StringMap::from([
            (
                annotations::REFERENCED_BY.to_owned(),
                json!(referenced_by).to_string(),
            ),
            (annotations::SOURCE_VERSION.to_owned(), version.to_string()),
            (
                annotations::CONTENT_VERSION.to_owned(),
                since.as_content(&version),
            ),
        ]);
        let metadata = json!({
            "name": key.source.name,
            "namespace": hub_namespace.as_str(),
            "resourceVersion": existing.and_then(ResourceExt::resource_version),
            "labels": {labels::REFERENCED_DATA: "true"},
            "annotations": annotations,
        });
        let mut body = source.content();
        for (field, value) in [
            ("apiVersion", json!(K::api_version(&()))),
            ("kind", json!(K::kind(&()))),
            ("metadata", metadata),
        ] {
            body.insert(field.to_owned(), value);
        }
        let body = Value::Object(body);
        let existing = existing.map(|it| {
            let mut object = K::default();
            object.meta_mut().clone_from(&it.metadata);
            object
        });
        let is_as_written = |stored: &K| {
            covers(stored.annotations(), &annotations) && stored.content() == source.content()
        };
        let written = self
            .writer
            .ensure(
                context,
                &to,
                existing.as_ref(),
                &body,
                K::OWN,
                is_as_written,
            )
            .await;
        let (Err(error), Some(existing)) = (&written, existing) else {
            return written.map(|_| Some(since));
        };
        // The type of a Secret cannot be changed.
        let stored = match error.refusal() {
            Some(_) => to.read(&key.source.name).await?,
            None => None,
        };
        match stored {
            Some(stored) if stored.content().get("type") != source.content().get("type") => {
                self.writer
                    .delete_unchanged(context, &to, &existing)
                    .await?;
                Err(ReconcileError::NotYet {
                    object: describe(&existing),
                    missing: "its deletion: it is made anew with another type".to_owned(),
                })
            }
            _ => written.map(|_| Some(since)),
        }
    }

    /// Deletes a companion, if the API server of the project confirms that no WorkloadDeployment lists the source. A list
    /// that cannot be read may contain it. An API server whose objects are not in the hub namespace proves nothing: the
    /// project was led to it later, and the Instances of the former one run on (I-12).
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if one lists the source or is about to, and the errors of the list and of the deletion.
    async fn delete<K: Companion>(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        on_hub: &Namespace,
        wanted: &Wanted<'_>,
        companion: &PartialObjectMeta<K>,
    ) -> Result<(), ReconcileError> {
        let key = wanted.key;
        let needed = || ReconcileError::NotYet {
            object: describe(companion),
            missing: "the watch to report who needs it".to_owned(),
        };
        let lock_of = self.locks.for_a_deletion(key.clone());
        let _lock = lock_of.ok_or_else(needed)?;
        // If two API servers at one address answer in turn, the second round gets the answers of the other one.
        let all = Collection::<WorkloadDeployment>::new(&project.client, &key.namespace, None);
        let mut listed = all.all_metadata().await?;
        let namespace = key.namespace.as_str();
        for names in [
            [namespace, DEFAULT_NAMESPACE],
            [DEFAULT_NAMESPACE, namespace],
        ] {
            if !is_upstream(project, key, wanted.hub_namespace, on_hub, names).await? {
                return Ok(());
            }
        }
        listed.extend(all.all_metadata().await?);
        let users = Users {
            deployments: listed.iter().collect(),
            source: &key.source,
            releasing: &lock(&self.releases).names(key),
        };
        let using = project.data.names_of_users(&key.namespace, &key.source);
        let may_use = |it: &ObjectMeta| {
            let name = it.name.as_deref().unwrap_or_default();
            let known = project.deployments.get(&key.namespace, name);
            using.iter().any(|(_, used_by)| used_by == name) || !matches!(known, Ok(Some(_)))
        };
        if !users.of(wanted.hub_namespace).is_empty() || users.may_have_more(may_use) {
            return Err(needed());
        }
        let to = Collection::new(&self.hub.client, wanted.hub_namespace.as_str(), None);
        self.writer
            .delete_unchanged(context, &to, companion)
            .await?;
        self.sources.forget(key);
        Ok(())
    }

    /// Writes which WorkloadDeployments a companion names, if it names others.
    async fn write_users<K: Companion>(
        &self,
        context: &ReconcileContext,
        wanted: &Wanted<'_>,
        companion: &PartialObjectMeta<K>,
    ) -> Result<(), ReconcileError> {
        let text = json!(wanted.referenced_by).to_string();
        if companion.annotations().get(annotations::REFERENCED_BY) == Some(&text) {
            return Ok(());
        }
        let (hub, namespace) = (&self.hub.client, wanted.hub_namespace.as_str());
        let partials = Collection::<PartialObjectMeta<K>>::new(hub, namespace, None);
        let metadata = json!({"annotations": {annotations::REFERENCED_BY: text}});
        self.writer
            .patch_metadata(context, &partials, companion, metadata)
            .await
            .map(drop)
    }
}

/// Asks the API server of a project for these Namespaces, in this order. Returns whether its objects are in a hub
/// namespace.
async fn is_upstream(
    project: &ProjectCaches,
    key: &SourceKey,
    hub_namespace: &HubNamespace,
    on_hub: &Namespace,
    names: [&str; 2],
) -> Result<bool, ReconcileError> {
    let namespaces = Collection::<Namespace>::of_plane(&project.client, None);
    let mut found = BTreeMap::new();
    for name in names {
        let metadata = namespaces.find(name).await?;
        found.insert(name, metadata.map(ObjectMeta::into_response_partial));
    }
    let of = |name: &str| found.get(name).and_then(Option::as_ref);
    let identity = Identity {
        namespace: of(&key.namespace),
        default: of(DEFAULT_NAMESPACE),
    };
    Ok(identity.is_of(hub_namespace, on_hub))
}

/// Returns since which version of a source its companion has its content. `same` is the metadata of the companion if
/// its content stays. Its version counts only if nobody has seen a later one: a hub that was restored can have a former
/// content that the source has again.
fn since(
    same: Option<&ObjectMeta>,
    version: &SourceVersion,
    meant: &[SourceVersion],
) -> SourceVersion {
    let is_newest = |companion: &&ObjectMeta| {
        let copied = SourceVersion::of_companion(companion);
        copied.is_some_and(|copied| meant.iter().all(|meant| copied.is_at_least(meant)))
    };
    let former = same.filter(is_newest).and_then(SourceVersion::of_content);
    // After a restore of the project, the versions are earlier ones.
    let former = former.filter(|former| version.is_at_least(former));
    former.unwrap_or_else(|| version.clone())
}
