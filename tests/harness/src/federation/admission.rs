//! Admission in the project of a federation.

use super::Federation;
use crate::admission;

impl Federation {
    /// Registers the webhook server of the management plane with the project's API server.
    ///
    /// # Errors
    ///
    /// When the federation is bare, or the project's API server refuses it.
    pub async fn register_admission(&self) -> anyhow::Result<()> {
        let port = self.management()?.lock().await.webhook_port();
        let ca_bundle = self.webhook_certificate.lock().await.ca_bundle();
        admission::register(&self.project.client(), port, &ca_bundle).await
    }

    /// Registers only the webhook of WorkloadDeployments with the project's API server, so Workloads need no
    /// LocationBindings.
    ///
    /// # Errors
    ///
    /// When the federation is bare, or the project's API server refuses it.
    pub async fn register_deployment_admission(&self) -> anyhow::Result<()> {
        let port = self.management()?.lock().await.webhook_port();
        let ca_bundle = self.webhook_certificate.lock().await.ca_bundle();
        admission::register_deployments(&self.project.client(), port, &ca_bundle).await
    }
}
