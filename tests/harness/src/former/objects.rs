//! Creates the objects of the Go manager for a Workload, with the Go manager's field manager.

use std::fmt::Debug;

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, condition, finalizers, labels};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FormerDeployment, FormerNamespace, WEB, WITHIN};
use crate::wait;

/// Field manager of the Go manager.
const MANAGER: &str = "manager";
/// A template hash of the Go manager. Only the Go manager can compute it.
pub const HASH: &str = "59c7fdb4c8";
/// Finalizer of the Go manager's quota on Instances.
pub const QUOTA: &str = "quota.compute.datumapis.com/claim-cleanup";
/// Labels and annotations that the customer has set on the Workload.
const CUSTOMERS: (&str, &str) = ("example.com/team", "storefront");

impl FormerNamespace {
    /// Creates all objects. Waits until Karmada has propagated them to the cells and Instances run there. The namespace
    /// and its network exist in the project. A provider and the Lua customization work.
    ///
    /// # Errors
    ///
    /// When an API server refuses an object, or an object does not reach its state in time.
    pub async fn leave_objects(&self) -> anyhow::Result<()> {
        let mut web = self.workload();
        web["metadata"]["labels"] = json!({CUSTOMERS.0: CUSTOMERS.1});
        web["metadata"]["annotations"] = json!({CUSTOMERS.0: CUSTOMERS.1});
        let workloads: Api<Workload> = self.in_project();
        let web = workloads
            .create(&PostParams::default(), &serde_json::from_value(web)?)
            .await?;
        let held = json!({"metadata": {"finalizers": [finalizers::WORKLOAD_CONTROLLER]}});
        write(&workloads, WEB, held).await?;

        let namespaces: Api<Namespace> = Api::all(self.hub.clone());
        let identity = json!({
            labels::UPSTREAM_CLUSTER_NAME: format!("cluster-_{}", self.project_name),
            labels::UPSTREAM_NAMESPACE: self.name,
        });
        let namespace = json!({"metadata": {"name": self.hub_name, "labels": identity}});
        make(&namespaces, namespace).await?;
        let all = &self.deployments;
        for deployment in all {
            self.leave_deployment(&web, deployment).await?;
        }
        let status = json!({
            "conditions": [true_condition("Available", "AvailablePlacementFound")],
            "deployments": all.len(),
            "replicas": all.len(),
            "currentReplicas": all.len(),
            "desiredReplicas": all.len(),
            "readyReplicas": all.len(),
            "placements": all.iter().map(|it| json!({
                "name": it.placement,
                "conditions": [true_condition("Available", "AvailableDeploymentFound")],
                "replicas": 1,
                "currentReplicas": 1,
                "desiredReplicas": 1,
                "readyReplicas": 1,
            })).collect::<Vec<_>>(),
        });
        write_status(&workloads, WEB, status).await
    }

    /// Creates a deployment of the Workload on every plane.
    async fn leave_deployment(&self, web: &Workload, it: &FormerDeployment) -> anyhow::Result<()> {
        let name = &it.name();
        let mut placements = web.spec.placements.iter();
        let placement = placements.find(|placement| placement.name == it.placement);
        let scale = &placement.context("no placement")?.scale_settings;
        let spec = json!({
            "cityCode": it.city,
            "placementName": it.placement,
            "scaleSettings": scale,
            "template": web.spec.template,
            "workloadRef": {"name": WEB, "uid": web.uid()},
        });
        let uid = web.uid().context("no UID")?;
        let deployments: Api<WorkloadDeployment> = self.in_project();
        let metadata = json!({
            "name": name,
            "labels": {labels::WORKLOAD_UID: uid},
            "finalizers": [finalizers::FEDERATOR],
            "ownerReferences": [controlled_by(web)],
        });
        make(&deployments, deployment(&metadata, &spec)).await?;
        let copies: Api<WorkloadDeployment> = self.on_hub();
        let identity = json!({labels::CITY_CODE: it.city, labels::UPSTREAM_NAMESPACE: self.name});
        let metadata = json!({"name": name, "labels": identity});
        make(&copies, deployment(&metadata, &spec)).await?;
        make(&self.policies(), policy(it)).await?;

        let in_cell: Api<WorkloadDeployment> = self.in_cell(it.cell)?;
        let propagated = wait::until(&in_cell, name, "there", WITHIN, |_| true).await?;
        let held = json!({"metadata": {"finalizers": [finalizers::WORKLOAD_CONTROLLER]}});
        write(&in_cell, name, held).await?;
        let instance = self.leave_instance(web, it, &propagated).await?;
        let counters = json!({
            "conditions": [true_condition("Available", "StableInstanceFound"), true_condition("ReplicasReady", "ReplicasAvailable")],
            "replicas": 1,
            "currentReplicas": 1,
            "desiredReplicas": 1,
            "readyReplicas": 1,
        });
        write_status(&in_cell, name, counters).await?;

        // The Go manager replaces all labels of a copy by these labels. It also copies them to the projection.
        let identity = json!({
            labels::UPSTREAM_CLUSTER_NAME: format!("cluster-{}", self.project_name),
            labels::UPSTREAM_NAMESPACE: self.name,
        });
        for plane in [self.on_hub::<Instance>(), self.in_project()] {
            let name = &it.instance();
            let copy =
                json!({"metadata": {"name": name, "labels": identity}, "spec": instance.spec});
            make(&plane, copy).await?;
            write_status(&plane, name, json!(instance.status)).await?;
        }
        let reported = |copy: &WorkloadDeployment| {
            let status = copy.status.as_ref();
            status.is_some_and(|status| status.ready_replicas == 1)
        };
        let copy = wait::until(&copies, name, "reported by the cell", WITHIN, reported).await?;
        write_status(&deployments, name, json!(copy.status)).await
    }

