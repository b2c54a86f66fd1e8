//! The watches of a project. The watches pass each change to the triggers of the controllers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::{Instance, ProjectName, Workload, WorkloadDeployment, WorkloadSummary};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Resource;
use multicluster::cache::{Index, Reflector, SyncState};
use multicluster::projects::{EngagedProject, ProjectHandler};
use multicluster::{Cache, Metrics};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::lookups::{HubView, ProjectView, RemovedProject};
use super::needs::Needs;
use super::queues::ManagementQueues;
use crate::federator::StaleCells;
use crate::federator::other_hub::HeldByHub;
use crate::hub::identity::{hub_of, hub_of_metadata};
use crate::hub_in_use::HubInUse;
use crate::objects::{Namespace, Network};
use crate::policy::kinds;
use crate::projects::{Engagement, ProjectCaches, SyncedProjects};
use crate::referenced_data::companion::Companions;
use crate::referenced_data::project_data::{DataReflectors, sources_of, sources_of_metadata};
use crate::runtime::triggers::{NO_OBJECT, ProjectSource};
use crate::runtime::wiring::Watches;
use crate::summary::by_age::{by_age, by_age_of_metadata};
use crate::summary::pace::Pace;
use crate::workload::{networks_of, workload_of, workload_of_undecodable};

/// The common name of all projects in metrics. There are thousands of projects, and one series for each of them would
/// be too many.
const PROJECTS: &str = "projects";

/// After an outage, the longest wait for Networks once LocationBindings are listed again, or the reverse.
const INTERRUPTION: Duration = Duration::from_secs(3);

/// Watches each project that discovery engages, and serves it to the management controllers.
pub struct Management {
    pub(super) projects: Arc<SyncedProjects>,
    pub(super) hub: HubView,
    pub(super) queues: ManagementQueues,
    /// Cancelled once the controllers may write. Until then, the queues drop all keys.
    pub(super) ready: CancellationToken,
    pub(super) stale_cells: Arc<StaleCells>,
    pub(super) held_by_hub: HeldByHub,
    pub(super) hub_in_use: HubInUse,
    pub(super) companions: Arc<Companions>,
    pub(super) metrics: Metrics,
}

impl Management {
    /// Returns the WorkloadDeployments that are held because they are not proved to be on the hub in use.
    pub fn held_by_hub(&self) -> HeldByHub {
        self.held_by_hub.clone()
    }

    /// Returns the check of the hub in use.
    pub fn hub_in_use(&self) -> HubInUse {
        self.hub_in_use.clone()
    }
}

impl ProjectHandler for Management {
    fn run(&self, project: Arc<EngagedProject>) -> BoxFuture<'static, ()> {
        let (watches, data, caches, view) = self.watch(&project);
        let caches = Arc::new(caches);
        let projects = Arc::clone(&self.projects);
        let queues = self.queues.clone();
        let stale_cells = Arc::clone(&self.stale_cells);
        let held_by_hub = self.held_by_hub.clone();
        let companions = Arc::clone(&self.companions);
        let needs = watch_needs(Arc::clone(&caches), Arc::clone(&view), queues.clone());
        let counted = count_failures(&caches);
        let late = LateWakeUps {
            projects: Arc::clone(&projects),
            caches: Arc::clone(&caches),
            view: Arc::clone(&view),
            queues: queues.clone(),
            ready: self.ready.clone(),
        };
        let register = move || {
            // A late reconciliation of the former engagement may have added entries.
            stale_cells.forget_project(&view.name);
            held_by_hub.forget_project(&view.name);
            companions.forget_project(&view.name);
            projects.register(view.name.clone(), Arc::clone(&caches));
            // Earlier reconciliations failed because this process did not serve the project yet.
            queues.wake_on_project(ProjectSource::Served, NO_OBJECT, view.as_ref());
            Registered {
                projects,
                queues,
                caches,
                view,
                stale_cells,
                held_by_hub,
                companions,
            }
        };
        async move {
            tokio::join!(watches.run(register), data, needs, late.wake(), counted);
        }
        .boxed()
    }

    fn on_removed(&self, name: &ProjectName) {
        let removed = RemovedProject {
            name: name.clone(),
            hub: self.hub.clone(),
        };
        self.queues
            .wake_on_project(ProjectSource::Removed, NO_OBJECT, &removed);
    }
}

