//! Opens connections.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::ConfigExt;

use super::error::ClientError;
use super::proxy::TcpConnector;

/// Opens connections to an API server.
pub(super) type ApiServerConnector = HttpsConnector<TcpConnector>;

/// Time limit for opening a connection: 10 s. A slow network needs less time, and a request may take longer.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection is pinged after this time without data. The answer to the ping has the same time limit. A ping detects
/// an API server that vanished without closing its connections.
pub(super) const PING: Duration = Duration::from_secs(15);

/// Returns a connector with the TLS settings of the configuration.
///
/// # Errors
///
/// [`ClientError`] if the certificates or `tls-server-name` are invalid, or if the proxy is not supported.
pub(super) fn connector(config: &Config) -> Result<ApiServerConnector, ClientError> {
    let tls = config.rustls_client_config()?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Nagle's algorithm would delay the small frames of concurrent requests.
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    // HTTP/1.1 has no pings, so TCP keepalive replaces them.
    connector.set_keepalive(Some(PING));
    connector.set_keepalive_interval(Some(PING / 3));
    connector.set_keepalive_retries(Some(3));
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into();
        let name = name.map_err(|e| ClientError::ServerName(Box::new(e)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = TcpConnector::new(config, connector)?;
    Ok(builder.enable_all_versions().wrap_connector(connector))
}
