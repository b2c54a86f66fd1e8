//! The log of the process, on stderr.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Args, LogFormat};

/// Starts logging. Directives that cannot be read fall back to `info`, and the log says so.
pub(crate) fn start(args: &Args) {
    let (filter, problem) = match EnvFilter::try_new(&args.log_level) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).finish().init(),
        LogFormat::Text => builder.with_ansi(false).finish().init(),
    }
    if let Some(problem) = problem {
        tracing::warn!(%problem, "--log-level cannot be read, info is logged");
    }
}
