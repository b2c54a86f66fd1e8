//! The config file (compute.md 5.1), as far as its fields have a meaning here. Decoded strictly: a field that would have
//! no effect is an error, not a surprise.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::CellName;
use certs::Files;
use serde::Deserialize;

use crate::args::BindAddress;

const API_VERSION: &str = "apiserver.config.datumapis.com/v1alpha1";
const KIND: &str = "WorkloadOperator";
/// The webhook port where none is configured.
const WEBHOOK_PORT: u16 = 9443;

/// The configuration, checked.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where metrics are served, if anywhere.
    pub(crate) metrics: MetricsServer,
    /// The TLS server for Karmada and API servers, if it is on.
    pub(crate) webhooks: Option<WebhookServer>,
    /// `discovery.clusterName`.
    pub(crate) cluster_name: Option<CellName>,
}

/// Where and how metrics are served.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    pub(crate) address: BindAddress,
    /// With TLS, and only to who may get `/metrics` in the own cluster.
    pub(crate) secure: bool,
    pub(crate) files: Files,
}

/// Where webhooks are served.
#[derive(Debug)]
pub(crate) struct WebhookServer {
    pub(crate) address: BindAddress,
    pub(crate) files: Files,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metrics_server: MetricsSection,
    webhook_server: Option<WebhookSection>,
    #[serde(default)]
    discovery: DiscoverySection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MetricsSection {
    secure_serving: Option<bool>,
    bind_address: Option<String>,
    #[serde(default)]
    tls: TlsSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WebhookSection {
    #[serde(default)]
    host: String,
    #[serde(default)]
    port: u16,
    #[serde(default)]
    tls: TlsSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsSection {
    cert_dir: Option<PathBuf>,
    cert_name: Option<String>,
    key_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DiscoverySection {
    mode: Option<String>,
    cluster_name: Option<String>,
}

impl Config {
    /// Reads the file; without one, the defaults.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Self::check(File::default());
        };
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = serde_saphyr::from_str(text)?;
        for (field, value, expected) in [
            ("apiVersion", &file.api_version, API_VERSION),
            ("kind", &file.kind, KIND),
        ] {
            if value != expected {
                bail!("{field} is {value:?}, must be {expected:?}");
            }
        }
        Self::check(file)
    }

    fn check(file: File) -> anyhow::Result<Self> {
        let File {
            metrics_server,
            webhook_server,
            discovery,
            ..
        } = file;
        match discovery.mode.as_deref() {
            None | Some("" | "single") => {}
            Some(mode) => {
                bail!("discovery.mode is {mode:?}; \"single\" is the one that is supported")
            }
        }
        let address = metrics_server
            .bind_address
            .as_deref()
            .filter(|address| !address.is_empty());
        let address = address.unwrap_or("0").parse().map_err(anyhow::Error::msg);
        let cluster_name = discovery.cluster_name.filter(|name| !name.is_empty());
        Ok(Self {
            metrics: MetricsServer {
                address: address.context("metricsServer.bindAddress")?,
                secure: metrics_server.secure_serving.unwrap_or(true),
                files: metrics_server.tls.files("k8s-metrics-server"),
            },
            webhooks: webhook_server.map(|server| WebhookServer {
                address: BindAddress::At {
                    host: server.host,
                    port: if server.port == 0 {
                        WEBHOOK_PORT
                    } else {
                        server.port
                    },
                },
                files: server.tls.files("k8s-webhook-server"),
            }),
            cluster_name: cluster_name
                .map(CellName::new)
                .transpose()
                .context("discovery.clusterName")?,
        })
    }
}

impl TlsSection {
    /// The files, by default where the baseline's deployment mounts them.
    fn files(self, server: &str) -> Files {
        let name = |name: Option<String>, default: &str| match name {
            Some(name) if !name.is_empty() => name,
            _ => default.to_owned(),
        };
        let directory = self
            .cert_dir
            .filter(|directory| !directory.as_os_str().is_empty());
        Files {
            directory: directory
                .unwrap_or_else(|| std::env::temp_dir().join(server).join("serving-certs")),
            certificate: name(self.cert_name, "tls.crt"),
            key: name(self.key_name, "tls.key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n";

    fn parse(text: &str) -> anyhow::Result<Config> {
        Config::parse(&format!("{HEAD}{text}"))
    }

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn the_defaults_are_those_of_the_baseline() {
        for config in [Config::load(None).unwrap(), parse("").unwrap()] {
            assert!(config.webhooks.is_none());
            assert_eq!(config.metrics.address, BindAddress::Off);
            assert!(config.metrics.secure);
            assert!(
                config
                    .metrics
                    .files
                    .directory
                    .ends_with("k8s-metrics-server/serving-certs")
            );
            assert_eq!(config.cluster_name, None);
        }
        let webhooks = parse("webhookServer: {}").unwrap().webhooks.unwrap();
        assert_eq!(
            webhooks.address,
            BindAddress::At {
                host: String::new(),
                port: 9443
            }
        );
        assert!(
            webhooks
                .files
                .directory
                .ends_with("k8s-webhook-server/serving-certs")
        );
        assert_eq!(
            (
                webhooks.files.certificate.as_str(),
                webhooks.files.key.as_str()
            ),
            ("tls.crt", "tls.key")
        );
    }

    #[test]
    fn every_field_has_its_effect() {
        let config = parse(
            "metricsServer: {secureServing: false, bindAddress: ':8443'}\n\
             webhookServer: {host: 127.0.0.1, port: 1234, tls: {certDir: /c, certName: a, keyName: b}}\n\
             discovery: {mode: single, clusterName: dfw1}\n",
        )
        .unwrap();
        assert!(!config.metrics.secure);
        assert_eq!(
            config.metrics.address,
            BindAddress::At {
                host: String::new(),
                port: 8443
            }
        );
        let webhooks = config.webhooks.unwrap();
        assert_eq!(
            webhooks.address,
            BindAddress::At {
                host: "127.0.0.1".into(),
                port: 1234
            }
        );
        assert_eq!(
            webhooks.files,
            Files {
                directory: "/c".into(),
                certificate: "a".into(),
                key: "b".into()
            }
        );
        assert_eq!(config.cluster_name.unwrap().as_str(), "dfw1");
    }

    #[test]
    fn what_is_unknown_or_given_twice_is_named() {
        assert!(
            error("metricServer: {}").contains("metricServer"),
            "{}",
            error("metricServer: {}")
        );
        let nested = "webhookServer: {tls: {secretRef: {name: x}}}";
        assert!(error(nested).contains("secretRef"), "{}", error(nested));
        let twice = "discovery: {}\ndiscovery: {}";
        assert!(error(twice).contains("discovery"), "{}", error(twice));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_field() {
        assert_eq!(
            error("discovery: {mode: milo}"),
            "discovery.mode is \"milo\"; \"single\" is the one that is supported"
        );
        assert!(
            error("discovery: {clusterName: DFW 1}")
                .starts_with("discovery.clusterName: cell name \"DFW 1\" is not valid")
        );
        assert!(
            error("metricsServer: {bindAddress: x}")
                .starts_with("metricsServer.bindAddress: \"x\" is not an address")
        );
        let error = format!("{:#}", Config::parse("kind: WorkloadOperator").unwrap_err());
        assert_eq!(
            error,
            format!("apiVersion is \"\", must be {API_VERSION:?}")
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = format!(
            "{:#}",
            Config::load(Some(Path::new("/no/such/config.yaml"))).unwrap_err()
        );
        assert!(error.starts_with("/no/such/config.yaml: "), "{error}");
    }
}
