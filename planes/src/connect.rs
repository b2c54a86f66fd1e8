//! Connections to API servers.

use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Response, header};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use tower_http::timeout::TimeoutBody;

/// Time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for the beginning of an answer, and between its parts.
const REQUEST: Duration = Duration::from_secs(30);
/// Time between the events of a watch. API servers end a watch after at most five minutes, as it asks them to.
const WATCH_SILENCE: Duration = Duration::from_mins(6);

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
