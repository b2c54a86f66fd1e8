//! Copies a ConfigMap or a Secret of a project to the hub. The copy is called companion: Karmada propagates it with the
//! WorkloadDeployments that list it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use api::references::{Source, SourceKind};
use api::{HubNamespace, ProjectName, WorkloadDeployment, annotations, labels};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use super::companion_kind::{Companion, is_companion};
use super::releases::{Release, Releases};
use super::sources::{Content, Current, Sources, current_version};
use super::users::{Users, full_name};
use super::version::SourceVersion;
use crate::deletion_locks::{DeletionLock, DeletionLocks};
use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::objects::{Namespace, StringMap, covers, describe, recorded_hub_namespace};
use crate::projects::ProjectCaches;
use crate::runtime::hub_proof::{require_answering_hub, require_own_hub};
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Writes companions.
pub(crate) struct Companions {
    pub(super) hub: Arc<HubCaches>,
    writer: Writer,
    pub(super) sources: Sources,
    releases: Mutex<Releases>,
    /// The locks of companions. A WorkloadDeployment does not begin to list a source whose companion is being deleted.
    locks: DeletionLocks<SourceKey>,
    /// Why a companion is not as it should be.
    problems: Mutex<HashMap<SourceKey, String>>,
}

/// A companion, and what it should say.
struct Wanted<'a> {
    key: &'a SourceKey,
    hub_namespace: &'a HubNamespace,
    /// The WorkloadDeployments that list the source, sorted.
    referenced_by: BTreeSet<String>,
}

/// The changes for WorkloadDeployments that the reconciliation of a companion has brought.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Whether [`Companions::problem`] has changed.
    pub(super) problem_changed: bool,
    /// The WorkloadDeployments that no companion of the sources that they release names any more.
    pub(super) released: Vec<ProjectKey>,
}

impl Companions {
    pub(crate) fn new(hub: Arc<HubCaches>, writer: Writer) -> Self {
        Self {
            hub,
            writer,
            sources: Sources::default(),
            releases: Mutex::default(),
            locks: DeletionLocks::default(),
            problems: Mutex::default(),
        }
    }

    /// Returns why the companion of a source is not as it should be, if there is a reason.
    pub(super) fn problem(&self, key: &SourceKey) -> Option<String> {
        lock(&self.problems).get(key).cloned()
    }

    /// Forgets everything about a project that is no longer served.
    pub(crate) fn forget_project(&self, project: &ProjectName) {
        lock(&self.problems).retain(|key, _| key.project != *project);
        lock(&self.releases).forget_project(project);
        self.sources.forget_project(project);
    }

    /// Returns the releases of a WorkloadDeployment that have begun.
    pub(super) fn releases_of(&self, deployment: &ProjectKey) -> BTreeMap<Source, Release> {
        lock(&self.releases).of(deployment)
    }

    /// Releases exactly these sources of a WorkloadDeployment. `listed` are the sources that it lists at present. Returns
    /// the sources whose companions have to be reconciled. [`Synced::released`] tells when that is done.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if a source is needed again whose companion is being deleted.
    pub(super) fn release(
        &self,
        deployment: &ProjectKey,
        listed: &[Source],
        released: &[Source],
    ) -> Result<Vec<SourceKey>, ReconcileError> {
        let changed = lock(&self.releases).set(deployment, listed, released, &self.locks);
        changed.map_err(|source| being_deleted(deployment, &source))
    }

