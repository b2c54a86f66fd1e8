//! The config file (docs/reference/config.md). Decoding is strict: an unknown field is an error, and a field without
//! effect is an error.

mod file;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use api::CellName;
use certs::Files;
use controllers::cell_controllers::Networking;

use crate::args::{FeatureGates, NETWORKING_INTEGRATION};
use crate::bind_address::BindAddress;
use file::{
    ConfigFile, CustomizationsSection, DiscoverySection, ModeField, ReferencedDataSection,
    TlsSection, WebhookSection,
};

/// Port of the webhook server if none is configured.
const WEBHOOK_PORT: u16 = 9443;

/// The checked configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The metrics server.
    pub(crate) metrics: MetricsServer,
    /// The webhook server for Karmada and API servers; `None` if it is off.
    pub(crate) webhooks: Option<WebhookServer>,
    /// How projects are discovered.
    pub(crate) discovery: DiscoveryMode,
    /// Name of this cell (`discovery.clusterName`).
    pub(crate) cluster_name: Option<CellName>,
    /// Names that this cell had before (`discovery.formerClusterNames`).
    pub(crate) former_cluster_names: Vec<CellName>,
    /// Where a cell claims quota; `None` if it claims none.
    pub(crate) quota: Option<QuotaConfig>,
    /// `networking.strategy`, if it is given.
    networking: Option<Networking>,
    /// `featureFlags.enableReferencedDataGate`: whether new Instances wait for their ConfigMaps and Secrets.
    pub(crate) awaits_data: bool,
    /// `referencedData.resolverUsernames`: the users that may change the annotations about referenced data. If there are
    /// none, admission uses the ServiceAccount of the process.
    pub(crate) resolver_usernames: Vec<String>,
    /// The given fields of the Go manager that have no effect.
    pub(crate) ignored: Vec<&'static str>,
}

/// The way in which projects are discovered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryMode {
    /// The own cluster is the only project.
    Single,
    /// Milo lists the projects.
    Milo(MiloDiscovery),
    /// This directory has a kubeconfig for each project.
    Kubeconfigs(PathBuf),
}

/// The way in which Milo's projects are discovered and reached. A kubeconfig that is not set means the own cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MiloDiscovery {
    /// Whether ProjectControlPlanes are watched, and projects are reached through Services of the cluster.
    pub(crate) internal_service_discovery: bool,
    pub(crate) discovery_kubeconfig: Option<PathBuf>,
    pub(crate) project_kubeconfig: Option<PathBuf>,
}

/// Where a cell claims quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaConfig {
    /// The field of the config file that has the kubeconfig, for error messages.
    pub(crate) field: &'static str,
    pub(crate) kubeconfig: PathBuf,
    /// Whether the path of the kubeconfig's URL is replaced by that of each project. With `discovery.mode: single`, the
    /// kubeconfig is that of the only project.
    pub(crate) per_project: bool,
}

/// The metrics server.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    pub(crate) address: BindAddress,
    /// Whether the server uses TLS and answers only users that the own cluster allows to `get` `/metrics`.
    pub(crate) secure: bool,
    pub(crate) files: Files,
}

/// The webhook server.
#[derive(Debug)]
pub(crate) struct WebhookServer {
    pub(crate) address: BindAddress,
    /// The address of the interpreter, if it is not `address`.
    pub(crate) interpreter: Option<BindAddress>,
    pub(crate) files: Files,
    /// The accepted names of the clients of admission. An empty list accepts every certificate of the CA. `None` means
    /// that admission needs no client certificate.
    pub(crate) clients: Option<Vec<String>>,
    /// The directory of the customizations of other kinds, if they are served.
    pub(crate) customizations: Option<PathBuf>,
}

impl Config {
    /// Reads the file. If there is no file, every field has its default.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not valid. The error contains the file and the field. If the file cannot be
    /// decoded, the error also contains the line.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Self::of(ConfigFile::default());
        };
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Returns how a cell makes networks: as the file says, else as the feature gate says, else not at all.
    ///
    /// # Errors
    ///
    /// If the file and the feature gate contradict each other.
    pub(crate) fn networking(&self, gates: FeatureGates) -> anyhow::Result<Networking> {
        let is_on = gates.networking_integration;
        let strategy = self.networking.unwrap_or(match is_on {
            Some(true) => Networking::InterfaceClaims,
            Some(false) | None => Networking::Disabled,
        });
        let is_of_gate = strategy == Networking::InterfaceClaims;
        ensure!(
            is_on.is_none_or(|is_on| is_on == is_of_gate),
            "networking.strategy in the file of --server-config is {strategy:?}, and \
             --feature-gates={NETWORKING_INTEGRATION}={} means another strategy: remove one of them",
            is_on.unwrap_or_default()
        );
        Ok(strategy)
    }

    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let file = file::decode(name, text)?;
        Self::of(file).with_context(|| name.to_owned())
    }

    fn of(file: ConfigFile) -> anyhow::Result<Self> {
        let ignored = file.ignored();
        let ConfigFile {
            metrics_server,
            webhook_server,
            discovery,
            networking,
            feature_flags,
            referenced_data,
            interpreter_customizations,
            ..
        } = file;
        let customizations = interpreter_customizations.checked()?;
        ensure!(
            customizations.is_none() || webhook_server.is_some(),
            "interpreterCustomizations.directory has no effect without webhookServer: add webhookServer, or remove it"
        );
        Ok(Self {
            metrics: MetricsServer {
                address: metrics_server.bind_address.unwrap_or(BindAddress::Off),
                secure: metrics_server.secure_serving.unwrap_or(true),
                files: metrics_server.tls.files("k8s-metrics-server"),
            },
            webhooks: webhook_server
                .map(|server| server.checked(customizations))
                .transpose()?,
            cluster_name: discovery.cluster_name.clone(),
            former_cluster_names: discovery.former_cluster_names.clone(),
            quota: discovery.quota(),
            networking: networking.strategy,
            awaits_data: feature_flags.enable_referenced_data_gate,
            discovery: discovery.checked()?,
            resolver_usernames: referenced_data.checked()?,
            ignored,
        })
    }
}

