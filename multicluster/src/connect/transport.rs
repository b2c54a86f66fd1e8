//! Sends requests to an API server over shared connections. The time of each request is limited.

mod connections;
mod retry_after;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy;
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, Service};
use tower_http::timeout::TimeoutBody;

use connections::{Connections, StreamPermit};
use retry_after::{is_refusal, refusal};

use super::credentials::Credentials;

/// Time limit until an answer begins, and between two parts of an answer. The limit is half of an API server's own
/// limit of 60 s (`--request-timeout`), so that a hung request is retried.
const REQUEST: Duration = Duration::from_secs(30);
/// Longest silence of a watch. API servers send a bookmark about every minute, so the limit allows two late bookmarks.
pub(crate) const WATCH_SILENCE: Duration = Duration::from_secs(150);

/// Sends requests over connections. Requests share a connection if the API server speaks HTTP/2. Watches and other
/// requests use different connections, so that watches cannot block short requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    watches: Arc<Connections>,
    requests: Arc<Connections>,
}

impl Transport {
    /// Makes a transport with its own connections.
    pub(super) fn new(credentials: &Arc<Credentials>) -> Self {
        let connections = || Arc::new(Connections::new(Arc::clone(credentials)));
        Self {
            watches: connections(),
            requests: connections(),
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let connections = match is_watch(&request) {
            true => &self.watches,
            false => &self.requests,
        };
        let (http, permit) = connections.stream_permit();
        let response = http.request(request);
        async move {
            let response = response.await?;
            Ok(response.map(|body| ResponseBody {
                body,
                _permit: permit,
            }))
        }
        .boxed()
    }
}

/// The body of an answer. It holds the stream of its request until it is dropped.
pub(super) struct ResponseBody {
    body: Incoming,
    _permit: StreamPermit,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Ends requests that are not answered in time, and answers that stop before their end. Both can happen if an API
/// server vanishes without closing its connections. A refusal becomes an error that contains its code and its
/// Retry-After.
#[derive(Clone)]
pub(super) struct TimeLimited<S>(pub(super) S);

impl<S, B, R> Service<Request<B>> for TimeLimited<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<TimeoutBody<R>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let silence = match is_watch(&request) {
            true => WATCH_SILENCE,
            false => REQUEST,
        };
        let response = self.0.call(request);
        async move {
            let response = timeout(REQUEST, response).await?.map_err(Into::into)?;
            match is_refusal(&response) {
                true => Err(timeout(REQUEST, refusal(response)).await?.into()),
                false => Ok(response.map(|body| TimeoutBody::new(silence, body))),
            }
        }
        .boxed()
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::Client;
    use kube::core::response::StatusDetails;
    use serde_json::json;
    use tower::ServiceExt;

    use super::retry_after::{BODY_MAX, NO_STATUS};
    use super::*;

    #[test]
    fn a_watch_has_the_parameter_watch() {
        for (uri, expected) in [
            ("/api/v1/pods?watch=true", true),
            ("/api/v1/pods?limit=1&watch=true&x=y", true),
            ("/api/v1/pods?watch=false", false),
            ("/api/v1/pods?unwatch=true", false),
            ("/api/v1/watch", false),
        ] {
            let request = Request::get(uri).body(()).unwrap();
            assert_eq!(is_watch(&request), expected, "{uri}");
        }
    }

    /// Returns the error for this response.
    async fn error(code: u16, header: Option<&'static str>, body: &[u8]) -> kube::Error {
        let body = body.to_owned();
        let service = tower::service_fn(move |_: Request<Body>| {
            let mut response = Response::builder().status(code);
            if let Some(header) = header {
                response = response.header("retry-after", header);
            }
            let response = response.body(Body::from(body.clone()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let service = TimeLimited(service).boxed();
        let request = Request::get("/api").body(Vec::new()).unwrap();
        Client::new(service, "default")
            .request_text(request)
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn a_refusal_is_the_error_that_kube_makes_with_its_retry_after() {
        let throttled = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "slow down",
            "reason": "TooManyRequests", "details": {"name": "x", "retryAfterSeconds": 3}, "code": 429,
        });
        let of_503 = json!({"status": "Failure", "reason": "ServiceUnavailable", "code": 503});
        for (code, body) in [
            (429, throttled.to_string()),
            (503, of_503.to_string()),
            (503, String::new()),
            (429, "Too many requests, please try again later.\n".into()),
            (503, "[7]".into()),
            // JSON that is no `Status` of this response.
            (503, "{}".into()),
            (
                503,
                r#"{"code": 14, "message": "upstream connect error"}"#.into(),
            ),
            (503, throttled.to_string()),
        ] {
            let body = body.as_bytes();
            let kube::Error::Api(mut expected) = error(code, None, body).await else {
                panic!("not an answer");
            };
            assert_eq!(expected.code, code);
            let is_status = serde_json::from_slice::<kube::core::Status>(body)
                .is_ok_and(|status| status.code == code);
            assert_eq!(expected.reason == NO_STATUS, !is_status, "{expected:?}");
            let kube::Error::Api(mut refused) = error(code, Some("7"), body).await else {
                panic!("not an answer");
            };
            let details = refused.details.take().unwrap();
            assert_eq!(details.retry_after_seconds, 7);
            if let Some(expected) = expected.details.take() {
                let seconds = details.retry_after_seconds;
                let expected = StatusDetails {
                    retry_after_seconds: seconds,
                    ..expected
                };
                assert_eq!(details, expected);
            }
            assert_eq!(refused, expected);
        }
        let binary = error(503, Some("7"), &[0xff]).await;
        let kube::Error::Api(status) = binary else {
            panic!("not an answer");
        };
        assert_eq!((status.code, status.reason.as_str()), (503, NO_STATUS));
        let huge = error(503, Some("7"), "ä".repeat(BODY_MAX).as_bytes()).await;
        let kube::Error::Api(status) = huge else {
            panic!("not an answer");
        };
        assert_eq!((status.code, status.reason.as_str()), (503, NO_STATUS));
        assert_eq!(status.message.len(), BODY_MAX);
    }
}
