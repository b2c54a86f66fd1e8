//! Forwards requests to an API server without changes.

use anyhow::Context;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kube::Client;

use crate::status_error::StatusError;

/// The credentials of a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// Those of the client that forwards.
    Own,
    /// Those in the header of the caller.
    OfCaller,
}

/// Hop-by-hop headers, and headers that the client sets itself.
const NOT_FORWARDED: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns a client for forwarding. The client sends each request once, and has no timeout.
pub(crate) fn client(mut config: kube::Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    config.read_timeout = None;
    Client::try_from(config).context("a client for the requests of others")
}

/// Forwards a request. The body of the returned answer is a stream.
///
/// # Errors
///
/// The error response for the caller, if the API server sends no response.
pub(crate) async fn forward(
    client: &Client,
    mut parts: Parts,
    body: Incoming,
    credentials: Credentials,
) -> Result<http::Response<kube::client::Body>, StatusError> {
    parts.version = http::Version::HTTP_11;
    strip(&mut parts.headers);
    if credentials == Credentials::Own {
        parts.headers.remove(header::AUTHORIZATION);
    }
    // Only response bodies are streamed, because request bodies are small.
    let body = body.collect().await.map_err(|error| {
        StatusError::new(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string())
    })?;
    let body = kube::client::Body::from(body.to_bytes());
    let answer = client.send(Request::from_parts(parts, body)).await;
    let mut answer = answer.map_err(|error| {
        StatusError::new(StatusCode::BAD_GATEWAY, "BadGateway", &error.to_string())
    })?;
    strip(answer.headers_mut());
    Ok(answer)
}

fn strip(headers: &mut HeaderMap) {
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
}
