//! What the controllers of the management plane hear of cells.

use std::sync::Arc;

use api::karmada::{Cluster, ResourceBinding};
use kube::Resource;
use multicluster::cache::Reflector;
use multicluster::{Metrics, Queue};

use crate::hub::HubCaches;
use crate::hub::cells::{Cells, is_of_deployment};
use crate::hub::unidentified::UnidentifiedNamespaces;
use crate::hub::upstream::Upstream;
use crate::runtime::keys::ProjectKey;
use crate::runtime::wiring::{Wiring, for_each_version};

/// What is not done where Clusters cannot be watched.
const WITHOUT: &str =
    "a WorkloadDeployment whose cell cannot be reached, or that has none, does not say so";

/// What follows cells.
pub(super) struct CellReflectors {
    clusters: Reflector<Cluster>,
}

impl CellReflectors {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            clusters: Reflector::new("hub", metrics),
        }
    }

    pub(super) fn cells(&self, bindings: &Reflector<ResourceBinding>) -> Cells {
        Cells::new(&self.clusters, bindings)
    }

    /// Adds to `queue` the deployments whose cells or bindings have changed.
    pub(super) fn follow(
        mut self,
        wiring: &mut Wiring<'_>,
        bindings: &mut Reflector<ResourceBinding>,
        hub: &Arc<HubCaches>,
        unidentified: &Arc<UnidentifiedNamespaces>,
        queue: &Queue<ProjectKey>,
    ) {
        let add = Arc::new({
            let (hub, unidentified) = (Arc::clone(hub), Arc::clone(unidentified));
            let queue = queue.clone();
            move |binding: &ResourceBinding| {
                let namespace = binding.meta().namespace.as_deref().unwrap_or_default();
                if is_of_deployment(binding)
                    && let Some(upstream) = unidentified.upstream_of(&hub, namespace)
                {
                    let Upstream { project, namespace } = upstream;
                    let name = &binding.spec.resource.name;
                    queue.add(ProjectKey::new(&project, &namespace, name));
                }
            }
        });
        self.clusters.on_change({
            let (hub, add) = (Arc::clone(hub), Arc::clone(&add));
            move |change| {
                let metadata = change.current.or(change.former);
                let Some(name) = metadata.and_then(|metadata| metadata.name.as_deref()) else {
                    return;
                };
                let bindings = hub.cells.changed(name);
                for binding in bindings {
                    add(&binding);
                }
            }
        });
        bindings.on_change({
            let hub = Arc::clone(hub);
            // One that is gone is no evidence of anything.
            for_each_version(move |metadata| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                let name = metadata.name.as_deref().unwrap_or_default();
                if let Ok(Some(binding)) = hub.bindings.get(namespace, name) {
                    add(&binding);
                }
            })
        });
        let client = hub.client.clone();
        wiring.watch_if_served("Clusters of the hub", WITHOUT, self.clusters, client);
    }
}
