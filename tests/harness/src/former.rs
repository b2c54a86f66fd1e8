//! What the Go manager leaves, for tests of a takeover: the objects of a customer on all planes, and the Lua
//! customization on the hub. Also checks of what a customer notices.

#![expect(
    clippy::indexing_slicing,
    reason = "an index of a JSON value does not panic when a field is missing"
)]

mod customer;
mod objects;
mod program;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, annotations, labels};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use customer::{Customer, Shown};
pub use objects::{HASH, QUOTA};
pub(crate) use program::find_or_build;

use crate::wait;

/// Name of the Workload.
pub const WEB: &str = "web";
/// Name of the Lua customization of WorkloadDeployment. After an operator has deleted it, Karmada calls the webhook of
/// compute-federation instead.
pub const CUSTOMIZATION: &str = "workloaddeployment";
/// Time limit for one change to pass through all planes.
const WITHIN: Duration = Duration::from_mins(2);
const SCRIPTS: &str = include_str!("../../tools/karmada/customization.lua");

/// A WorkloadDeployment of the Workload [`WEB`], with one Instance.
#[derive(Clone, Copy, Debug)]
pub struct FormerDeployment {
    /// Name of the placement.
    pub placement: &'static str,
    /// Code of the city.
    pub city: &'static str,
    /// The only cell of the city.
    pub cell: &'static str,
}

impl FormerDeployment {
    /// Returns the name of the WorkloadDeployment.
    pub fn name(&self) -> String {
        format!("{WEB}-{}-{}", self.placement, self.city.to_lowercase())
    }

    /// Returns the name of its Instance.
    pub fn instance(&self) -> String {
        format!("{}-0", self.name())
    }

    /// Returns the name of the PropagationPolicy of the city.
    pub fn policy(&self) -> String {
        format!("city-{}", self.city.to_lowercase())
    }
}

/// A namespace of a customer, on all planes, with the deployments of one Workload.
pub struct FormerNamespace {
    /// Client of the project.
    pub project: Client,
    /// Name of the project. Labels contain it.
    pub project_name: String,
    /// Name of the namespace in the project.
    pub name: String,
    /// Client of the hub.
    pub hub: Client,
    /// Name of the namespace on the hub and in the cells.
    pub hub_name: String,
    /// Clients of the cells, by the name of the cell.
    pub cells: BTreeMap<String, Client>,
    /// Network of the Workload.
    pub network: String,
    /// The deployments.
    pub deployments: Vec<FormerDeployment>,
}

