//! A client that sends hostile bodies to the webhook server. Without --seconds, it sends each body once and prints how
//! long the answer took. With --seconds, many callers send the bodies all the time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sends hostile bodies to a server on loopback over HTTP/1.1 and TLS.
#[derive(Parser)]
struct Args {
    /// Port of the server.
    #[arg(long)]
    port: u16,
    /// CA of the server's certificate.
    #[arg(long)]
    ca: PathBuf,
    /// Path and query of each request.
    #[arg(long)]
    path: String,
    /// Number of callers. Each of them has a source address and a connection of its own.
    #[arg(long, default_value_t = 32)]
    callers: u8,
    /// Time for which the callers send.
    #[arg(long)]
    seconds: Option<f64>,
    /// The files with the bodies.
    bodies: Vec<PathBuf>,
}

/// Longest time for one call. It is longer than the sum of the server's time limits for reading a request, answering it
/// and sending the answer.
const CALL: Duration = Duration::from_mins(1);

#[derive(Clone)]
struct Caller {
    from: Ipv4Addr,
    port: u16,
    tls: TlsConnector,
    path: Arc<str>,
}

/// The number of calls by HTTP status. 0 stands for a call without an answer.
type Counts = Arc<Mutex<BTreeMap<u16, usize>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&args.ca)?)?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let caller = Caller {
        from: Ipv4Addr::new(127, 1, 0, 1),
        port: args.port,
        tls: TlsConnector::from(Arc::new(config)),
        path: args.path.as_str().into(),
    };
    match args.seconds {
        None => once(&caller, &args.bodies).await,
        Some(seconds) => {
            let bodies = benches::bodies(&args.bodies)?;
            let bodies = bodies.into_iter().map(|(_, body)| Bytes::from(body));
            send(&caller, args.callers, bodies.collect(), seconds).await
        }
    }
}

/// Sends each body once. Prints the status and the time of each answer.
async fn once(caller: &Caller, bodies: &[PathBuf]) -> anyhow::Result<()> {
    for file in bodies {
        for (name, body) in benches::bodies(std::slice::from_ref(file))? {
            let mut connection = caller.connect().await?;
            let begin = Instant::now();
            let status = caller.call(&mut connection, body.into()).await?.as_u16();
            let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
            println!(
                "{}",
                json!({"file": file, "name": name, "status": status, "milliseconds": milliseconds})
            );
        }
    }
    Ok(())
}

/// Lets all callers send all bodies. Prints the number of calls by status.
async fn send(
    caller: &Caller,
    callers: u8,
    bodies: Arc<[Bytes]>,
    seconds: f64,
) -> anyhow::Result<()> {
    let counts = Counts::default();
    for number in 0..callers {
        let [first, second, ..] = caller.from.octets();
        let caller = Caller {
            from: Ipv4Addr::new(first, second, 1, number),
            ..caller.clone()
        };
        tokio::spawn(caller.keep_sending(number.into(), Arc::clone(&bodies), Arc::clone(&counts)));
    }
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", json!(*counts));
    Ok(())
}

impl Caller {
    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.from, 0)))?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = socket.connect(server).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(IpAddr::from(server.ip()));
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn call(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        body: Bytes,
    ) -> anyhow::Result<StatusCode> {
        let request = Request::post(&*self.path)
            .header(header::HOST, "127.0.0.1")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
    }

    async fn keep_sending(self, first: usize, bodies: Arc<[Bytes]>, counts: Counts) {
        let mut connection = None;
        for body in bodies.iter().cycle().skip(first) {
            let called = timeout(CALL, async {
                let mut sender = match connection.take() {
                    Some(sender) => sender,
                    None => self.connect().await?,
                };
                let status = self.call(&mut sender, body.clone()).await?;
                anyhow::Ok((status, sender))
            });
            let status = match called.await {
                Ok(Ok((status, sender))) => {
                    connection = Some(sender).filter(|sender| !sender.is_closed());
                    status.as_u16()
                }
                Ok(Err(_)) | Err(_) => 0,
            };
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(status).or_default() += 1;
        }
    }
}
