//! A hub, and the webhook server that Karmada calls.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use api::WorkloadDeployment;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use harness::{Config, Federation, wait};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fixture::{self, Space, WITHIN, create, deployment, dynamic, patch, policies, policy};

/// CA certificates in DER encoding.
pub(crate) type CaCertificates = BTreeSet<Vec<u8>>;

/// Log of Karmada's controllers, which call the webhook.
pub(crate) const KARMADA_LOG: &str = "karmada-controller-manager.log";

/// Name of the registration on the hub.
const CONFIGURATION: &str = "compute-federation";
/// Name of an object on the hub. Karmada calls the webhook for this object.
const NAME: &str = "web";

/// Starts a federation without cells. Its manager has these flags.
pub(super) async fn start(label: &str, flags: &[&str]) -> anyhow::Result<Federation> {
    let config = Config {
        cells: Vec::new(),
        ..fixture::config(label)?
    };
    let federation = fixture::start_from(&config).await?;
    restart(&federation, flags).await?;
    Ok(federation)
}

/// Restarts the manager with these additional flags.
pub(super) async fn restart(federation: &Federation, flags: &[&str]) -> anyhow::Result<()> {
    let mut manager = federation.management()?.lock().await;
    manager.terminate().await;
    manager.add_flags(flags);
    manager.restart().await
}

/// Returns the lines of a log of Karmada about failed calls of interpreters. The log has this name.
pub(crate) fn failed_calls(federation: &Federation, log: &str) -> anyhow::Result<Vec<String>> {
    let log = federation.directory().join("logs").join(log);
    let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    let failed = text
        .lines()
        .filter(|line| line.contains("Failed calling webhook"));
    Ok(failed.map(str::to_owned).collect())
}

/// The webhook server, its certificate, and its registration on the hub.
pub(super) struct CertificateFixture<'f> {
    federation: &'f Federation,
    configurations: Api<DynamicObject>,
    space: Space<'f>,
    replicas: AtomicI32,
    port: u16,
    /// All bundles that the registration has had, in order.
    bundles: Arc<Mutex<Vec<CaCertificates>>>,
    _witness: JoinSet<()>,
}

impl<'f> CertificateFixture<'f> {
    pub(super) async fn new(federation: &'f Federation) -> anyhow::Result<Self> {
        let kind = GroupVersionKind::gvk(
            "config.karmada.io",
            "v1alpha1",
            "ResourceInterpreterWebhookConfiguration",
        );
        let client = federation.hub().client();
        let configurations = Api::all_with(client, &ApiResource::from_gvk(&kind));
        let space = Space::on_hub_alone(federation, "certificates").await?;
        let object = policy("WorkloadDeployment", &json!({}));
        create::<DynamicObject>(&policies(&space), object).await?;
        create::<WorkloadDeployment>(&space.on_hub(), deployment(NAME, "DFW")).await?;
        let bundles = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(witness(configurations.clone(), Arc::clone(&bundles)));
        Ok(Self {
            federation,
            configurations,
            space,
            replicas: AtomicI32::new(1),
            port: federation.management()?.lock().await.webhook_port(),
            bundles,
            _witness: tasks,
        })
    }

    /// Returns the API of the registration on the hub.
    pub(super) fn configurations(&self) -> Api<DynamicObject> {
        self.configurations.clone()
    }

    /// Returns the port of the webhook server.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Writes a new leaf certificate.
    pub(super) async fn renew(&self) -> anyhow::Result<()> {
        self.federation.webhook_certificate().lock().await.renew()
    }

    /// Writes a new CA and a leaf certificate that it signed.
    pub(super) async fn renew_authority(&self) -> anyhow::Result<()> {
        let mut certificate = self.federation.webhook_certificate().lock().await;
        certificate.renew_authority()
    }

    /// Returns the CA in the certificate files.
    pub(super) async fn authority(&self) -> CaCertificates {
        let certificate = self.federation.webhook_certificate().lock().await;
        CaCertificates::from([certificate.authority()])
    }

    /// Returns the current bundle of the registration.
    pub(super) async fn bundle(&self) -> anyhow::Result<CaCertificates> {
        bundle(&self.configurations.get(CONFIGURATION).await?)
    }

    /// Waits until the registration has this bundle.
    pub(super) async fn until_bundle(&self, expected: &CaCertificates) -> anyhow::Result<()> {
        let is_expected =
            |object: &DynamicObject| bundle(object).is_ok_and(|bundle| bundle == *expected);
        let api = &self.configurations;
        wait::until(api, CONFIGURATION, "as expected", WITHIN, is_expected)
            .await
            .map(drop)
    }

    /// Returns all bundles that the registration has had, in order.
    pub(super) fn bundles(&self) -> Vec<CaCertificates> {
        let bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        bundles.clone()
    }

