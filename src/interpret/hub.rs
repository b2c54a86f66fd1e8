//! Reads an object from the hub, and the statuses of its cells. Nothing is written.

use std::path::Path;

use anyhow::{Context, bail};
use interpreters::InterpretedKind;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::objects::RequestObjects;
use crate::args::{HubObject, InterpretArgs};
use crate::hub_client;
use crate::hub_error::hub_error;

struct Hub {
    client: Client,
    /// Address of its API server.
    url: String,
}

/// Reads an object of the hub. `with_items` reads the statuses of its cells too.
///
/// # Errors
///
/// If the kind is not interpreted, if the kubeconfig cannot be used, or if the object cannot be read.
pub(super) async fn read(
    args: &InterpretArgs,
    kubeconfig: &Path,
    object: HubObject<'_>,
    with_items: bool,
) -> anyhow::Result<RequestObjects> {
    let kind = kind(object.kind)?;
    let context = args.federation_context.as_deref();
    let (client, url) = hub_client::connect(kubeconfig, context, "interpret").await?;
    let hub = Hub { client, url };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        api::GROUP,
        api::VERSION,
        kind.as_str(),
    ));
    let read = get(&hub, &resource, object.namespace, object.name).await?;
    let mut objects = RequestObjects {
        object: read,
        ..RequestObjects::default()
    };
    if with_items {
        objects.items = items(&hub, kind, object).await?;
    }
    Ok(objects)
}

/// Returns the statuses of the cells, as Karmada's ResourceBinding of the object has them.
async fn items(
    hub: &Hub,
    kind: InterpretedKind,
    object: HubObject<'_>,
) -> anyhow::Result<Vec<Value>> {
    let bindings = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
    ));
    let name = format!("{}-{}", object.name, kind.as_str().to_lowercase());
    statuses(&get(hub, &bindings, object.namespace, &name).await?)
}

/// Returns the statuses of the cells in a ResourceBinding.
///
/// # Errors
///
/// If it has none.
fn statuses(binding: &Value) -> anyhow::Result<Vec<Value>> {
    let items = binding.pointer("/status/aggregatedStatus");
    match items.and_then(Value::as_array) {
        Some(items) if !items.is_empty() => Ok(items.clone()),
        _ => bail!(
            "no cell has reported a status: the ResourceBinding has no status.aggregatedStatus"
        ),
    }
}

async fn get(
    hub: &Hub,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Value> {
    let objects = Api::<DynamicObject>::namespaced_with(hub.client.clone(), namespace, resource);
    let read = objects.get(name).await;
    let read = read.map_err(|error| hub_error(&hub.url, &error));
    let read = read.with_context(|| format!("{} {namespace}/{name}", resource.kind))?;
    Ok(json!(read))
}

/// Returns the kind with this name: singular or plural, with or without the group, as for kubectl.
fn kind(name: &str) -> anyhow::Result<InterpretedKind> {
    let name = name.to_lowercase();
    let short = match name.split_once('.') {
        Some((short, api::GROUP)) => short,
        Some(_) => "",
        None => &name,
    };
    let mut all = InterpretedKind::ALL.into_iter();
    let found = all.find(|kind| {
        let singular = kind.as_str().to_lowercase();
        short == singular || short == format!("{singular}s")
    });
    match found {
        Some(kind) => Ok(kind),
        None => bail!(
            "kind {name:?} cannot be read from the hub, only {}: save another object with kubectl, and give its file with -f",
            InterpretedKind::ALL
                .map(InterpretedKind::as_str)
                .join(" and ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_as_for_kubectl() {
        for name in [
            "workloaddeployment",
            "WorkloadDeployments",
            "workloaddeployments.compute.datumapis.com",
        ] {
            assert_eq!(kind(name).unwrap(), InterpretedKind::WorkloadDeployment);
        }
        assert_eq!(kind("instance").unwrap(), InterpretedKind::Instance);
        for other in ["workload", "instances.example.com"] {
            let error = kind(other).unwrap_err().to_string();
            assert!(error.contains("WorkloadDeployment and Instance"), "{error}");
        }
    }

    #[test]
    fn the_statuses_of_cells_are_those_of_the_binding() {
        let items = json!([{"clusterName": "dfw1"}]);
        let binding = json!({"status": {"aggregatedStatus": items}});
        assert_eq!(json!(statuses(&binding).unwrap()), items);
        for without in [json!({}), json!({"status": {"aggregatedStatus": []}})] {
            let error = statuses(&without).unwrap_err().to_string();
            assert!(error.contains("no cell has reported"), "{error}");
        }
    }
}
