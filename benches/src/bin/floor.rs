//! The floor: axum and rustls, which read the body and answer a constant.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use clap::Parser;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads every body and answers a constant.
#[derive(Parser)]
struct Args {
    /// Port on loopback.
    #[arg(long)]
    port: u16,
    /// Directory with tls.crt and tls.key.
    #[arg(long)]
    cert_dir: PathBuf,
    /// File with the answer.
    #[arg(long)]
    answer: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let answer = Bytes::from(fs::read(&args.answer).context("--answer")?);
    let router = Router::new().route(
        "/interpret",
        // Extracting `Bytes` is reading the whole body.
        post(move |_: Bytes| async move { answer })
            .layer(axum::extract::DefaultBodyLimit::max(8 * 1024 * 1024)),
    );
    let chain = CertificateDer::pem_file_iter(args.cert_dir.join("tls.crt"))?
        .collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(args.cert_dir.join("tls.key"))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            let stream = acceptor.accept(stream).await?;
            let service = TowerToHyperService::new(router);
            // The client ends the connection; how does not matter here.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
            anyhow::Ok(())
        });
    }
}
