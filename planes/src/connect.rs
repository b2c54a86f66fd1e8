//! Connections to API servers.

use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Response, header};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::timeout::TimeoutBody;

/// Time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for the beginning of an answer, and between its parts.
const REQUEST: Duration = Duration::from_secs(30);
/// Interval of pings by which a dead connection is found that requests share, and the time for their answer.
const PING: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);
/// Time between the events of a watch: API servers send a bookmark about every minute.
const WATCH_SILENCE: Duration = Duration::from_secs(150);

/// Why an API server cannot be reached. Each message says what was looked for.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig file does not lead to an API server.
    #[error("{}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The files that `KUBECONFIG` names do not lead to an API server.
    #[error("KUBECONFIG: {0}")]
    Environment(String),
    /// There is no kubeconfig, and this is no pod.
    #[error(
        "no kubeconfig: --kubeconfig is not given, KUBECONFIG is not set, and this is not a pod ({0})"
    )]
    NotInCluster(String),
    /// The configuration does not make a client.
    #[error("no client for {url}: {problem}")]
    Client {
        /// The API server.
        url: String,
        /// What is wrong.
        problem: String,
    },
}

/// The configuration in a kubeconfig file: of the named context, or of its current one.
///
/// # Errors
///
/// [`ConnectError::Kubeconfig`], which names the file.
pub async fn kubeconfig(path: &Path, context: Option<&str>) -> Result<Config, ConnectError> {
    let error = |problem: String| ConnectError::Kubeconfig {
        path: path.to_owned(),
        problem,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|e| match e {
        kube::config::KubeconfigError::ReadConfig(source, _) => error(source.to_string()),
        other => error(other.to_string()),
    })?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|e| error(e.to_string()))
}

/// The configuration of the process's own cluster: the file if one is given, else `KUBECONFIG`, else that of the pod.
///
/// # Errors
///
/// [`ConnectError`], which says what was looked for.
pub async fn own_cluster(path: Option<&Path>) -> Result<Config, ConnectError> {
    if let Some(path) = path {
        return kubeconfig(path, None).await;
    }
    let error = |e: kube::config::KubeconfigError| ConnectError::Environment(e.to_string());
    match Kubeconfig::from_env().map_err(error)? {
        Some(kubeconfig) => {
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(error)
        }
        None => Config::incluster().map_err(|e| ConnectError::NotInCluster(e.to_string())),
    }
}

/// A client of an API server. A request that is not answered for 30 s fails; none is repeated, because the work queue
/// repeats what failed. `user_agent` tells the API server's audit log who it was.
///
/// # Errors
///
/// [`ConnectError::Client`] when certificates or credentials in the configuration are not usable.
pub fn client(config: Config, user_agent: &str) -> Result<Client, ConnectError> {
    let url = config.cluster_url.to_string();
    build(config, user_agent).map_err(|problem| ConnectError::Client { url, problem })
}

fn build(config: Config, user_agent: &str) -> Result<Client, String> {
    let config = named(config, user_agent)?;
    let client = ClientBuilder::try_from(config).map_err(|e| e.to_string())?;
    Ok(client.with_layer(&layer_fn(TimeLimited)).build())
}

/// Two clients of an API server, so that neither kind of request is in the other's way.
#[derive(Clone)]
pub struct Clients {
    /// For watches, of which each has a connection: they never end.
    pub watches: Client,
    /// For many short requests at a time: where the API server speaks HTTP/2, they share a connection. An API server bounds
    /// how many there are on one, so that watches would block it.
    pub requests: Client,
}

/// Both clients of an API server.
///
/// # Errors
///
/// [`ConnectError::Client`] when certificates or credentials in the configuration are not usable.
pub fn clients(config: Config, user_agent: &str) -> Result<Clients, ConnectError> {
    let url = config.cluster_url.to_string();
    let requests = build_sharing(config.clone(), user_agent);
    Ok(Clients {
        requests: requests.map_err(|problem| ConnectError::Client { url, problem })?,
        watches: client(config, user_agent)?,
    })
}

fn build_sharing(config: Config, user_agent: &str) -> Result<Client, String> {
    if config.proxy_url.is_some() {
        return build(config, user_agent);
    }
    let config = named(config, user_agent)?;
    let error = |e: kube::Error| e.to_string();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Frames of several requests go out one by one.
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config().map_err(error)?)
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(connector);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING_ANSWER)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(error)?)
        .layer(config.extra_headers_layer().map_err(error)?)
        .layer(layer_fn(TimeLimited))
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// The configuration with what all clients have in common.
fn named(mut config: Config, user_agent: &str) -> Result<Config, String> {
    let user_agent = HeaderValue::from_str(user_agent).map_err(|e| e.to_string())?;
    config
        .headers
        .retain(|(name, _): &(HeaderName, HeaderValue)| *name != header::USER_AGENT);
    config.headers.push((header::USER_AGENT, user_agent));
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false;
    Ok(config)
}

/// Ends requests that are not answered in time, and answers that stop in the middle: an API server can vanish without a
/// word.
#[derive(Clone)]
struct TimeLimited<S>(S);

impl<S, B, R> Service<Request<B>> for TimeLimited<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<TimeoutBody<R>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|parameter| parameter == "watch=true"));
        let silence = if is_watch { WATCH_SILENCE } else { REQUEST };
        let response = self.0.call(request);
        async move {
            let response = timeout(REQUEST, response).await?.map_err(Into::into)?;
            Ok(response.map(|body| TimeoutBody::new(silence, body)))
        }
        .boxed()
    }
}
