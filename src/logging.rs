//! The log of the process, written to stderr by a thread of its own.

mod json;
mod text;
mod writer;

use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{LogArgs, LogFormat};
use writer::LogWriter;

pub(crate) use writer::FlushGuard;

/// Silences warnings of kube-rs: of the watcher, about each attempt of a forbidden watch, and of the client, about each
/// watch that a proxy closes. The caches of `multicluster` log such a problem once if it lasts. The client also logs the
/// texts of answers that cannot be decoded there: `--log-level=info,kube_client::client=warn` shows them.
const QUIET: &str =
    "kube_runtime::watcher=error,kube_client::client=error,kube_client::client::tls=warn";

/// Starts logging. The log is complete when the guard has been dropped.
pub(crate) fn start(args: &LogArgs) -> FlushGuard {
    let filter = format!("{QUIET},{}", args.log_level);
    let tidy = match args.log_format {
        LogFormat::Json => json::bounded,
        LogFormat::Text => writer::unchanged,
    };
    let (writer, guard) = LogWriter::start(std::io::stderr(), tidy);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(writer);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().init(),
        LogFormat::Text => builder
            .with_ansi(false)
            .fmt_fields(text::fields())
            .finish()
            .init(),
    }
    guard
}

/// Registers the metric of the log.
pub(crate) fn register(registry: &mut Registry) {
    registry.register(
        "log_lines_dropped",
        "Log lines that were dropped because stderr was not read fast enough",
        writer::DROPPED.clone(),
    );
}
