//! Milo on loopback: a root API server with the Projects, one API server per project, a front, and an authorizer. Tests
//! use it for requests that go through a project, such as admission. It starts no hub and no cells. Real Milo is one
//! process that separates projects in storage. Here, the front and the authorizer run in the process of the test.

mod authorizer;
mod config;
mod control_plane;
mod front;
mod gate;
mod managers;
mod registrations;
mod route;
mod user;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::milo::RESOURCE_MANAGER_GROUP;
use futures::FutureExt;
use futures::future::{join_all, select_all, try_join_all};
use kube::Client;
use kube::api::DeleteParams;
use multicluster::connect;
use tokio::time::Instant;

use crate::admission;
use crate::federation::parts::{ETCD, start_etcd};
use crate::plane::USER_AGENT;
use crate::ports::Ports;
use crate::process::ChildProcess;
use crate::serve::HttpsServer;
pub use crate::status_error::StatusError;
use crate::webhook_certificate::{OF_MANAGEMENT, WebhookCertificate};
pub use authorizer::{AuthorizerAnswer, MiloAuthorizer, ReceivedReview};
pub use config::MiloConfig;
use config::MiloPaths;
pub use control_plane::ControlPlane;
use front::Front;
pub use registrations::CopiedRegistrations;
pub use user::{MiloUser, PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE};

/// A running Milo. Its processes end when the value is dropped, or when the process that owns the value ends.
pub struct Milo {
    paths: MiloPaths,
    ports: Mutex<Ports>,
    etcd: ChildProcess,
    etcd_port: u16,
    root: ControlPlane,
    projects: Mutex<BTreeMap<String, Arc<ControlPlane>>>,
    front: Arc<Front>,
    front_server: HttpsServer,
    authorizer: Arc<MiloAuthorizer>,
    authorizer_server: HttpsServer,
    webhook_certificate: tokio::sync::Mutex<WebhookCertificate>,
    /// Port of the registered webhook server. `None` until a test registers one.
    admission: Mutex<Option<u16>>,
    ready_after: Duration,
}

