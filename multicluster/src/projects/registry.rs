//! Which projects are known and which of them are used.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use api::ProjectName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::discovery::{self, Connect, Discovered};
use super::engaged_project::EngagedProject;
use super::handler::{ProjectHandler, RegistryContext};
use super::root::Root;
use crate::cache::{Cache, ListLimiter, SyncState};
use crate::metrics::{Counted, Metrics};
use crate::tasks::Tasks;

/// How long a project may keep the process from being ready.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Registry {
    tasks: Tasks,
    metrics: Metrics,
    connect: Connect,
    /// Where projects can be proved to be gone.
    pub(super) root: Option<Arc<Root>>,
    lists: ListLimiter,
    known: RwLock<BTreeMap<ProjectName, ProjectEntry>>,
    /// Whether all projects have been listed once.
    listed: watch::Receiver<bool>,
    /// Whether `known` is what there is.
    sync_state: watch::Receiver<SyncState>,
    /// Set once nothing is pending.
    ready: OnceLock<()>,
}

/// A project of which there is an object.
#[derive(Debug)]
pub(super) enum ProjectEntry {
    /// It is used.
    Engaged(EngagedEntry),
    /// It cannot be used.
    NotReady(NotReadyEntry),
}

/// A project that cannot be used.
#[derive(Debug)]
pub(super) struct NotReadyEntry {
    /// What it lacks.
    pub(super) problem: String,
    _counted: Counted,
}

/// A project that is used; its task goes with this.
#[derive(Debug)]
pub(super) struct EngagedEntry {
    project: Arc<EngagedProject>,
    /// UID of the object: another one of the same name is another project.
    uid: Option<String>,
    /// Until when the process waits for the project before it is ready, if it does.
    awaited_until: Option<Instant>,
    /// There is one while it is suspended.
    suspended: Option<Counted>,
    _task: DropGuard,
    _counted: Counted,
}

impl EngagedEntry {
    pub(super) fn project(&self) -> Arc<EngagedProject> {
        Arc::clone(&self.project)
    }

    /// Why the process is not ready yet, if it waits for this project.
    fn pending(&self) -> Option<String> {
        let awaited = self
            .awaited_until
            .is_some_and(|until| Instant::now() < until);
        let problem = self.project.current().err()?;
        awaited.then(|| format!("projects: {problem}"))
    }
}

impl ProjectEntry {
    fn engaged(&self) -> Option<&EngagedEntry> {
        match self {
            Self::Engaged(engaged) => Some(engaged),
            Self::NotReady(_) => None,
        }
    }
}

impl Registry {
    pub(super) fn new(
        context: &RegistryContext<'_>,
        connect: Connect,
        root: Option<Arc<Root>>,
        listed: watch::Receiver<bool>,
        sync_state: watch::Receiver<SyncState>,
    ) -> Self {
        let RegistryContext { tasks, metrics } = *context;
        Self {
            tasks: tasks.clone(),
            metrics: metrics.clone(),
            connect,
            root,
            lists: ListLimiter::default(),
            known: RwLock::default(),
            listed,
            sync_state,
            ready: OnceLock::new(),
        }
    }

