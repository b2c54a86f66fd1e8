//! A proxy in front of an API server. The proxy can inject faults: error responses, lost requests and responses,
//! truncated responses, and closed watches. The proxy also counts writes, and can stop after any write.

mod injection;
mod link;
mod request_info;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Incoming};
use kube::Client;
use multicluster::connect;
use tokio::sync::watch;

use crate::forward::{self, Credentials, forward};
use crate::pki::Pki;
use crate::serve::{BoxedBody, HttpsServer};
use crate::status_error::StatusError;
use injection::Injections;
pub use injection::{FaultRule, Injected, ProxyFault};
use link::Link;
pub use link::{Direction, LinkCut};
pub use request_info::RequestInfo;
pub use writes::WriteCounter;

/// A proxy in front of an API server. The proxy ends when the value is dropped.
pub struct Proxy {
    kubeconfig: PathBuf,
    behind: Arc<Behind>,
    _server: HttpsServer,
}

/// State that all requests to a proxy share.
struct Behind {
    upstream: Client,
    injections: Arc<Injections>,
    link: Arc<Link>,
    writes: Arc<WriteCounter>,
    /// Each change of this value closes all watches.
    watches: watch::Sender<()>,
}

impl Proxy {
    /// Starts a proxy in front of an API server. The proxy has the rights of this kubeconfig. Writes a kubeconfig that
    /// leads to the proxy into a file with this name.
    pub(crate) async fn start(
        pki: &Pki,
        name: &str,
        upstream: &Path,
        directory: &Path,
        writes: &Arc<WriteCounter>,
    ) -> anyhow::Result<Self> {
        let config = connect::kubeconfig(upstream, None).await?;
        let behind = Arc::new(Behind {
            upstream: forward::client(config.config)?,
            injections: Arc::default(),
            link: Arc::default(),
            writes: Arc::clone(writes),
            watches: watch::Sender::default(),
        });
        let handler = Arc::clone(&behind);
        let server = HttpsServer::start(pki, move |request| {
            let handler = Arc::clone(&handler);
            async move { handler.handle(request).await }
        })
        .await?;
        let kubeconfig = directory.join(format!("{name}-proxy.kubeconfig"));
        fs::write(&kubeconfig, pki.kubeconfig_of(&server.url(), "{}"))?;
        Ok(Self {
            kubeconfig,
            behind,
            _server: server,
        })
    }

    /// Returns a kubeconfig that leads through the proxy. It has the rights of the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Applies a fault rule until the returned value is dropped. If several rules match a request, the first one
    /// applies.
    pub fn inject(&self, rule: FaultRule) -> Injected {
        self.behind.injections.add(rule)
    }

    /// Drops all requests, all responses, or both, until the returned value is dropped. Then the connections of the
    /// lost requests or responses break.
    pub fn cut(&self, direction: Direction) -> LinkCut {
        self.behind.link.cut(direction)
    }

    /// Closes all watches, as API servers do from time to time.
    pub fn close_watches(&self) {
        self.behind.watches.send_replace(());
    }
}

impl Behind {
    /// Answers a request. Returns `None` if the request or its answer is lost.
    async fn handle(&self, request: Request<Incoming>) -> Option<Response<BoxedBody>> {
        let request_info = RequestInfo::of(&request);
        self.link.pass(Direction::Requests).await?;
        let fault = self.injections.fault(&request_info);
        match &fault {
            Some(ProxyFault::Answer(error)) => return Some(error.response()),
            Some(ProxyFault::Expire) => return Some(expired(&request_info)),
            Some(ProxyFault::Truncate) | None => {}
        }
        let (parts, body) = request.into_parts();
        let send = forward(&self.upstream, parts, body, Credentials::Own);
        let answer = match request_info.is_write() {
            true => self.writes.count(send).await?,
            false => send.await,
        };
        self.link.pass(Direction::Answers).await?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Some(error.response()),
        };
        let (parts, body) = answer.into_parts();
        let body = match (request_info.is_watch(), fault) {
            (true, _) => self.stream(body),
            (false, Some(ProxyFault::Truncate)) => half(&body.collect().await.ok()?.to_bytes()),
            (false, _) => body.boxed_unsync(),
        };
        Some(Response::from_parts(parts, body))
    }

    /// Streams the events of a watch until all watches are closed. If an event is lost, the stream ends.
    fn stream(&self, body: kube::client::Body) -> BoxedBody {
        let state = (body, Arc::clone(&self.link), self.watches.subscribe());
        let frames = stream::unfold(Some(state), |state| async {
            let (mut body, link, mut closed) = state?;
            let frame = tokio::select! {
                frame = body.frame() => frame?,
                // An error means that the proxy has ended, which also ends the watch.
                _ = closed.changed() => return None,
            };
            match link.pass(Direction::Answers).await {
                Some(()) => Some((frame, Some((body, link, closed)))),
                None => Some((Err(kube::Error::Service("lost".into())), None)),
            }
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}

/// Returns the first half of an answer as if it were complete.
fn half(bytes: &Bytes) -> BoxedBody {
    whole(bytes.slice(..bytes.len() / 2))
}

fn whole(bytes: impl Into<Bytes>) -> BoxedBody {
    let body = Full::new(bytes.into()).map_err(|never| match never {});
    body.boxed_unsync()
}

/// Returns the response to a request with an expired resource version or continue token.
fn expired(request_info: &RequestInfo) -> Response<BoxedBody> {
    let error = StatusError::expired();
    if !request_info.is_watch() {
        return error.response();
    }
    let event = serde_json::json!({"type": "ERROR", "object": error.status()});
    let mut response = Response::new(whole(format!("{event}\n")));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