impl Milo {
    /// Starts Milo with these projects. All projects are ready.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends. The error contains the path of its log. All processes are ended.
    pub async fn start(config: &MiloConfig) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let paths = MiloPaths::create(config)?;
        let directory = paths.directory().to_owned();
        let started = Self::assemble(config, paths, begin).await;
        started.with_context(|| format!("Milo in {} did not start", directory.display()))
    }

    async fn assemble(
        config: &MiloConfig,
        paths: MiloPaths,
        begin: Instant,
    ) -> anyhow::Result<Self> {
        let webhook_certificate =
            WebhookCertificate::create(paths.webhook_certificates(), OF_MANAGEMENT)?;
        let mut ports = Ports::take()?;
        let (etcd_port, peer_port) = (ports.next()?, ports.next()?);
        let etcd = start_etcd(&paths.setup(), ETCD, etcd_port, peer_port).await?;
        let authorizer = Arc::new(MiloAuthorizer::default());
        let handler = Arc::clone(&authorizer);
        let handle = move |request| Arc::clone(&handler).handle(request).map(Some);
        let authorizer_server = HttpsServer::start(paths.pki(), handle).await?;

        let url = authorizer_server.url();
        let mut project_ports = Vec::new();
        for name in &config.projects {
            project_ports.push((name, ports.next()?));
        }
        let root = paths.start_root(ports.next()?, etcd_port);
        let projects = try_join_all(
            project_ports
                .into_iter()
                .map(|(name, port)| paths.start_project(name, port, etcd_port, &url)),
        );
        let (root, projects) = etcd
            .while_running(async { tokio::try_join!(root, projects) })
            .await?;

        let front = Arc::new(Front::new(root.upstream().await?));
        let handler = Arc::clone(&front);
        let handle = move |request| Arc::clone(&handler).handle(request).map(Some);
        let front_server = HttpsServer::start(paths.pki(), handle).await?;
        let mut milo = Self {
            paths,
            ports: Mutex::new(ports),
            etcd,
            etcd_port,
            root,
            projects: Mutex::default(),
            front,
            front_server,
            authorizer,
            authorizer_server,
            webhook_certificate: tokio::sync::Mutex::new(webhook_certificate),
            admission: Mutex::default(),
            ready_after: Duration::ZERO,
        };
        for project in projects {
            let project = milo.adopt(project).await?;
            milo.create_project(project.name()).await?;
            milo.set_ready(project.name(), true).await?;
        }
        milo.ready_after = begin.elapsed();
        Ok(milo)
    }

    /// Returns the time from the start until all parts were ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Returns the directory of logs, kubeconfigs and certificates.
    pub fn directory(&self) -> &Path {
        self.paths.directory()
    }

    /// Returns the API server with the Projects.
    pub fn root(&self) -> &ControlPlane {
        &self.root
    }

    /// Returns the API server of a project.
    ///
    /// # Errors
    ///
    /// When no API server runs for this project.
    pub fn project(&self, name: &str) -> anyhow::Result<Arc<ControlPlane>> {
        let project = lock(&self.projects).get(name).cloned();
        project.with_context(|| format!("there is no API server for project {name}"))
    }

    /// Returns the authorizer that the projects' API servers call.
    pub fn authorizer(&self) -> &MiloAuthorizer {
        &self.authorizer
    }

    /// Returns the certificate of compute-federation's webhook server.
    pub fn webhook_certificate(&self) -> &tokio::sync::Mutex<WebhookCertificate> {
        &self.webhook_certificate
    }

    /// Adds a ready project: starts its API server and creates its Project.
    ///
    /// # Errors
    ///
    /// When the API server does not start, or the project exists.
    pub async fn add_project(&self, name: &str) -> anyhow::Result<Arc<ControlPlane>> {
        let project = self.start_project(name).await?;
        self.create_project(name).await?;
        self.set_ready(name, true).await?;
        Ok(project)
    }

    /// Starts the API server of a project whose Project does not exist yet.
    ///
    /// # Errors
    ///
    /// When the API server does not start, or runs already.
    pub async fn start_project(&self, name: &str) -> anyhow::Result<Arc<ControlPlane>> {
        ensure!(
            self.project(name).is_err(),
            "project {name} has an API server"
        );
        let port = lock(&self.ports).next()?;
        let authorizer = self.authorizer_server.url();
        let paths = &self.paths;
        let project = paths.start_project(name, port, self.etcd_port, &authorizer);
        self.adopt(project.await?).await
    }

    /// Adds an API server to the front, and registers the webhook server with it.
    async fn adopt(&self, project: ControlPlane) -> anyhow::Result<Arc<ControlPlane>> {
        let project = Arc::new(project);
        let name = project.name().to_owned();
        self.front.add_project(&name, project.upstream().await?);
        lock(&self.projects).insert(name, Arc::clone(&project));
        let port = *lock(&self.admission);
        if let Some(port) = port {
            self.register_admission_with(&project, port).await?;
        }
        Ok(project)
    }

    /// Creates the Project, without the condition `Ready`.
    ///
    /// # Errors
    ///
    /// When the root API server refuses the request.
    pub async fn create_project(&self, name: &str) -> anyhow::Result<()> {
        config::create_project(&self.root.client(), name).await
    }

    /// Writes the condition `Ready` of a Project.
    ///
    /// # Errors
    ///
    /// When the root API server refuses the request.
    pub async fn set_ready(&self, name: &str, ready: bool) -> anyhow::Result<()> {
        config::set_ready(&self.root.client(), name, ready).await
    }

    /// Suspends a project, or ends its suspension. The front refuses creates and updates in a suspended project.
    ///
    /// # Errors
    ///
    /// When the root API server refuses the write, or there is no such Project.
    pub async fn set_suspended(&self, name: &str, holds: bool) -> anyhow::Result<()> {
        let project = self.project(name)?;
        if holds {
            project.suspend();
        } else {
            project.pass();
        }
        config::set_suspended(&self.root.client(), name, holds).await
    }

    /// Deletes the Project. Its API server keeps running.
    ///
    /// # Errors
    ///
    /// When the root API server refuses the request.
    pub async fn delete_project(&self, name: &str) -> anyhow::Result<()> {
        let projects = config::projects(&self.root.client());
        projects.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Ends the API server of a project that has no Project. A later API server of the same name has the same objects.
    ///
    /// # Errors
    ///
    /// When no API server of this name runs.
    pub async fn stop_project(&self, name: &str) -> anyhow::Result<()> {
        let project = self.project(name)?;
        self.front.remove_project(name);
        lock(&self.projects).remove(name);
        project.kill_apiserver().await;
        Ok(())
    }

    /// Writes a self-contained kubeconfig for this user. Requests go through the front to a project, or to the root.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn kubeconfig(&self, user: &MiloUser, project: Option<&str>) -> anyhow::Result<PathBuf> {
        let path = project.map(|project| {
            format!("/apis/{RESOURCE_MANAGER_GROUP}/v1alpha1/projects/{project}/control-plane")
        });
        self.kubeconfig_at(user, &path.unwrap_or_default())
    }

    /// Writes a self-contained kubeconfig for this user. Requests go to this path of the front.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn kubeconfig_at(&self, user: &MiloUser, path: &str) -> anyhow::Result<PathBuf> {
        let token = self.front.add_user(user.clone());
        let server = self.front_server.url() + path;
        let credentials = format!("{{token: {token}}}");
        let file = self.directory().join(format!("{token}.kubeconfig"));
        fs::write(&file, self.paths.pki().kubeconfig_of(&server, &credentials))
            .with_context(|| file.display().to_string())?;
        Ok(file)
    }

    /// Returns a client for this user. It calls a project, or the root, through the front.
    ///
    /// # Errors
    ///
    /// When the kubeconfig of the client cannot be written.
    pub async fn client(&self, user: &MiloUser, project: Option<&str>) -> anyhow::Result<Client> {
        let kubeconfig = self.kubeconfig(user, project)?;
        let config = connect::kubeconfig(&kubeconfig, None).await?;
        Ok(connect::client(config, USER_AGENT)?)
    }

    /// Registers the webhook server at this port with the API servers of all current and future projects.
    ///
    /// # Errors
    ///
    /// When an API server refuses the registration.
    pub async fn register_admission(&self, port: u16) -> anyhow::Result<()> {
        *lock(&self.admission) = Some(port);
        let projects: Vec<_> = lock(&self.projects).values().cloned().collect();
        let registered = projects
            .iter()
            .map(|project| self.register_admission_with(project, port));
        try_join_all(registered).await.map(drop)
    }

    /// Registers the webhook server at this port with the API server of one project.
    ///
    /// # Errors
    ///
    /// When the API server refuses the registration.
    pub async fn register_admission_with(
        &self,
        project: &ControlPlane,
        port: u16,
    ) -> anyhow::Result<()> {
        let ca_bundle = self.webhook_certificate.lock().await.ca_bundle();
        let registered = admission::register(&project.client(), port, &ca_bundle).await;
        registered.with_context(|| project.name().to_owned())
    }

    /// Waits until etcd or an API server exits unexpectedly. Returns an error with the end of the log of that process.
    pub async fn death(&self) -> anyhow::Error {
        let projects: Vec<_> = lock(&self.projects).values().cloned().collect();
        let etcd = async { self.etcd.life().death(self.etcd.ended().await) }.boxed();
        let projects = projects.iter().map(|project| project.death().boxed());
        let all = projects.chain([etcd, self.root.death().boxed()]);
        select_all(all).await.0
    }

    /// Returns the ids of all processes, including tethers.
    pub async fn pids(&self) -> Vec<i32> {
        let projects: Vec<_> = lock(&self.projects).values().cloned().collect();
        let all = projects.iter().map(Arc::as_ref).chain([&self.root]);
        let ids = |process: &ChildProcess| [process.pid(), process.tether_pid().cast_signed()];
        let mut pids = ids(&self.etcd).to_vec();
        for control_plane in all {
            pids.extend(control_plane.plane().await.processes().flat_map(ids));
        }
        pids
    }

    /// Ends all processes and waits until they have exited. Logs stay on disk.
    pub async fn stop(self) {
        let projects = std::mem::take(&mut *lock(&self.projects));
        let all = projects.values().map(Arc::as_ref).chain([&self.root]);
        join_all(all.map(ControlPlane::kill_apiserver)).await;
        self.etcd.kill().await;
    }
}

/// Locks a mutex and ignores poisoning. No code panics while the value is half changed, so the value is always valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
