//! Functions that all tests share. They start the federation, create namespaces, build objects, and wait for common
//! states.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use api::condition;
use api::{Instance, Workload, WorkloadDeployment, labels};
use harness::peers::Peers;
use harness::{CellConfig, Config, Federation, Plane, networking, wait, workloads};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit for one change to pass through the federation. A change takes one or two seconds when a test runs alone.
/// The limit is longer, because several tests share two cores.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// The cells of the shared federation.
pub(crate) const DFW: &str = "dfw1";
pub(crate) const ORD: &str = "ord1";

/// Name of the policy that a test creates without the controller.
pub(crate) const POLICY: &str = "of-the-test";

/// The network of the Instances.
pub(crate) const NETWORK: &str = "test-network";

/// Starts a federation with one cell in each of two cities.
pub(crate) async fn start(label: &str) -> anyhow::Result<Federation> {
    start_from(&config(label)?).await
}

/// Starts a federation and prints the time of the start.
pub(crate) async fn start_from(config: &Config) -> anyhow::Result<Federation> {
    let federation = Federation::start(config).await?;
    eprintln!(
        "federation ready after {:.1} s in {}",
        federation.ready_after().as_secs_f64(),
        federation.directory().display()
    );
    Ok(federation)
}

pub(crate) fn config(label: &str) -> anyhow::Result<Config> {
    Ok(Config {
        label: label.to_owned(),
        target: target(),
        binary: env!("CARGO_BIN_EXE_compute-federation").into(),
        peers: Peers::find_or_build(|progress| eprintln!("{progress}"))?,
        cells: vec![CellConfig::new(DFW, "DFW"), CellConfig::new(ORD, "ORD")],
        managers: true,
        default_thresholds: false,
        hub_etcd: false,
        quota: false,
        networking: None,
        network_kinds: None,
    })
}

/// Returns Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap_or(temporary).to_owned()
}

/// A namespace of the project and its namespace on the hub.
pub(crate) struct Space<'f> {
    pub(crate) federation: &'f Federation,
    /// Name of the namespace in the project.
    pub(crate) name: String,
    /// Name of the namespace on the hub and in the cells.
    pub(crate) hub_name: String,
}

impl<'f> Space<'f> {
    /// Creates a namespace whose name has this prefix, with the network of [`template`].
    pub(crate) async fn create(federation: &'f Federation, prefix: &str) -> anyhow::Result<Self> {
        let client = federation.project().client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace =
            serde_json::from_value(json!({"metadata": {"generateName": format!("{prefix}-")}}))?;
        let namespace = namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let uid = namespace.uid().context("the namespace has no UID")?;
        networking::create_network(&client, &namespace.name_any(), NETWORK).await?;
        Ok(Self {
            federation,
            name: namespace.name_any(),
            hub_name: format!("ns-{uid}"),
        })
    }

    /// Creates a namespace only on the hub. The federator ignores this namespace.
    pub(crate) async fn on_hub_alone(
        federation: &'f Federation,
        prefix: &str,
    ) -> anyhow::Result<Self> {
        let namespaces: Api<Namespace> = Api::all(federation.hub().client());
        let namespace = json!({"metadata": {"generateName": format!("{prefix}-")}});
        let namespace = create(&namespaces, namespace).await?;
        Ok(Self {
            federation,
            name: String::new(),
            hub_name: namespace.name_any(),
        })
    }

    pub(crate) fn in_project<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.federation.project().client(), &self.name)
    }

    pub(crate) fn on_hub<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.federation.hub().client(), &self.hub_name)
    }

    pub(crate) fn in_cell<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
        cell: &str,
    ) -> Api<K> {
        let cell = self
            .federation
            .cell(cell)
            .expect("a cell of the federation");
        Api::namespaced(cell.client(), &self.hub_name)
    }

    /// Creates a Workload.
    pub(crate) async fn create_workload(
        &self,
        name: &str,
        placements: &[(&str, &[&str], i32)],
    ) -> anyhow::Result<Workload> {
        create(&self.in_project(), workload(name, placements)).await
    }

    /// Deletes a Workload and waits until it is gone.
    pub(crate) async fn delete_workload(&self, name: &str) -> anyhow::Result<()> {
        let workloads = self.in_project::<Workload>();
        workloads.delete(name, &DeleteParams::default()).await?;
        wait::gone(&workloads, name, WITHIN).await
    }

    /// Waits until a Workload is available with this many Instances, all of them ready and current.
    pub(crate) async fn until_settled(
        &self,
        name: &str,
        instances: i32,
    ) -> anyhow::Result<Workload> {
        let settled = |workload: &Workload| workloads::is_settled(workload, instances);
        wait::until(&self.in_project(), name, "settled", WITHIN, settled).await
    }

    /// Waits until a namespace of a plane has exactly these Instances and all of them are ready.
    pub(crate) async fn until_instances(
        &self,
        api: Api<Instance>,
        names: &[&str],
    ) -> anyhow::Result<Vec<Instance>> {
        wait::eventually(
            &format!("ready Instances are {names:?}"),
            WITHIN,
            || async {
                let instances = api.list(&ListParams::default()).await?.items;
                let found: Vec<_> = instances
                    .iter()
                    .filter(|instance| is_ready(instance))
                    .map(ResourceExt::name_any)
                    .collect();
                anyhow::ensure!(
                    found == names && instances.len() == names.len(),
                    "ready {found:?} of {}",
                    instances.len()
                );
                Ok(instances)
            },
        )
        .await
    }

    /// Waits until no hub and no cell has a deployment or an Instance of this namespace.
    pub(crate) async fn until_empty(&self) -> anyhow::Result<()> {
        for client in self.federation.planes().skip(1).map(Plane::client) {
            until_none::<WorkloadDeployment>(&client, &self.hub_name).await?;
            until_none::<Instance>(&client, &self.hub_name).await?;
        }
        Ok(())
    }
}

