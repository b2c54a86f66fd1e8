//! The command line, in the forms of Go's `flag` package, because manifests pass them (compute.md 5.2 and 5.3).

mod interpreter;
mod server;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

pub(crate) use interpreter::InterpreterArgs;
pub(crate) use server::ServerArgs;
pub(crate) use values::OptionalFlag;

use crate::bind_address::BindAddress;
use values::{
    DEFAULT_HEALTH_ADDRESS, DEFAULT_LOG_LEVEL, boolean, duration, health_address, log_directives,
    path, text,
};

/// Carries Datum's WorkloadDeployments through a Karmada hub to the cells, and their status back.
#[derive(Clone, Debug, Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) manager: Args,
}

/// What there is beside the manager.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Karmada's resource interpreter alone, without any kubeconfig.
    Interpreter(InterpreterArgs),
}

/// The flags of the manager.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the process's own cluster: the project in the management plane, the cell in a cell. Else KUBECONFIG,
    /// else that of the pod.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) kubeconfig: OptionalFlag<PathBuf>,

    /// Config file (`kind: WorkloadOperator`). Without one, defaults apply.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) server_config: OptionalFlag<PathBuf>,

    /// Kubeconfig of the hub.
    #[arg(long, value_name = "FILE", alias = "downstream-kubeconfig", value_parser = path, default_value = "")]
    pub(crate) federation_kubeconfig: OptionalFlag<PathBuf>,

    /// Context in the kubeconfig of the hub, if not the current one.
    #[arg(long, value_name = "NAME", alias = "downstream-context", value_parser = text, default_value = "")]
    pub(crate) federation_context: OptionalFlag<String>,

    /// Run the controllers of the management plane.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_management_controllers: bool,

    /// Run the controllers of a cell.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_cell_controllers: bool,

    /// Only write while holding a lease in the own cluster.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) leader_elect: bool,

    /// Namespace of the lease; that of the pod, if this is one.
    #[arg(long, value_name = "NAMESPACE", value_parser = text, default_value = "")]
    pub(crate) leader_elect_namespace: OptionalFlag<String>,

    /// Address of /healthz and /readyz; `:8081` means all addresses, `0` means off.
    #[arg(long, value_name = "ADDRESS", value_parser = health_address, default_value = DEFAULT_HEALTH_ADDRESS)]
    pub(crate) health_probe_bind_address: BindAddress,

    /// How long a new authority is in the caBundle before a certificate of it is served.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) ca_bundle_delay: Duration,

    /// How long an authority stays in the caBundle that is not needed here: longer than it takes until every replica serves
    /// a new certificate.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    pub(crate) ca_bundle_retirement: Duration,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Form of the log.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// What is logged: a level, or directives such as `info,multicluster=debug`.
    #[arg(long, value_name = "DIRECTIVES", default_value = DEFAULT_LOG_LEVEL, value_parser = log_directives)]
    pub(crate) log_level: String,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Lines for people.
    Text,
}

impl CommandLine {
    pub(crate) fn parse_process() -> Self {
        Self::parse_from(go_forms(std::env::args_os()))
    }
}

/// Go's flags may begin with one dash: `-leader-elect` is `--leader-elect`.
fn go_forms(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    args.enumerate().map(|(index, arg)| match arg.to_str() {
        Some(text)
            if index > 0 && text.len() > 2 && text.starts_with('-') && !text.starts_with("--") =>
        {
            format!("-{text}").into()
        }
        _ => arg,
    })
}
