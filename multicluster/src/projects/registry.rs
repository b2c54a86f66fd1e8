//! The projects of the registry, and their tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use api::ProjectName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
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

/// Longest time for which a project of the first list may delay the readiness of the process.
pub(super) const READINESS_WAIT: Duration = Duration::from_secs(10);

pub(super) struct Registry {
    tasks: Tasks,
    metrics: Metrics,
    /// The Milo root, which can prove that a project is gone; `None` if there is no root.
    pub(super) root: Option<Arc<Root>>,
    lists: ListLimiter,
    entries: RwLock<BTreeMap<ProjectName, ProjectEntry>>,
    /// Whether all projects have been listed once.
    listed: watch::Receiver<bool>,
    /// Whether `entries` is in sync with the API server.
    sync_state: watch::Receiver<SyncState>,
    /// Set when nothing was pending for the first time.
    ready: OnceLock<()>,
    /// Set when the log has named the projects that readiness waits for.
    named: OnceLock<()>,
}

/// A project that an object announces.
#[derive(Debug)]
pub(super) enum ProjectEntry {
    /// The project's API server is used.
    Engaged(EngagedEntry),
    /// The project's API server cannot be used.
    NotReady(NotReadyEntry),
}

/// A project whose API server cannot be used.
#[derive(Debug)]
pub(super) struct NotReadyEntry {
    /// The reason why the API server cannot be used. Users see this text.
    pub(super) problem: String,
    _counted: Counted,
}

/// A project whose API server is used. Its task is cancelled when this entry is dropped.
#[derive(Debug)]
pub(super) struct EngagedEntry {
    project: Arc<EngagedProject>,
    /// UID of the object. An object with the same name and another UID announces another project.
    uid: Option<String>,
    /// The readiness of the process waits for the project until this time; `None` if it does not wait.
    awaited_until: Option<Instant>,
    /// Present while the project is suspended.
    suspended: Option<Counted>,
    _task: DropGuard,
    _counted: Counted,
}

impl EngagedEntry {
    pub(super) fn project(&self) -> Arc<EngagedProject> {
        Arc::clone(&self.project)
    }

    /// Returns the problem of this project if the readiness of the process still waits for the project.
    fn pending(&self) -> Option<String> {
        let awaited = self
            .awaited_until
            .is_some_and(|until| Instant::now() < until);
        let problem = self.project.current().err()?;
        awaited.then(|| problem.to_string())
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
        root: Option<Arc<Root>>,
        listed: watch::Receiver<bool>,
        sync_state: watch::Receiver<SyncState>,
    ) -> Self {
        let RegistryContext { tasks, metrics } = *context;
        Self {
            tasks: tasks.clone(),
            metrics: metrics.clone(),
            root,
            lists: ListLimiter::default(),
            entries: RwLock::default(),
            listed,
            sync_state,
            ready: OnceLock::new(),
            named: OnceLock::new(),
        }
    }

