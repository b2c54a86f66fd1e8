//! Flags of the Go manager that have no meaning here. Existing manifests pass them. A flag that can be ignored without
//! harm is accepted with a warning. Any other flag is refused with the reason.

use clap::ArgAction;

use super::values::boolean;

/// The flags of the Go manager that have no effect.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Flags of the Go manager without effect")]
pub(crate) struct IgnoredArgs {
    /// Ignored: see --log-format and --log-level.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    zap_devel: Option<bool>,

    /// Ignored: see --log-format.
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<String>,

    /// Ignored: see --log-level.
    #[arg(long, value_name = "LEVEL")]
    zap_log_level: Option<String>,

    /// Ignored.
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,

    /// Ignored: the log has times of RFC 3339.
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,

    /// Ignored: instance types have no catalog here.
    #[arg(long, value_name = "TIME")]
    instance_type_deprecation_grace_period: Option<String>,

    /// Ignored: instance types have no catalog here.
    #[arg(long, value_name = "TYPE")]
    instance_type_default: Option<String>,
}

impl IgnoredArgs {
    /// Returns the flags that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let Self {
            zap_devel,
            zap_encoder,
            zap_log_level,
            zap_stacktrace_level,
            zap_time_encoding,
            instance_type_deprecation_grace_period,
            instance_type_default,
        } = self;
        let flags = [
            ("--zap-devel", zap_devel.is_some()),
            ("--zap-encoder", zap_encoder.is_some()),
            ("--zap-log-level", zap_log_level.is_some()),
            ("--zap-stacktrace-level", zap_stacktrace_level.is_some()),
            ("--zap-time-encoding", zap_time_encoding.is_some()),
            (
                "--instance-type-deprecation-grace-period",
                instance_type_deprecation_grace_period.is_some(),
            ),
            ("--instance-type-default", instance_type_default.is_some()),
        ];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag).collect()
    }
}
