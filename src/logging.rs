//! The log of the process, on stderr.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{LogArgs, LogFormat};

/// Starts logging.
pub(crate) fn start(args: &LogArgs) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&args.log_level))
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().init(),
        LogFormat::Text => builder.with_ansi(false).finish().init(),
    }
}
