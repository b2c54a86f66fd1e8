//! A deployment on the hub and in its cells.

use std::collections::BTreeMap;

use api::annotations::RESOURCE_TEMPLATE_GENERATION;
use api::workload_deployment::AVAILABLE;
use api::{Condition, WorkloadDeployment, condition};
use harness::{Federation, wait};
use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::witness::Witness;
use crate::fixture::{
    POLICY, Space, WITHIN, create, deployment, overrides, patch, patch_status, policies, policy,
    template,
};

/// Name of the deployment.
pub(super) const NAME: &str = "web";
const KIND: &str = "WorkloadDeployment";

/// The deployment, its cells, and the witness of all its versions.
pub(super) struct DeploymentFixture {
    pub(super) namespace: String,
    pub(super) hub: Api<WorkloadDeployment>,
    pub(super) cells: BTreeMap<&'static str, Api<WorkloadDeployment>>,
    policies: Api<DynamicObject>,
    overrides: Api<DynamicObject>,
    witness: Witness,
}

impl DeploymentFixture {
    /// Creates a deployment with this placement and number of replicas. `shares` are the expected shares of the cells.
    pub(super) async fn create(
        federation: &Federation,
        prefix: &str,
        placement: &Value,
        replicas: i32,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<Self> {
        let space = Space::on_hub_alone(federation, prefix).await?;
        let (hub, policies) = (space.on_hub(), policies(&space));
        let overrides = overrides(&space);
        create::<DynamicObject>(&policies, policy(KIND, placement)).await?;
        let cells = shares.iter().map(|(cell, _)| (*cell, space.in_cell(cell)));
        let cells: BTreeMap<_, _> = cells.collect();
        let mut fixture = Self {
            witness: Witness::begin(NAME, &hub, &cells).await?,
            namespace: space.hub_name,
            hub,
            cells,
            policies,
            overrides,
        };
        fixture.create_object(replicas, shares).await?;
        Ok(fixture)
    }

    async fn create_object(
        &mut self,
        replicas: i32,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        let mut object = deployment(NAME, "DFW");
        object["spec"]["scaleSettings"]["minReplicas"] = json!(replicas);
        let created = create(&self.hub, object).await?;
        self.meant(&created, shares);
        Ok(())
    }

    /// Creates the deployment again after its deletion from the hub, with a new witness.
    pub(super) async fn create_again(
        &mut self,
        replicas: i32,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        self.witness = Witness::begin(NAME, &self.hub, &self.cells).await?;
        self.create_object(replicas, shares).await
    }

    /// Changes the deployment on the hub.
    pub(super) async fn change(
        &mut self,
        spec: Value,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        let changed = patch(&self.hub, NAME, json!({"spec": spec})).await?;
        self.meant(&changed, shares);
        Ok(())
    }

    /// Changes the number of replicas.
    pub(super) async fn scale(
        &mut self,
        replicas: i32,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        self.change(json!({"scaleSettings": {"minReplicas": replicas}}), shares)
            .await
    }

    /// Changes the image without changing the shares.
    pub(super) async fn set_image(&mut self, image: &str) -> anyhow::Result<()> {
        let shares: Vec<_> = self.witness.shares().into_iter().collect();
        self.change(with_image(image), &shares).await
    }

    /// Changes the placement.
    pub(super) async fn place(
        &mut self,
        placement: &Value,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        self.set_policy(json!({"placement": placement})).await?;
        let unchanged = self.hub.get(NAME).await?;
        self.meant(&unchanged, shares);
        Ok(())
    }

    /// Changes the policy without changing the shares.
    pub(super) async fn set_policy(&self, spec: Value) -> anyhow::Result<()> {
        patch(&self.policies, POLICY, json!({"spec": spec}))
            .await
            .map(drop)
    }

    /// Makes an OverridePolicy set this number of replicas in one cell, or no number any more. `shares` are the expected
    /// numbers in the cells' objects.
    pub(super) async fn override_replicas(
        &mut self,
        cell: &str,
        replicas: Option<i32>,
        shares: &[(&'static str, i32)],
    ) -> anyhow::Result<()> {
        const OVERRIDE: &str = "replicas";
        match replicas {
            Some(replicas) => {
                let path = "/spec/scaleSettings/minReplicas";
                let plaintext = json!([{"operator": "replace", "path": path, "value": replicas}]);
                let rule = json!({
                    "targetCluster": {"clusterNames": [cell]},
                    "overriders": {"plaintext": plaintext},
                });
                let selected =
                    json!([{"apiVersion": "compute.datumapis.com/v1alpha", "kind": KIND}]);
                let policy = json!({
                    "apiVersion": "policy.karmada.io/v1alpha1",
                    "kind": "OverridePolicy",
                    "metadata": {"name": OVERRIDE},
                    "spec": {"resourceSelectors": selected, "overrideRules": [rule]},
                });
                create::<DynamicObject>(&self.overrides, policy).await?;
            }
            None => {
                let params = DeleteParams::default();
                self.overrides.delete(OVERRIDE, &params).await?;
            }
        }
        let unchanged = self.hub.get(NAME).await?;
        self.meant(&unchanged, shares);
        Ok(())
    }

    fn meant(&mut self, object: &WorkloadDeployment, shares: &[(&'static str, i32)]) {
        let generation = object.metadata.generation.unwrap_or_default();
        self.witness.meant(generation, shares);
    }

    /// Waits until a cell has the hub's generation and its expected share.
    pub(super) async fn until_assigned(&self, cell: &str) -> anyhow::Result<WorkloadDeployment> {
        let generation = self.hub.get(NAME).await?.metadata.generation;
        let share = self.witness.shares().get(cell).copied();
        let assigned = |object: &WorkloadDeployment| {
            let of_template = object.annotations().get(RESOURCE_TEMPLATE_GENERATION);
            of_template.and_then(|generation| generation.parse().ok()) == generation
                && Some(object.spec.scale_settings.min_replicas) == share
        };
        let what = format!("in {cell} at generation {generation:?} with {share:?}");
        wait::until(&self.cells[cell], NAME, &what, WITHIN, assigned).await
    }

    /// Writes the status of a cell that has acted on its current object, with this many ready instances.
    pub(super) async fn act(&self, cell: &str, ready: i32) -> anyhow::Result<()> {
        let object = self.cells[cell].get(NAME).await?;
        act(&self.cells[cell], &object, ready).await
    }

    /// For every cell, waits for the share of the cell and writes a status with all instances ready. Then waits until
    /// the status on the hub contains these statuses.
    pub(super) async fn all_act(&self) -> anyhow::Result<()> {
        let mut total = 0;
        for cell in self.witness.shares().into_keys() {
            let desired = self.until_assigned(cell).await?.spec.desired_replicas();
            self.act(cell, desired).await?;
            total += desired;
        }
        self.until_current(total).await.map(drop)
    }

    /// Waits until every cell has the hub's generation and its expected share.
    pub(super) async fn until_all_assigned(&self) -> anyhow::Result<()> {
        for cell in self.witness.shares().into_keys() {
            self.until_assigned(cell).await?;
        }
        Ok(())
    }

    /// Waits until the hub's status is for its current generation, with this many instances, all of them ready.
    pub(super) async fn until_current(&self, total: i32) -> anyhow::Result<WorkloadDeployment> {
        let current = |object: &WorkloadDeployment| {
            let status = object.status.clone().unwrap_or_default();
            let generation = object.metadata.generation;
            let available = condition::find(&status.conditions, AVAILABLE);
            counters(object) == [total; 4]
                && status.observed_generation == generation
                && available.is_some_and(|available| {
                    available.is_true() && available.observed_generation == generation
                })
        };
        self.until_hub(&format!("current with {total}"), current)
            .await
    }

    /// Waits until the hub's object satisfies `predicate`.
    pub(super) async fn until_hub(
        &self,
        what: &str,
        predicate: impl Fn(&WorkloadDeployment) -> bool,
    ) -> anyhow::Result<WorkloadDeployment> {
        wait::until(&self.hub, NAME, what, WITHIN, predicate).await
    }

    /// Checks all versions of the hub's object.
    pub(super) async fn check(self) -> anyhow::Result<()> {
        self.witness.check().await
    }
}

/// Creates a namespace and a policy with this placement.
pub(super) async fn placed<'f>(
    federation: &'f Federation,
    prefix: &str,
    placement: &Value,
) -> anyhow::Result<Space<'f>> {
    let space = Space::on_hub_alone(federation, prefix).await?;
    create::<DynamicObject>(&policies(&space), policy(KIND, placement)).await?;
    Ok(space)
}

/// Writes the status that a cell's controller would write after acting on the object, with this many ready instances.
pub(super) async fn act(
    api: &Api<WorkloadDeployment>,
    object: &WorkloadDeployment,
    ready: i32,
) -> anyhow::Result<()> {
    let desired = object.spec.desired_replicas();
    let condition = |type_: &str, holds: bool, reason: &str| {
        json!({
            "type": type_,
            "status": if holds { "True" } else { "False" },
            "reason": if holds { "Ok" } else { reason },
            "message": format!("{ready} of {desired} are ready"),
            "lastTransitionTime": "2026-11-21T10:00:00Z",
            "observedGeneration": object.metadata.generation,
        })
    };
    let status = json!({
        "observedGeneration": object.metadata.generation,
        "replicas": desired,
        "desiredReplicas": desired,
        "currentReplicas": desired,
        "readyReplicas": ready,
        "conditions": [
            condition(AVAILABLE, ready > 0 || desired == 0, "NoneReady"),
            condition("ReplicasReady", ready == desired, "NotAllReady"),
        ],
    });
    patch_status(api, &object.name_any(), status)
        .await
        .map(drop)
}

/// Returns `replicas`, `desiredReplicas`, `currentReplicas` and `readyReplicas`.
pub(super) fn counters(object: &WorkloadDeployment) -> [i32; 4] {
    let status = object.status.clone().unwrap_or_default();
    [
        status.replicas,
        status.desired_replicas,
        status.current_replicas,
        status.ready_replicas,
    ]
}

/// Returns the condition of this type.
pub(super) fn condition_of(object: &WorkloadDeployment, type_: &str) -> Option<Condition> {
    let status = object.status.as_ref()?;
    condition::find(&status.conditions, type_).cloned()
}

/// Returns a merge patch that sets this image.
pub(super) fn with_image(image: &str) -> Value {
    let mut template = template();
    template["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(image);
    json!({"template": template})
}

/// Returns the image of an object.
pub(super) fn image_of(object: &WorkloadDeployment) -> Option<String> {
    let sandbox = object.spec.template.spec.runtime.sandbox.as_ref()?;
    Some(sandbox.containers.first()?.image.clone())
}
