//! Projects from a directory with one kubeconfig for each project (docs/operate/project-kubeconfigs.md).

mod attempt;
mod blocking;
mod claims;
mod files;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::ProjectName;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::handler::{Begin, ProjectHandler, RegistryContext};
use super::registry::{READINESS_WAIT, Registry};
use crate::cache::SyncState;
use crate::connect::{ClusterConfig, ConnectError, Connector};
use crate::lease::Leadership;
use crate::metrics::{Counted, Metrics};
use crate::tasks::Tasks;
use attempt::{Attempt, Engagements, Round};
pub(super) use attempt::{Connect, Connected};
use files::{Contents, Files, ProjectFile};

/// How often the directory is read, as the files of certificates.
const POLL: Duration = Duration::from_secs(1);

/// How often the API servers in use are asked for their identities.
const IDENTITY_CHECK: Duration = Duration::from_mins(1);

/// A directory with kubeconfigs of projects.
pub struct KubeconfigDirectory {
    /// The directory. The file `NAME.kubeconfig` is the kubeconfig of the project `NAME`.
    pub directory: PathBuf,
    /// The user agent in the audit logs of the projects' API servers.
    pub user_agent: String,
    /// The leadership of this process. Only the leader writes to the projects' API servers.
    pub leadership: Leadership,
}

impl KubeconfigDirectory {
    /// Makes a client from the contents of a kubeconfig.
    fn connect(&self, path: &Path, contents: &Arc<str>) -> Result<Connected, String> {
        let config = ClusterConfig::of_contents(path, contents).map_err(|it| it.to_string())?;
        let url = config.config.cluster_url.clone();
        let connector = Connector::new(config, &self.user_agent, self.leadership.clone());
        let connector = connector.map_err(|error: ConnectError| error.to_string())?;
        Ok(Connected {
            client: connector.client(url.clone()),
            url: url.to_string(),
        })
    }
}

/// Returns the registry of the projects, and what begins to read the directory.
pub(super) fn prepare(
    context: &RegistryContext<'_>,
    config: KubeconfigDirectory,
) -> (Arc<Registry>, Begin) {
    let directory = config.directory.clone();
    let connect = move |path: &Path, contents: &Arc<str>| config.connect(path, contents);
    prepare_with(context, directory, Arc::new(connect))
}

pub(super) fn prepare_with(
    context: &RegistryContext<'_>,
    directory: PathBuf,
    connect: Connect,
) -> (Arc<Registry>, Begin) {
    let (listed, sync_state) = (
        watch::Sender::new(false),
        watch::Sender::new(SyncState::Listing),
    );
    let (is_listed, state) = (listed.subscribe(), sync_state.subscribe());
    let registry = Arc::new(Registry::new(context, None, is_listed, state));
    let (tasks, metrics) = (context.tasks.clone(), context.metrics.clone());
    let of_registry = Arc::clone(&registry);
    let begin = move |handler: Option<Arc<dyn ProjectHandler>>| {
        let engagements = Arc::new(Engagements::new(of_registry, handler, connect));
        let (stop, stop_checks) = (tasks.stop(), tasks.stop());
        let checked = Arc::clone(&engagements);
        tasks.spawn("identities of projects", async move {
            let check = async {
                loop {
                    sleep(IDENTITY_CHECK).await;
                    checked.check_identities().await;
                }
            };
            stop_checks.run_until_cancelled(check).await;
            Ok::<_, Infallible>(())
        });
        let mut follower = Follower {
            directory,
            engagements,
            tasks: tasks.clone(),
            metrics,
            last: None,
            files: BTreeMap::new(),
            misnamed: BTreeMap::new(),
            listed,
            sync_state,
        };
        tasks.spawn("project kubeconfigs", async move {
            let follow = async {
                loop {
                    follower.look().await;
                    sleep(POLL).await;
                }
            };
            stop.run_until_cancelled(follow).await;
            Ok::<_, Infallible>(())
        });
    };
    (registry, Box::new(begin))
}

/// Follows the files of a directory.
struct Follower {
    directory: PathBuf,
    engagements: Arc<Engagements>,
    tasks: Tasks,
    metrics: Metrics,
    /// The last reading. `None` if the directory could not be read.
    last: Option<Files>,
    /// The files in their present versions.
    files: BTreeMap<ProjectName, FollowedFile>,
    /// The files whose names name no project.
    misnamed: BTreeMap<PathBuf, Counted>,
    listed: watch::Sender<bool>,
    sync_state: watch::Sender<SyncState>,
}

/// A file, and the work that uses it.
struct FollowedFile {
    contents: Contents,
    /// False if its contents must be put to use again although they have not changed.
    is_in_use: bool,
    _work: Work,
}

