//! The config file (compute.md 5.1), as far as its fields have a meaning here. Decoded strictly: a field that would have
//! no effect is an error, not a surprise.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use api::CellName;
use certs::Files;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::bind_address::BindAddress;

#[cfg(test)]
mod tests;

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
    /// Which projects there are.
    pub(crate) discovery: DiscoveryMode,
    /// `discovery.clusterName`.
    pub(crate) cluster_name: Option<CellName>,
}

/// Which projects there are (compute.md 5.1).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryMode {
    /// The own cluster is the one project.
    Single,
    /// Those of Milo.
    Milo(MiloDiscovery),
}

/// Where Milo's projects are found and how they are reached. Without a kubeconfig that is the own cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MiloDiscovery {
    /// ProjectControlPlanes are watched, and services of the cluster are called.
    pub(crate) internal_service_discovery: bool,
    pub(crate) discovery_kubeconfig: Option<PathBuf>,
    pub(crate) project_kubeconfig: Option<PathBuf>,
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
struct ConfigFile {
    #[serde(default, deserialize_with = "api_version")]
    api_version: Option<Expected>,
    #[serde(default, deserialize_with = "kind")]
    kind: Option<Expected>,
    #[serde(default)]
    metrics_server: MetricsSection,
    webhook_server: Option<WebhookSection>,
    #[serde(default)]
    discovery: DiscoverySection,
}

/// A text that can only be one, and is.
#[derive(Debug)]
struct Expected;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MetricsSection {
    secure_serving: Option<bool>,
    #[serde(default, deserialize_with = "bind_address")]
    bind_address: Option<BindAddress>,
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
    #[serde(default, deserialize_with = "mode")]
    mode: ModeField,
    internal_service_discovery: Option<bool>,
    #[serde(default, deserialize_with = "path")]
    discovery_kubeconfig_path: Option<PathBuf>,
    #[serde(default, deserialize_with = "path")]
    project_kubeconfig_path: Option<PathBuf>,
    #[serde(default, deserialize_with = "cluster_name")]
    cluster_name: Option<CellName>,
}

#[derive(Clone, Copy, Debug, Default)]
enum ModeField {
    #[default]
    Single,
    Milo,
}

fn api_version<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Expected>, D::Error> {
    exactly(&String::deserialize(field)?, API_VERSION).map(Some)
}

fn kind<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Expected>, D::Error> {
    exactly(&String::deserialize(field)?, KIND).map(Some)
}

fn mode<'de, D: Deserializer<'de>>(field: D) -> Result<ModeField, D::Error> {
    match text(field)?.as_deref() {
        None | Some("single") => Ok(ModeField::Single),
        Some("milo") => Ok(ModeField::Milo),
        Some(other) => {
            let error = format!("must be \"single\" or \"milo\", is {other:?}");
            Err(Error::custom(error))
        }
    }
}

fn path<'de, D: Deserializer<'de>>(field: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(text(field)?.map(PathBuf::from))
}

fn bind_address<'de, D: Deserializer<'de>>(field: D) -> Result<Option<BindAddress>, D::Error> {
    let address = text(field)?;
    let address = address.map(|address| address.parse().map_err(Error::custom));
    address.transpose()
}

fn cluster_name<'de, D: Deserializer<'de>>(field: D) -> Result<Option<CellName>, D::Error> {
    let name = text(field)?;
    name.map(|name| CellName::new(name).map_err(Error::custom))
        .transpose()
}

/// A text; an empty one means unset.
fn text<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(field)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn exactly<E: Error>(text: &str, expected: &str) -> Result<Expected, E> {
    if text == expected {
        Ok(Expected)
    } else {
        Err(E::custom(format!("must be {expected:?}, is {text:?}")))
    }
}

impl Config {
    /// Reads the file; without one, the defaults.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Self::of(ConfigFile::default());
        };
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        // The decoder ends at the first field that it does not know, which may be one because the syntax is broken.
        if let Err(error) = serde_saphyr::from_str::<IgnoredAny>(text) {
            bail!(
                "{}: not valid YAML: {}",
                place(name, &error),
                problem(&error)
            );
        }
        let mut field = String::new();
        let decoded = serde_saphyr::with_deserializer_from_str(text, |decoder| {
            serde_path_to_error::deserialize(decoder).map_err(|error| {
                field = error.path().to_string();
                error.into_inner()
            })
        });
        let file: ConfigFile = decoded.map_err(|error| {
            let (place, problem) = (place(name, &error), problem(&error));
            match field.as_str() {
                "." | "?" => anyhow!("{place}: {problem}"),
                field => anyhow!("{place}: {field}: {problem}"),
            }
        })?;
        for (field, is_given, expected) in [
            ("apiVersion", file.api_version.is_some(), API_VERSION),
            ("kind", file.kind.is_some(), KIND),
        ] {
            ensure!(is_given, "{name}: {field} is missing, must be {expected:?}");
        }
        Self::of(file).with_context(|| name.to_owned())
    }
}

/// `FILE:LINE:COLUMN`, as far as it is known.
fn place(name: &str, error: &serde_saphyr::Error) -> String {
    error.location().map_or_else(
        || name.to_owned(),
        |at| format!("{name}:{}:{}", at.line(), at.column()),
    )
}

/// What is wrong, in one line and without the place.
fn problem(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::SerdeUnknownField { expected, .. } => {
            format!("unknown field, known are {}", expected.join(", "))
        }
        serde_saphyr::Error::InvalidScalar { ty: "u16", .. } => "must be 1-65535".to_owned(),
        serde_saphyr::Error::InvalidScalar { ty: "boolean", .. } => {
            "must be true or false".to_owned()
        }
        serde_saphyr::Error::Unexpected {
            expected: "mapping start",
            ..
        } => "must be a mapping".to_owned(),
        serde_saphyr::Error::Unexpected {
            expected: "string scalar",
            ..
        } => "must be a text".to_owned(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

impl Config {
    fn of(file: ConfigFile) -> anyhow::Result<Self> {
        let ConfigFile {
            metrics_server,
            webhook_server,
            discovery,
            ..
        } = file;
        Ok(Self {
            metrics: MetricsServer {
                address: metrics_server.bind_address.unwrap_or(BindAddress::Off),
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
            cluster_name: discovery.cluster_name.clone(),
            discovery: discovery.checked()?,
        })
    }
}

impl DiscoverySection {
    fn checked(self) -> anyhow::Result<DiscoveryMode> {
        let milo = MiloDiscovery {
            internal_service_discovery: self.internal_service_discovery.unwrap_or_default(),
            discovery_kubeconfig: self.discovery_kubeconfig_path,
            project_kubeconfig: self.project_kubeconfig_path,
        };
        if let ModeField::Milo = self.mode {
            return Ok(DiscoveryMode::Milo(milo));
        }
        for (field, is_given) in [
            ("internalServiceDiscovery", milo.internal_service_discovery),
            (
                "discoveryKubeconfigPath",
                milo.discovery_kubeconfig.is_some(),
            ),
            ("projectKubeconfigPath", milo.project_kubeconfig.is_some()),
        ] {
            ensure!(
                !is_given,
                "discovery.{field} has no effect in discovery.mode \"single\": remove it, or set the mode to \"milo\""
            );
        }
        Ok(DiscoveryMode::Single)
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
            // CSI drivers and cert-manager name it so.
            authorities: "ca.crt".to_owned(),
        }
    }
}
