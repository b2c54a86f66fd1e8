//! The registry of projects: which there are, how each is reached, and what of each is cached (platform.md 1.5).
//!
//! It runs on every replica, leader or not. Each engaged project has a task of its own, so that one whose API server is
//! slow, or never answers, delays no other.

mod discovery;
mod engaged_project;
mod handler;
mod registry;
mod root;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;

use api::ProjectName;
use api::milo::{self, ProjectControlPlane};
use kube::Client;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;

use crate::cache::{ListLimiter, Reflector, SyncState};
use crate::connect::ConnectError;
use discovery::{Connect, Discovered};
pub use discovery::{DiscoveryConfig, DiscoveryKind};
pub use engaged_project::{EngagedProject, NotCurrent};
pub use handler::{ProjectHandler, RegistryContext};
use registry::{ProjectEntry, Registry};
use root::Root;

/// The projects that there are. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProjectRegistry {
    registry: Arc<Registry>,
}

/// A registry that knows no project yet.
#[must_use = "no project is known before it begins"]
pub struct RegistryBuilder {
    projects: ProjectRegistry,
    begin: Begin,
}

type Begin = Box<dyn FnOnce(Option<Arc<dyn ProjectHandler>>) + Send>;

impl RegistryBuilder {
    /// The projects that there will be.
    pub fn projects(&self) -> ProjectRegistry {
        self.projects.clone()
    }

    /// Begins to find projects. The handler works on each of them, if there is one.
    pub fn begin(self, handler: Option<Arc<dyn ProjectHandler>>) -> ProjectRegistry {
        (self.begin)(handler);
        self.projects
    }
}

/// Why a project cannot be used. Each message is one that a user can be shown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotEngaged {
    /// No one knows yet which projects there are.
    #[error("projects have not been listed yet")]
    Listing,
    /// No project of this name is known, but there may be one that has not been heard of.
    #[error("project {name} is not known, and projects cannot be listed: {problem}")]
    Failing {
        /// The project.
        name: ProjectName,
        /// Why projects cannot be listed, or this one cannot be asked for.
        problem: String,
    },
    /// There is no project of this name.
    #[error("there is no project {0}, or it has not been heard of yet")]
    Unknown(ProjectName),
    /// The project exists, and its API server cannot be used.
    #[error("project {name} is not ready: {problem}")]
    NotReady {
        /// The project.
        name: ProjectName,
        /// What it lacks.
        problem: String,
    },
}

impl ProjectRegistry {
    /// The own cluster is the one project (`discovery.mode: single`, compute.md 5.1).
    pub fn single(
        context: &RegistryContext<'_>,
        name: ProjectName,
        client: Client,
    ) -> RegistryBuilder {
        let connect = Box::new(move |_: &ProjectName| Ok(client.clone()));
        let (listed, sync_state) = (
            watch::Sender::new(false),
            watch::Sender::new(SyncState::Current),
        );
        let registry = Arc::new(Registry::new(
            context,
            connect,
            None,
            listed.subscribe(),
            sync_state.subscribe(),
        ));
        RegistryBuilder {
            projects: Self {
                registry: Arc::clone(&registry),
            },
            begin: Box::new(move |handler| {
                registry.engage(name, None, handler.as_ref());
                listed.send_replace(true);
            }),
        }
    }

    /// The projects of Milo whose API servers can be used, as they come and go (`discovery.mode: milo`, platform.md 1.5).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] when the template makes no client: its certificates or credentials are not usable.
    pub fn discover(
        context: &RegistryContext<'_>,
        discovery: DiscoveryConfig,
    ) -> Result<RegistryBuilder, ConnectError> {
        let DiscoveryConfig {
            client,
            kind,
            template,
            user_agent,
            leadership,
        } = discovery;
        let connect = discovery::connect(kind, template, &user_agent, leadership)?;
        Ok(Self::of_kind(kind, context, client, connect))
    }

    fn of_kind(
        kind: DiscoveryKind,
        context: &RegistryContext<'_>,
        client: Client,
        connect: Connect,
    ) -> RegistryBuilder {
        match kind {
            DiscoveryKind::Project => {
                let root = Arc::new(Root::new(&client));
                Self::follow::<milo::Project>(context, client, connect, Some(root))
            }
            // It goes before what the project has does (platform.md 1.1).
            DiscoveryKind::ProjectControlPlane => {
                Self::follow::<ProjectControlPlane>(context, client, connect, None)
            }
        }
    }

