//! The command line (docs/reference/flags.md). It accepts the forms of Go's `flag` package, because existing manifests
//! use them.

mod cell_rules;
mod features;
mod ignored;
mod interpret;
mod interpreter;
mod log;
mod roles;
mod server;
#[cfg(test)]
mod tests;
mod values;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand};

pub(crate) use cell_rules::CellRulesArgs;
pub(crate) use features::{FeatureGates, NETWORKING_INTEGRATION};
pub(crate) use ignored::IgnoredArgs;
pub(crate) use interpret::{
    ColorChoice, HubObject, InterpretArgs, InterpretTask, ObjectSource, OutputForm,
};
pub(crate) use interpreter::{
    CertificateSource, InterpreterArgs, InterpreterCommand, RegistrationArgs,
};
pub(crate) use log::{LogArgs, LogFormat};
pub(crate) use roles::RoleArgs;
pub(crate) use server::ServerArgs;
pub(crate) use values::OptionalFlag;
pub(crate) use verify::VerifyArgs;

use crate::bind_address::BindAddress;
use features::feature_gates;
use values::{DEFAULT_HEALTH_ADDRESS, boolean, duration, health_address, path, text};

/// Carries Datum's WorkloadDeployments through a Karmada hub to the cells, and their status back.
#[derive(Clone, Debug, Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    // The last of a repeated flag wins, as in Go.
    args_override_self = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) manager: Args,
}

/// The subcommands beside the manager.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs only Karmada's resource interpreter. Needs no kubeconfig.
    Interpreter(Box<InterpreterArgs>),
    /// Prints what the interpreter answers about one object. Writes nothing.
    Interpret(Box<InterpretArgs>),
    /// Compares the customizations of the hub with the native interpreter, over all objects of the hub. Writes nothing.
    Verify(Box<VerifyArgs>),
    /// Shows what CellRules would change in each cell. Writes nothing.
    Rules(Box<CellRulesArgs>),
    /// Prints the pages of docs/reference/ as one JSON document. `cargo xtask docs` renders the pages.
    #[command(hide = true)]
    Reference,
}

/// The flags of the manager.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the process's own cluster. With `discovery.mode: single`, this cluster is the project. For a
    /// process in a cell, it is the cell; for the process of a lower hub, it is the lower hub. If unset, the KUBECONFIG
    /// variable is used, then the service account of the pod.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) kubeconfig: OptionalFlag<PathBuf>,

    /// Config file (`kind: WorkloadOperator`). If unset, every field has its default.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) server_config: OptionalFlag<PathBuf>,

    /// Kubeconfig of the hub; for the process of a lower hub, of the upper hub. Required by
    /// --enable-management-controllers, --enable-cell-controllers and --enable-lower-hub-controllers. Without the last
    /// two, a webhook server also uses it to keep the caBundle of the interpreter registration current.
    #[arg(long, value_name = "FILE", aliases = ["downstream-kubeconfig", "karmada-kubeconfig"], value_parser = path, default_value = "")]
    pub(crate) federation_kubeconfig: OptionalFlag<PathBuf>,

    /// Context in the kubeconfig of the hub. If unset, its current context is used.
    #[arg(long, value_name = "NAME", alias = "downstream-context", value_parser = text, default_value = "")]
    pub(crate) federation_context: OptionalFlag<String>,

    #[command(flatten)]
    pub(crate) roles: RoleArgs,

    /// Features that are on or off, as in `Name=true,Other=false`. NetworkingIntegration makes the Instances of a cell
    /// wait for their networks: it sets the default of networking.strategy in the config file to InterfaceClaims. Any
    /// other feature can only be off.
    #[arg(long, value_name = "GATES", value_parser = feature_gates, default_value = "")]
    pub(crate) feature_gates: FeatureGates,

    /// Elect a leader with a Lease in the process's own cluster. Only the leader writes. Without election, every
    /// replica writes.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) leader_elect: bool,

    /// Namespace of the Lease. If unset, the namespace of the pod is used; outside a pod it is required.
    #[arg(long, value_name = "NAMESPACE", value_parser = text, default_value = "")]
    pub(crate) leader_elect_namespace: OptionalFlag<String>,

    /// Listen address of /healthz and /readyz, over HTTP. `:8081` listens at all addresses, `0` turns the server off.
    #[arg(long, value_name = "ADDRESS", value_parser = health_address, default_value = DEFAULT_HEALTH_ADDRESS)]
    pub(crate) health_probe_bind_address: BindAddress,

    /// How long a new CA must be in the caBundle of the webhook registrations before a certificate that it signed is
    /// served. Callers need this time to read the new caBundle.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) ca_bundle_delay: Duration,

    /// How long a CA stays in the caBundle after this replica stopped serving certificates of this CA. This time must
    /// be longer than the time in which every replica gets a new certificate.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    pub(crate) ca_bundle_retirement: Duration,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) ignored: IgnoredArgs,
}

impl CommandLine {
    pub(crate) fn parse_process() -> Self {
        Self::parse_from(go_forms(std::env::args_os()))
    }
}

/// Adds the second dash to flags with one dash, which Go allows: `-leader-elect` means `--leader-elect`. The flags of
/// `interpret`, `rules` and `verify` have the forms of kubectl: `-ojson` means `-o json`.
fn go_forms(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_go = true;
    args.enumerate().map(move |(index, arg)| {
        is_go &= index != 1 || !matches!(arg.to_str(), Some("interpret" | "rules" | "verify"));
        match arg.to_str() {
            Some(text)
                if is_go
                    && index > 0
                    && text.len() > 2
                    && text.starts_with('-')
                    && !text.starts_with("--") =>
            {
                format!("-{text}").into()
            }
            _ => arg,
        }
    })
}
