//! Connections through an HTTP proxy: `proxy-url` of a kubeconfig, else the environment variable `HTTPS_PROXY`. The proxy
//! tunnels the connection (CONNECT), so it sees neither requests nor credentials of the API server.

use std::env;
use std::sync::Arc;
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
pub(super) struct TcpConnector {
    direct: HttpConnector,
    proxy: Option<Proxy>,
}

#[derive(Clone, Debug)]
struct Proxy {
    tunnel: Tunnel<HttpConnector>,
    /// The hosts that are reached through the proxy.
    hosts: Arc<Matcher>,
}

impl TcpConnector {
    /// Returns a connector for the API servers of a configuration. The hosts in the environment variable `NO_PROXY` are
    /// reached directly, because kube does not tell a `proxy-url` from `HTTPS_PROXY`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Proxy`] if the proxy is no HTTP proxy.
    pub(super) fn new(config: &Config, connector: HttpConnector) -> Result<Self, ClientError> {
        let direct = ["NO_PROXY", "no_proxy"].map(|name| env::var(name).ok());
        let direct = direct.into_iter().flatten().next().unwrap_or_default();
        Self::of(config.proxy_url.as_ref(), &direct, connector)
    }

    fn of(proxy: Option<&Uri>, no: &str, direct: HttpConnector) -> Result<Self, ClientError> {
        let proxy = proxy.map(|url| {
            let unsupported =
                || ClientError::Proxy(url.scheme_str().unwrap_or_default().to_owned());
            if url.scheme_str() != Some("http") {
                return Err(unsupported());
            }
            let all = Matcher::builder().all(url.to_string()).build();
            // The host does not matter.
            let intercept = all.intercept(&Uri::from_static("https://localhost"));
            let intercept = intercept.ok_or_else(unsupported)?;
            let tunnel = Tunnel::new(intercept.uri().clone(), direct.clone());
            let tunnel = match intercept.basic_auth() {
                Some(user) => tunnel.with_auth(user.clone()),
                None => tunnel,
            };
            let hosts = Matcher::builder().all(url.to_string()).no(no).build();
            let hosts = Arc::new(hosts);
            Ok(Proxy { tunnel, hosts })
        });
        let proxy = proxy.transpose()?;
        Ok(Self { direct, proxy })
    }

    /// Returns the tunnel to a host, unless it is reached directly.
    fn tunnel(&mut self, to: &Uri) -> Option<&mut Tunnel<HttpConnector>> {
        let proxy = self.proxy.as_mut()?;
        proxy.hosts.intercept(to).map(|_| &mut proxy.tunnel)
    }
}

impl Service<Uri> for TcpConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The connector of the tunnel is a clone of this one, and both are always ready.
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self.tunnel(&to) {
            Some(tunnel) => {
                let connected = tunnel.call(to);
                async move { Ok(connected.await?) }.boxed()
            }
            None => {
                let connected = self.direct.call(to);
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
        let of = |proxy: &str, no: &str| {
            let proxy = proxy.parse().unwrap();
            let connector = TcpConnector::of(Some(&proxy), no, HttpConnector::new());
            connector.map(|mut connector| {
                let hosts = ["hub.example.com", "api.p1.svc.cluster.local", "10.1.2.3"];
                hosts.map(|host| {
                    let url = format!("https://{host}:6443").parse().unwrap();
                    connector.tunnel(&url).is_some()
                })
            })
        };
        let proxy = "http://proxy:3128";
        assert_eq!(of(proxy, "").unwrap(), [true, true, true]);
        assert_eq!(of(proxy, "other.example.com").unwrap(), [true, true, true]);
        assert_eq!(
            of(proxy, "10.0.0.0/8,.svc.cluster.local").unwrap(),
            [true, false, false]
        );
        for proxy in ["https://p:1", "socks5://p:1", "socks://p:1", "htp://p:1"] {
            let error = of(proxy, "hub.example.com").unwrap_err().to_string();
            let scheme = proxy.split(':').next().unwrap();
            assert!(error.contains(&format!("{scheme:?}")), "{error}");
        }
        assert!(of("proxy:3128", "").is_err());
    }
}