    pub(super) fn known(&self) -> RwLockReadGuard<'_, BTreeMap<ProjectName, ProjectEntry>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, ProjectEntry>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sync_state(&self) -> SyncState {
        self.sync_state.borrow().clone()
    }

    /// Brings a project to what its object says now. Called by the one task that follows the objects.
    pub(super) fn changed<K: Discovered>(
        &self,
        cache: &Cache<K>,
        metadata: &ObjectMeta,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let object = metadata.name.clone().unwrap_or_default();
        let name = match ProjectName::new(object.clone()) {
            Ok(name) => name,
            Err(error) => {
                warn!(%error, "a project is not used");
                return;
            }
        };
        match cache.get("", &object) {
            Ok(Some(object)) => match discovery::verdict(&*object) {
                Ok(()) => {
                    self.engage(name.clone(), object.meta().uid.clone(), handler);
                    self.suspend(&name, discovery::is_suspended(&*object));
                }
                Err(problem) => self.disengage(name, problem),
            },
            Ok(None) => {
                self.forget(&name);
                if let Some(handler) = handler {
                    handler.on_removed(&name);
                }
            }
            // Who was ready is not taken to have changed.
            Err(_) if self.is_engaged(&name) => {}
            Err(error) => self.disengage(name, error.to_string()),
        }
    }

    fn is_engaged(&self, name: &ProjectName) -> bool {
        let known = self.known();
        known.get(name).and_then(ProjectEntry::engaged).is_some()
    }

    /// Uses a project, if it is not used already: makes its client and starts its task.
    pub(super) fn engage(
        &self,
        name: ProjectName,
        uid: Option<String>,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let same = |engaged: &EngagedEntry| engaged.uid == uid;
        let is_same = self
            .known()
            .get(&name)
            .and_then(ProjectEntry::engaged)
            .is_some_and(same);
        if is_same {
            return;
        }
        // No lock is held meanwhile: to read certificates takes time.
        match (self.connect)(&name) {
            Ok(client) => {
                let (project, follow) = EngagedProject::new(
                    name.clone(),
                    client,
                    self.lists.elsewhere(),
                    &self.metrics,
                );
                let project = Arc::new(project);
                let attend = run(handler.cloned(), Arc::clone(&project));
                let task = async {
                    tokio::join!(follow, attend);
                };
                info!(project = %name, "project engaged");
                let engaged = EngagedEntry {
                    project,
                    uid,
                    awaited_until: (!*self.listed.borrow()).then(|| Instant::now() + PATIENCE),
                    suspended: None,
                    _task: self.tasks.spawn_cancellable("project", task),
                    _counted: Counted::new(&self.metrics.projects_engaged),
                };
                let former = self
                    .known_mut()
                    .insert(name, ProjectEntry::Engaged(engaged));
                drop(former);
            }
            Err(error) => {
                warn!(project = %name, %error, "project cannot be engaged");
                self.disengage(name, error.to_string());
            }
        }
    }

    /// Uses a project no longer, for what it lacks: its task is cancelled, and its client goes with who has it in hand.
    fn disengage(&self, name: ProjectName, problem: String) {
        if self.is_engaged(&name) {
            info!(project = %name, problem, "project disengaged");
        }
        let not_ready = NotReadyEntry {
            problem,
            _counted: Counted::new(&self.metrics.projects_not_ready),
        };
        let former = self
            .known_mut()
            .insert(name, ProjectEntry::NotReady(not_ready));
        drop(former);
    }

    /// Notes whether a project that is used refuses to create and to update.
    fn suspend(&self, name: &ProjectName, is_suspended: bool) {
        let mut known = self.known_mut();
        let Some(ProjectEntry::Engaged(engaged)) = known.get_mut(name) else {
            return;
        };
        if engaged.suspended.is_some() == is_suspended {
            return;
        }
        info!(project = %name, is_suspended, "project is suspended or not any more");
        engaged.suspended = is_suspended.then(|| Counted::new(&self.metrics.projects_suspended));
        engaged.project.suspend(is_suspended);
    }

    /// Forgets a project that does not exist any more.
    fn forget(&self, name: &ProjectName) {
        let former = self.known_mut().remove(name);
        if former.as_ref().and_then(ProjectEntry::engaged).is_some() {
            info!(project = %name, "project disengaged: it is gone");
        }
    }

    /// What the process waits for before it is ready, one line each.
    pub(super) fn pending(&self) -> Vec<String> {
        if self.ready.get().is_some() {
            return Vec::new();
        }
        if !*self.listed.borrow() {
            return vec![match self.sync_state().problem() {
                Some(problem) => format!("projects: not listed yet: {problem}"),
                None => "projects: not listed yet".to_owned(),
            }];
        }
        let known = self.known();
        let engaged = known.values().filter_map(ProjectEntry::engaged);
        let pending: Vec<_> = engaged.filter_map(EngagedEntry::pending).collect();
        if pending.is_empty() {
            self.ready.get_or_init(|| ());
        }
        pending
    }
}

/// Whatever is done for a project.
async fn run(handler: Option<Arc<dyn ProjectHandler>>, project: Arc<EngagedProject>) {
    if let Some(handler) = handler {
        project.answered().await;
        handler.run(project).await;
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("known", &*self.known())
            .finish_non_exhaustive()
    }
}