    pub(super) fn entries(&self) -> RwLockReadGuard<'_, BTreeMap<ProjectName, ProjectEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, ProjectEntry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sync_state(&self) -> SyncState {
        self.sync_state.borrow().clone()
    }

    /// Engages, disengages or forgets a project according to its object. Only the task that watches the objects calls
    /// this method.
    pub(super) fn changed<K: Discovered>(
        &self,
        cache: &Cache<K>,
        metadata: &ObjectMeta,
        connect: &Connect,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let object = metadata.name.clone().unwrap_or_default();
        let name = match ProjectName::new(object.clone()) {
            Ok(name) => name,
            Err(error) => {
                warn!(%error, "project has an invalid name; it is ignored");
                return;
            }
        };
        match cache.get("", &object) {
            Ok(Some(object)) => match discovery::check_ready(&*object) {
                Ok(()) => {
                    let uid = object.meta().uid.clone();
                    self.engage_new(&name, uid, connect, handler);
                    self.suspend(&name, discovery::is_suspended(&*object));
                }
                Err(unready) => self.disengage(name, unready.to_string()),
            },
            Ok(None) => self.remove(&name, "its object was deleted", handler),
            // A project that was ready stays engaged if its new version cannot be decoded.
            Err(_) if self.is_engaged(&name) => {}
            Err(error) => self.disengage(name, error.to_string()),
        }
    }

    pub(super) fn is_engaged(&self, name: &ProjectName) -> bool {
        let entries = self.entries();
        entries.get(name).and_then(ProjectEntry::engaged).is_some()
    }

    /// Returns the names of the engaged projects, and with `unready` those of the others. Returns `None` until all
    /// projects have been listed once.
    pub(super) fn names(&self, unready: bool) -> Option<Vec<ProjectName>> {
        // This must be read before the entries. Then they contain every project of the first list.
        let is_listed = *self.listed.borrow();
        let entries = self.entries();
        let wanted = entries
            .iter()
            .filter(|(_, it)| unready || it.engaged().is_some());
        is_listed.then(|| wanted.map(|(name, _)| name.clone()).collect())
    }

    /// Engages a project if it is not engaged yet. Makes the client of the project.
    fn engage_new(
        &self,
        name: &ProjectName,
        uid: Option<String>,
        connect: &Connect,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let same = |engaged: &EngagedEntry| engaged.uid == uid;
        let is_same = self
            .entries()
            .get(name)
            .and_then(ProjectEntry::engaged)
            .is_some_and(same);
        if is_same {
            return;
        }
        // No lock is held here, because the connection reads certificate files, which takes time.
        match connect(name) {
            Ok(client) => self.engage(name.clone(), uid, client, handler),
            Err(error) => {
                warn!(project = %name, %error, "project cannot be engaged");
                self.disengage(name.clone(), error.to_string());
            }
        }
    }

    /// Engages a project: starts its task. The task of a former project with this name is cancelled.
    pub(super) fn engage(
        &self,
        name: ProjectName,
        uid: Option<String>,
        client: Client,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let (project, watch) = EngagedProject::new(
            name.clone(),
            client,
            self.lists.for_another_server(),
            &self.metrics,
        );
        let project = Arc::new(project);
        let handle = run_handler(handler.cloned(), Arc::clone(&project));
        let task = async {
            tokio::join!(watch, handle);
        };
        info!(project = %name, "project engaged");
        let engaged = EngagedEntry {
            project,
            uid,
            awaited_until: (!*self.listed.borrow()).then(|| Instant::now() + READINESS_WAIT),
            suspended: None,
            _task: self.tasks.spawn_cancellable("project", task),
            _counted: Counted::new(&self.metrics.projects_engaged),
        };
        let former = self
            .entries_mut()
            .insert(name, ProjectEntry::Engaged(engaged));
        drop(former);
    }

    /// Disengages a project and cancels its task. The client of the project is dropped when its last user is dropped.
    pub(super) fn disengage(&self, name: ProjectName, problem: String) {
        if self.is_engaged(&name) {
            info!(project = %name, problem, "project disengaged");
        }
        let not_ready = NotReadyEntry {
            problem,
            _counted: Counted::new(&self.metrics.projects_not_ready),
        };
        let former = self
            .entries_mut()
            .insert(name, ProjectEntry::NotReady(not_ready));
        drop(former);
    }

    /// Records whether an engaged project rejects creates and updates.
    fn suspend(&self, name: &ProjectName, is_suspended: bool) {
        let mut entries = self.entries_mut();
        let Some(ProjectEntry::Engaged(engaged)) = entries.get_mut(name) else {
            return;
        };
        if engaged.suspended.is_some() == is_suspended {
            return;
        }
        info!(project = %name, is_suspended, "suspension of the project changed");
        engaged.suspended = is_suspended.then(|| Counted::new(&self.metrics.projects_suspended));
        engaged.project.suspend(is_suspended);
    }

    /// Forgets a project whose object or file was removed.
    pub(super) fn remove(
        &self,
        name: &ProjectName,
        reason: &str,
        handler: Option<&Arc<dyn ProjectHandler>>,
    ) {
        let former = self.entries_mut().remove(name);
        if former.as_ref().and_then(ProjectEntry::engaged).is_some() {
            info!(project = %name, reason, "project disengaged");
        }
        drop(former);
        if let Some(handler) = handler {
            handler.on_removed(name);
        }
    }

    /// Returns the conditions that the readiness of the process waits for, one line each. The lines name no project,
    /// because everyone can read them. The log names the projects once.
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
        let entries = self.entries();
        let engaged = entries.values().filter_map(ProjectEntry::engaged);
        let pending: Vec<_> = engaged.filter_map(EngagedEntry::pending).collect();
        if pending.is_empty() {
            self.ready.get_or_init(|| ());
            return pending;
        }
        self.named.get_or_init(|| {
            for problem in &pending {
                info!(problem, "readiness waits for a project");
            }
        });
        vec![format!(
            "projects: {} have not been read yet; the log names them",
            pending.len()
        )]
    }
}

/// Runs the handler of a project. The handler starts when the project's API server has listed the LocationBindings or
/// does not serve this kind, at the latest after one minute.
async fn run_handler(handler: Option<Arc<dyn ProjectHandler>>, project: Arc<EngagedProject>) {
    if let Some(handler) = handler {
        project.answered().await;
        handler.run(project).await;
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("entries", &*self.entries())
            .finish_non_exhaustive()
    }
}
