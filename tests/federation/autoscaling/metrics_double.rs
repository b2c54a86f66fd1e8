//! A double for what an autoscaler needs in a cell: a Pod for each Instance, and the metrics of these Pods.
//!
//! `metrics.k8s.io` is served by a CRD instead of an aggregated API server: the autoscaler lists the same path with the
//! same label selector, and gets objects of the same form.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use api::{Instance, labels};
use futures::future::try_join_all;
use harness::{objects, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::{WITHIN, create, patch_status};

/// What a Pod requests, in thousandths of a CPU.
const REQUEST: u32 = 1000;
/// Interval between two measurements.
const INTERVAL: Duration = Duration::from_millis(200);

/// The Pods and the load of several cells.
pub(super) struct MetricsDouble {
    cells: Vec<CellDouble>,
}

struct CellDouble {
    name: &'static str,
    client: Client,
    namespace: String,
    /// The load of all Pods, in thousandths of a CPU. Each Pod has an equal part.
    load: Mutex<u32>,
    /// The load of each Pod that was written last.
    written: Mutex<BTreeMap<String, u32>>,
}

impl MetricsDouble {
    /// Makes the cells serve `metrics.k8s.io`.
    pub(super) async fn start(
        cells: &[(&'static str, Client)],
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let serve = cells.iter().map(|(_, client)| serve_metrics(client));
        try_join_all(serve).await?;
        let cells = cells.iter().map(|(name, client)| CellDouble {
            name,
            client: client.clone(),
            namespace: namespace.to_owned(),
            load: Mutex::default(),
            written: Mutex::default(),
        });
        Ok(Self {
            cells: cells.collect(),
        })
    }

    /// Sets the load of all Pods of a cell together, in thousandths of a CPU.
    pub(super) fn set_load(&self, cell: &str, load: u32) {
        for double in self.cells.iter().filter(|double| double.name == cell) {
            *double.load.lock().unwrap_or_else(PoisonError::into_inner) = load;
        }
    }

    /// Creates Pods and writes their metrics, until the future is dropped.
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        try_join_all(self.cells.iter().map(CellDouble::run)).await?;
        pending().await
    }
}

impl CellDouble {
    async fn run(&self) -> anyhow::Result<()> {
        loop {
            // An Instance can end at any time, so the next round tries again.
            if let Err(error) = self.measure().await {
                eprintln!("{}: {error:#}", self.name);
            }
            sleep(INTERVAL).await;
        }
    }

    async fn measure(&self) -> anyhow::Result<()> {
        let instances: Api<Instance> = Api::namespaced(self.client.clone(), &self.namespace);
        let instances = instances.list(&ListParams::default()).await?.items;
        let running: Vec<_> = instances
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .collect();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let known = pods.list(&ListParams::default()).await?.items;
        let load = *self.load.lock().unwrap_or_else(PoisonError::into_inner);
        let count = u32::try_from(running.len()).unwrap_or(u32::MAX).max(1);
        for instance in running {
            let name = instance.name_any();
            if known.iter().all(|pod| pod.name_any() != name) {
                self.create_pod(&pods, instance).await?;
            }
            let usage = load / count;
            let mut written = self
                .written
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if written.insert(name.clone(), usage) != Some(usage) {
                self.write_metrics(instance, usage).await?;
                *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
            }
        }
        let is_left = |name: &String| instances.iter().any(|it| it.name_any() == *name);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|name, _| is_left(name));
        Ok(())
    }

    /// Creates a running Pod with the label of the selector, as an infrastructure provider does. Garbage collection
    /// deletes it with its Instance.
    async fn create_pod(&self, pods: &Api<Pod>, instance: &Instance) -> anyhow::Result<()> {
        let name = instance.name_any();
        let requests = json!({"cpu": format!("{REQUEST}m")});
        let pod = json!({
            "metadata": metadata(instance)?,
            "spec": {"containers": [
                {"name": "app", "image": "app:1", "resources": {"requests": requests}},
            ]},
        });
        create(pods, pod).await?;
        let began = "2026-01-01T00:00:00Z";
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": began});
        let status = json!({"phase": "Running", "startTime": began, "conditions": [ready]});
        patch_status(pods, &name, status).await.map(drop)
    }

    async fn write_metrics(&self, instance: &Instance, usage: u32) -> anyhow::Result<()> {
        let metrics = pod_metrics(&self.client, &self.namespace);
        let usage = json!({"cpu": format!("{usage}m"), "memory": "1Mi"});
        let object = json!({
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": metadata(instance)?,
            "timestamp": multicluster::clock::now().to_string(),
            "window": "1s",
            "containers": [{"name": "app", "usage": usage}],
        });
        let params = PatchParams::apply("metrics-double").force();
        metrics
            .patch(&instance.name_any(), &params, &Patch::Apply(&object))
            .await?;
        Ok(())
    }
}

fn pod_metrics(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn metadata(instance: &Instance) -> anyhow::Result<Value> {
    let label = labels::WORKLOAD_DEPLOYMENT_UID;
    let uid = instance.labels().get(label).context("no label")?;
    Ok(json!({
        "name": instance.name_any(),
        "labels": {label: uid},
        "ownerReferences": instance.owner_ref(&()).into_iter().collect::<Vec<_>>(),
    }))
}

/// Makes an API server serve `metrics.k8s.io`.
async fn serve_metrics(client: &Client) -> anyhow::Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a double for tests"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"kind": "PodMetrics", "listKind": "PodMetricsList", "plural": "pods", "singular": "pod"},
            "scope": "Namespaced",
            "versions": [version],
        },
    });
    objects::apply(client, &crd).await?;
    let metrics = pod_metrics(client, "default");
    wait::eventually("metrics are served", WITHIN, || async {
        metrics.list(&ListParams::default()).await?;
        Ok(())
    })
    .await
}