/// A served project. Dropping this value ends the serving of the project.
struct Registered {
    projects: Arc<SyncedProjects>,
    queues: ManagementQueues,
    caches: Arc<ProjectCaches>,
    view: Arc<ProjectView>,
    stale_cells: Arc<StaleCells>,
    held_by_hub: HeldByHub,
    companions: Arc<Companions>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let (name, view) = (&self.view.name, self.view.as_ref());
        // Another project of the same name may be served meanwhile. Its keys must not be forgotten.
        let forget = || {
            self.queues.forget(name);
            self.stale_cells.forget_project(name);
            self.held_by_hub.forget_project(name);
            self.companions.forget_project(name);
        };
        if self.projects.unregister(name, &self.caches, forget) {
            self.queues
                .wake_on_project(ProjectSource::Unserved, NO_OBJECT, view);
        }
    }
}

/// Requeues all objects of a project when the controllers may write, and when a kind is listed after the project has
/// been served without it.
struct LateWakeUps {
    projects: Arc<SyncedProjects>,
    caches: Arc<ProjectCaches>,
    view: Arc<ProjectView>,
    queues: ManagementQueues,
    ready: CancellationToken,
}

impl LateWakeUps {
    async fn wake(self) {
        let caches = &self.caches;
        tokio::join!(
            self.wake_when_ready(),
            self.wake_when_listed(&caches.namespaces),
            self.wake_when_listed(&caches.workloads),
            self.wake_when_listed(&caches.deployments),
            self.wake_when_listed(&caches.instances),
            self.wake_when_listed(&caches.data.config_maps),
            self.wake_when_listed(&caches.data.secrets),
        );
    }

    async fn wake_when_ready(&self) {
        if !self.ready.is_cancelled() {
            self.ready.cancelled().await;
            self.wake_if_served();
        }
    }

    async fn wake_when_listed<K: Resource<DynamicType = ()>>(&self, cache: &Cache<K>) {
        if cache.synced().wait_for(|listed| *listed).await.is_ok() {
            self.wake_if_served();
        }
    }

    /// Requeues all objects, unless the project is not served yet. When it is served, all its objects are reconciled.
    fn wake_if_served(&self) {
        let served = self.projects.get(&self.view.name);
        if served.is_ok_and(|served| Arc::ptr_eq(&served, &self.caches)) {
            self.queues
                .wake_on_project(ProjectSource::Served, NO_OBJECT, self.view.as_ref());
        }
    }
}

/// Counts the project as failing while one of its kinds cannot be listed or watched.
fn count_failures(caches: &ProjectCaches) -> impl Future<Output = ()> + Send + 'static + use<> {
    let project = &caches.locations;
    let all = [
        project.count_failures(&caches.namespaces).boxed(),
        project.count_failures(&caches.workloads).boxed(),
        project.count_failures(&caches.deployments).boxed(),
        project.count_failures(&caches.instances).boxed(),
        project.count_failures(&caches.networks).boxed(),
    ];
    let data = [
        project.count_failures(&caches.data.config_maps).boxed(),
        project.count_failures(&caches.data.secrets).boxed(),
    ];
    let is_watched = caches.data.is_watched();
    async move {
        let data = async {
            is_watched.await;
            join_all(data).await;
        };
        tokio::join!(join_all(all), data);
    }
}

