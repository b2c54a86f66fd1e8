//! Creates the networking objects that a project offers.

use api::networking::{CITY_CODE, LocationBinding};
use kube::api::DeleteParams;
use kube::{Api, Client};
use multicluster::clock;
use serde_json::{Value, json};

use crate::objects::{apply, apply_status};

const API_VERSION: &str = "networking.datumapis.com/v1alpha";

/// Creates or updates a LocationBinding. With `None`, the LocationBinding has no condition `Available`.
///
/// # Errors
///
/// When the API server refuses the request.
pub async fn bind_location(
    client: &Client,
    name: &str,
    topology: &Value,
    available: Option<bool>,
) -> anyhow::Result<()> {
    let binding = json!({
        "apiVersion": API_VERSION,
        "kind": "LocationBinding",
        "metadata": {"name": name},
        "spec": {"locationRef": {"name": name}, "topology": topology},
    });
    apply(client, &binding).await?;
    let condition = available.map(|available| {
        let (status, reason) = match available {
            true => ("True", "AllGatesOpen"),
            false => ("False", "LocationNotReady"),
        };
        json!({
            "type": "Available",
            "status": status,
            "reason": reason,
            "message": reason,
            "lastTransitionTime": clock::now().to_string(),
        })
    });
    let status = json!({
        "apiVersion": API_VERSION,
        "kind": "LocationBinding",
        "metadata": {"name": name},
        "status": {"conditions": condition.as_slice()},
    });
    apply_status(client, &status).await.map(drop)
}

/// Offers a city to a project, with a LocationBinding of this name.
///
/// # Errors
///
/// When the API server refuses the request.
pub async fn offer_city(client: &Client, name: &str, city: &str) -> anyhow::Result<()> {
    bind_location(client, name, &json!({CITY_CODE: city}), Some(true)).await
}

/// Deletes a LocationBinding.
///
/// # Errors
///
/// When there is no such binding.
pub async fn unbind_location(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<LocationBinding> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates or updates a Network.
///
/// # Errors
///
/// When the API server refuses the request.
pub async fn create_network(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let network = json!({
        "apiVersion": API_VERSION,
        "kind": "Network",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ipam": {"mode": "Auto"}},
    });
    apply(client, &network).await.map(drop)
}