    /// Creates the Instance of a deployment in its cell, and waits until it runs.
    async fn leave_instance(
        &self,
        web: &Workload,
        it: &FormerDeployment,
        owner: &WorkloadDeployment,
    ) -> anyhow::Result<Instance> {
        let (instances, name) = (self.in_cell::<Instance>(it.cell)?, &it.instance());
        let mut spec = json!(web.spec.template.spec);
        spec["controller"] = json!({"templateHash": HASH, "schedulingGates": []});
        let metadata = json!({
            "name": name,
            "labels": {
                labels::INSTANCE_INDEX: "0",
                labels::WORKLOAD_UID: web.uid(),
                labels::WORKLOAD_DEPLOYMENT_UID: owner.uid(),
            },
            "finalizers": [finalizers::INSTANCE_CONTROLLER, QUOTA],
            "ownerReferences": [controlled_by(owner)],
        });
        make(&instances, json!({"metadata": metadata, "spec": spec})).await?;
        let runs = |instance: &Instance| {
            let status = instance.status.clone().unwrap_or_default();
            ["Programmed", "Running"]
                .iter()
                .all(|type_| condition::is_true(&status.conditions, type_))
        };
        let running = wait::until(&instances, name, "running", WITHIN, runs).await?;
        let status = running.status.context("no status")?;
        let kept = status.conditions.iter().filter(|it| it.type_ != "Ready");
        let mut conditions: Vec<_> = kept.map(|condition| json!(condition)).collect();
        conditions.push(true_condition("Ready", "Running"));
        conditions.push(true_condition("QuotaGranted", "QuotaAvailable"));
        write_status(&instances, name, json!({"conditions": conditions})).await?;
        let complete = instances.get(name).await?;
        let observed = complete.status.as_ref();
        let observed = observed.and_then(|status| status.controller.as_ref());
        ensure!(
            observed.is_some_and(|observed| observed.observed_template_hash == HASH),
            "the status of the provider has lost the template hash"
        );
        Ok(complete)
    }

    /// Removes the quota finalizer from terminating Instances, as the Go manager's quota does. Quota is not part of
    /// this project.
    ///
    /// # Errors
    ///
    /// When an Instance does not exist or lacks the finalizer.
    pub async fn give_claims_back(&self) -> anyhow::Result<()> {
        for it in &self.deployments {
            let instances: Api<Instance> = self.in_cell(it.cell)?;
            let instance = instances.get(&it.instance()).await?;
            let mut kept = instance.finalizers().to_vec();
            ensure!(kept.iter().any(|finalizer| finalizer == QUOTA));
            kept.retain(|finalizer| finalizer != QUOTA);
            let change = json!({"metadata": {"finalizers": kept}});
            instances
                .patch(
                    &it.instance(),
                    &PatchParams::default(),
                    &Patch::Merge(change),
                )
                .await?;
        }
        Ok(())
    }
}

fn deployment(metadata: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": metadata,
        "spec": spec,
    })
}

/// Returns the Go manager's policy. It has no labels, and does not propagate dependencies.
fn policy(it: &FormerDeployment) -> Value {
    let city = json!({"matchLabels": {labels::CITY_CODE: it.city}});
    let (version, kind) = (api::API_VERSION, "WorkloadDeployment");
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": it.policy()},
        "spec": {
            "resourceSelectors": [{"apiVersion": version, "kind": kind, "labelSelector": city}],
            "placement": {"clusterAffinity": {"labelSelector": city}},
        },
    })
}

/// Returns a condition that is True, without observedGeneration.
fn true_condition(type_: &str, reason: &str) -> Value {
    json!({
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": "as the Go manager puts it",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "name": owner.meta().name,
        "uid": owner.meta().uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

async fn make<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(object)?;
    api.create(&params, &object).await?;
    Ok(())
}

fn as_manager() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

async fn write<K>(api: &Api<K>, name: &str, change: Value) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &as_manager(), &Patch::Merge(change))
        .await?;
    Ok(())
}

async fn write_status<K>(api: &Api<K>, name: &str, status: Value) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let change = json!({"status": status});
    api.patch_status(name, &as_manager(), &Patch::Merge(change))
        .await?;
    Ok(())
}
