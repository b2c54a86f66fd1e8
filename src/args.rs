//! The command line, in the forms of Go's `flag` package, because manifests pass them (compute.md 5.2 and 5.3).

mod interpreter;
mod server;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub(crate) use interpreter::InterpreterArgs;
pub(crate) use server::ServerArgs;

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
    Interpreter(Box<InterpreterArgs>),
    /// Prints what the program knows about itself as one JSON document; `cargo xtask docs` renders it.
    #[command(hide = true)]
    Reference,
}

/// The flags of the manager.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kubeconfig of the process's own cluster: the project in the management plane, the cell in a cell. Else KUBECONFIG,
    /// else that of the pod.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) kubeconfig: Unset<PathBuf>,

    /// Config file (`kind: WorkloadOperator`). Without one, defaults apply.
    #[arg(long, value_name = "FILE", value_parser = path, default_value = "")]
    pub(crate) server_config: Unset<PathBuf>,

    /// Kubeconfig of the hub.
    #[arg(long, value_name = "FILE", alias = "downstream-kubeconfig", value_parser = path, default_value = "")]
    pub(crate) federation_kubeconfig: Unset<PathBuf>,

    /// Context in the kubeconfig of the hub, if not the current one.
    #[arg(long, value_name = "NAME", alias = "downstream-context", value_parser = text, default_value = "")]
    pub(crate) federation_context: Unset<String>,

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
    pub(crate) leader_elect_namespace: Unset<String>,

    /// Address of /healthz and /readyz; `:8081` means all addresses, `0` means off.
    #[arg(long, value_name = "ADDRESS", value_parser = health_address, default_value = DEFAULT_HEALTH_ADDRESS)]
    pub(crate) health_probe_bind_address: BindAddress,

    /// How long a new authority is in the caBundle before a certificate of it is served.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(crate) ca_bundle_delay: Duration,

    /// How long an authority stays in the caBundle that is not needed here: longer than it takes until every replica serves
    /// a new certificate.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    pub(crate) ca_bundle_retirement: Duration,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Form of the log.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// What is logged: a level, or directives such as `info,multicluster=debug`.
    #[arg(long, value_name = "DIRECTIVES", default_value = DEFAULT_LOG_LEVEL, value_parser = directives)]
    pub(crate) log_level: String,
}

const DEFAULT_HEALTH_ADDRESS: &str = ":8081";
const DEFAULT_LOG_LEVEL: &str = "info";

/// A flag whose empty value means that it was not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unset<T>(pub(crate) Option<T>);

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Lines for people.
    Text,
}

/// Where to listen, in Go's forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindAddress {
    /// Not at all.
    Off,
    /// At this address; an empty host means all.
    At {
        /// Host name or IP address.
        host: String,
        /// Port number.
        port: u16,
    },
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let error = || {
            format!(
                "{text:?} is not an address: \"host:port\", \":port\" for all addresses, or \"0\" for off"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port = port
            .parse()
            .map_err(|_| format!("the port of {text:?} must be 1-65535"))?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(host) => host,
            None if host.contains(':') => return Err(error()),
            None => host,
        };
        Ok(Self::At {
            host: host.to_owned(),
            port,
        })
    }
}

fn health_address(text: &str) -> Result<BindAddress, String> {
    if text.is_empty() {
        DEFAULT_HEALTH_ADDRESS.parse()
    } else {
        text.parse()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers can fail")]
fn path(text: &str) -> Result<Unset<PathBuf>, String> {
    Ok(Unset((!text.is_empty()).then(|| PathBuf::from(text))))
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers can fail")]
fn text(text: &str) -> Result<Unset<String>, String> {
    Ok(Unset((!text.is_empty()).then(|| text.to_owned())))
}

/// Go's `strconv.ParseBool`; empty means unset, and every boolean here is false then.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!("{text:?} is not true or false")),
    }
}

/// Directives of a log filter. `tracing` takes a word that is no level for a target of which everything is logged; here it
/// is a mistake.
fn directives(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(DEFAULT_LOG_LEVEL.to_owned());
    }
    let is_word = |directive: &str| !directive.contains(['=', '[']);
    // The parser of levels takes nothing for one.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    for directive in text.split(',') {
        if is_word(directive) && !is_level(directive) {
            return Err(format!(
                "{directive:?} is not a level: off, error, warn, info, debug, trace, or TARGET=LEVEL"
            ));
        }
        EnvFilter::try_new(directive).map_err(|error| format!("{directive:?}: {error}"))?;
    }
    Ok(text.to_owned())
}

/// A length of time in Go's form, such as `5s` or `1m30s`.
fn time(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed.ok().and_then(|time| Duration::try_from(time).ok());
    parsed.ok_or_else(|| format!("{text:?} is not a length of time such as 5s or 1m30s"))
}

/// A time that is needed.
fn positive_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        time => Ok(time),
    }
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
