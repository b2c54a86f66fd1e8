//! HTTP errors for requests that cannot be answered in their webhook protocol.

use std::fmt::Display;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use thiserror::Error;

use crate::overload::{self, Overloaded};
use crate::status;

/// The reason for an HTTP error.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The limits of one requester and of one project.
    #[error("too many requests of this user or of this project wait for access reviews; try again")]
    TooManyReviews,
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the answer needs {0} bytes, more than --max-bytes-in-flight allows")]
    AnswerTooLarge(usize),
    #[error("the body did not arrive within {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error("the body could not be read: {0}")]
    Unreadable(#[source] axum::Error),
    /// The body is not a valid request of the webhook protocol.
    #[error("{0}")]
    Malformed(String),
}

impl HttpError {
    /// All values of [`Self::reason`].
    pub(crate) const REASONS: [&str; 6] = [
        "overloaded",
        "too_many_reviews",
        "too_large",
        "too_slow",
        "broken",
        "malformed",
    ];

    /// Returns the error of a body that is not a valid request. The message can contain values of the body: the log and
    /// the answer cut it off.
    pub(crate) fn malformed(error: &impl Display) -> Self {
        Self::Malformed(error.to_string())
    }

    /// Returns the value of the `reason` label in metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Overloaded(_) => "overloaded",
            Self::TooManyReviews => "too_many_reviews",
            Self::TooLarge(_) | Self::AnswerTooLarge(_) => "too_large",
            Self::TooSlow(_) => "too_slow",
            Self::Unreadable(_) => "broken",
            Self::Malformed(_) => "malformed",
        }
    }

    pub(crate) fn response(&self) -> Response {
        let (code, reason) = match self {
            Self::Overloaded(_) | Self::TooManyReviews => {
                return overload::response(&self.to_string());
            }
            Self::TooLarge(_) | Self::AnswerTooLarge(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            Self::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Unreadable(_) | Self::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        };
        status::response(code, reason, &self.to_string())
    }
}
