//! The log of the process, on stderr.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{LogArgs, LogFormat};

/// What is said by others and by us: a watch that is forbidden, at each try. Our caches say it once. `--log-level` may say
/// otherwise.
const SAID_TWICE: &str = "kube_runtime::watcher=error";

/// Starts logging.
pub(crate) fn start(args: &LogArgs) {
    let filter = format!("{SAID_TWICE},{}", args.log_level);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().init(),
        LogFormat::Text => builder.with_ansi(false).finish().init(),
    }
}
