//! Errors of connections to API servers.

use std::path::PathBuf;

use api::ProjectName;
use http::header::InvalidHeaderValue;
use thiserror::Error;
use tower::BoxError;

/// The reason why an API server cannot be reached. Each message contains the configuration that was tried.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig file is missing or invalid.
    #[error("{}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// The files in `KUBECONFIG` are missing or invalid.
    #[error("KUBECONFIG: {0}")]
    Environment(String),
    /// There is no kubeconfig, and the process does not run in a pod.
    #[error(
        "no kubeconfig: --kubeconfig is not given, KUBECONFIG is not set, and this is not a pod ({0})"
    )]
    NotInCluster(String),
    /// No client can be made from the configuration.
    #[error("no client for {url}: {problem}")]
    Client {
        /// The API server.
        url: String,
        /// The error in the configuration.
        problem: ClientError,
    },
}

/// The reason why no client can be made from a configuration.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The configuration requires a proxy that is no HTTP proxy.
    #[error(
        "proxy-url, or the environment variable HTTPS_PROXY, has the scheme {0:?}: only http is supported, a proxy that \
         tunnels connections with CONNECT"
    )]
    Proxy(String),
    /// The user agent is not a valid header value.
    #[error(transparent)]
    UserAgent(#[from] InvalidHeaderValue),
    /// Certificates or credentials are invalid.
    #[error(transparent)]
    Credentials(#[from] kube::Error),
    /// `tls-server-name` is not a valid server name.
    #[error("tls-server-name: {0}")]
    ServerName(BoxError),
    /// The address of a project's API server is not a valid URL.
    #[error("project {project} has no address: {source}")]
    Address {
        /// The project.
        project: ProjectName,
        /// The error in the address.
        source: http::Error,
    },
}