/// The use of the contents of a file. It ends when this value is dropped.
enum Work {
    /// They are put to use.
    Attempt(#[expect(dead_code, reason = "dropped")] DropGuard),
    /// The file cannot be read.
    Unreadable(#[expect(dead_code, reason = "dropped")] Counted),
}

impl Follower {
    /// Reads the directory. Uses each file that was the same in the reading before, because a file that is being written
    /// can be half old and half new. A file that is missing in both was removed. The first time, projects must not wait.
    async fn look(&mut self) {
        for name in self.engagements.take_moved() {
            if let Some(file) = self.files.get_mut(&name) {
                file.is_in_use = false;
            }
        }
        let directory = self.directory.clone();
        let read = spawn_blocking(move || Files::read(&directory)).await;
        let read = read.map_err(|error| error.to_string());
        let read = read.and_then(|read| read.map_err(|error| error.to_string()));
        match read {
            Ok(files) => {
                let is_first = !*self.listed.borrow();
                if is_first {
                    self.apply(&files, true).await;
                } else if let Some(former) = self.last.take() {
                    self.remove_missing(&[&former, &files]);
                    self.apply(&files.same_as(&former), false).await;
                }
                self.last = Some(files);
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Keeps all projects: a directory that cannot be read does not prove that files were removed.
    fn failed(&mut self, error: &str) {
        let problem = format!("{}: {error}", self.directory.display());
        let state = SyncState::Failing { problem };
        self.last = None;
        self.sync_state.send_if_modified(|former| {
            let is_new = *former != state;
            if is_new {
                let problem = state.problem();
                warn!(
                    problem,
                    "the directory of kubeconfigs cannot be read; all projects stay"
                );
                *former = state;
            }
            is_new
        });
    }

    async fn apply(&mut self, files: &Files, is_first: bool) {
        self.report_misnamed(files);
        let changed = files.projects.iter().filter(|(name, file)| {
            let known = self.files.get(*name);
            known.is_none_or(|known| !known.is_in_use || known.contents != file.contents)
        });
        let changed: Vec<_> = changed.collect();
        let readable = changed.iter().filter(|(_, file)| file.contents.is_ok());
        let (ended, mut all_ended) = mpsc::channel(1);
        let round = Arc::new(Round::new(readable.count(), ended));
        for (name, file) in changed {
            self.changed(name, file, &round);
        }
        drop(round);
        if is_first {
            // No value is sent. The channel closes when the first attempts have ended.
            let _ = timeout(READINESS_WAIT, all_ended.recv()).await;
            self.listed.send_replace(true);
        }
        self.sync_state.send_if_modified(|state| {
            let was_current = state.is_current();
            *state = SyncState::Current;
            !was_current
        });
    }

    /// Removes the files that are in none of these readings. A file that was renamed gives its API server free for the
    /// new name.
    fn remove_missing(&mut self, readings: &[&Files]) {
        let is_gone =
            |name: &ProjectName| !readings.iter().any(|it| it.projects.contains_key(name));
        let removed = self.files.extract_if(.., |name, _| is_gone(name));
        for (name, _) in removed {
            self.engagements.remove(&name);
        }
        let is_gone = |path: &PathBuf| !readings.iter().any(|it| it.misnamed.contains_key(path));
        self.misnamed.retain(|path, _| !is_gone(path));
    }

    fn report_misnamed(&mut self, files: &Files) {
        for (path, problem) in &files.misnamed {
            if !self.misnamed.contains_key(path) {
                warn!(file = %path.display(), problem, "the kubeconfig names no project; it is ignored");
                let counted = Counted::new(&self.metrics.project_kubeconfigs_refused);
                self.misnamed.insert(path.clone(), counted);
            }
        }
    }

    /// Begins to use the contents of a file.
    fn changed(&mut self, name: &ProjectName, file: &ProjectFile, round: &Arc<Round>) {
        let ProjectFile { path, contents } = file;
        let version = self.engagements.begin(name);
        let work = match contents {
            Ok(contents) => {
                info!(project = %name, file = %path.display(), "the kubeconfig of the project is read");
                let attempt = Attempt {
                    engagements: Arc::clone(&self.engagements),
                    name: name.clone(),
                    path: path.clone(),
                    contents: Arc::clone(contents),
                    version,
                    refused: self.metrics.project_kubeconfigs_refused.clone(),
                };
                let task = attempt.run(Arc::clone(round));
                Work::Attempt(self.tasks.spawn_cancellable("project kubeconfig", task))
            }
            Err(problem) => {
                self.engagements.refuse(name, version, path, problem);
                Work::Unreadable(Counted::new(&self.metrics.project_kubeconfigs_refused))
            }
        };
        let followed = FollowedFile {
            contents: contents.clone(),
            is_in_use: true,
            _work: work,
        };
        self.files.insert(name.clone(), followed);
    }
}
