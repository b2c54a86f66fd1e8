//! The flags of the log.

use clap::ValueEnum;

use super::values::{DEFAULT_LOG_LEVEL, log_directives};

/// The flags of the log.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Format of the log on stderr.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Log level, or comma-separated directives such as `info,multicluster=debug`.
    #[arg(long, value_name = "DIRECTIVES", default_value = DEFAULT_LOG_LEVEL, value_parser = log_directives)]
    pub(crate) log_level: String,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Plain text lines.
    Text,
}
