//! The projects that are served, and their caches.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use api::{
    DEFAULT_NAMESPACE, Instance, ProjectName, Workload, WorkloadDeployment, WorkloadSummary,
    annotations,
};
use kube::{Client, Resource, ResourceExt};
use multicluster::Cache;
use multicluster::cache::Index;

use crate::hub::identity::{FEDERATED, HubIdentity, recorded_hub};
use crate::hub::upstream::Upstream;
use crate::objects::{Namespace, Network};
use crate::referenced_data::project_data::ProjectData;
use crate::runtime::ReconcileError;
use crate::summary::pace::Pace;

/// Identifies one engagement of a project. Two engagements of the same project are different. A clone is equal to its
/// original.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engagement(Arc<()>);

impl PartialEq for Engagement {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Engagement {}

/// The hub that the WorkloadDeployments of a project record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectHub {
    /// A record names the hub in use, or a hub that it replaces.
    InUse,
    /// All records name other hubs.
    Another,
    /// No WorkloadDeployment has a record: a former version has copied them to a hub.
    Unrecorded,
}

/// The API server of a project and its caches.
pub(crate) struct ProjectCaches {
    pub(crate) engagement: Engagement,
    pub(crate) client: Client,
    /// The engaged project, which knows the cities that the project may use.
    pub(crate) locations: Arc<multicluster::projects::EngagedProject>,
    pub(crate) namespaces: Cache<Namespace>,
    /// The Networks. A project's API server may not serve them.
    pub(crate) networks: Cache<Network>,
    pub(crate) workloads: Cache<Workload>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    /// The WorkloadDeployments, indexed by namespace and UID of their Workload.
    pub(crate) deployments_of: Index<WorkloadDeployment>,
    /// The WorkloadDeployments, indexed by the fields that decide about policies. See `policy::kinds`.
    pub(crate) for_policies: Index<WorkloadDeployment>,
    /// The WorkloadDeployments, indexed by the hub that they have recorded, and by whether they were copied to a hub.
    pub(crate) by_hub: Index<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
    /// The WorkloadSummaries. A project's API server may not serve them.
    pub(crate) summaries: Cache<WorkloadSummary>,
    /// The WorkloadSummaries, indexed by namespace and age.
    pub(crate) summaries_by_age: Index<WorkloadSummary>,
    /// How often the WorkloadSummaries are evaluated.
    pub(crate) pace: Pace,
    pub(crate) data: ProjectData,
}

impl ProjectCaches {
    /// Checks that a kind has been listed once. Without the list, a missing object in the cache says nothing.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotListed`] if the kind has not been listed.
    pub(crate) fn require<K: Resource<DynamicType = ()>>(
        &self,
        cache: &Cache<K>,
    ) -> Result<(), ReconcileError> {
        match *cache.synced().borrow() {
            true => Ok(()),
            false => Err(ReconcileError::NotListed {
                project: self.locations.name().clone(),
                kind: K::plural(&()).into_owned(),
            }),
        }
    }

    /// Returns the reason why this hub is not the hub of the project, if there is one: a WorkloadDeployment of the
    /// project has recorded another hub.
    pub(crate) fn hub_contradiction(&self, hub: &HubIdentity) -> Option<String> {
        let key = annotations::HUB_UID;
        let mut problem = None;
        self.by_hub.visit_values("", |metadata, _| {
            let record = recorded_hub(metadata).filter(|record| !hub.is_named_by(record));
            if let Some(record) = record {
                let name = metadata.name.as_deref().unwrap_or_default();
                problem = Some(format!(
                    "annotation {key} of WorkloadDeployment {name} of this project names hub {record}"
                ));
            }
        });
        problem
    }

    /// Returns which hub the WorkloadDeployments of the project record that have been copied to a hub. Returns `None` if
    /// there are none.
    pub(crate) fn hub(&self, hub: &HubIdentity) -> Option<ProjectHub> {
        let (mut own, mut others, mut unrecorded) = (false, false, false);
        self.by_hub.visit_values(FEDERATED, |metadata, _| {
            match recorded_hub(metadata).map(|record| hub.is_named_by(record)) {
                Some(true) => own = true,
                Some(false) => others = true,
                None => unrecorded = true,
            }
        });
        match (own, others) {
            (true, _) => Some(ProjectHub::InUse),
            (false, true) => Some(ProjectHub::Another),
            (false, false) => unrecorded.then_some(ProjectHub::Unrecorded),
        }
    }

