//! Lists the objects that the management controllers watch, except customizations, and drops them. The result is the share of the API servers
//! in the time to sync.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lists all objects of the projects and the hub, and prints the seconds that this takes. The concurrency and the page
/// size are those of the management controllers.
#[derive(Parser)]
struct Args {
    /// Port of the simulated planes.
    #[arg(long)]
    port: u16,
    /// File with the CA of the certificate of the simulated planes.
    #[arg(long)]
    ca: PathBuf,
    /// Number of simulated projects.
    #[arg(long)]
    projects: usize,
}

/// Number of concurrent LISTs, as in the management controllers.
const LISTS: usize = 32;
/// Number of objects per page, as in the management controllers.
const PAGE: usize = 500;

const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects";
const PROJECT_PATHS: [&str; 6] = [
    "/api/v1/namespaces",
    "/apis/compute.datumapis.com/v1alpha/instances",
    "/apis/compute.datumapis.com/v1alpha/workloaddeployments",
    "/apis/compute.datumapis.com/v1alpha/workloads",
    "/apis/networking.datumapis.com/v1alpha/locationbindings",
    "/apis/networking.datumapis.com/v1alpha/networks",
];
const HUB_PATHS: [&str; 6] = [
    "/hub/api/v1/namespaces",
    "/hub/apis/cluster.karmada.io/v1alpha1/clusters",
    "/hub/apis/compute.datumapis.com/v1alpha/instances",
    "/hub/apis/compute.datumapis.com/v1alpha/workloaddeployments",
    "/hub/apis/policy.karmada.io/v1alpha1/propagationpolicies",
    "/hub/apis/work.karmada.io/v1alpha2/resourcebindings",
];

type Sender = SendRequest<Empty<Bytes>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let begin = Instant::now();
    let sender = connect(&args).await?;
    let of_projects = (0..args.projects).flat_map(|index| {
        PROJECT_PATHS.map(|kind| format!("{PROJECTS}/p{index:05}/control-plane{kind}"))
    });
    let permits = Arc::new(Semaphore::new(LISTS));
    let mut lists = JoinSet::new();
    let paths = HUB_PATHS.map(str::to_owned).into_iter();
    for path in paths.chain([PROJECTS.to_owned()]).chain(of_projects) {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let sender = sender.clone();
        lists.spawn(async move {
            let _permit = permit;
            list(sender, &path, args.port).await
        });
    }
    while let Some(listed) = lists.join_next().await {
        listed??;
    }
    println!("{:.3}", begin.elapsed().as_secs_f64());
    Ok(())
}

async fn connect(args: &Args) -> anyhow::Result<Sender> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&args.ca)?)?;
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, args.port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::IpAddress(IpAddr::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_connection_window_size(16 * 1024 * 1024)
        .initial_stream_window_size(1024 * 1024)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Lists the objects of a kind, page by page.
async fn list(mut sender: Sender, path: &str, port: u16) -> anyhow::Result<()> {
    let mut next = String::new();
    loop {
        let uri = format!("https://127.0.0.1:{port}{path}?limit={PAGE}&continue={next}");
        let request = Request::get(uri).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        ensure!(response.status() == StatusCode::OK, "{path}");
        let body = response.into_body().collect().await?.to_bytes();
        // The continue token is in the metadata of the list. The metadata comes before the objects.
        let head = String::from_utf8_lossy(body.get(..1024.min(body.len())).unwrap_or_default());
        let (_, rest) = head
            .split_once(r#""continue":""#)
            .context("no continue token")?;
        let (token, _) = rest.split_once('"').context("no continue token")?;
        if token.is_empty() {
            return Ok(());
        }
        token.clone_into(&mut next);
    }
}
