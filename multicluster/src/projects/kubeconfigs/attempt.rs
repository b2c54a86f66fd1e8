//! Puts the contents of a kubeconfig to use, once its API server has answered.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::ProjectName;
use futures::{StreamExt, stream};
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Barrier, mpsc};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::blocking::BlockingWork;
use super::claims::{Claims, Server};
use crate::connect::ReplaceableClient;
use crate::metrics::Counted;
use crate::projects::handler::ProjectHandler;
use crate::projects::registry::Registry;
use crate::projects::root;

/// Wait before contents that could not be used are tried again: 10 s. A file that they name, or the API server, may be
/// there then.
const RETRY: Duration = Duration::from_secs(10);
/// Longest wait for the API servers of other files that have changed at the same time: 3 s. If two lead to one API server,
/// none may begin before that is known.
const ROUND: Duration = Duration::from_secs(3);
/// Most API servers that are asked for their identity at the same time.
const IDENTIFIED_AT_ONCE: usize = 16;
/// The problem of a project whose kubeconfig is not in use. Users see it. The log has the reason, which may name files.
const NOT_IN_USE: &str =
    "its kubeconfig is not in use yet; the log of compute-federation has the reason";

/// A client that was made from the contents of a kubeconfig.
pub(in crate::projects) struct Connected {
    pub(in crate::projects) client: Client,
    pub(in crate::projects) url: String,
}

/// Makes a client from the contents of a file. Runs where it may block: a kubeconfig can name a command to run.
pub(in crate::projects) type Connect =
    Arc<dyn Fn(&Path, &Arc<str>) -> Result<Connected, String> + Send + Sync>;

/// The files that have changed at the same time.
pub(super) struct Round {
    met: Barrier,
    /// Dropped when each of them was tried once.
    _ended: mpsc::Sender<()>,
}

impl Round {
    /// Makes a round of this many files.
    pub(super) fn new(files: usize, ended: mpsc::Sender<()>) -> Self {
        Self {
            met: Barrier::new(files),
            _ended: ended,
        }
    }

    /// Waits for the other files, but not for long.
    async fn meet(&self) {
        let _ = timeout(ROUND, self.met.wait()).await;
    }
}

/// The projects that are engaged because of their files.
pub(super) struct Engagements {
    registry: Arc<Registry>,
    handler: Option<Arc<dyn ProjectHandler>>,
    connect: Connect,
    work: BlockingWork,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    claims: Claims,
    /// The clients of engaged projects.
    clients: BTreeMap<ProjectName, ReplaceableClient>,
    /// The version of each file that is there. A task of a former version must not change anything.
    versions: BTreeMap<ProjectName, u64>,
    last_version: u64,
    /// The projects whose clients lead to other API servers than before. Their files must be put to use again.
    moved: BTreeSet<ProjectName>,
}

impl State {
    fn is_current(&self, name: &ProjectName, version: u64) -> bool {
        self.versions.get(name) == Some(&version)
    }
}