/// Waits until a namespace of a plane has no object of this kind.
pub(crate) async fn until_none<K>(client: &Client, namespace: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    wait::eventually(
        &format!("no {} in {namespace}", K::kind(&())),
        WITHIN,
        || async {
            let left: Vec<_> = api
                .list(&ListParams::default())
                .await?
                .iter()
                .map(ResourceExt::name_any)
                .collect();
            anyhow::ensure!(left.is_empty(), "left: {left:?}");
            Ok(())
        },
    )
    .await
}

pub(crate) fn is_ready(instance: &Instance) -> bool {
    instance
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, "Ready"))
}

/// Returns whether all containers of the Instance have this image.
pub(crate) fn has_image(instance: &Instance, image: &str) -> bool {
    let sandbox = instance.spec.runtime.sandbox.as_ref();
    sandbox.is_some_and(|it| it.containers.iter().all(|it| it.image == image))
}

/// Returns whether the deployment is available and all its counters have this value at its current generation.
pub(crate) fn is_settled(deployment: &WorkloadDeployment, instances: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let counters = [
        status.replicas,
        status.desired_replicas,
        status.ready_replicas,
        status.current_replicas,
    ];
    counters == [instances; 4]
        && condition::is_true(&status.conditions, "Available")
        && status.observed_generation == deployment.metadata.generation
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Merge-patches an object, as `kubectl patch --type=merge` does.
pub(crate) async fn patch<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    change: Value,
) -> anyhow::Result<K> {
    Ok(api
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await?)
}

/// Changes a status as `kubectl patch --subresource=status --type=merge` does.
pub(crate) async fn patch_status<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    status: Value,
) -> anyhow::Result<K> {
    let change = json!({"status": status});
    Ok(api
        .patch_status(name, &PatchParams::default(), &Patch::Merge(change))
        .await?)
}

/// Returns the API for objects of a kind without a Rust type in this workspace.
pub(crate) fn dynamic(
    client: Client,
    namespace: &str,
    group: &str,
    version: &str,
    kind: &str,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client, namespace, &resource)
}

/// Returns the API of the policies of a namespace on the hub.
pub(crate) fn policies(space: &Space<'_>) -> Api<DynamicObject> {
    policies_of(space, "PropagationPolicy")
}

/// Returns the OverridePolicies of a space.
pub(crate) fn overrides(space: &Space<'_>) -> Api<DynamicObject> {
    policies_of(space, "OverridePolicy")
}

fn policies_of(space: &Space<'_>, kind: &str) -> Api<DynamicObject> {
    let (hub, namespace) = (space.federation.hub().client(), &space.hub_name);
    let (group, version) = ("policy.karmada.io", "v1alpha1");
    dynamic(hub, namespace, group, version, kind)
}

/// Returns a policy that places every object of this kind, with its dependencies.
pub(crate) fn policy(kind: &str, placement: &Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "propagateDeps": true,
            "placement": placement,
            "resourceSelectors": [{"apiVersion": api::API_VERSION, "kind": kind}],
        },
    })
}

pub(crate) fn template() -> Value {
    workloads::template(NETWORK)
}

/// Returns the change of a Workload to another image.
pub(crate) fn image_change(image: &str) -> Value {
    let mut template = template();
    let containers = &mut template["spec"]["runtime"]["sandbox"]["containers"];
    for container in containers.as_array_mut().into_iter().flatten() {
        container["image"] = json!(image);
    }
    json!({"spec": {"template": template}})
}

/// Returns a Workload with these placements: name, city codes and replicas.
pub(crate) fn workload(name: &str, placements: &[(&str, &[&str], i32)]) -> Value {
    let placements: Vec<_> = placements
        .iter()
        .map(|(name, cities, replicas)| {
            json!({"name": name, "cityCodes": cities, "scaleSettings": {"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"}})
        })
        .collect();
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"placements": placements, "template": template()},
    })
}

/// Returns a deployment without a Workload.
pub(crate) fn deployment(name: &str, city: &str) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": name},
        "spec": {
            "cityCode": city,
            "placementName": "default",
            "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            "template": template(),
            "workloadRef": {"name": "test-workload", "uid": "00000000-0000-0000-0000-000000000001"},
        },
    })
}

/// Returns an Instance with the labels that link it to a deployment.
pub(crate) fn instance(name: &str, deployment: &str) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {
            "name": name,
            "labels": {
                labels::WORKLOAD_UID: "00000000-0000-0000-0000-000000000001",
                labels::WORKLOAD_NAME: "test-workload",
                labels::PLACEMENT_NAME: "default",
                labels::INSTANCE_CITY_CODE: "DFW",
                labels::WORKLOAD_DEPLOYMENT_UID: "00000000-0000-0000-0000-000000000002",
                labels::WORKLOAD_DEPLOYMENT_NAME: deployment,
                labels::INSTANCE_INDEX: "0",
            },
        },
        "spec": template()["spec"],
    })
}