    /// Checks that a namespace belongs to a project. The labels of a hub namespace mean that the connection of the
    /// project leads to a hub or a cell: its WorkloadDeployments are copies, and copies of them would have copies
    /// without end.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if it is a hub namespace.
    pub(crate) fn require_no_hub_namespace(&self, namespace: &str) -> Result<(), ReconcileError> {
        let metadata = self.namespaces.metadata_of("", namespace);
        match metadata.as_ref().map(Upstream::of) {
            Some(Ok(upstream)) => Err(ReconcileError::Contradiction {
                object: format!("Namespace {namespace} of project {}", self.locations.name()),
                problem: format!(
                    "its labels identify {upstream}, so it is a hub namespace: the kubeconfig or URL of the project must \
                     not lead to a hub or a cell"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Returns which kinds cannot be listed, and why. Returns `None` if there is no such kind. A failure after the
    /// first list is no reason, unless the API server refuses the kind. A refusal counts until the kind is listed.
    pub(crate) fn unlisted(&self) -> Option<String> {
        let problems: Vec<_> = self.list_problems().into_iter().flatten().collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Returns why Namespaces, Workloads, WorkloadDeployments and Instances cannot be listed.
    pub(crate) fn list_problems(&self) -> [Option<String>; 4] {
        [
            problem(&self.namespaces),
            problem(&self.workloads),
            problem(&self.deployments),
            problem(&self.instances),
        ]
    }
}

/// Returns why a kind cannot be listed.
fn problem<K: Resource<DynamicType = ()>>(cache: &Cache<K>) -> Option<String> {
    let failure = || match *cache.synced().borrow() {
        true => None,
        false => cache.sync_state().borrow().problem().map(str::to_owned),
    };
    let problem = cache.refusal().or_else(failure)?;
    Some(format!("{} cannot be listed: {problem}", K::plural(&())))
}

/// The projects that are served. Some of their kinds may not be listed yet, see [`ProjectCaches::require`].
pub(crate) struct SyncedProjects {
    registry: multicluster::ProjectRegistry,
    /// The Namespaces of the hub.
    hub: Cache<Namespace>,
    served: RwLock<BTreeMap<ProjectName, Arc<ProjectCaches>>>,
}

impl SyncedProjects {
    pub(crate) fn new(registry: multicluster::ProjectRegistry, hub: Cache<Namespace>) -> Self {
        Self {
            registry,
            hub,
            served: RwLock::default(),
        }
    }

    /// Returns the UID that identifies the Milo root, if the root has one.
    pub(crate) fn root_uid(&self) -> Option<String> {
        self.registry.root_uid()
    }

    /// Returns the project of a hub namespace. Returns `None` if it is proved that the project does not exist. Another
    /// Milo root may use the same hub. So only the root that had the project when the hub namespace was written can
    /// prove that the project does not exist.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotEngaged`] when the project may exist but is not served here. It is not ready, will soon be
    /// served, or belongs to another root. [`ReconcileError::NotKnown`] when the root currently cannot answer.
    pub(crate) async fn get_unless_gone(
        &self,
        name: &ProjectName,
        hub_namespace: &Namespace,
    ) -> Result<Option<Arc<ProjectCaches>>, ReconcileError> {
        let not_engaged = match self.get(name) {
            Ok(project) => return Ok(Some(project)),
            Err(not_engaged) => not_engaged,
        };
        let known_by = hub_namespace
            .annotations()
            .get(annotations::UPSTREAM_ROOT_UID);
        let Some(root_uid) = known_by else {
            return Err(not_engaged);
        };
        match self.registry.is_gone(name, root_uid).await {
            Ok(true) => Ok(None),
            Ok(false) => Err(not_engaged),
            Err(problem) => Err(ReconcileError::NotKnown(problem)),
        }
    }

    /// Returns all served projects.
    pub(crate) fn all(&self) -> Vec<(ProjectName, Arc<ProjectCaches>)> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let served = served.iter();
        served
            .map(|(name, project)| (name.clone(), Arc::clone(project)))
            .collect()
    }

    /// Returns whether projects were listed once, and all that are engaged are served. A project is served at the latest
    /// two minutes after it was engaged, even if its kinds cannot be listed. With `unready`, the others must be served,
    /// too: their API servers may not have answered yet.
    pub(crate) fn are_all_served(&self, unready: bool) -> bool {
        let Some(awaited) = self.registry.names(unready) else {
            return false;
        };
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        awaited.iter().all(|name| served.contains_key(name))
    }

    /// Returns the project of this name.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotEngaged`] when the project is not served. This error does not prove that the project does
    /// not exist. [`ReconcileError::Contradiction`] when its API server is the hub.
    pub(crate) fn get(&self, name: &ProjectName) -> Result<Arc<ProjectCaches>, ReconcileError> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let project = served.get(name).cloned();
        let project = project.ok_or_else(|| ReconcileError::NotEngaged(name.clone()))?;
        let uid = |namespaces: &Cache<Namespace>| {
            let default = namespaces.metadata_of("", DEFAULT_NAMESPACE);
            default.and_then(|it| it.uid).filter(|uid| !uid.is_empty())
        };
        let hub = uid(&self.hub);
        if hub.is_some() && hub == uid(&project.namespaces) {
            return Err(ReconcileError::Contradiction {
                object: format!("project {name}"),
                problem: "its API server is the hub: its kubeconfig or URL must not lead there"
                    .to_owned(),
            });
        }
        Ok(project)
    }

    /// Serves a project. If a project of the same name is already served, it is replaced.
    pub(crate) fn register(&self, name: ProjectName, project: Arc<ProjectCaches>) {
        self.write().insert(name, project);
    }

    /// Stops serving a project, unless another project is served under the name. Then calls `on_unregistered`, before
    /// another project of this name can be registered. Returns whether the project was served.
    pub(crate) fn unregister(
        &self,
        name: &ProjectName,
        project: &Arc<ProjectCaches>,
        on_unregistered: impl FnOnce(),
    ) -> bool {
        let mut projects = self.write();
        let is_served = projects
            .get(name)
            .is_some_and(|served| Arc::ptr_eq(served, project));
        if is_served {
            projects.remove(name);
            on_unregistered();
        }
        is_served
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, Arc<ProjectCaches>>> {
        self.served.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apiserver::{ApiServer, Fault};
    use tokio::time::sleep;

    use super::*;
    use crate::fixtures::servers::{FakePlanes, hub_key};

    #[tokio::test(start_paused = true)]
    async fn a_refused_kind_stays_unlisted_while_the_api_server_fails() {
        let planes = FakePlanes::start(Vec::new(), Vec::new()).await;
        let project = planes.projects.get(&hub_key().project.unwrap()).unwrap();
        let becomes = async |change: &dyn Fn(&ApiServer), text: &str| {
            planes.project.heal();
            change(&planes.project);
            planes.project.end_watches();
            sleep(Duration::from_mins(5)).await;
            let sync_state = project.instances.sync_state();
            let problem = sync_state.borrow().problem().map(str::to_owned);
            assert!(problem.unwrap_or_default().contains(text));
            project.unlisted()
        };
        let forbid = |server: &ApiServer| server.fail(Fault::refuse(403).of::<Instance>());
        let break_down = |server: &ApiServer| server.fail(Fault::refuse(503));
        assert_eq!(becomes(&break_down, "503").await, None);
        let refused = becomes(&forbid, "403").await;
        assert!(refused.as_ref().is_some_and(|it| it.contains("instances")));
        assert_eq!(becomes(&break_down, "503").await, refused);
        assert_eq!(becomes(&forbid, "403").await, refused);
        assert_eq!(becomes(&|_| {}, "").await, None);
    }
}
