//! Connections through an HTTP proxy: `proxy-url` of a kubeconfig, else the environment variable `HTTPS_PROXY`. The proxy
//! tunnels the connection (CONNECT), so it sees neither requests nor credentials of the API server.

use std::env;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use kube::Config;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use super::error::ClientError;

/// Opens TCP connections, directly or through a proxy.
#[derive(Clone, Debug)]
pub(super) enum TcpConnector {
    Direct(HttpConnector),
    Proxy(Tunnel<HttpConnector>),
}

impl TcpConnector {
    /// Returns a connector for the API server of a configuration. The hosts in the environment variable `NO_PROXY` are
    /// reached directly, because kube does not tell a `proxy-url` from `HTTPS_PROXY`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Proxy`] if the proxy is no HTTP proxy.
    pub(super) fn new(config: &Config, connector: HttpConnector) -> Result<Self, ClientError> {
        let direct = ["NO_PROXY", "no_proxy"].map(|name| env::var(name).ok());
        let direct = direct.into_iter().flatten().next().unwrap_or_default();
        Self::of(config, &direct, connector)
    }

    fn of(config: &Config, direct: &str, connector: HttpConnector) -> Result<Self, ClientError> {
        let Some(proxy) = &config.proxy_url else {
            return Ok(Self::Direct(connector));
        };
        let matcher = Matcher::builder().all(proxy.to_string()).no(direct).build();
        let Some(intercept) = matcher.intercept(&config.cluster_url) else {
            return Ok(Self::Direct(connector));
        };
        match proxy.scheme_str() {
            Some("http") => {}
            other => return Err(ClientError::Proxy(other.unwrap_or_default().to_owned())),
        }
        let tunnel = Tunnel::new(intercept.uri().clone(), connector);
        Ok(Self::Proxy(match intercept.basic_auth() {
            Some(user) => tunnel.with_auth(user.clone()),
            None => tunnel,
        }))
    }
}

impl Service<Uri> for TcpConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Self::Proxy(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connected = connector.call(to);
                async move { Ok(connected.await?) }.boxed()
            }
            Self::Proxy(tunnel) => {
                let connected = tunnel.call(to);
                async move { Ok(connected.await?) }.boxed()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::connect::client;

    fn config(server: &str, proxy: &str) -> Config {
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        config
    }

    /// Starts an API server without TLS that answers each request with its version. Returns its port.
    async fn start_api_server() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                head(&mut stream).await;
                let body = r#"{"major":"1","minor":"35"}"#;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    /// Reads the head of a request.
    async fn head(stream: &mut BufReader<TcpStream>) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            match line.trim_end() {
                "" => return lines,
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// Starts a proxy that tunnels to the named port. Returns its port, and the heads of its requests.
    async fn start_proxy() -> (u16, mpsc::UnboundedReceiver<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, heads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let head = head(&mut stream).await;
                let target = head[0].split(' ').nth(1).unwrap().to_owned();
                sender.send(head).unwrap();
                let mut upstream = TcpStream::connect(target).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                tokio::spawn(async move { copy_bidirectional(&mut stream, &mut upstream).await });
            }
        });
        (port, heads)
    }

    #[tokio::test]
    async fn a_proxy_tunnels_the_connection() {
        let server = start_api_server().await;
        let (proxy, mut heads) = start_proxy().await;
        let url = format!("http://127.0.0.1:{server}/prefix");
        let proxy = format!("http://ada:s%3Acret@127.0.0.1:{proxy}");
        let client = client(config(&url, &proxy), "test").unwrap();
        let version = client.apiserver_version().await.unwrap();
        assert_eq!(
            (version.major.as_str(), version.minor.as_str()),
            ("1", "35")
        );
        let head = heads.recv().await.unwrap();
        assert_eq!(head[0], format!("CONNECT 127.0.0.1:{server} HTTP/1.1"));
        let authorized = head
            .iter()
            .any(|line| line.eq_ignore_ascii_case("proxy-authorization: Basic YWRhOnM6Y3JldA=="));
        assert!(authorized, "{head:?}");
    }

    #[test]
    fn other_proxies_are_refused_and_named_hosts_are_reached_directly() {
        let of = |proxy: &str, direct: &str| {
            let config = config("https://hub.example.com:6443", proxy);
            let connector = TcpConnector::of(&config, direct, HttpConnector::new());
            connector.map(|connector| matches!(connector, TcpConnector::Proxy(_)))
        };
        assert!(of("http://proxy:3128", "").unwrap());
        assert!(of("http://proxy:3128", "other.example.com").unwrap());
        assert!(!of("http://proxy:3128", "10.0.0.0/8,.example.com").unwrap());
        for proxy in ["https://proxy:3128", "socks5://proxy:1080"] {
            let error = of(proxy, "").unwrap_err().to_string();
            let scheme = proxy.split(':').next().unwrap();
            assert!(error.contains(&format!("{scheme:?}")), "{error}");
        }
    }
}