    /// Watches the objects that say which projects there are.
    fn follow<K>(
        context: &RegistryContext<'_>,
        client: Client,
        connect: Connect,
        root: Option<Arc<Root>>,
    ) -> RegistryBuilder
    where
        K: Discovered + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let tasks = context.tasks.clone();
        let mut reflector = Reflector::<K>::new("discovery", context.metrics);
        let cache = reflector.cache();
        let registry = Arc::new(Registry::new(
            context,
            connect,
            root.clone(),
            cache.synced(),
            cache.sync_state(),
        ));
        let projects = Self {
            registry: Arc::clone(&registry),
        };
        let begin = move |handler: Option<Arc<dyn ProjectHandler>>| {
            let is_attended = handler.is_some();
            reflector.on_change(move |change| {
                for metadata in change.versions() {
                    registry.changed(&cache, metadata, handler.as_ref());
                }
            });
            let stop = tasks.stop();
            tasks.spawn("project discovery", async move {
                // Only who writes what it is known by, and deletes, needs to ask.
                let root = root.filter(|_| is_attended);
                let identify = async {
                    if let Some(root) = root {
                        root.identify().await;
                    }
                };
                let follow = reflector.run(client, ListLimiter::default());
                let both = async { tokio::join!(follow, identify) };
                stop.run_until_cancelled(both).await;
                Ok::<_, Infallible>(())
            });
        };
        RegistryBuilder {
            projects,
            begin: Box::new(begin),
        }
    }

    /// The project of this name. A terminating one is there until its object is gone.
    ///
    /// # Errors
    ///
    /// [`NotEngaged`] when there is none, or none that can be used.
    pub fn get(&self, name: &ProjectName) -> Result<Arc<EngagedProject>, NotEngaged> {
        // Before the projects are looked at: what has been listed by then is found.
        let sync_state = self.registry.sync_state();
        let problem = match self.registry.known().get(name) {
            Some(ProjectEntry::Engaged(engaged)) => return Ok(engaged.project()),
            Some(ProjectEntry::NotReady(not_ready)) => Some(not_ready.problem.clone()),
            None => None,
        };
        let name = name.clone();
        Err(match (problem, sync_state) {
            (Some(problem), _) => NotEngaged::NotReady { name, problem },
            (None, SyncState::Listing) => NotEngaged::Listing,
            (None, SyncState::Current) => NotEngaged::Unknown(name),
            (
                None,
                SyncState::Failing { problem }
                | SyncState::Forbidden { problem }
                | SyncState::NotServed { problem },
            ) => NotEngaged::Failing { name, problem },
        })
    }

    /// What the Milo root is known by: the UID of its Namespace `default`. Nothing where there is none, and before it has
    /// been asked.
    pub fn root_uid(&self) -> Option<String> {
        self.registry.root.as_ref()?.uid()
    }

    /// Whether the project is proved to be gone, that the root had which is known by this UID: it is not in the list of
    /// projects, and that very root says itself that there is none of this name. Without Milo's Projects that is never said.
    ///
    /// # Errors
    ///
    /// [`NotEngaged::Listing`] and [`NotEngaged::Failing`] when that cannot be told now.
    pub async fn is_gone(&self, name: &ProjectName, root_uid: &str) -> Result<bool, NotEngaged> {
        let Some(root) = &self.registry.root else {
            return Ok(false);
        };
        match self.get(name) {
            Ok(_) | Err(NotEngaged::NotReady { .. }) => Ok(false),
            Err(NotEngaged::Unknown(_)) => {
                let answer = root.confirm_absent(name, root_uid).await;
                answer.map_err(|problem| NotEngaged::Failing {
                    name: name.clone(),
                    problem,
                })
            }
            Err(problem) => Err(problem),
        }
    }

    /// What the process waits for before it is ready, one line each: the list of projects, and the LocationBindings of
    /// those that were in it, for 10 s at most. Once that is over nothing is pending any more: a later project, or a later
    /// failure, is told to those who ask for it.
    pub fn pending(&self) -> Vec<String> {
        self.registry.pending()
    }
}

#[cfg(test)]
mod tests;
