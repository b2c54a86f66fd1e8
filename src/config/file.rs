//! The fields of the config file, decoded strictly.

mod ignored;

use std::path::PathBuf;

use anyhow::{anyhow, bail, ensure};
use api::CellName;
use controllers::cell_controllers::Networking;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::bind_address::BindAddress;

const API_VERSION: &str = "apiserver.config.datumapis.com/v1alpha1";
const KIND: &str = "WorkloadOperator";

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConfigFile {
    #[serde(default, deserialize_with = "api_version")]
    api_version: Option<Expected>,
    #[serde(default, deserialize_with = "kind")]
    kind: Option<Expected>,
    #[serde(default)]
    pub(super) metrics_server: MetricsSection,
    pub(super) webhook_server: Option<WebhookSection>,
    #[serde(default)]
    pub(super) discovery: DiscoverySection,
    #[serde(default)]
    pub(super) networking: NetworkingSection,
    #[serde(default)]
    pub(super) feature_flags: FeatureFlagsSection,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) referenced_data: ReferencedDataSection,
    #[serde(default)]
    pub(super) interpreter_customizations: CustomizationsSection,
    #[serde(default, deserialize_with = "ignored::location_source")]
    pub(super) location_source: bool,
}

impl ConfigFile {
    /// Returns the given fields of the Go manager that have no effect.
    pub(super) fn ignored(&self) -> Vec<&'static str> {
        let webhooks = self.webhook_server.as_ref();
        let fields = [
            (
                "referencedData.perObjectLimitBytes",
                self.referenced_data.per_object_limit_bytes,
            ),
            (
                "referencedData.aggregateLimitBytes",
                self.referenced_data.aggregate_limit_bytes,
            ),
            ("locationSource", self.location_source),
            (
                "metricsServer.tls.secretRef",
                self.metrics_server.tls.secret_ref,
            ),
            (
                "webhookServer.tls.secretRef",
                webhooks.is_some_and(|server| server.tls.secret_ref),
            ),
            (
                "discovery.consumerScopedProjection",
                self.discovery.consumer_scoped_projection,
            ),
        ];
        let given = fields.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(field, _)| field).collect()
    }
}

/// A field that has a single valid value and is set.
#[derive(Debug)]
struct Expected;

/// `metricsServer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MetricsSection {
    pub(super) secure_serving: Option<bool>,
    #[serde(default, deserialize_with = "bind_address")]
    pub(super) bind_address: Option<BindAddress>,
    #[serde(default)]
    pub(super) tls: TlsSection,
}

/// `webhookServer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WebhookSection {
    #[serde(default)]
    pub(super) host: String,
    #[serde(default)]
    pub(super) port: u16,
    #[serde(default)]
    pub(super) interpreter_port: u16,
    #[serde(default, deserialize_with = "text", rename = "clientCAName")]
    pub(super) client_ca_name: Option<String>,
    #[serde(default)]
    pub(super) client_subject_names: Vec<String>,
    #[serde(default)]
    pub(super) tls: TlsSection,
}

/// `tls` of a server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TlsSection {
    pub(super) cert_dir: Option<PathBuf>,
    pub(super) cert_name: Option<String>,
    pub(super) key_name: Option<String>,
    #[serde(default, deserialize_with = "ignored::secret_ref")]
    pub(super) secret_ref: bool,
}

/// `discovery`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DiscoverySection {
    #[serde(default, deserialize_with = "mode")]
    pub(super) mode: ModeField,
    pub(super) internal_service_discovery: Option<bool>,
    #[serde(default, deserialize_with = "path")]
    pub(super) discovery_kubeconfig_path: Option<PathBuf>,
    #[serde(default, deserialize_with = "path")]
    pub(super) project_kubeconfig_path: Option<PathBuf>,
    #[serde(default, deserialize_with = "path")]
    pub(super) project_kubeconfig_directory: Option<PathBuf>,
    #[serde(default, deserialize_with = "cluster_name")]
    pub(super) cluster_name: Option<CellName>,
    #[serde(default, deserialize_with = "cluster_names")]
    pub(super) former_cluster_names: Vec<CellName>,
    #[serde(default, deserialize_with = "path")]
    pub(super) quota_kubeconfig_path: Option<PathBuf>,
    #[serde(default, deserialize_with = "ignored::projection")]
    pub(super) consumer_scoped_projection: bool,
}

