//! The index values of the caches of the hub.

use api::cells_below::with_lower_hubs;
use api::{Instance, labels};
use kube::Resource;

use crate::hub::caches::deployment_index_value;
use crate::hub::upstream::{self, Upstream};
use crate::objects::{Namespace, deployment_name, label};

/// Returns the values of `HubCaches::instances_of` for an Instance.
pub(super) fn deployment_of(instance: &Instance) -> Vec<String> {
    let namespace = instance.meta().namespace.as_deref().unwrap_or_default();
    let name = deployment_name(instance.meta());
    name.map(|name| deployment_index_value(namespace, name))
        .into_iter()
        .collect()
}

/// Returns the values of `HubCaches::instances_in_cell` for an Instance: its cell, and the lower hubs above this cell.
pub(super) fn cells_of(instance: &Instance) -> Vec<String> {
    let cell = label(instance, labels::SOURCE_CLUSTER);
    let cells = cell.into_iter().flat_map(with_lower_hubs);
    cells.map(str::to_owned).collect()
}

/// Returns the values of `HubCaches::namespaces_of` for a namespace.
pub(super) fn project_of(namespace: &Namespace) -> Vec<String> {
    let project = upstream::project(namespace.meta());
    project
        .map(|project| project.to_string())
        .into_iter()
        .collect()
}

/// Returns the values of `HubCaches::namespaces_for` for a namespace.
pub(super) fn upstream_of(namespace: &Namespace) -> Vec<String> {
    let upstream = Upstream::of(namespace.meta());
    upstream.map(|it| it.to_string()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_are_found_by_their_deployment() {
        let labels = json!({"compute.datumapis.com/workload-deployment-name": "web-dfw"});
        for (labels, expected) in [(labels, vec!["ns-1/web-dfw"]), (json!({}), vec![])] {
            let metadata = json!({"namespace": "ns-1", "name": "i", "labels": labels});
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            let mut instance = Instance::new("i", api::InstanceSpec::default());
            instance.metadata = metadata;
            assert_eq!(deployment_of(&instance), expected);
        }
    }

    #[test]
    fn instances_are_found_by_their_cell_and_by_the_lower_hubs_above_it() {
        for (cell, expected) in [
            (None, vec![]),
            (Some("dfw1"), vec!["dfw1"]),
            (Some("us.dfw.a1"), vec!["us.dfw.a1", "us.dfw", "us"]),
        ] {
            let mut instance = Instance::new("i", api::InstanceSpec::default());
            let cell = cell.map(|cell| (labels::SOURCE_CLUSTER.to_owned(), cell.to_owned()));
            instance.metadata.labels = Some(cell.into_iter().collect());
            assert_eq!(cells_of(&instance), expected);
        }
    }
}
