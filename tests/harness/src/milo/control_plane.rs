//! The API server of a project, or the root API server, behind the front.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use multicluster::connect;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::front::ProjectServer;
use super::gate::Gate;
use crate::forward;
use crate::manager;
use crate::networking;
use crate::plane::Plane;
use crate::process::Liveness;
use crate::rights::PlaneUser;
use crate::status_error::StatusError;

/// The API server of a project, or the root API server, behind the front.
pub struct ControlPlane {
    name: String,
    kubeconfig: PathBuf,
    /// Kubeconfig of the front.
    front: PathBuf,
    client: Client,
    plane: Mutex<Plane>,
    life: watch::Sender<Option<Liveness>>,
    gate: Arc<Gate>,
}

impl ControlPlane {
    pub(super) fn new(plane: Plane) -> anyhow::Result<Self> {
        Ok(Self {
            front: plane.kubeconfig_of(&PlaneUser::front())?,
            name: plane.name().to_owned(),
            kubeconfig: plane.kubeconfig().to_owned(),
            client: plane.client(),
            life: watch::Sender::new(plane.life()),
            plane: Mutex::new(plane),
            gate: Arc::default(),
        })
    }

    pub(super) async fn upstream(&self) -> anyhow::Result<ProjectServer> {
        let config = connect::kubeconfig(&self.front, None).await?;
        Ok(ProjectServer {
            client: forward::client(config.config)?,
            gate: Arc::clone(&self.gate),
        })
    }

    /// Returns `root`, or the name of the project.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a client with all rights that bypasses the front.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a self-contained kubeconfig with all rights that bypasses the front.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Locks the plane. The caller can then read its audit log, for example.
    pub async fn plane(&self) -> MutexGuard<'_, Plane> {
        self.plane.lock().await
    }

    /// Makes the front hold all requests to this API server. Streamed responses pause.
    pub fn hang(&self) {
        self.gate.hang();
    }

    /// Makes the front refuse every new request to this API server. Running streams continue.
    pub fn refuse(&self, error: StatusError) {
        self.gate.refuse(error);
    }

    /// Makes the front refuse creates and updates, as Milo does for a suspended project.
    pub fn suspend(&self) {
        self.gate.refuse_writes(StatusError::suspended(&self.name));
    }

    /// Undoes [`hang`](Self::hang), [`suspend`](Self::suspend) and [`refuse`](Self::refuse). Held requests continue.
    pub fn pass(&self) {
        self.gate.open();
    }

    /// Kills the API server.
    pub async fn kill_apiserver(&self) {
        self.life.send_replace(None);
        self.plane.lock().await.kill_apiserver().await;
    }

    /// Restarts the API server after it was killed, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When the API server runs already, or the new process exits.
    pub async fn restart_apiserver(&self) -> anyhow::Result<()> {
        let mut plane = self.plane.lock().await;
        plane.restart_apiserver().await?;
        self.life.send_replace(plane.life());
        Ok(())
    }

    /// Creates or updates a LocationBinding. With `None`, the LocationBinding has no condition `Available`.
    ///
    /// # Errors
    ///
    /// When the API server refuses the request.
    pub async fn bind_location(
        &self,
        name: &str,
        topology: &Value,
        available: Option<bool>,
    ) -> anyhow::Result<()> {
        networking::bind_location(&self.client, name, topology, available).await
    }

    /// Deletes a LocationBinding.
    ///
    /// # Errors
    ///
    /// When there is no such binding.
    pub async fn unbind_location(&self, name: &str) -> anyhow::Result<()> {
        networking::unbind_location(&self.client, name).await
    }

    /// Waits until the API server exits unexpectedly. Returns an error that describes the exit.
    pub(super) async fn death(&self) -> anyhow::Error {
        manager::death(self.life.subscribe()).await
    }
}
