//! The webhook server of the management cluster, as callers on the host see it.

use anyhow::Context;
use harness::installation::Installation;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;

use super::objects::REGISTRATION;
use crate::client::{self, TrustedBundle, WebhookCaller};

/// The name of the webhook server in its certificate.
const SERVER: &str = "compute-webhook.compute-system.svc";
/// The paths of the webhook server.
pub(super) const INTERPRET: &str = "/interpret";
pub(super) const VALIDATE: &str = "/validate-compute-datumapis-com-v1alpha-workload";

/// The address of the Service, and the CAs that callers trust.
pub(super) struct Webhooks {
    /// Address and port.
    address: String,
    trusted: TrustedBundle,
}

impl Webhooks {
    pub(super) async fn of(installation: &Installation) -> anyhow::Result<Self> {
        Ok(Self {
            address: format!("{}:443", installation.webhook_address().await?),
            trusted: TrustedBundle::follow(registrations(installation)).await?,
        })
    }

    /// Returns a caller of the Service with this path.
    pub(super) fn caller(&self, path: &str) -> WebhookCaller {
        self.caller_at(&self.address, path)
    }

    /// Returns a caller of one Pod with this path.
    pub(super) fn caller_of(&self, pod: &Pod, path: &str) -> anyhow::Result<WebhookCaller> {
        let status = pod.status.as_ref();
        let ip = status.and_then(|status| status.pod_ip.as_deref());
        let ip = ip.context("the Pod has no address")?;
        Ok(self.caller_at(&format!("{ip}:9443"), path))
    }

    fn caller_at(&self, address: &str, path: &str) -> WebhookCaller {
        WebhookCaller {
            address: address.to_owned(),
            server: SERVER.to_owned(),
            path: path.to_owned(),
            trusted: self.trusted.clone(),
        }
    }
}

/// Fails if the webhook server does not serve a certificate of this CA.
pub(super) async fn expect_authority(
    installation: &Installation,
    authority: &str,
) -> anyhow::Result<()> {
    let address = format!("{}:443", installation.webhook_address().await?);
    let served = client::certificate(&address, SERVER, authority).await;
    served
        .map(drop)
        .context("no certificate of the expected CA")
}

/// Returns the API of the interpreter's registration on the hub, and its name.
fn registrations(installation: &Installation) -> (Api<DynamicObject>, &'static str) {
    let kind = "ResourceInterpreterWebhookConfiguration";
    let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
    let client = installation.hub().plane().client();
    let api = Api::all_with(client, &ApiResource::from_gvk(&kind));
    (api, REGISTRATION)
}
