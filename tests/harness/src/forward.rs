//! Requests that are sent on to an API server as they came.

use anyhow::Context;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kube::Client;

use crate::refusal::Refusal;

/// Headers that belong to one connection, or that a client sets anew.
const NOT_FORWARDED: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A client that sends on what others ask: each request once, and without limits in time.
pub(crate) fn client(mut config: kube::Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    config.read_timeout = None;
    Client::try_from(config).context("a client for the requests of others")
}

/// Sends a request on in the name of whom the client is, and gives the beginning of its answer.
///
/// # Errors
///
/// What is to be answered if there is no answer.
pub(crate) async fn forward(
    client: &Client,
    mut parts: Parts,
    body: Incoming,
) -> Result<http::Response<kube::client::Body>, Refusal> {
    parts.version = http::Version::HTTP_11;
    strip(&mut parts.headers);
    // Only answers are streams: what API servers are sent is small.
    let body = body
        .collect()
        .await
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string()))?;
    let body = kube::client::Body::from(body.to_bytes());
    let answer = client.send(Request::from_parts(parts, body)).await;
    let mut answer = answer
        .map_err(|error| Refusal::new(StatusCode::BAD_GATEWAY, "BadGateway", &error.to_string()))?;
    strip(answer.headers_mut());
    Ok(answer)
}

fn strip(headers: &mut HeaderMap) {
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
}
