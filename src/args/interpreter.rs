//! Flags of `compute-federation interpreter`.

use std::path::PathBuf;

use clap::ArgGroup;

use super::log::LogArgs;
use super::server::ServerArgs;
use crate::bind_address::BindAddress;

/// The flags of the interpreter.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("certificate").required(true).args(["cert_dir", "self_signed"]))]
pub(crate) struct InterpreterArgs {
    /// Listen address. Empty means all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: String,

    /// Listen port. 0 means a free port.
    #[arg(long, default_value_t = 9443)]
    pub(crate) port: u16,

    /// Directory with `tls.crt` and `tls.key`, as written by a CSI driver or a Secret volume. Either this or
    /// --self-signed is required.
    #[arg(long, value_name = "DIR")]
    pub(crate) cert_dir: Option<PathBuf>,

    /// Serve a new self-signed certificate, and print the ResourceInterpreterWebhookConfiguration that registers this
    /// server. For trials only: every start makes another certificate.
    #[arg(long)]
    pub(crate) self_signed: bool,

    /// With --self-signed, the URL at which Karmada reaches this server. If unset, it is made from the listen address
    /// and port.
    #[arg(long, conflicts_with = "cert_dir")]
    pub(crate) url: Option<String>,

    /// Listen address of /healthz and /readyz, over HTTP. `:8081` listens at all addresses, `0` turns the server off.
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub(crate) health_probe_bind_address: BindAddress,

    /// Listen address of /metrics, over HTTP. `:8080` listens at all addresses, `0` turns the server off.
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub(crate) metrics_bind_address: BindAddress,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}
