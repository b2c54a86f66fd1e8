//! The registry of projects: discovers them, connects to their API servers, and caches their LocationBindings
//! (docs/concepts/milo.md).
//!
//! The registry runs on every replica, leader or not. Each engaged project has its own task, so a slow API server does
//! not delay other projects.

mod discovery;
mod engaged_project;
mod handler;
mod kubeconfigs;
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
pub use discovery::{DiscoveryConfig, DiscoveryKind, ProjectClients};
pub use engaged_project::{EngagedProject, NotCurrent};
use handler::Begin;
pub use handler::{ProjectHandler, RegistryContext};
pub use kubeconfigs::KubeconfigDirectory;
use registry::{ProjectEntry, Registry};
use root::Root;

/// The known projects. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProjectRegistry {
    registry: Arc<Registry>,
}

/// A registry that has not begun to discover projects.
#[must_use = "call `begin` to discover projects"]
pub struct RegistryBuilder {
    projects: ProjectRegistry,
    begin: Begin,
}

impl RegistryBuilder {
    /// Returns the registry, which is empty until [`RegistryBuilder::begin`].
    pub fn projects(&self) -> ProjectRegistry {
        self.projects.clone()
    }

    /// Begins to discover projects. If there is a handler, it runs for each engaged project.
    pub fn begin(self, handler: Option<Arc<dyn ProjectHandler>>) -> ProjectRegistry {
        (self.begin)(handler);
        self.projects
    }
}

/// The reason why a project cannot be used. Each message may be shown to users.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotEngaged {
    /// Projects have not been listed yet.
    #[error("projects have not been listed yet")]
    Listing,
    /// No project of this name is known, but the list of projects is not current.
    #[error("project {name} is not known, and projects cannot be listed: {problem}")]
    Failing {
        /// The project.
        name: ProjectName,
        /// The reason why projects cannot be listed, or why the request to the root for this project failed.
        problem: String,
    },
    /// No project of this name is known.
    #[error("there is no project {0}, or it was created a moment ago")]
    Unknown(ProjectName),
    /// The project exists, and its API server cannot be used.
    #[error("project {name} is not ready: {problem}")]
    NotReady {
        /// The project.
        name: ProjectName,
        /// The reason why its API server cannot be used.
        problem: String,
    },
}

impl ProjectRegistry {
    /// Makes a registry with one project: the own cluster (`discovery.mode: single`, docs/reference/config.md).
    pub fn single(
        context: &RegistryContext<'_>,
        name: ProjectName,
        client: Client,
    ) -> RegistryBuilder {
        let (listed, sync_state) = (
            watch::Sender::new(false),
            watch::Sender::new(SyncState::Current),
        );
        let registry = Arc::new(Registry::new(
            context,
            None,
            listed.subscribe(),
            sync_state.subscribe(),
        ));
        RegistryBuilder {
            projects: Self {
                registry: Arc::clone(&registry),
            },
            begin: Box::new(move |handler| {
                registry.engage(name, None, client, handler.as_ref());
                listed.send_replace(true);
            }),
        }
    }

    /// Makes a registry of the projects of Milo (`discovery.mode: milo`, docs/concepts/milo.md).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] if certificates or credentials of the template are invalid.
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

    /// Makes a registry of the projects whose kubeconfigs are in a directory (`discovery.mode: kubeconfigs`,
    /// docs/operate/project-kubeconfigs.md).
    pub fn of_directory(
        context: &RegistryContext<'_>,
        directory: KubeconfigDirectory,
    ) -> RegistryBuilder {
        let (registry, begin) = kubeconfigs::prepare(context, directory);
        RegistryBuilder {
            projects: Self { registry },
            begin,
        }
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
                Self::watching::<milo::Project>(context, client, connect, Some(root))
            }
            // A ProjectControlPlane is deleted before the objects of its project. Its deletion therefore does not prove
            // that the project is gone (docs/concepts/milo.md).
            DiscoveryKind::ProjectControlPlane => {
                Self::watching::<ProjectControlPlane>(context, client, connect, None)
            }
        }
    }

    /// Makes a registry that watches the objects which announce projects.
    fn watching<K>(
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
            root.clone(),
            cache.synced(),
            cache.sync_state(),
        ));
        let projects = Self {
            registry: Arc::clone(&registry),
        };
        let begin = move |handler: Option<Arc<dyn ProjectHandler>>| {
            let has_handler = handler.is_some();
            reflector.on_change(move |change| {
                for metadata in change.versions() {
                    registry.changed(&cache, metadata, &connect, handler.as_ref());
                }
            });
            let stop = tasks.stop();
            tasks.spawn("project discovery", async move {
                // Only controllers need the UID of the root. They write the UID, and they delete objects only if the
                // UID matches.
                let root = root.filter(|_| has_handler);
                let identify = async {
                    if let Some(root) = root {
                        root.identify().await;
                    }
                };
                let watch = reflector.run(client, ListLimiter::default());
                let both = async { tokio::join!(watch, identify) };
                stop.run_until_cancelled(both).await;
                Ok::<_, Infallible>(())
            });
        };
        RegistryBuilder {
            projects,
            begin: Box::new(begin),
        }
    }

    /// Returns the engaged project of this name. A terminating project stays engaged until its object is deleted.
    ///
    /// # Errors
    ///
    /// [`NotEngaged`] if the project is unknown or cannot be used.
    pub fn get(&self, name: &ProjectName) -> Result<Arc<EngagedProject>, NotEngaged> {
        // The state must be read before the entries. Then the entries contain every project that this state covers.
        let sync_state = self.registry.sync_state();
        let problem = match self.registry.entries().get(name) {
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

    /// Returns the names of the engaged projects, and with `unready` those of the others. Returns `None` until all
    /// projects have been listed once.
    pub fn names(&self, unready: bool) -> Option<Vec<ProjectName>> {
        self.registry.names(unready)
    }

    /// Returns the UID of the Namespace `default` of the Milo root, which identifies the root. Returns `None` if there
    /// is no root, or if the UID has not been read yet.
    pub fn root_uid(&self) -> Option<String> {
        self.registry.root.as_ref()?.uid()
    }

    /// Returns whether a project is gone from the root with this UID. The proof has two parts. First, the list of
    /// projects does not contain the project. Second, the same root answers a GET for the project with a 404 that
    /// proves the absence. Without Milo's Projects there is no proof, so the result is `false`.
    ///
    /// # Errors
    ///
    /// [`NotEngaged::Listing`] or [`NotEngaged::Failing`] if there is no decision now.
    pub async fn is_gone(&self, name: &ProjectName, root_uid: &str) -> Result<bool, NotEngaged> {
        let Some(root) = &self.registry.root else {
            return Ok(false);
        };
        match self.get(name) {
            Ok(_) | Err(NotEngaged::NotReady { .. }) => Ok(false),
            Err(NotEngaged::Unknown(_)) => {
                let answer = root.confirm_absent(name, root_uid).await;
                answer.map_err(|error| NotEngaged::Failing {
                    name: name.clone(),
                    problem: error.to_string(),
                })
            }
            Err(problem) => Err(problem),
        }
    }

    /// Returns the conditions that the readiness of the process waits for, one line each: the list of projects, and the
    /// LocationBindings of the projects in that first list. The wait for LocationBindings ends after 10 s. After the
    /// process was ready once, it stays ready: later projects and later failures do not change readiness.
    pub fn pending(&self) -> Vec<String> {
        self.registry.pending()
    }
}

#[cfg(test)]
mod tests;