    /// Locks the companions of sources that a WorkloadDeployment begins to list.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if one of them is being deleted.
    pub(super) fn lock_for_use<'s>(
        &self,
        deployment: &ProjectKey,
        sources: impl IntoIterator<Item = &'s Source>,
    ) -> Result<Vec<DeletionLock<SourceKey>>, ReconcileError> {
        let locks = sources.into_iter().map(|source| {
            let lock = self.locks.for_a_use(SourceKey::new(deployment, source));
            lock.ok_or_else(|| being_deleted(deployment, source))
        });
        locks.collect()
    }

    /// Brings the companions of a source to the state that its source and the WorkloadDeployments demand. The queue calls
    /// this for one key at a time, and nothing else writes companions.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotListed`] if WorkloadDeployments or the kind have not been listed yet,
    /// [`ReconcileError::Contradiction`] if the hub in use is not the hub of the companion,
    /// [`ReconcileError::NotYet`] if a cache is behind, and the errors of writes.
    pub(super) async fn sync(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        key: &SourceKey,
    ) -> Result<Synced, ReconcileError> {
        project.require(&project.deployments)?;
        // The following reads prove nothing about releases that begin later.
        let releasing = lock(&self.releases).names(key);
        let (readable, undecodable) = project.data.users(&key.namespace, &key.source);
        let undecodable = undecodable.iter().map(|it| &it.metadata);
        let users = Users {
            deployments: readable
                .iter()
                .map(|it| &it.metadata)
                .chain(undecodable)
                .collect(),
            source: &key.source,
            releasing: &releasing,
        };
        let upstream = Upstream {
            project: key.project.clone(),
            namespace: key.namespace.clone(),
        };
        let (mut problem, mut refused) = (None, Vec::new());
        let namespaces = self.hub.namespaces_for.get(&upstream.to_string());
        for namespace in &namespaces {
            let Ok(hub_namespace) = HubNamespace::new(namespace.name_any()) else {
                continue;
            };
            let wanted = Wanted {
                key,
                referenced_by: users.of(&hub_namespace),
                hub_namespace: &hub_namespace,
            };
            let synced = match key.source.kind {
                SourceKind::ConfigMap => {
                    self.sync_in::<ConfigMap>(context, project, namespace, &wanted)
                        .await
                }
                SourceKind::Secret => {
                    self.sync_in::<Secret>(context, project, namespace, &wanted)
                        .await
                }
            };
            match synced {
                Ok(None) => {}
                Ok(Some(found)) => problem = Some(found),
                Err(error) => match error.refusal() {
                    Some(refusal) => {
                        refused.push(hub_namespace);
                        problem = Some(format!("{}: {refusal}", key.source));
                    }
                    None => return Err(error),
                },
            }
        }
        let problem_changed = self.note_problem(key, problem.as_deref());
        let released = self.prove(key, &users, &namespaces, &refused).await?;
        Ok(Synced {
            problem_changed,
            released,
        })
    }

    /// Keeps the problem of a companion. Returns whether it has changed.
    fn note_problem(&self, key: &SourceKey, problem: Option<&str>) -> bool {
        let mut problems = lock(&self.problems);
        let former = match problem {
            Some(problem) => problems.insert(key.clone(), problem.to_owned()),
            None => problems.remove(key),
        };
        former.as_deref() != problem
    }

    /// Proves that no companion of a source names the WorkloadDeployments that are being taken out of it. Those in the
    /// visited hub namespaces have been written without them, or are absent. In the refused ones the hub has refused a
    /// write, so those companions are read. Returns the WorkloadDeployments of which all releases are proved.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if a companion elsewhere names one of them, [`ReconcileError::Contradiction`] if
    /// another hub has answered, and the errors of [`Collection::read_metadata`].
    async fn prove(
        &self,
        key: &SourceKey,
        users: &Users<'_>,
        visited: &[Arc<Namespace>],
        refused: &[HubNamespace],
    ) -> Result<Vec<ProjectKey>, ReconcileError> {
        let mut unproved = lock(&self.releases).unproved(key, users.releasing);
        if unproved.is_empty() {
            return Ok(Vec::new());
        }
        let is_unproved =
            |it: &&ObjectMeta| it.name.as_ref().is_some_and(|it| unproved.contains(it));
        for deployment in users.deployments.iter().copied().filter(is_unproved) {
            let recorded = recorded_hub_namespace(deployment);
            let Some(recorded) =
                recorded.filter(|it| visited.iter().all(|known| known.name_any() != **it))
            else {
                continue;
            };
            let companion = self.metadata_in(recorded, &key.source).await?;
            if companion.is_some_and(|it| names(&it, &full_name(deployment))) {
                return Err(ReconcileError::NotYet {
                    object: format!("companion {recorded}/{}", key.source),
                    missing: "the watch to report its hub namespace".to_owned(),
                });
            }
        }
        for namespace in refused {
            let Some(companion) = self.metadata_in(namespace.as_str(), &key.source).await? else {
                continue;
            };
            unproved.retain(|name| !names(&companion, &format!("{}/{name}", key.namespace)));
        }
        // A companion that was not found is not gone if another hub has answered.
        let what = || format!("companion {key:?}");
        require_answering_hub(&self.hub.client, &self.hub.identity()?, what).await?;
        Ok(lock(&self.releases).prove(key, &unproved))
    }

    /// Reads the metadata of the object that has the name of a source in a namespace of the hub.
    async fn metadata_in(
        &self,
        namespace: &str,
        source: &Source,
    ) -> Result<Option<ObjectMeta>, ReconcileError> {
        let hub = &self.hub.client;
        Ok(match source.kind {
            SourceKind::ConfigMap => {
                let all = Collection::<ConfigMap>::new(hub, namespace, None);
                all.read_metadata(&source.name).await?.map(|it| it.metadata)
            }
            SourceKind::Secret => {
                let all = Collection::<Secret>::new(hub, namespace, None);
                all.read_metadata(&source.name).await?.map(|it| it.metadata)
            }
        })
    }

    /// Brings the companion in one hub namespace to its state. Returns why this is not possible, if there is a reason
    /// that only a person can remove.
    async fn sync_in<K: Companion>(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        namespace: &Namespace,
        wanted: &Wanted<'_>,
    ) -> Result<Option<String>, ReconcileError> {
        let Wanted {
            key,
            hub_namespace,
            referenced_by,
        } = wanted;
        let hub = &self.hub.client;
        let name = &key.source.name;
        let existing = Collection::<K>::new(hub, hub_namespace.as_str(), None)
            .read_metadata(name)
            .await?;
        let existing = match existing {
            Some(object) if !is_companion(&object.metadata) => {
                let problem = format!("the hub has another object of the name {}", key.source);
                return Ok((!referenced_by.is_empty()).then_some(problem));
            }
            existing => existing,
        };
        require_own_hub(&self.hub, namespace, None)?;
        if referenced_by.is_empty() {
            if let Some(companion) = existing {
                self.delete(context, project, wanted, &companion).await?;
            }
            return Ok(None);
        }
        let version = existing
            .as_ref()
            .and_then(|it| SourceVersion::of_companion(&it.metadata));
        let changed = self.changed_source(project, key, version.as_ref()).await?;
        match (changed.and_then(K::from_source), existing) {
            (Some(source), existing) => {
                let written = self.write(context, wanted, existing.as_ref(), source).await;
                if let (Err(error), Some(companion)) = (&written, &existing)
                    && error.refusal().is_some()
                {
                    // A WorkloadDeployment can end although the hub refuses the content.
                    self.write_users(context, wanted, companion).await?;
                }
                written?;
            }
            (None, Some(companion)) => self.write_users(context, wanted, &companion).await?,
            // The condition of the WorkloadDeployments says what is wrong with the source.
            (None, None) => {}
        }
        Ok(None)
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
            Err(error) if error.is_forbidden() => return Ok(None),
            read => read?,
        };
        Ok(source.filter(|source| {
            let facts = self.sources.note(key, source);
            facts.is_some_and(|it| !it.is_too_large() && Some(&it.version) != copied)
        }))
    }

    /// Writes the content of a companion.
    async fn write<K: Companion>(
        &self,
        context: &ReconcileContext,
        wanted: &Wanted<'_>,
        existing: Option<&PartialObjectMeta<K>>,
        source: K,
    ) -> Result<(), ReconcileError> {
        let Wanted {
            key,
            hub_namespace,
            referenced_by,
        } = wanted;
        let Some(version) = SourceVersion::of(source.meta()) else {
            return Ok(());
        };
        let annotations = StringMap::from([
            (
                annotations::REFERENCED_BY.to_owned(),
                json!(referenced_by).to_string(),
            ),
            (annotations::SOURCE_VERSION.to_owned(), version.to_string()),
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
        let to = Collection::<K>::new(&self.hub.client, hub_namespace.as_str(), None);
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
            return written.map(drop);
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
            _ => written.map(drop),
        }
    }

    /// Deletes a companion, if the API server of the project confirms that no WorkloadDeployment lists the source. A list
    /// that cannot be read may contain it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if one lists the source or is about to, and the errors of the list and of the deletion.
    async fn delete<K: Companion>(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
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
        let all = Collection::<WorkloadDeployment>::new(&project.client, &key.namespace, None);
        let all = all.all_metadata().await?;
        let users = Users {
            deployments: all.iter().collect(),
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

    /// Forgets the facts about a source that no WorkloadDeployment uses.
    pub(super) fn forget_source(&self, key: &SourceKey) {
        self.sources.forget(key);
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

fn being_deleted(deployment: &ProjectKey, source: &Source) -> ReconcileError {
    ReconcileError::NotYet {
        object: format!("WorkloadDeployment {deployment:?}"),
        missing: format!("the deletion of the companion of {source} to end"),
    }
}

/// Returns whether a companion names a WorkloadDeployment. One that cannot be read may name it.
fn names(metadata: &ObjectMeta, deployment: &str) -> bool {
    let annotations = metadata.annotations.as_ref();
    let referenced_by = annotations.and_then(|it| it.get(annotations::REFERENCED_BY));
    let names = referenced_by.map(|it| serde_json::from_str::<Vec<String>>(it));
    is_companion(metadata)
        && !matches!(names, Some(Ok(names)) if !names.iter().any(|it| it == deployment))
}
