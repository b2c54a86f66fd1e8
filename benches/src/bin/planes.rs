//! Simulates Milo, its projects and a hub in one process.

use std::path::PathBuf;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves the API servers of many projects and of a hub.
#[derive(Parser)]
struct Args {
    /// Port on loopback.
    #[arg(long)]
    port: u16,
    /// Directory with tls.crt and tls.key.
    #[arg(long)]
    cert_dir: PathBuf,
    /// Initial number of projects.
    #[arg(long, default_value_t = 1)]
    projects: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    benches::serve_planes(args.port, &args.cert_dir, args.projects).await
}
