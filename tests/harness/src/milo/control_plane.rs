//! The API server of a project, or of the root, behind the front.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use multicluster::connect;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::front::Upstream;
use super::gate::Gate;
use crate::forward;
use crate::manager;
use crate::networking;
use crate::plane::Plane;
use crate::process::Life;
use crate::refusal::Refusal;

/// The API server of a project, or of the root, behind the front.
pub struct ControlPlane {
    name: String,
    kubeconfig: PathBuf,
    client: Client,
    plane: Mutex<Plane>,
    life: watch::Sender<Option<Life>>,
    gate: Arc<Gate>,
}

impl ControlPlane {
    pub(super) fn new(plane: Plane) -> Self {
        Self {
            name: plane.name().to_owned(),
            kubeconfig: plane.kubeconfig().to_owned(),
            client: plane.client(),
            life: watch::Sender::new(plane.life()),
            plane: Mutex::new(plane),
            gate: Arc::default(),
        }
    }

    pub(super) async fn upstream(&self) -> anyhow::Result<Upstream> {
        let config = connect::kubeconfig(&self.kubeconfig, None).await?;
        Ok(Upstream {
            client: forward::client(config)?,
            gate: Arc::clone(&self.gate),
        })
    }

    /// `root`, or the project's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client with all rights that does not go through the front.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A self-contained kubeconfig with all rights that does not lead through the front.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The API server itself, for its audit log.
    pub async fn plane(&self) -> MutexGuard<'_, Plane> {
        self.plane.lock().await
    }

    /// Lets the front answer nothing that is for this API server, and hold the answers that it streams.
    pub fn hang(&self) {
        self.gate.hang();
    }

    /// Lets the front refuse every request for this API server; answers that it streams go on.
    pub fn refuse(&self, refusal: Refusal) {
        self.gate.refuse(refusal);
    }

    /// Lets the front refuse to create and to update, as Milo does while the project is suspended.
    pub fn suspend(&self) {
        self.gate.refuse_writes(Refusal::suspended(&self.name));
    }

    /// Undoes [`hang`](Self::hang), [`suspend`](Self::suspend) and [`refuse`](Self::refuse): what hangs goes on.
    pub fn pass(&self) {
        self.gate.open();
    }

    /// Ends the API server as a crash would.
    pub async fn kill_apiserver(&self) {
        self.life.send_replace(None);
        self.plane.lock().await.kill_apiserver().await;
    }

    /// Starts the API server again after it has been ended, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it runs already, or ends.
    pub async fn restart_apiserver(&self) -> anyhow::Result<()> {
        let mut plane = self.plane.lock().await;
        plane.restart_apiserver().await?;
        self.life.send_replace(plane.life());
        Ok(())
    }

    /// Creates a LocationBinding, or changes it to this. Its condition `Available` is left out if nothing is said of it.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn bind_location(
        &self,
        name: &str,
        topology: &Value,
        available: Option<bool>,
    ) -> anyhow::Result<()> {
        networking::bind_location(&self.client, name, topology, available).await
    }

    /// Takes a location away.
    ///
    /// # Errors
    ///
    /// When there is no such binding.
    pub async fn unbind_location(&self, name: &str) -> anyhow::Result<()> {
        networking::unbind_location(&self.client, name).await
    }

    /// Waits until the API server ends though no one has asked it to.
    pub(super) async fn death(&self) -> anyhow::Error {
        manager::death(self.life.subscribe()).await
    }
}
