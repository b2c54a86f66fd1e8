//! Copies a ConfigMap or a Secret of a project to the hub. The copy is called companion: Karmada propagates it with the
//! WorkloadDeployments that list it.

mod state;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use api::references::{Source, SourceKind};
use api::{HubNamespace, ProjectName, annotations};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::companion_kind::{is_companion, read_metadata};
use super::releases::{Release, Releases};
use super::sources::Sources;
use super::users::{Users, full_name};
use super::version::{MeantVersions, SourceVersion};
use crate::deletion_locks::{DeletionLock, DeletionLocks};
use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::objects::{Namespace, recorded_hub_namespace};
use crate::projects::ProjectCaches;
use crate::runtime::hub_proof::require_answering_hub;
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::write::Writer;
use crate::runtime::{ReconcileContext, ReconcileError};
use state::{State, Wanted};

/// Writes companions.
pub(crate) struct Companions {
    pub(super) hub: Arc<HubCaches>,
    writer: Writer,
    pub(super) sources: Sources,
    releases: Mutex<Releases>,
    /// The locks of companions. A WorkloadDeployment does not begin to list a source whose companion is being deleted.
    locks: DeletionLocks<SourceKey>,
    /// The companions that have a problem, or a user whose Instances are replaced for other content.
    known: Mutex<HashMap<SourceKey, Known>>,
}

/// The result of the last reconciliation of a companion.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    /// Why it is not as it should be.
    problem: Option<String>,
    /// Since which version of the source its content is as it is. Only kept for users with
    /// [`annotations::ROLL_ON_DATA_CHANGE`].
    content: Option<SourceVersion>,
}

/// The changes for WorkloadDeployments that the reconciliation of a companion has brought.
#[derive(Debug)]
pub(super) struct Synced {
    /// Whether [`Companions::problem`] or [`Companions::content`] has changed.
    pub(super) is_changed: bool,
    /// The WorkloadDeployments that no companion of the sources that they release names any more, or why this cannot be
    /// proved.
    pub(super) released: Result<Vec<ProjectKey>, ReconcileError>,
}

impl Companions {
    pub(crate) fn new(hub: Arc<HubCaches>, writer: Writer) -> Self {
        Self {
            hub,
            writer,
            sources: Sources::default(),
            releases: Mutex::default(),
            locks: DeletionLocks::default(),
            known: Mutex::default(),
        }
    }

    /// Returns why the companion of a source is not as it should be, if there is a reason.
    pub(super) fn problem(&self, key: &SourceKey) -> Option<String> {
        lock(&self.known).get(key)?.problem.clone()
    }

    /// Returns since which version of the source the content of the companion is as it is, once it has been written to
    /// the hub. Returns `None` if no user has [`annotations::ROLL_ON_DATA_CHANGE`].
    pub(super) fn content(&self, key: &SourceKey) -> Option<SourceVersion> {
        lock(&self.known).get(key)?.content.clone()
    }

    /// Forgets everything about a project that is no longer served.
    pub(crate) fn forget_project(&self, project: &ProjectName) {
        lock(&self.known).retain(|key, _| key.project != *project);
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
        let rolling = readable.iter().filter(|it| it.rolls_on_data_change());
        let rolling: Vec<_> = rolling.collect();
        let source = key.source.to_string();
        let meant = rolling.iter().filter_map(|it| {
            let versions = MeantVersions::of(&it.metadata)?;
            versions.sources.get(&source).cloned()
        });
        let meant: Vec<_> = meant.collect();
        let (mut known, mut refused) = (Known::default(), Vec::new());
        let namespaces = self.hub.namespaces_for.get(&upstream.to_string());
        for namespace in &namespaces {
            let Ok(hub_namespace) = HubNamespace::new(namespace.name_any()) else {
                continue;
            };
            let wanted = Wanted {
                key,
                referenced_by: users.of(&hub_namespace),
                meant: &meant,
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
                Ok(State::Absent) => {}
                Ok(State::Foreign(problem)) => known.problem = Some(problem),
                Ok(State::Content(version)) => {
                    known.content = version.filter(|_| !rolling.is_empty());
                }
                Err(error) => match error.lasting_refusal() {
                    Some(refusal) => {
                        refused.push(hub_namespace);
                        known.problem = Some(format!("{}: {refusal}", key.source));
                    }
                    None => return Err(error),
                },
            }
        }
        let is_changed = self.note(key, known);
        let released = self.prove(key, &users, &namespaces, &refused).await;
        Ok(Synced {
            is_changed,
            released,
        })
    }

    /// Keeps what is known about a companion. Returns whether it has changed.
    fn note(&self, key: &SourceKey, known: Known) -> bool {
        let mut all = lock(&self.known);
        let former = all.get(key).cloned().unwrap_or_default();
        let is_changed = former != known;
        if known == Known::default() {
            all.remove(key);
        } else if is_changed {
            all.insert(key.clone(), known);
        }
        is_changed
    }

    /// Proves that no companion of a source names the WorkloadDeployments that are being taken out of it. Those in the
    /// visited hub namespaces have been written without them, or are absent. In the refused ones the hub has refused a
    /// write, so those companions are read. Returns the WorkloadDeployments of which all releases are proved.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if a companion elsewhere names one of them, [`ReconcileError::Contradiction`] if
    /// another hub has answered, and the errors of [`read_metadata`].
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
            let companion = read_metadata(&self.hub.client, recorded, &key.source).await?;
            if companion.is_some_and(|it| names(&it, &full_name(deployment))) {
                return Err(ReconcileError::NotYet {
                    object: format!("companion {recorded}/{}", key.source),
                    missing: "the watch to report its hub namespace".to_owned(),
                });
            }
        }
        for namespace in refused {
            let Some(companion) =
                read_metadata(&self.hub.client, namespace.as_str(), &key.source).await?
            else {
                continue;
            };
            unproved.retain(|name| !names(&companion, &format!("{}/{name}", key.namespace)));
        }
        // A companion that was not found is not gone if another hub has answered.
        let what = || format!("companion {key:?}");
        require_answering_hub(&self.hub.client, &self.hub.identity()?, what).await?;
        Ok(lock(&self.releases).prove(key, &unproved))
    }

    /// Forgets the facts about a source that no WorkloadDeployment uses.
    pub(super) fn forget_source(&self, key: &SourceKey) {
        self.sources.forget(key);
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
