//! Parsers of flag values, in the forms of Go's `flag` package.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::bind_address::{BindAddress, BindAddressError};

pub(super) const DEFAULT_HEALTH_ADDRESS: &str = ":8081";
pub(super) const DEFAULT_LOG_LEVEL: &str = "info";

/// Longest duration of a flag, 290 years. Go's durations end 2 years later.
const DURATION_MAX: Duration = Duration::from_hours(2_540_400);

/// The value of a flag for which the empty text means that the flag is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionalFlag<T>(pub(crate) Option<T>);

/// Why a flag value is not valid.
#[derive(Debug, Error)]
pub(super) enum FlagError {
    #[error("{0:?} is not a feature gate such as Name=false")]
    Gate(String),
    #[error("feature {0:?} does not exist here: remove it, or turn it off")]
    FeatureOn(String),
    #[error("{0:?} is not true or false")]
    Boolean(String),
    #[error("{0:?} is not a length of time such as 5s or 1m30s")]
    Duration(String),
    #[error("{0:?} is too long: at most 2540400h")]
    LongDuration(String),
    #[error("must be longer than 0")]
    ZeroDuration,
    #[error("{0:?} is not a level: off, error, warn, info, debug, trace, or TARGET=LEVEL")]
    LogLevel(String),
    #[error("{directive:?}: {source}")]
    LogDirective {
        directive: String,
        source: ParseError,
    },
}

/// An address; the empty text means the default.
pub(super) fn health_address(text: &str) -> Result<BindAddress, BindAddressError> {
    match text {
        "" => DEFAULT_HEALTH_ADDRESS.parse(),
        text => text.parse(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers can fail")]
pub(super) fn path(text: &str) -> Result<OptionalFlag<PathBuf>, Infallible> {
    Ok(OptionalFlag(
        (!text.is_empty()).then(|| PathBuf::from(text)),
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers can fail")]
pub(super) fn text(text: &str) -> Result<OptionalFlag<String>, Infallible> {
    Ok(OptionalFlag((!text.is_empty()).then(|| text.to_owned())))
}

/// Parses the forms of Go's `strconv.ParseBool`. The empty text means false, the default of every boolean flag here.
pub(super) fn boolean(text: &str) -> Result<bool, FlagError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(FlagError::Boolean(text.to_owned())),
    }
}

/// Parses the directives of a log filter. `tracing` reads a word that is not a level as a target and logs everything of
/// that target; here such a word is an error.
pub(super) fn log_directives(text: &str) -> Result<String, FlagError> {
    if text.is_empty() {
        return Ok(DEFAULT_LOG_LEVEL.to_owned());
    }
    let is_word = |directive: &str| !directive.contains(['=', '[']);
    // The parser of levels accepts the empty text.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    for directive in text.split(',') {
        if is_word(directive) && !is_level(directive) {
            return Err(FlagError::LogLevel(directive.to_owned()));
        }
        EnvFilter::try_new(directive).map_err(|source| FlagError::LogDirective {
            directive: directive.to_owned(),
            source,
        })?;
    }
    Ok(text.to_owned())
}

/// Parses a duration in Go's form, such as `5s` or `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, FlagError> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed.ok().and_then(|time| Duration::try_from(time).ok());
    let time = parsed.ok_or_else(|| FlagError::Duration(text.to_owned()))?;
    match time > DURATION_MAX {
        true => Err(FlagError::LongDuration(text.to_owned())),
        false => Ok(time),
    }
}

/// Parses a duration that must not be zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, FlagError> {
    match duration(text)? {
        Duration::ZERO => Err(FlagError::ZeroDuration),
        time => Ok(time),
    }
}
