//! Copies a ConfigMap or a Secret of a project to the hub. The copy is called companion: Karmada propagates it with the
//! WorkloadDeployments that list it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use api::{HubNamespace, ProjectName, WorkloadDeployment, annotations, finalizers, labels};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::references::{Source, SourceKind};
use super::sources::{Content, Current, Sources, current_version};
use super::version::{SourceVersion, expected};
use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::objects::{Namespace, StringMap, covers, describe, recorded_hub_namespace};
use crate::projects::ProjectCaches;
use crate::runtime::hub_proof::{require_answering_hub, require_own_hub};
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::write::{Collection, Object, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Writes companions.
pub(crate) struct Companions {
    pub(super) hub: Arc<HubCaches>,
    writer: Writer,
    pub(super) sources: Sources,
    /// The WorkloadDeployments that are being taken out of companions although they still list the source.
    releasing: Mutex<HashSet<(ProjectKey, Source)>>,
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

impl Companions {
    pub(crate) fn new(hub: Arc<HubCaches>, writer: Writer) -> Self {
        Self {
            hub,
            writer,
            sources: Sources::default(),
            releasing: Mutex::default(),
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
        lock(&self.releasing).retain(|(key, _)| key.project != *project);
        self.sources.forget_project(project);
    }

    /// Takes a WorkloadDeployment out of the companions of these sources. Deletes those that nobody needs.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::sync`], and [`ReconcileError::Contradiction`] if another hub answers.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        deployment: &ProjectKey,
        sources: &[Source],
    ) -> Result<(), ReconcileError> {
        let pairs = sources.iter().map(|it| (deployment.clone(), it.clone()));
        lock(&self.releasing).extend(pairs);
        for source in sources {
            let key = SourceKey::new(deployment, source);
            self.sync(context, project, &key).await?;
            // The companion may still name the WorkloadDeployment.
            if let Some(problem) = self.problem(&key) {
                return Err(ReconcileError::NotYet {
                    object: format!("companion {key:?}"),
                    missing: format!("the hub to accept its change: {problem}"),
                });
            }
        }
        // A companion that was not found is not gone if another hub has answered.
        let identity = self.hub.identity()?;
        let what = || {
            format!(
                "WorkloadDeployment {}/{}",
                deployment.namespace, deployment.name
            )
        };
        require_answering_hub(&self.hub.client, &identity, what).await
    }

    /// Keeps only these sources among those that a WorkloadDeployment is being taken out of. Returns the others.
    pub(super) fn keep_releasing(&self, deployment: &ProjectKey, kept: &[Source]) -> Vec<Source> {
        let mut releasing = lock(&self.releasing);
        let again = releasing
            .iter()
            .filter(|(key, source)| key == deployment && !kept.contains(source));
        let again: Vec<_> = again.map(|(_, source)| source.clone()).collect();
        releasing.retain(|(key, source)| key != deployment || kept.contains(source));
        again
    }

    /// Notes that a WorkloadDeployment no longer lists the sources that it was taken out of.
    pub(super) fn released(&self, deployment: &ProjectKey) {
        lock(&self.releasing).retain(|(key, _)| key != deployment);
    }

    /// Brings the companions of a source to the state that its source and the WorkloadDeployments demand. Returns
    /// whether [`Self::problem`] has changed.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotListed`] if WorkloadDeployments or the kind have not been listed yet,
    /// [`ReconcileError::Contradiction`] if the hub in use is not the hub of the companion, and the errors of writes.
    pub(super) async fn sync(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        key: &SourceKey,
    ) -> Result<bool, ReconcileError> {
        project.require(&project.deployments)?;
        let upstream = Upstream {
            project: key.project.clone(),
            namespace: key.namespace.clone(),
        };
        let users = project.data.users(&key.namespace, &key.source).into_iter();
        let users = users
            .filter_map(|(namespace, name)| project.deployments.metadata_of(&namespace, &name));
        let users: Vec<_> = users.collect();
        let mut problem = None;
        for namespace in self.hub.namespaces_for.get(&upstream.to_string()) {
            let Ok(hub_namespace) = HubNamespace::new(namespace.name_any()) else {
                continue;
            };
            let wanted = Wanted {
                key,
                hub_namespace: &hub_namespace,
                referenced_by: self.referenced_by(&users, key, &hub_namespace),
            };
            let synced = match key.source.kind {
                SourceKind::ConfigMap => {
                    self.sync_in::<ConfigMap>(context, project, &namespace, &wanted)
                        .await
                }
                SourceKind::Secret => {
                    self.sync_in::<Secret>(context, project, &namespace, &wanted)
                        .await
                }
            };
            match synced {
                Ok(None) => {}
                Ok(Some(found)) => problem = Some(found),
                Err(error) => match error.refusal() {
                    Some(refusal) => problem = Some(format!("{}: {refusal}", key.source)),
                    None => return Err(error),
                },
            }
        }
        let mut problems = lock(&self.problems);
        let former = problems.get(key).cloned();
        match &problem {
            Some(problem) => problems.insert(key.clone(), problem.clone()),
            None => problems.remove(key),
        };
        Ok(former != problem)
    }

    /// Returns the names of the WorkloadDeployments that are being taken out of the companion of a source.
    fn releasing(&self, key: &SourceKey) -> HashSet<String> {
        let releasing = lock(&self.releasing);
        let those = releasing.iter().filter(|(deployment, source)| {
            deployment.project == key.project
                && deployment.namespace == key.namespace
                && *source == key.source
        });
        those
            .map(|(deployment, _)| deployment.name.clone())
            .collect()
    }

    /// Returns the WorkloadDeployments among these that list the source and have their copy in the hub namespace.
    fn referenced_by(
        &self,
        deployments: &[ObjectMeta],
        key: &SourceKey,
        hub_namespace: &HubNamespace,
    ) -> BTreeSet<String> {
        let releasing = self.releasing(key);
        let listing = deployments.iter().filter(|it| {
            recorded_hub_namespace(it) == Some(hub_namespace.as_str())
                && !it
                    .name
                    .as_ref()
                    .is_some_and(|name| releasing.contains(name))
                && expected(it).is_some_and(|all| all.contains(&key.source))
        });
        listing
            .map(|it| {
                format!(
                    "{}/{}",
                    key.namespace,
                    it.name.as_deref().unwrap_or_default()
                )
            })
            .collect()
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
        let partials = Collection::<PartialObjectMeta<K>>::new(hub, hub_namespace.as_str(), None);
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
            if let Some(companion) = existing
                && self.nobody_needs(project, wanted).await?
            {
                self.writer
                    .delete_unchanged(context, &partials, &companion)
                    .await?;
                self.sources.forget(key);
            }
            return Ok(None);
        }
        let version = existing
            .as_ref()
            .and_then(|it| SourceVersion::of_companion(&it.metadata));
        let changed = self.changed_source(project, key, version.as_ref()).await?;
        match (changed.and_then(K::from_source), existing) {
            (Some(source), existing) => {
                self.write(context, wanted, existing.as_ref(), source)
                    .await?;
            }
            (None, Some(companion)) => {
                let text = json!(referenced_by).to_string();
                if companion.annotations().get(annotations::REFERENCED_BY) != Some(&text) {
                    let metadata = json!({"annotations": {annotations::REFERENCED_BY: text}});
                    self.writer
                        .patch_metadata(context, &partials, &companion, metadata)
                        .await?;
                }
            }
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

    /// Returns whether no WorkloadDeployment uses the source, and the API server of the project confirms that none lists
    /// it. A list that cannot be read may contain it.
    async fn nobody_needs(
        &self,
        project: &ProjectCaches,
        wanted: &Wanted<'_>,
    ) -> Result<bool, ReconcileError> {
        let Wanted {
            key, hub_namespace, ..
        } = wanted;
        let users = project.data.users(&key.namespace, &key.source).into_iter();
        let releasing = self.releasing(key);
        // One without the finalizer has never listed a source.
        let needs = |name: &str| {
            let metadata = project.deployments.metadata_of(&key.namespace, name);
            let finalizers = metadata.and_then(|it| it.finalizers).unwrap_or_default();
            finalizers
                .iter()
                .any(|it| it == finalizers::REFERENCED_DATA)
        };
        let mut users = users.filter(|(_, name)| !releasing.contains(name));
        if users.any(|(_, name)| needs(&name)) {
            return Ok(false);
        }
        let (client, namespace) = (&project.client, &key.namespace);
        let deployments = Collection::<WorkloadDeployment>::new(client, namespace, None);
        let all = deployments.all_metadata().await?;
        let is_unreadable = |it: &ObjectMeta| {
            let annotations = it.annotations.as_ref();
            let has_list = annotations
                .is_some_and(|it| it.contains_key(annotations::EXPECTED_REFERENCED_DATA));
            has_list && expected(it).is_none()
        };
        let listing = self.referenced_by(&all, key, hub_namespace);
        Ok(listing.is_empty() && !all.iter().any(is_unreadable))
    }
}

/// Returns whether an object of the hub is a companion.
pub(crate) fn is_companion(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(labels::REFERENCED_DATA))
}

/// A kind that has companions.
trait Companion: Object<Scope = NamespaceResourceScope> + Default + Serialize {
    /// The parts that only the controller writes.
    const OWN: &'static [&'static str];

    /// Returns the source, if it is of this kind.
    fn from_source(source: Content) -> Option<Self>;

    /// Returns the fields that a companion has from its source.
    fn content(&self) -> Map<String, Value>;
}

impl Companion for ConfigMap {
    const OWN: &'static [&'static str] = &["/data", "/binaryData"];

    fn from_source(source: Content) -> Option<Self> {
        match source {
            Content::ConfigMap(it) => Some(it),
            Content::Secret(_) => None,
        }
    }

    fn content(&self) -> Map<String, Value> {
        with_fields([
            ("data", self.data.as_ref().map(|it| json!(it))),
            ("binaryData", self.binary_data.as_ref().map(|it| json!(it))),
        ])
    }
}

impl Companion for Secret {
    const OWN: &'static [&'static str] = &["/data"];

    fn from_source(source: Content) -> Option<Self> {
        match source {
            Content::Secret(it) => Some(it),
            Content::ConfigMap(_) => None,
        }
    }

    fn content(&self) -> Map<String, Value> {
        with_fields([
            ("data", self.data.as_ref().map(|it| json!(it))),
            ("type", self.type_.as_ref().map(|it| json!(it))),
        ])
    }
}

/// Returns the fields that have a value.
fn with_fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    let present = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.collect()
}
