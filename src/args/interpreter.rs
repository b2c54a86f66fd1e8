//! Flags of `compute-federation interpreter`.

use std::path::PathBuf;

use clap::ArgGroup;

use super::{LogArgs, ServerArgs};
use crate::bind_address::BindAddress;

/// The flags of the interpreter.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("certificate").required(true).args(["cert_dir", "self_signed"]))]
pub(crate) struct InterpreterArgs {
    /// Address to listen at; empty means all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: String,

    /// Port to listen at; 0 means a free one.
    #[arg(long, default_value_t = 9443)]
    pub(crate) port: u16,

    /// Directory with `tls.crt` and `tls.key`, as a CSI driver or a Secret volume writes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) cert_dir: Option<PathBuf>,

    /// For trying it out: serve with a new certificate that signs itself, and print the
    /// ResourceInterpreterWebhookConfiguration that registers this server.
    #[arg(long)]
    pub(crate) self_signed: bool,

    /// With --self-signed: where Karmada reaches this server, if not at its address and port.
    #[arg(long, conflicts_with = "cert_dir")]
    pub(crate) url: Option<String>,

    /// Address of /healthz and /readyz; `:8081` means all addresses, `0` means off.
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub(crate) health_probe_bind_address: BindAddress,

    /// Address of /metrics, without TLS; `0` means off.
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub(crate) metrics_bind_address: BindAddress,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}
