//! How connections are opened.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::ConfigExt;

/// Time to establish a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// After how long a connection that is silent is pinged, and how long the answer may take: an API server can vanish without
/// a word.
pub(super) const PING: Duration = Duration::from_secs(15);

/// What connects with the TLS settings of the configuration.
///
/// # Errors
///
/// What is not usable of them.
pub(in crate::connect) fn connector(
    config: &Config,
) -> Result<HttpsConnector<HttpConnector>, String> {
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