/// `interpreterCustomizations`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CustomizationsSection {
    pub(super) directory: Option<PathBuf>,
}

/// `networking`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NetworkingSection {
    /// `networking.strategy`.
    #[serde(default, deserialize_with = "strategy")]
    pub(super) strategy: Option<Networking>,
}

/// `featureFlags`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FeatureFlagsSection {
    #[serde(default)]
    pub(super) enable_referenced_data_gate: bool,
}

/// `referencedData`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReferencedDataSection {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) resolver_usernames: Vec<String>,
    #[serde(default, deserialize_with = "ignored::limit")]
    pub(super) per_object_limit_bytes: bool,
    #[serde(default, deserialize_with = "ignored::limit")]
    pub(super) aggregate_limit_bytes: bool,
}

/// `discovery.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ModeField {
    #[default]
    Single,
    Milo,
    Kubeconfigs,
}

impl ModeField {
    /// Returns the value in the file.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Milo => "milo",
            Self::Kubeconfigs => "kubeconfigs",
        }
    }
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
        Some("kubeconfigs") => Ok(ModeField::Kubeconfigs),
        Some(other) => {
            let error = format!("must be \"single\", \"milo\" or \"kubeconfigs\", is {other:?}");
            Err(Error::custom(error))
        }
    }
}

fn strategy<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Networking>, D::Error> {
    match text(field)?.as_deref() {
        None => Ok(None),
        Some("Bindings") => Ok(Some(Networking::Bindings)),
        Some("InterfaceClaims") => Ok(Some(Networking::InterfaceClaims)),
        Some("Disabled") => Ok(Some(Networking::Disabled)),
        Some(other) => Err(Error::custom(format!(
            "must be \"Bindings\", \"InterfaceClaims\" or \"Disabled\", is {other:?}"
        ))),
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

fn cluster_names<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<CellName>, D::Error> {
    let names = Option::<Vec<String>>::deserialize(field)?.unwrap_or_default();
    let names = names.into_iter();
    names
        .map(|name| CellName::new(name).map_err(Error::custom))
        .collect()
}

/// Decodes null as the default value.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    field: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(field).map(Option::unwrap_or_default)
}

/// Decodes a text. An empty text means that the field is not set.
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

/// Decodes the text of the file.
///
/// # Errors
///
/// If the text is not YAML, contains an unknown field or an invalid value, or has another version or kind. The error
/// contains the file, the position and the field.
pub(super) fn decode(name: &str, text: &str) -> anyhow::Result<ConfigFile> {
    // The syntax is checked first. If the syntax is broken, the decoder could report an unknown field instead.
    if let Err(error) = serde_saphyr::from_str::<IgnoredAny>(text) {
        bail!(
            "{}: not valid YAML: {}",
            position(name, &error),
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
        let (position, problem) = (position(name, &error), problem(&error));
        match field.as_str() {
            "." | "?" => anyhow!("{position}: {problem}"),
            field => anyhow!("{position}: {field}: {problem}"),
        }
    })?;
    for (field, is_given, expected) in [
        ("apiVersion", file.api_version.is_some(), API_VERSION),
        ("kind", file.kind.is_some(), KIND),
    ] {
        ensure!(is_given, "{name}: {field} is missing, must be {expected:?}");
    }
    Ok(file)
}

/// Returns `FILE:LINE:COLUMN`, or only the file if the position is unknown.
fn position(name: &str, error: &serde_saphyr::Error) -> String {
    error.location().map_or_else(
        || name.to_owned(),
        |at| format!("{name}:{}:{}", at.line(), at.column()),
    )
}

/// Returns the problem in one line, without its position.
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