/// Watches three inputs of Workloads: the offered cities, whether the kinds of the project can be listed, and whether
/// the project is suspended. A change of one input requeues all Workloads. When the API server answers again, failed
/// writes are retried, too. A failure of the first list requeues the Workloads once, because their conditions name the
/// kind. A later failure requeues nothing, because a reconciliation would also fail while the API server does not
/// answer.
async fn watch_needs(caches: Arc<ProjectCaches>, view: Arc<ProjectView>, queues: ManagementQueues) {
    let project = &caches.locations;
    let change = || {
        let (cities, suspension) = (project.cities_change(), project.suspension_change());
        let mut networks = changes(&caches.networks);
        let mut namespaces = changes(&caches.namespaces);
        let mut workloads = changes(&caches.workloads);
        let mut deployments = changes(&caches.deployments);
        let mut instances = changes(&caches.instances);
        Box::pin(async move {
            // No sender is dropped before the project is disengaged, so the end of a future means a change.
            tokio::select! {
                () = cities => {}
                () = suspension => {}
                _ = networks.changed() => {}
                _ = namespaces.changed() => {}
                _ = workloads.changed() => {}
                _ = deployments.changed() => {}
                _ = instances.changed() => {}
            }
        })
    };
    let mut needs = Needs::default();
    let mut next = change();
    loop {
        let observed = Needs::observe(&caches);
        let mut effect = needs.update(observed);
        // After an outage, LocationBindings and Networks are usually both listed within a second. They cause one
        // requeue.
        let until = Instant::now() + INTERRUPTION;
        while effect.recovered && needs.is_unknown() && timeout_at(until, &mut next).await.is_ok() {
            next = change();
            effect = effect.and(needs.update(Needs::observe(&caches)));
        }
        if effect.recovered {
            queues.release(project.name());
        }
        if effect.changed {
            queues.wake_on_project(ProjectSource::NeedsChanged, NO_OBJECT, view.as_ref());
        }
        next.await;
        // The subscription begins before the state is read, so no later change is missed.
        next = change();
    }
}

/// Returns a receiver of later changes of the sync state of a cache.
fn changes<K: Resource<DynamicType = ()>>(cache: &Cache<K>) -> watch::Receiver<SyncState> {
    let mut sync_state = cache.sync_state();
    sync_state.mark_unchanged();
    sync_state
}

impl Management {
    /// Creates the watches and the caches of a project.
    fn watch(
        &self,
        project: &Arc<EngagedProject>,
    ) -> (
        Watches,
        BoxFuture<'static, ()>,
        ProjectCaches,
        Arc<ProjectView>,
    ) {
        let mut reflectors = ProjectReflectors::new(project.name(), &self.metrics);
        let caches = reflectors.caches(project);
        let view = Arc::new(reflectors.view(project.name(), &self.hub));
        reflectors.wake(&view, &self.queues);
        let (watches, data) = reflectors.watches(project);
        (watches, data, caches, view)
    }
}

/// The reflectors of a project.
pub(crate) struct ProjectReflectors {
    workloads: Reflector<Workload>,
    deployments: Reflector<WorkloadDeployment>,
    namespaces: Reflector<Namespace>,
    instances: Reflector<Instance>,
    networks: Reflector<Network>,
    summaries: Reflector<WorkloadSummary>,
    /// The WorkloadSummaries, indexed by namespace and age.
    summaries_by_age: Index<WorkloadSummary>,
    data: DataReflectors,
    /// The WorkloadDeployments, indexed by the ConfigMaps and Secrets that they use or list.
    deployments_on: Index<WorkloadDeployment>,
}

impl ProjectReflectors {
    pub(crate) fn new(project: &ProjectName, metrics: &Metrics) -> Self {
        let plane = format!("project/{project}");
        let deployments = Reflector::of_many(&plane, PROJECTS, metrics);
        let summaries = Reflector::of_many(&plane, PROJECTS, metrics).optional();
        Self {
            workloads: Reflector::of_many(&plane, PROJECTS, metrics),
            deployments_on: deployments.index_all(sources_of, sources_of_metadata),
            deployments,
            namespaces: Reflector::of_many(&plane, PROJECTS, metrics),
            instances: Reflector::of_many(&plane, PROJECTS, metrics),
            networks: Reflector::of_many(&plane, PROJECTS, metrics),
            summaries_by_age: summaries.index_all(by_age, by_age_of_metadata),
            summaries,
            data: DataReflectors::new(project, PROJECTS, metrics),
        }
    }