impl FormerNamespace {
    /// Returns the API of a kind in the project.
    pub fn in_project<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.project.clone(), &self.name)
    }

    /// Returns the API of a kind on the hub.
    pub fn on_hub<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.hub.clone(), &self.hub_name)
    }

    /// Returns the API of a kind in a cell.
    ///
    /// # Errors
    ///
    /// When there is no cell of this name.
    pub fn in_cell<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
        cell: &str,
    ) -> anyhow::Result<Api<K>> {
        Ok(Api::namespaced(self.cell(cell)?, &self.hub_name))
    }

    fn cell(&self, name: &str) -> anyhow::Result<Client> {
        let cell = self.cells.get(name).cloned();
        cell.with_context(|| format!("there is no cell {name}"))
    }

    fn policies(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("policy.karmada.io", "v1alpha1", "PropagationPolicy");
        Api::namespaced_with(
            self.hub.clone(),
            &self.hub_name,
            &ApiResource::from_gvk(&kind),
        )
    }

    /// Waits until compute-federation has set every field that the Go manager does not set.
    ///
    /// # Errors
    ///
    /// When the time is over. The error contains the object.
    pub async fn until_adopted(&self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.hub.clone());
        let project = format!("cluster-{}", self.project_name);
        let is_rewritten = |namespace: &Namespace| {
            namespace.labels().get(labels::UPSTREAM_CLUSTER_NAME) == Some(&project)
        };
        let relabelled = "relabelled";
        wait::until(
            &namespaces,
            &self.hub_name,
            relabelled,
            WITHIN,
            is_rewritten,
        )
        .await?;
        for it in &self.deployments {
            self.until_deployment_is_adopted(it).await?;
        }
        Ok(())
    }

    async fn until_deployment_is_adopted(&self, it: &FormerDeployment) -> anyhow::Result<()> {
        let propagates = |policy: &DynamicObject| {
            policy.data["spec"]["propagateDeps"] == true
                && policy.labels().get(labels::CITY_CODE).map(String::as_str) == Some(it.city)
        };
        let adopted = "adopted";
        wait::until(&self.policies(), &it.policy(), adopted, WITHIN, propagates).await?;
        let deployments: Api<WorkloadDeployment> = self.in_project();
        let is_recorded = |deployment: &WorkloadDeployment| {
            let record = deployment
                .annotations()
                .get(annotations::FEDERATION_NAMESPACE);
            record == Some(&self.hub_name)
        };
        let name = it.name();
        let deployment = wait::until(&deployments, &name, "recorded", WITHIN, is_recorded).await?;
        let copy = self.on_hub::<WorkloadDeployment>().get(&name).await?;
        for (plane, owner) in [
            (self.on_hub::<Instance>(), copy.uid()),
            (self.in_project(), deployment.uid()),
        ] {
            let is_linked = |instance: &Instance| {
                let label = instance.labels().get(labels::WORKLOAD_DEPLOYMENT_NAME);
                let owners = instance.owner_references();
                label == Some(&name) && owners.iter().any(|it| Some(&it.uid) == owner.as_ref())
            };
            wait::until(&plane, &it.instance(), "linked", WITHIN, is_linked).await?;
        }
        let runs_ours = |instance: &Instance| {
            let controller = instance.spec.controller.as_ref();
            controller.is_some_and(|controller| controller.template_hash.starts_with("v1-"))
        };
        let instances = self.in_cell(it.cell)?;
        wait::until(&instances, &it.instance(), adopted, WITHIN, runs_ours)
            .await
            .map(drop)
    }

    /// Returns the UIDs of all objects outside the project. The customer does not see these objects.
    ///
    /// # Errors
    ///
    /// When an object does not exist or is being deleted.
    pub async fn uids_of_others(&self) -> anyhow::Result<Vec<String>> {
        let namespaces = Api::<Namespace>::all(self.hub.clone());
        let mut uids = vec![uid(namespaces, &self.hub_name).await?];
        for it in &self.deployments {
            let (name, instance) = (&it.name(), &it.instance());
            let in_cell = Api::<Namespace>::all(self.cell(it.cell)?);
            uids.extend([
                uid(self.policies(), &it.policy()).await?,
                uid(self.on_hub::<WorkloadDeployment>(), name).await?,
                uid(self.on_hub::<Instance>(), instance).await?,
                uid(in_cell, &self.hub_name).await?,
                uid(self.in_cell::<WorkloadDeployment>(it.cell)?, name).await?,
                uid(self.in_cell::<Instance>(it.cell)?, instance).await?,
            ]);
        }
        Ok(uids)
    }

    /// Returns the Workload with one replica in each placement.
    fn workload(&self) -> Value {
        let placements = self.deployments.iter().map(|it| {
            let scale = json!({"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"});
            json!({"name": it.placement, "cityCodes": [it.city], "scaleSettings": scale})
        });
        json!({
            "apiVersion": api::API_VERSION,
            "kind": Workload::kind(&()),
            "metadata": {"name": WEB},
            "spec": {
                "placements": placements.collect::<Vec<_>>(),
                "template": crate::workloads::template(&self.network),
            },
        })
    }
}

async fn uid<K>(api: Api<K>, name: &str) -> anyhow::Result<String>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let object = api.get(name).await.with_context(|| name.to_owned())?;
    ensure!(
        object.meta().deletion_timestamp.is_none(),
        "{name} is being deleted"
    );
    object.uid().context("no UID")
}

/// Returns a Lua customization for objects of `kind`, with all scripts.
///
/// # Errors
///
/// When the file of the scripts lacks one.
pub fn customization(name: &str, kind: &str) -> anyhow::Result<Value> {
    Ok(json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": api::API_VERSION, "kind": kind},
            "customizations": {
                "retention": {"luaScript": script("retention")?},
                "statusReflection": {"luaScript": script("statusReflection")?},
                "statusAggregation": {"luaScript": script("statusAggregation")?},
                "dependencyInterpretation": {"luaScript": script("dependencyInterpretation")?},
            },
        },
    }))
}

/// Returns the Lua script of one operation. The script begins after the comment line `-- <operation>`. It ends before
/// the next line that begins with `-- `, or at the end of the file.
fn script(mark: &str) -> anyhow::Result<&'static str> {
    let (_, rest) = SCRIPTS
        .split_once(&format!("-- {mark}\n"))
        .with_context(|| format!("customization.lua has no line \"-- {mark}\""))?;
    Ok(rest.split_once("\n-- ").map_or(rest, |(script, _)| script))
}
