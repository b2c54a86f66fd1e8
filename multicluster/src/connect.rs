//! Connections to API servers.

mod connector;
mod credentials;
mod error;
mod leader_fence;
mod proxy;
mod replaceable;
mod transport;

use std::path::Path;
use std::sync::Arc;

pub use credentials::ClusterConfig;
use credentials::Credentials;
pub(crate) use error::auth_problem;
pub use error::{ClientError, ConnectError};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use kube::client::middleware::BaseUriLayer;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use leader_fence::LeaderFence;
pub(crate) use replaceable::ReplaceableClient;
use tower::layer::layer_fn;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceBuilder};
use tower_http::timeout::TimeoutBody;
pub(crate) use transport::WATCH_SILENCE;
use transport::{ResponseBody, TimeLimited, Transport};

use crate::lease::Leadership;

/// Reads a kubeconfig file. Returns the configuration of the named context, or of the current context if `context` is
/// `None`.
///
/// # Errors
///
/// [`ConnectError::Kubeconfig`], which contains the file name.
pub async fn kubeconfig(path: &Path, context: Option<&str>) -> Result<ClusterConfig, ConnectError> {
    let read = ClusterConfig::read(path, context).await;
    read.map_err(|error| ConnectError::Kubeconfig {
        path: path.to_owned(),
        problem: match error {
            KubeconfigError::ReadConfig(source, _) => source.to_string(),
            other => other.to_string(),
        },
    })
}

/// Returns the configuration of the process's own cluster. The configuration comes from the file if a file is given,
/// otherwise from `KUBECONFIG`, otherwise from the pod.
///
/// # Errors
///
/// [`ConnectError`], which contains the configuration that was tried.
pub async fn own_cluster(path: Option<&Path>) -> Result<ClusterConfig, ConnectError> {
    if let Some(path) = path {
        return kubeconfig(path, None).await;
    }
    // A kubeconfig of several files is merged once. A single file is read again when it changes.
    let named = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty());
    let files: Vec<_> = named.iter().flat_map(std::env::split_paths).collect();
    if let [file] = files.as_slice() {
        return kubeconfig(file, None).await;
    }
    let error = |e: KubeconfigError| ConnectError::Environment(e.to_string());
    let config = match Kubeconfig::from_env().map_err(error)? {
        Some(kubeconfig) => {
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(error)
        }
        None => Config::incluster().map_err(|e| ConnectError::NotInCluster(e.to_string())),
    };
    config.map(ClusterConfig::from)
}

/// Makes a client of an API server. A request that is not answered within 30 s fails. The client does not retry
/// requests, because the work queue retries reconciliations. `user_agent` appears in the audit log of the API server.
///
/// # Errors
///
/// [`ConnectError::Client`] if no client can be made, for example because of an invalid certificate.
pub fn client(config: impl Into<ClusterConfig>, user_agent: &str) -> Result<Client, ConnectError> {
    leaders_client(config.into(), user_agent, Leadership::without_election())
}

/// Makes a client like [`client`] does, but its writes fail unless this process is the leader.
///
/// # Errors
///
/// [`ConnectError::Client`] if no client can be made, for example because of an invalid certificate.
pub fn leaders_client(
    config: ClusterConfig,
    user_agent: &str,
    leadership: Leadership,
) -> Result<Client, ConnectError> {
    let url = config.config.cluster_url.clone();
    Ok(Connector::new(config, user_agent, leadership)?.client(url))
}

type SharedService =
    BoxCloneSyncService<Request<Body>, Response<TimeoutBody<ResponseBody>>, BoxError>;

/// Makes clients of API servers that share a configuration. All clients share credentials. Clients of the
/// configuration's host also share connections. A client of another host has its own connections.
pub(crate) struct Connector {
    host: Option<Authority>,
    shared: SharedService,
    credentials: Arc<Credentials>,
    layers: Box<dyn Fn(Transport) -> SharedService + Send + Sync>,
    namespace: String,
}

impl Connector {
    /// Makes a connector. Writes of its clients fail unless this process is the leader.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Client`] if no client can be made, for example because of an invalid certificate.
    pub(crate) fn new(
        config: ClusterConfig,
        user_agent: &str,
        leadership: Leadership,
    ) -> Result<Self, ConnectError> {
        let url = config.config.cluster_url.to_string();
        let built = Self::build(config, user_agent, leadership);
        built.map_err(|problem| ConnectError::Client { url, problem })
    }

    fn build(
        cluster: ClusterConfig,
        user_agent: &str,
        leadership: Leadership,
    ) -> Result<Self, ClientError> {
        let mut config = cluster.config.clone();
        let user_agent = HeaderValue::from_str(user_agent)?;
        config
            .headers
            .retain(|(name, _): &(HeaderName, HeaderValue)| *name != header::USER_AGENT);
        config.headers.push((header::USER_AGENT, user_agent));
        let authenticating = config.auth_layer()?;
        let headers = config.extra_headers_layer()?;
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
        let credentials = Arc::new(Credentials::new(cluster)?);
        Ok(Self {
            host: config.cluster_url.authority().cloned(),
            shared: layers(Transport::new(&credentials)),
            credentials,
            layers: Box::new(layers),
            namespace: config.default_namespace,
        })
    }

    /// Makes a client of the API server at this URL. The URL may have a path.
    pub(crate) fn client(&self, url: Uri) -> Client {
        let sending = match url.authority() == self.host.as_ref() {
            true => self.shared.clone(),
            false => (self.layers)(Transport::new(&self.credentials)),
        };
        let service = BaseUriLayer::new(url).layer(sending);
        Client::new(service, self.namespace.as_str())
    }
}