impl WebhookSection {
    fn checked(self, customizations: Option<PathBuf>) -> anyhow::Result<WebhookServer> {
        ensure!(
            self.client_ca_name.is_some() || self.client_subject_names.is_empty(),
            "webhookServer.clientSubjectNames has no effect without webhookServer.clientCAName: set the file of the CA \
             that signs the certificates of API servers, or remove the names"
        );
        ensure!(
            !self.client_subject_names.iter().any(String::is_empty),
            "webhookServer.clientSubjectNames contains an empty name: remove it"
        );
        let port = match self.port {
            0 => WEBHOOK_PORT,
            port => port,
        };
        ensure!(
            self.interpreter_port != port,
            "webhookServer.interpreterPort is {port}, the port of webhookServer: set another port, or remove the field"
        );
        let mut files = self.tls.files("k8s-webhook-server");
        files.client_authorities.clone_from(&self.client_ca_name);
        let address = |port| BindAddress::At {
            host: self.host.clone(),
            port,
        };
        Ok(WebhookServer {
            address: address(port),
            interpreter: (self.interpreter_port != 0).then(|| address(self.interpreter_port)),
            files,
            clients: self.client_ca_name.map(|_| self.client_subject_names),
            customizations,
        })
    }
}

impl DiscoverySection {
    /// Returns where quota is claimed. Milo's projects have a second choice: the credentials that discovery uses for
    /// them.
    fn quota(&self) -> Option<QuotaConfig> {
        let per_project = matches!(self.mode, ModeField::Milo);
        let config = |field, path: &Option<PathBuf>| {
            path.clone().map(|kubeconfig| QuotaConfig {
                field,
                kubeconfig,
                per_project,
            })
        };
        let own = config("quotaKubeconfigPath", &self.quota_kubeconfig_path);
        let projects = &self.project_kubeconfig_path;
        own.or_else(|| config("projectKubeconfigPath", projects).filter(|_| per_project))
    }

    fn checked(self) -> anyhow::Result<DiscoveryMode> {
        self.check_fields()?;
        match self.mode {
            ModeField::Single => Ok(DiscoveryMode::Single),
            ModeField::Milo => Ok(DiscoveryMode::Milo(MiloDiscovery {
                internal_service_discovery: self.internal_service_discovery.unwrap_or_default(),
                discovery_kubeconfig: self.discovery_kubeconfig_path,
                project_kubeconfig: self.project_kubeconfig_path,
            })),
            ModeField::Kubeconfigs => {
                let directory = self.project_kubeconfig_directory.context(
                    "discovery.projectKubeconfigDirectory is missing: discovery.mode \"kubeconfigs\" needs the directory \
                     with the kubeconfigs of the projects",
                )?;
                Ok(DiscoveryMode::Kubeconfigs(directory))
            }
        }
    }

    /// Checks that no field of another mode is given.
    fn check_fields(&self) -> anyhow::Result<()> {
        let is_internal = self.internal_service_discovery.unwrap_or_default();
        let (milo, kubeconfigs) = (ModeField::Milo, ModeField::Kubeconfigs);
        for (field, of, is_given) in [
            ("internalServiceDiscovery", milo, is_internal),
            (
                "discoveryKubeconfigPath",
                milo,
                self.discovery_kubeconfig_path.is_some(),
            ),
            (
                "projectKubeconfigPath",
                milo,
                self.project_kubeconfig_path.is_some(),
            ),
            (
                "projectKubeconfigDirectory",
                kubeconfigs,
                self.project_kubeconfig_directory.is_some(),
            ),
        ] {
            ensure!(
                !is_given || self.mode == of,
                "discovery.{field} has no effect in discovery.mode {:?}: remove it, or set the mode to {:?}",
                self.mode.as_str(),
                of.as_str()
            );
        }
        let own = self.cluster_name.as_ref();
        ensure!(
            own.is_none_or(|own| !self.former_cluster_names.contains(own)),
            "discovery.formerClusterNames contains discovery.clusterName: remove it"
        );
        ensure!(
            self.mode != kubeconfigs || self.quota_kubeconfig_path.is_none(),
            "discovery.quotaKubeconfigPath leads to one API server, and discovery.mode \"kubeconfigs\" has one for each \
             project: remove it; quota cannot be enforced for these projects"
        );
        Ok(())
    }
}

impl CustomizationsSection {
    fn checked(self) -> anyhow::Result<Option<PathBuf>> {
        let directory = self.directory;
        ensure!(
            directory
                .as_ref()
                .is_none_or(|it| !it.as_os_str().is_empty()),
            "interpreterCustomizations.directory is empty: set a directory, or remove the field"
        );
        Ok(directory)
    }
}

impl ReferencedDataSection {
    fn checked(self) -> anyhow::Result<Vec<String>> {
        ensure!(
            !self.resolver_usernames.iter().any(String::is_empty),
            "referencedData.resolverUsernames contains an empty name: remove it"
        );
        Ok(self.resolver_usernames)
    }
}

impl TlsSection {
    /// Returns the files. The default directory is the directory in the Go manager's deployment.
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
            // CSI drivers and cert-manager use this name.
            authorities: "ca.crt".to_owned(),
            client_authorities: None,
        }
    }
}