    /// Returns the caches that the reflectors fill.
    pub(crate) fn caches(&self, project: &Arc<EngagedProject>) -> ProjectCaches {
        let deployments = &self.deployments;
        ProjectCaches {
            engagement: Engagement::default(),
            client: project.client().clone(),
            locations: Arc::clone(project),
            namespaces: self.namespaces.cache(),
            networks: self.networks.cache(),
            workloads: self.workloads.cache(),
            deployments: deployments.cache(),
            deployments_of: deployments.index_all(workload_of, workload_of_undecodable),
            by_hub: deployments.index_all(hub_of, hub_of_metadata),
            for_policies: deployments.index_all(kinds::of_upstream, kinds::of_unreadable_upstream),
            instances: self.instances.cache(),
            summaries: self.summaries.cache(),
            summaries_by_age: self.summaries_by_age.clone(),
            pace: Pace::default(),
            data: self.data.caches(self.deployments_on.clone()),
        }
    }

    /// Returns the lookups of the triggers.
    pub(super) fn view(&self, name: &ProjectName, hub: &HubView) -> ProjectView {
        ProjectView {
            name: name.clone(),
            hub: hub.clone(),
            workloads: self.workloads.cache(),
            workloads_on: self.workloads.index(networks_of),
            deployments: self.deployments.cache(),
            deployments_on: self.deployments_on.clone(),
            instances: self.instances.cache(),
            summaries: self.summaries.cache(),
            summaries_by_age: self.summaries_by_age.clone(),
        }
    }

    /// Passes each change to the triggers of its source.
    fn wake(&mut self, view: &Arc<ProjectView>, queues: &ManagementQueues) {
        wake_on_changes(
            &mut self.namespaces,
            ProjectSource::Namespaces,
            view,
            queues,
        );
        wake_on_changes(&mut self.workloads, ProjectSource::Workloads, view, queues);
        wake_on_changes(
            &mut self.deployments,
            ProjectSource::Deployments,
            view,
            queues,
        );
        wake_on_changes(&mut self.instances, ProjectSource::Instances, view, queues);
        wake_on_changes(&mut self.networks, ProjectSource::Networks, view, queues);
        wake_on_changes(&mut self.summaries, ProjectSource::Summaries, view, queues);
        let config_maps = &mut self.data.config_maps;
        wake_on_changes(config_maps, ProjectSource::ConfigMaps, view, queues);
        wake_on_changes(&mut self.data.secrets, ProjectSource::Secrets, view, queues);
    }

    /// Returns the watches of the project, and the watches that begin when a WorkloadDeployment uses ConfigMaps or
    /// Secrets.
    pub(crate) fn watches(self, project: &EngagedProject) -> (Watches, BoxFuture<'static, ()>) {
        let mut watches = Watches::new(project.client(), &project.list_limiter());
        let data = Watches::new(project.client(), &project.list_limiter());
        watches.watch(self.namespaces);
        watches.watch(self.workloads);
        watches.watch(self.deployments);
        watches.watch(self.instances);
        watches.watch(self.networks);
        watches.watch(self.summaries);
        (watches, self.data.run(data).boxed())
    }
}

/// Passes each change of a kind to the triggers of its source.
fn wake_on_changes<K>(
    reflector: &mut Reflector<K>,
    source: ProjectSource,
    view: &Arc<ProjectView>,
    queues: &ManagementQueues,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (view, queues) = (Arc::clone(view), queues.clone());
    reflector.on_change(move |change| queues.wake_on_project(source, change, view.as_ref()));
}
