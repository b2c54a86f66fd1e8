//! Flags of `compute-federation interpreter`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ArgAction;

use super::log::LogArgs;
use super::server::ServerArgs;
use super::values::{OptionalFlag, boolean, path, text};
use crate::bind_address::BindAddress;

/// The flags of the interpreter.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InterpreterArgs {
    /// Listen address. Empty means all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: String,

    /// Listen port. 0 means a free port.
    #[arg(long, default_value_t = 9443)]
    pub(crate) port: u16,

    /// Directory with `tls.crt` and `tls.key`, as written by a CSI driver or a Secret volume. Either this or
    /// --self-signed is required.
    #[arg(long, value_name = "DIR", value_parser = path, default_value = "")]
    cert_dir: OptionalFlag<PathBuf>,

    /// Serve a new self-signed certificate, and print the ResourceInterpreterWebhookConfiguration that registers this
    /// server. For trials only: every start makes another certificate.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    self_signed: bool,

    /// With --self-signed, the URL at which Karmada reaches this server. If unset, it is made from the listen address
    /// and port.
    #[arg(long, value_name = "URL", value_parser = text, default_value = "")]
    url: OptionalFlag<String>,

    /// Directory with files of ResourceInterpreterCustomizations. Their Lua scripts answer for the kinds that are not
    /// interpreted natively. Changed files are read again.
    #[arg(long, value_name = "DIR", value_parser = path, default_value = "")]
    pub(crate) customizations: OptionalFlag<PathBuf>,

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

    #[command(subcommand)]
    pub(crate) command: Option<InterpreterCommand>,
}

/// The subcommands of the interpreter.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum InterpreterCommand {
    /// Prints the ResourceInterpreterWebhookConfiguration of the kinds that customizations interpret.
    Registration(RegistrationArgs),
}

/// The flags of `interpreter registration`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RegistrationArgs {
    /// Directory with files of ResourceInterpreterCustomizations.
    #[arg(long, value_name = "DIR")]
    pub(crate) customizations: PathBuf,

    /// URL at which Karmada reaches the interpreter. If unset, the Service of the deployed registration is used.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// File with the CA of the interpreter's certificate, in PEM. If unset, the caBundle must be filled in.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// The source of the certificate of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateSource<'a> {
    /// The files of a directory.
    Directory(&'a Path),
    /// A new certificate for the host of the URL. `None` means the URL of the listen address.
    SelfSigned { url: Option<&'a str> },
}

impl InterpreterArgs {
    /// Returns the source of the certificate. Flags can be set to their empty values, so clap cannot check that one flag
    /// excludes another.
    ///
    /// # Errors
    ///
    /// If the flags name no source or two sources, or a URL that has no effect.
    pub(crate) fn certificate_source(&self) -> anyhow::Result<CertificateSource<'_>> {
        let url = self.url.0.as_deref();
        match (self.cert_dir.0.as_deref(), self.self_signed) {
            (None, true) => Ok(CertificateSource::SelfSigned { url }),
            (Some(_), false) if url.is_some() => bail!("--url has no effect without --self-signed"),
            (Some(directory), false) => Ok(CertificateSource::Directory(directory)),
            (None, false) => bail!("one of --cert-dir and --self-signed is required"),
            (Some(_), true) => bail!("--cert-dir and --self-signed exclude each other"),
        }
    }
}
