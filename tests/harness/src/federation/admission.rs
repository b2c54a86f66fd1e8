//! The project's side of admission.

use super::Federation;
use crate::admission;

impl Federation {
    /// Registers compute-federation in the management plane with the project for admission.
    ///
    /// # Errors
    ///
    /// When the federation is bare, or the project's API server refuses it.
    pub async fn register_admission(&self) -> anyhow::Result<()> {
        let port = self.management()?.lock().await.webhook_port();
        let ca_bundle = self.webhook_certificate.lock().await.ca_bundle();
        admission::register(&self.project.client(), port, &ca_bundle).await
    }
}