impl Engagements {
    pub(super) fn new(
        registry: Arc<Registry>,
        handler: Option<Arc<dyn ProjectHandler>>,
        connect: Connect,
    ) -> Self {
        Self {
            registry,
            handler,
            connect,
            work: BlockingWork::default(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new version of the file of a project. Returns the version.
    pub(super) fn begin(&self, name: &ProjectName) -> u64 {
        let mut state = self.state();
        state.last_version += 1;
        let version = state.last_version;
        state.versions.insert(name.clone(), version);
        state.claims.want(name, None);
        if !self.registry.is_engaged(name) {
            self.registry.disengage(name.clone(), NOT_IN_USE.to_owned());
        }
        version
    }

    /// Disengages a project whose file was removed.
    pub(super) fn remove(&self, name: &ProjectName) {
        let mut state = self.state();
        state.versions.remove(name);
        state.claims.remove(name);
        state.clients.remove(name);
        state.moved.remove(name);
        let reason = "its kubeconfig was removed";
        self.registry.remove(name, reason, self.handler.as_ref());
    }

    /// Asks the API servers in use for their identities. Disengages the projects whose clients lead to other API servers
    /// than before: one behind an address can be exchanged, and the controllers would take its answers for those of the
    /// former one.
    pub(super) async fn check_identities(&self) {
        // Without controllers, the URL is the identity.
        if self.handler.is_none() {
            return;
        }
        let used: Vec<_> = {
            let state = self.state();
            let clients = state.clients.iter();
            let used = clients.filter_map(|(name, client)| {
                let server = state.claims.used(name)?;
                Some((name.clone(), server.clone(), client.client()))
            });
            used.collect()
        };
        let check = async |(name, server, client): (ProjectName, Server, Client)| {
            // An API server that does not answer proves nothing.
            if let Ok(uid) = root::identify(client).await
                && uid != server
            {
                self.moved(name, &server);
            }
        };
        let checks = stream::iter(used).for_each_concurrent(IDENTIFIED_AT_ONCE, check);
        checks.await;
    }

    fn moved(&self, name: ProjectName, from: &Server) {
        let mut state = self.state();
        if !state.claims.uses(&name, from) {
            return;
        }
        warn!(
            project = %name,
            "the API server of the project is another one than before; what the hub has of the former one stays"
        );
        state.claims.release(&name);
        state.claims.want(&name, None);
        state.clients.remove(&name);
        self.registry.disengage(name.clone(), NOT_IN_USE.to_owned());
        state.moved.insert(name);
    }

    /// Returns the projects whose files must be put to use again.
    pub(super) fn take_moved(&self) -> BTreeSet<ProjectName> {
        mem::take(&mut self.state().moved)
    }

    /// Reports that the contents of a file cannot be used. A project that is engaged keeps its former client.
    pub(super) fn refuse(&self, name: &ProjectName, version: u64, path: &Path, problem: &str) {
        let state = self.state();
        if !state.is_current(name, version) {
            return;
        }
        let file = path.display();
        match self.registry.is_engaged(name) {
            true => warn!(
                project = %name, %file, problem,
                "the kubeconfig of the project cannot be used; the former one stays in use"
            ),
            false => warn!(
                project = %name, %file, problem,
                "the kubeconfig of the project cannot be used; the project is not served"
            ),
        }
    }

    /// Records which API server the contents of a file lead to.
    fn want(&self, name: &ProjectName, version: u64, server: Option<Server>) {
        let mut state = self.state();
        if state.is_current(name, version) {
            state.claims.want(name, server);
        }
    }

    /// Uses a client for a project. If the project uses the same API server already, only its client is replaced, so its
    /// caches stay.
    fn engage(
        &self,
        name: &ProjectName,
        version: u64,
        server: Server,
        client: Client,
    ) -> Result<(), String> {
        let mut state = self.state();
        if !state.is_current(name, version) {
            return Ok(());
        }
        if let Some(rival) = state.claims.rival(name, &server) {
            return Err(format!(
                "it leads to the API server of project {rival}: remove one of the two files"
            ));
        }
        if state.claims.uses(name, &server)
            && let Some(former) = state.clients.get(name)
        {
            former.replace(client);
            info!(project = %name, "the connection of the project was replaced");
            return Ok(());
        }
        let is_another = state.clients.contains_key(name);
        if is_another {
            warn!(
                project = %name,
                "the kubeconfig of the project leads to another API server; what the hub has of the former one stays"
            );
        }
        let replaceable = ReplaceableClient::new(client);
        let handler = self.handler.as_ref();
        let (uid, client) = (Some(server.clone()), replaceable.client());
        self.registry.engage(name.clone(), uid, client, handler);
        state.claims.grant(name, server);
        state.clients.insert(name.clone(), replaceable);
        Ok(())
    }
}

/// The work to use one version of a file.
pub(super) struct Attempt {
    pub(super) engagements: Arc<Engagements>,
    pub(super) name: ProjectName,
    pub(super) path: PathBuf,
    pub(super) contents: Arc<str>,
    pub(super) version: u64,
    pub(super) refused: Gauge,
}

impl Attempt {
    /// Tries until the contents are in use. Then waits for ever.
    pub(super) async fn run(self, round: Arc<Round>) {
        let mut round = Some(round);
        let mut reported = None;
        loop {
            let tried = self.try_once(round.take()).await;
            let Err(problem) = tried else {
                break;
            };
            // The same problem is logged once.
            if reported
                .as_ref()
                .is_none_or(|(former, _)| *former != problem)
            {
                let (name, path) = (&self.name, &self.path);
                self.engagements.refuse(name, self.version, path, &problem);
                reported = Some((problem, Counted::new(&self.refused)));
            }
            sleep(RETRY).await;
        }
        drop(reported);
        pending::<()>().await;
    }

    async fn try_once(&self, round: Option<Arc<Round>>) -> Result<(), String> {
        // The readiness of the process waits until the round is dropped, so the project is engaged before.
        let connected = self.connect().await;
        let server = connected.as_ref().ok().map(|(server, _)| server.clone());
        self.engagements.want(&self.name, self.version, server);
        if let Some(round) = &round {
            round.meet().await;
        }
        let (server, client) = connected?;
        let engaged = self
            .engagements
            .engage(&self.name, self.version, server, client);
        drop(round);
        engaged
    }

    /// Makes the client, and identifies the API server. Only controllers need the UID: without them, the URL suffices.
    async fn connect(&self) -> Result<(Server, Client), String> {
        let connect = Arc::clone(&self.engagements.connect);
        let (path, contents) = (self.path.clone(), Arc::clone(&self.contents));
        let work = &self.engagements.work;
        let connected = work.run(&self.name, move || connect(&path, &contents));
        let Connected { client, url } = connected.await?;
        if self.engagements.handler.is_none() {
            return Ok((url, client));
        }
        let uid = root::identify(client.clone()).await;
        let uid = uid.map_err(|error| format!("its API server {url} cannot be used: {error}"))?;
        Ok((uid, client))
    }
}
