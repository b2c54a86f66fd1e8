//! Connections to API servers.

use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, header};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, Service};

/// Time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for a request that is no watch.
const REQUEST: Duration = Duration::from_secs(30);

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

/// A client of an API server. Requests that are no watch end after 30 s; none is repeated, because the work queue
/// repeats what failed. `user_agent` tells the API server's audit log who it was.
///
/// # Errors
///
/// [`ConnectError::Client`] when certificates or credentials in the configuration are not usable.
pub fn client(mut config: Config, user_agent: &str) -> Result<Client, ConnectError> {
    let url = config.cluster_url.to_string();
    let error = |problem: String| ConnectError::Client {
        url: url.clone(),
        problem,
    };
    let user_agent = HeaderValue::from_str(user_agent).map_err(|e| error(e.to_string()))?;
    config
        .headers
        .retain(|(name, _): &(HeaderName, HeaderValue)| *name != header::USER_AGENT);
    config.headers.push((header::USER_AGENT, user_agent));
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false;
    let client = ClientBuilder::try_from(config).map_err(|e| error(e.to_string()))?;
    Ok(client.with_layer(&layer_fn(TimeLimited)).build())
}

/// Ends requests that take too long, except watches, which last.
#[derive(Clone)]
struct TimeLimited<S>(S);

impl<S, B> Service<Request<B>> for TimeLimited<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|parameter| parameter == "watch=true"));
        let response = self.0.call(request);
        async move {
            if is_watch {
                return response.await.map_err(Into::into);
            }
            timeout(REQUEST, response).await?.map_err(Into::into)
        }
        .boxed()
    }
}
