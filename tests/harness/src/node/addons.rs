//! What a cluster has besides Kubernetes: DNS, and cert-manager with its CSI driver.

use std::fmt::Debug;
use std::path::PathBuf;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Node, WITHIN};
use crate::objects::{apply_all, apply_crds};
use crate::wait;

const DNS: &str = include_str!("addons/dns.yaml");
const CERT_MANAGER: &str = include_str!("addons/cert-manager.yaml");
const ISSUER: &str = include_str!("addons/issuer.yaml");

/// The ClusterIssuer that [`Node::install_cert_manager`] creates. Its CA is also in the Secret of this name in the
/// namespace `cert-manager`.
pub const ISSUER_NAME: &str = "compute-ca";

impl Node {
    /// Installs the DNS of the cluster and waits until it is available.
    ///
    /// # Errors
    ///
    /// When the DNS does not become available.
    pub async fn install_dns(&self) -> anyhow::Result<()> {
        let coredns = self.config.programs.program("coredns");
        self.load_programs("localhost/coredns:1", &[coredns])
            .await?;
        let manifests = DNS.replace("CLUSTER_DNS", &self.dns_address().to_string());
        apply_all(&self.client, &manifests).await?;
        self.until_available("kube-system", "coredns").await
    }

    /// Installs cert-manager, its CSI driver, and the ClusterIssuer [`ISSUER_NAME`]. Waits until all of them are ready.
    ///
    /// # Errors
    ///
    /// When a part does not become ready.
    pub async fn install_cert_manager(&self) -> anyhow::Result<()> {
        let programs = &self.config.programs;
        let controller = programs.program("cert-manager-controller");
        // The driver calls mount and umount.
        let driver = [
            programs.program("cert-manager-csi-driver"),
            programs.program("csi-driver-registrar"),
            PathBuf::from("/bin/mount"),
            PathBuf::from("/bin/umount"),
        ];
        apply_crds(&self.client, &programs.cert_manager_crds()?).await?;
        self.load_programs("localhost/cert-manager:1", &[controller])
            .await?;
        self.load_programs("localhost/cert-manager-csi-driver:1", &driver)
            .await?;
        apply_all(&self.client, CERT_MANAGER).await?;
        apply_all(&self.client, ISSUER).await?;
        let namespace = "cert-manager";
        self.until_available(namespace, "cert-manager").await?;
        let drivers: Api<DaemonSet> = self.in_namespace(namespace);
        wait::until(
            &drivers,
            "cert-manager-csi-driver",
            "ready",
            WITHIN,
            |set| {
                let status = set.status.as_ref();
                status.is_some_and(|status| status.number_ready > 0)
            },
        )
        .await?;
        let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "ClusterIssuer");
        let issuers: Api<DynamicObject> =
            Api::all_with(self.client(), &ApiResource::from_gvk(&kind));
        wait::eventually("the issuer is ready", WITHIN, || async {
            let issuer = issuers.get(ISSUER_NAME).await?;
            let status = issuer.data.pointer("/status/conditions/0/status");
            anyhow::ensure!(
                status.and_then(|status| status.as_str()) == Some("True"),
                "{}",
                issuer.data
            );
            Ok(())
        })
        .await
    }

    /// Waits until all replicas of the current version of a Deployment are available.
    ///
    /// # Errors
    ///
    /// When the time is over. The error contains the Deployment.
    pub async fn until_available(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let deployments = self.in_namespace(namespace);
        wait::until(&deployments, name, "available", WITHIN, is_available)
            .await
            .map(drop)
    }

    /// Returns the API of a kind in a namespace.
    fn in_namespace<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        Api::namespaced(self.client(), namespace)
    }
}

fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let Some(status) = &deployment.status else {
        return false;
    };
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.available_replicas == wanted
        && status.replicas == wanted
}
