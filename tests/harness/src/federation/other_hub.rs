//! Another hub, for tests of a management process with a wrong kubeconfig.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::parts::{hub_crds, register_interpreter, start_etcd};
use super::{Config, Federation};
use crate::plane::{Plane, PlanePorts, RBAC};
use crate::rights::{HUB, PlaneUser};
use crate::{pki, registration};

/// Name of the other hub.
const OTHER_HUB: &str = "other-hub";

impl Federation {
    /// Starts another hub: an API server with its own etcd and the CRDs of a hub. It has no cells, and the registration of
    /// the interpreter with the CA of another installation as its only object.
    ///
    /// # Errors
    ///
    /// When the API server does not become ready.
    pub async fn start_other_hub(&mut self, config: &Config) -> anyhow::Result<Plane> {
        let (etcd, peer) = (self.ports.next()?, self.ports.next()?);
        let ports = PlanePorts::take(&mut self.ports, etcd)?;
        let setup = self.setup(config);
        let etcd = start_etcd(&setup, "other-hub-etcd", etcd, peer).await?;
        let (crds, flags) = (hub_crds(&setup)?, [RBAC.into()]);
        let hub = Plane::start_bare(&setup, "hub", OTHER_HUB, ports, &crds, &flags, HUB);
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
