//! The project's side of admission.

use serde_json::{Value, json};

use super::Federation;
use crate::admission;
use crate::objects::apply;

impl Federation {
    /// Registers compute-federation in the management plane with the project for admission. The cities of all cells are
    /// offered to the project.
    ///
    /// # Errors
    ///
    /// When the federation is bare, or the project's API server refuses it.
    pub async fn register_admission(&self) -> anyhow::Result<()> {
        for cell in self.cells.values() {
            apply(&self.project.client(), &location_binding(&cell.city)).await?;
        }
        let port = self.management()?.lock().await.webhook_port();
        let ca_bundle = self.webhook_certificate.lock().await.ca_bundle();
        admission::register(&self.project.client(), port, &ca_bundle).await
    }
}

/// What offers a city to a project.
fn location_binding(city: &str) -> Value {
    let name = city.to_lowercase();
    json!({
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "LocationBinding",
        "metadata": {"name": name},
        "spec": {"locationRef": {"name": name}, "topology": {"topology.datum.net/city-code": city}},
    })
}
