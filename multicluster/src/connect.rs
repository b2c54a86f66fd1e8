//! Connections to API servers.

mod leader_fence;
mod transport;

use std::path::{Path, PathBuf};

use http::uri::Authority;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::middleware::BaseUriLayer;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use leader_fence::LeaderFence;
use thiserror::Error;
use tower::layer::layer_fn;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceBuilder};
use tower_http::timeout::TimeoutBody;
pub(crate) use transport::WATCH_SILENCE;
use transport::{ResponseBody, TimeLimited, Transport, connector};

use crate::lease::Leadership;

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
    leaders_client(config, user_agent, Leadership::without_election())
}

/// A client as [`client`] makes one, by which only the leader writes.
///
/// # Errors
///
/// [`ConnectError::Client`] when certificates or credentials in the configuration are not usable.
pub fn leaders_client(
    config: Config,
    user_agent: &str,
    leadership: Leadership,
) -> Result<Client, ConnectError> {
    let url = config.cluster_url.clone();
    Ok(Connector::new(config, user_agent, leadership)?.client(url))
}

type Sending = BoxCloneSyncService<Request<Body>, Response<TimeoutBody<ResponseBody>>, BoxError>;

/// Makes clients of API servers that are reached in one way: all share credentials and, where they are on the host of the
/// configuration, connections. Those of another host go with its client.
pub(crate) struct Connector {
    host: Option<Authority>,
    shared: Sending,
    https: HttpsConnector<HttpConnector>,
    layers: Box<dyn Fn(Transport) -> Sending + Send + Sync>,
    namespace: String,
}

impl Connector {
    /// The way to the API server of the configuration, on which only the leader writes.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] when certificates or credentials in the configuration are not usable.
    pub(crate) fn new(
        config: Config,
        user_agent: &str,
        leadership: Leadership,
    ) -> Result<Self, ConnectError> {
        let url = config.cluster_url.to_string();
        let built = Self::build(config, user_agent, leadership);
        built.map_err(|problem| ConnectError::Client { url, problem })
    }

    fn build(mut config: Config, user_agent: &str, leadership: Leadership) -> Result<Self, String> {
        if config.proxy_url.is_some() {
            return Err("proxies are not supported: remove proxy-url".to_owned());
        }
        let user_agent = HeaderValue::from_str(user_agent).map_err(|e| e.to_string())?;
        config
            .headers
            .retain(|(name, _): &(HeaderName, HeaderValue)| *name != header::USER_AGENT);
        config.headers.push((header::USER_AGENT, user_agent));
        let error = |e: kube::Error| e.to_string();
        let authenticating = config.auth_layer().map_err(error)?;
        let headers = config.extra_headers_layer().map_err(error)?;
        let layers = move |transport| {
            let leadership = leadership.clone();
            let service = ServiceBuilder::new()
                .option_layer(authenticating.as_ref())
                .layer(headers.clone())
                .layer(layer_fn(move |inner| LeaderFence {
                    inner,
                    leadership: leadership.clone(),
                }))
                .layer(layer_fn(TimeLimited))
                .service(transport);
            BoxCloneSyncService::new(service)
        };
        let https = connector(&config)?;
        Ok(Self {
            host: config.cluster_url.authority().cloned(),
            shared: layers(Transport::new(&https)),
            https,
            layers: Box::new(layers),
            namespace: config.default_namespace,
        })
    }

    /// A client of the API server at this address, which may have a path.
    pub(crate) fn client(&self, url: Uri) -> Client {
        let sending = match url.authority() == self.host.as_ref() {
            true => self.shared.clone(),
            false => (self.layers)(Transport::new(&self.https)),
        };
        let service = BaseUriLayer::new(url).layer(sending);
        Client::new(service, self.namespace.as_str())
    }
}
