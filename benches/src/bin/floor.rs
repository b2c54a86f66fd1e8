//! The lower bound in the webhook benchmark: a server with axum and rustls that reads each body and answers with a
//! constant.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reads every body and answers with a constant.
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
    let router = Router::new().fallback(
        // The extractor `Bytes` reads the whole body.
        post(move |_: Bytes| async move { answer })
            .layer(axum::extract::DefaultBodyLimit::max(8 * 1024 * 1024)),
    );
    benches::serve(args.port, &args.cert_dir, router).await
}