    /// Replaces the bundle, or removes it.
    pub(super) async fn edit(&self, edited: Option<&str>) -> anyhow::Result<()> {
        let mut object = self.configurations.get(CONFIGURATION).await?;
        object.data["webhooks"][0]["clientConfig"]["caBundle"] =
            edited.map(|text| STANDARD.encode(text)).into();
        let change = json!({"webhooks": object.data["webhooks"]});
        patch(&self.configurations, CONFIGURATION, change)
            .await
            .map(drop)
    }

    /// Returns the leaf certificate that the server presents to new connections.
    pub(super) async fn served(&self) -> anyhow::Result<Vec<u8>> {
        // This caller trusts every CA that the registration has ever had.
        let trusted = self.bundles().into_iter().flatten();
        let trusted = trusted.chain(self.authority().await).collect();
        served_at((Ipv4Addr::LOCALHOST, self.port), &trusted).await
    }

    /// Waits until the server presents the leaf certificate in the files.
    pub(super) async fn until_served(&self) -> anyhow::Result<()> {
        wait::eventually("the new leaf is served", WITHIN, || async {
            let certificate = self.federation.webhook_certificate().lock().await;
            let expected = certificate.leaf().to_vec();
            drop(certificate);
            ensure!(
                self.served().await? == expected,
                "the server presents another leaf"
            );
            Ok(())
        })
        .await
    }

    /// Waits until the server's metrics contain this line.
    pub(super) async fn until_metric(&self, expected: &str) -> anyhow::Result<()> {
        wait::eventually(expected, WITHIN, || async {
            let metrics = self.federation.management()?.lock().await.metrics().await?;
            let expected = format!("compute_federation_{expected}");
            ensure!(metrics.lines().any(|line| line == expected), "{metrics}");
            Ok(())
        })
        .await
    }

    /// Waits until Karmada has asked the webhook for the replicas of an object and has received an answer.
    pub(super) async fn until_karmada_asks(&self) -> anyhow::Result<()> {
        let replicas = self.replicas.fetch_add(1, Ordering::Relaxed) + 1;
        let on_hub: Api<WorkloadDeployment> = self.space.on_hub();
        patch(
            &on_hub,
            NAME,
            json!({"spec": {"scaleSettings": {"minReplicas": replicas}}}),
        )
        .await?;
        let bindings = dynamic(
            self.federation.hub().client(),
            &self.space.hub_name,
            "work.karmada.io",
            "v1alpha2",
            "ResourceBinding",
        );
        let asked = |binding: &DynamicObject| binding.data["spec"]["replicas"] == replicas;
        let name = format!("{NAME}-workloaddeployment");
        wait::until(&bindings, &name, "of the new replicas", WITHIN, asked)
            .await
            .map(drop)
    }
}

/// Records every bundle of the registration.
async fn witness(api: Api<DynamicObject>, bundles: Arc<Mutex<Vec<CaCertificates>>>) {
    let mut versions = watch_object(api, CONFIGURATION)
        .backoff(SteadyBackoff)
        .boxed();
    while let Some(version) = versions.next().await {
        let Ok(Some(object)) = version else { continue };
        let Ok(bundle) = bundle(&object) else {
            continue;
        };
        let mut bundles = bundles.lock().unwrap_or_else(PoisonError::into_inner);
        if bundles.last() != Some(&bundle) {
            bundles.push(bundle);
        }
    }
}

/// Returns the CAs in the bundle of a registration.
pub(super) fn bundle(configuration: &DynamicObject) -> anyhow::Result<CaCertificates> {
    let bundle = configuration.data["webhooks"][0]["clientConfig"]["caBundle"].as_str();
    let bundle = STANDARD.decode(bundle.context("no caBundle")?)?;
    CertificateDer::pem_slice_iter(&bundle)
        .map(|authority| Ok(authority?.to_vec()))
        .collect()
}

/// Returns the leaf certificate that the server at this address presents to new connections.
pub(crate) async fn served_at(
    address: (Ipv4Addr, u16),
    trusted: &CaCertificates,
) -> anyhow::Result<Vec<u8>> {
    let stream = connect(address, &client_config(trusted)?).await?;
    let (_, session) = stream.get_ref();
    let leaf = session.peer_certificates().and_then(<[_]>::first);
    Ok(leaf.context("no certificate")?.to_vec())
}

/// Returns a TLS client configuration that trusts only these roots.
pub(super) fn client_config(trusted: &CaCertificates) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.clone().into())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Opens a connection and verifies the server's address.
pub(super) async fn connect(
    (address, port): (Ipv4Addr, u16),
    config: &Arc<ClientConfig>,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect((address, port)).await?;
    stream.set_nodelay(true)?;
    let name = std::net::IpAddr::from(address).into();
    Ok(TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await?)
}
