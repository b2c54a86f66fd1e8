//! A cell that runs an Instance for each project, and the quota system of the projects.

use api::{ProjectName, labels};
use apiserver::{ApiServer, Key, KindId, ObjectChange, ObjectPart, Refusal};
use serde_json::{Value, json};

use super::control::{deployment, hub_namespace};
use super::{DEFAULT, Planes, karmada};

/// Name of the WorkloadDeployment of each project.
const NAME: &str = "web";

impl Planes {
    /// Gives the cell a WorkloadDeployment of each project, as Karmada does.
    pub(super) fn fill_cell(&self) -> Result<(), Refusal> {
        let namespaces = KindId::named("Namespace");
        for plane in self.projects() {
            let (Some(name), Ok(project)) = (hub_namespace(&plane), ProjectName::new(&plane.name))
            else {
                continue;
            };
            let namespace = json!({"metadata": {"labels": {
                labels::UPSTREAM_CLUSTER_NAME: project.to_label(),
                labels::UPSTREAM_NAMESPACE: DEFAULT,
            }}});
            for server in [&self.hub.server, &self.cell.server] {
                server.seed(namespaces, "", &name, namespace.clone());
            }
            let deployments = KindId::named("WorkloadDeployment");
            let copy = json!({"metadata": {"name": NAME}, "spec": deployment()});
            self.cell.server.create(deployments, &name, copy)?;
        }
        Ok(())
    }

    /// Returns the number of Instances of the cell whose gates are open.
    pub(super) fn open_instances(&self) -> usize {
        let server = &self.cell.server;
        let instances = KindId::named("Instance");
        let keys = server.keys(instances).into_iter();
        let stored = keys.filter_map(|key| server.stored(instances, &key));
        let gates = |instance: &Value| instance["spec"]["controller"]["schedulingGates"].clone();
        let open =
            stored.filter(|stored| gates(&stored.value()).as_array().is_none_or(Vec::is_empty));
        open.count()
    }
}

/// Grants a new claim.
pub(super) fn grant(project: &ApiServer, key: &Key) {
    let granted = karmada::condition("Granted", "True", "QuotaAvailable");
    let status = ObjectChange::Merge(json!({"status": {"conditions": [granted]}}));
    // An error means that the claim is deleted already.
    let _ = project.change(
        KindId::named("ResourceClaim"),
        key,
        ObjectPart::Status,
        status,
    );
}
