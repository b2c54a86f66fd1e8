//! How requests reach an API server: over connections that many of them share, within bounded time.

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
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::{Body, ConfigExt};
use tokio::time::timeout;
use tower::{BoxError, Service};
use tower_http::timeout::TimeoutBody;

use connections::{Connections, StreamPermit};
use retry_after::{refusal, retry_after};

/// Time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for the beginning of an answer, and between its parts.
const REQUEST: Duration = Duration::from_secs(30);
/// Time between the events of a watch: API servers send a bookmark every minute.
pub(crate) const WATCH_SILENCE: Duration = Duration::from_secs(150);
/// After how long a connection that is silent is pinged, and how long the answer may take: an API server can vanish without
/// a word.
const PING: Duration = Duration::from_secs(15);

/// Sends requests over connections that they share where the API server speaks HTTP/2. Those of watches, which never end,
/// are others than those of short requests, so that neither is in the other's way. Cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    watches: Arc<Connections>,
    requests: Arc<Connections>,
}

impl Transport {
    /// Over connections of its own.
    pub(super) fn new(connector: &HttpsConnector<HttpConnector>) -> Self {
        let connections = || Arc::new(Connections::new(connector.clone()));
        Self {
            watches: connections(),
            requests: connections(),
        }
    }

    /// What connects with the TLS settings of the configuration.
    ///
    /// # Errors
    ///
    /// What is not usable of them.
    pub(super) fn connector(config: &Config) -> Result<HttpsConnector<HttpConnector>, String> {
        let tls = config.rustls_client_config().map_err(|e| e.to_string())?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        // Frames of several requests go out one by one.
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        // For those who do not speak HTTP/2.
        connector.set_keepalive(Some(PING));
        connector.set_keepalive_interval(Some(PING / 3));
        connector.set_keepalive_retries(Some(3));
        let mut builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = name.clone().try_into();
            let name = name.map_err(|e| format!("tls-server-name: {e}"))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        Ok(builder.enable_all_versions().wrap_connector(connector))
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Answer>;
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
        let (http, place) = connections.place();
        let response = http.request(request);
        async move {
            let response = response.await?;
            Ok(response.map(|body| Answer {
                body,
                _permit: place,
            }))
        }
        .boxed()
    }
}

/// The body of an answer; it has the place of its request until it ends.
pub(super) struct Answer {
    body: Incoming,
    _permit: StreamPermit,
}

impl http_body::Body for Answer {
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

/// Ends requests that are not answered in time, and answers that stop in the middle: an API server can vanish without closing
/// its connections. A refusal with a Retry-After becomes an error that carries it.
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
            match retry_after(&response) {
                Some(wait) => Err(timeout(REQUEST, refusal(response, wait)).await?.into()),
                None => Ok(response.map(|body| TimeoutBody::new(silence, body))),
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
    use super::*;

    #[test]
    fn watches_are_told_by_their_parameter() {
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
}
