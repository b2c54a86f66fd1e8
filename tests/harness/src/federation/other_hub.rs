//! Another hub, for tests of a process with a wrong kubeconfig.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::parts::{hub_crds, register_interpreter, start_etcd};
use super::{Config, Federation, admit_lower_hub};
use crate::objects::apply;
use crate::plane::{Plane, PlanePorts, RBAC};
use crate::rights::{Grant, HUB, LOWER_HUB, PlaneUser};
use crate::{pki, registration};

/// Name of the other hub.
const OTHER_HUB: &str = "other-hub";

/// Returns a CRD of Clusters.
fn clusters() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.karmada.io"},
        "spec": {
            "group": "cluster.karmada.io", "scope": "Cluster", "names": {"kind": "Cluster", "plural": "clusters"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

impl Federation {
    /// Starts another hub: an API server with its own etcd and the CRDs of a hub. It has no cells, and the registration of
    /// the interpreter with the CA of another installation as its only object.
    ///
    /// # Errors
    ///
    /// When the API server does not become ready.
    pub async fn start_other_hub(&mut self, config: &Config) -> anyhow::Result<Plane> {
        self.start_bare_hub(config, HUB).await
    }

    /// As [`start_other_hub`](Self::start_other_hub), with the rights of the process of a lower hub: on a lower hub, and on
    /// an upper hub for a lower hub of this name. It serves Clusters without Karmada.
    ///
    /// # Errors
    ///
    /// When the API server does not become ready.
    pub async fn start_other_lower_hub(
        &mut self,
        config: &Config,
        name: &str,
    ) -> anyhow::Result<Plane> {
        let hub = self.start_bare_hub(config, LOWER_HUB).await?;
        apply(&hub.client(), &clusters()).await?;
        admit_lower_hub(&hub, name).await?;
        Ok(hub)
    }

    /// Restarts the process of a lower hub with these hubs: the lower hub and the upper hub.
    ///
    /// # Errors
    ///
    /// When there is no lower hub of this name, or its process does not become ready.
    pub async fn report_with(&self, name: &str, [lower, upper]: [&Plane; 2]) -> anyhow::Result<()> {
        let lower = lower.kubeconfig_of(&PlaneUser::manager())?;
        let upper = upper.kubeconfig_of(&PlaneUser::lower_hub(name))?;
        let mut manager = self.lower_hub_manager(name)?.lock().await;
        manager.kill().await;
        manager.set_path("kubeconfig", &lower);
        manager.set_path("federation-kubeconfig", &upper);
        manager.restart().await
    }

    async fn start_bare_hub(
        &mut self,
        config: &Config,
        grants: &'static [Grant],
    ) -> anyhow::Result<Plane> {
        let (etcd, peer) = (self.ports.next()?, self.ports.next()?);
        let ports = PlanePorts::take(&mut self.ports, etcd)?;
        let setup = self.setup(config);
        let etcd = start_etcd(&setup, "other-hub-etcd", etcd, peer).await?;
        let (crds, flags) = (hub_crds(&setup)?, [RBAC.into()]);
        let hub = Plane::start_bare(&setup, "hub", OTHER_HUB, ports, &crds, &flags, grants);
        let hub = etcd.while_running(hub).await?;
        self.others.push(etcd);
        let webhook_port = self.management()?.lock().await.webhook_port();
        let ca_bundle = STANDARD.encode(pki::authority("other-webhook-ca")?.pem());
        let registered = register_interpreter(&hub, webhook_port, Some(&ca_bundle)).await;
        registered.context("the interpreter cannot be registered on the other hub")?;
        Ok(hub)
    }

    /// Returns the `caBundle` of the interpreter's registration on another hub, in PEM.
    ///
    /// # Errors
    ///
    /// When there is no registration.
    pub async fn ca_bundle_of(hub: &Plane) -> anyhow::Result<Vec<u8>> {
        registration::ca_bundle(hub).await
    }

    /// Restarts compute-federation in the management plane with this hub.
    ///
    /// # Errors
    ///
    /// When compute-federation does not become ready.
    pub async fn manage_with(&self, hub: &Plane) -> anyhow::Result<()> {
        let user = PlaneUser::manager();
        let (project, hub) = (
            self.project.kubeconfig_of(&user)?,
            hub.kubeconfig_of(&user)?,
        );
        self.reach(&project, &hub).await
    }
}
