//! Turns refusals (answers with a status from 400 on) into errors. The error of a 429 or 503 contains the Retry-After.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use http::{Response, StatusCode, header};
use http_body::Body;
use hyper::body::Buf;
use kube::core::Status;
use kube::core::response::StatusDetails;
use tower::BoxError;

/// Maximum number of bytes that are read from the body of a refusal. API servers send less than 1 KiB, or some 10 KiB
/// if they name many invalid fields. A proxy may send a page.
pub(super) const BODY_MAX: usize = 256 * 1024;
/// The reason that kube sets if a body is not a `Status` (`handle_api_errors` in kube-client 5.0).
pub(super) const NO_STATUS: &str = "Failed to parse error data";

/// Returns the Retry-After of a 429 or 503. API servers send it in seconds. A date is ignored.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let refusals = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
    ];
    if !refusals.contains(&response.status()) {
        return None;
    }
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Returns whether the response is a refusal: every code from 400 on.
pub(super) fn is_refusal<B>(response: &Response<B>) -> bool {
    let status = response.status();
    status.is_client_error() || status.is_server_error()
}

/// Returns the error that kube would make of a refusal. The Retry-After is added as `details.retryAfterSeconds` of the
/// `Status`. A body with another code than the response is not a `Status` of an API server, whatever it contains.
///
/// kube takes any JSON object as a `Status`. The error then has the code 0, which says nothing about an outage. kube
/// also drops the headers of answers. API priority and fairness sends Retry-After only as a header, with plain text as
/// the body. client-go stores the header in the same field (`NewGenericServerResponse`). If a layer below a client
/// returns a [`kube::Error`], the caller of the client gets this error unchanged.
pub(super) async fn refusal<B>(response: Response<B>) -> kube::Error
where
    B: Body<Error: Into<BoxError>>,
{
    let code = response.status().as_u16();
    let wait = retry_after(&response);
    let body = match read(response.into_body()).await {
        Ok(body) => body,
        Err(error) => return kube::Error::Service(error),
    };
    // The limit of the body may have split a character.
    let text = String::from_utf8_lossy(&body);
    let mut status = serde_json::from_str(&text)
        .ok()
        .filter(|status: &Status| status.code == code)
        .unwrap_or_else(|| Status::failure(text.trim(), NO_STATUS).with_code(code));
    let Some(wait) = wait else {
        return kube::Error::Api(status.boxed());
    };
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    details.retry_after_seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
    kube::Error::Api(status.boxed())
}

/// Reads the beginning of a body.
async fn read<B>(body: B) -> Result<Vec<u8>, BoxError>
where
    B: Body<Error: Into<BoxError>>,
{
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while bytes.len() < BODY_MAX
        && let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await
    {
        let Ok(mut data) = frame.map_err(Into::into)?.into_data() else {
            continue;
        };
        while data.has_remaining() && bytes.len() < BODY_MAX {
            let chunk = data.chunk();
            let part = chunk.len().min(BODY_MAX - bytes.len());
            bytes.extend_from_slice(chunk.get(..part).unwrap_or_default());
            data.advance(part);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_from_429_and_503_in_seconds() {
        for (code, header, expected) in [
            (429, "1", Some(1)),
            (503, "30", Some(30)),
            (200, "1", None),
            (301, "1", None),
            (429, "-1", None),
            (429, "Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            let response = Response::builder().status(code);
            let response = response.header("retry-after", header).body(()).unwrap();
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&response), expected, "{code} {header}");
        }
        let silent = Response::builder().status(429).body(()).unwrap();
        assert_eq!(retry_after(&silent), None);
    }
}
