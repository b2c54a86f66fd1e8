//! The log of the process, written to stderr.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{LogArgs, LogFormat};

/// Silences a warning of kube-runtime that is repeated at each attempt of a forbidden watch. The caches of
/// `multicluster` log the problem once. `--log-level` can override this filter.
const QUIET: &str = "kube_runtime::watcher=error";

/// Starts logging.
pub(crate) fn start(args: &LogArgs) {
    let filter = format!("{QUIET},{}", args.log_level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().init(),
        LogFormat::Text => builder.with_ansi(false).finish().init(),
    }
}
