//! Runs servers as tasks of the process.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use certs::{Acceptor, Limits, Metrics, Reloader, Shutdown};
use hyper_util::service::TowerToHyperService;
use multicluster::Tasks;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::process::setpriority_process;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::bind_address::BindAddress;
use crate::signals::Signals;

/// Interval at which the certificate files of the metrics server are read. No flag changes it.
pub(crate) const CERTIFICATE_POLL: Duration = Duration::from_secs(1);

/// Maximum number of connections of the health probes, and of the metrics server.
const OPERATOR_CONNECTIONS: usize = 64;

/// Number of tasks that a busy thread of the webhook server runs between two looks at the sockets. A task that receives
/// a large body can run for a millisecond, and a small request is not seen in this time.
const EVENT_INTERVAL: u32 = 4;

/// Receive buffer of each connection of the webhook server in the kernel, in bytes; the kernel doubles it. Without a
/// limit, the kernel accepts several MiB of each body that the server has refused or has not begun to read.
const RECEIVE_BUFFER: usize = 128 << 10;

/// Send buffer of each connection of the webhook server in the kernel, in bytes; the kernel doubles it. Without a limit,
/// the kernel keeps several MiB of each answer that the client does not read.
const SEND_BUFFER: usize = 64 << 10;

/// Nice value of the threads that work on large bodies. They still get a tenth of the CPU time of a thread for small
/// requests.
const LONG_WORK_NICE: i32 = 10;

/// Nice value of the threads of Lua scripts. Native requests come first, also those with large bodies.
const SCRIPT_NICE: i32 = 15;

/// The servers of the process.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    pub(crate) tasks: Tasks,
    /// Cancelled when the process begins to stop.
    pub(crate) draining: CancellationToken,
    /// The runtimes that the servers have started.
    runtimes: Runtimes,
    /// The runtime for the work on large bodies, if there is a webhook server. It lives as long as the process.
    long_work: Arc<OnceLock<OwnRuntime>>,
    /// The runtime for Lua scripts, if they are served. It lives as long as the process.
    script: Arc<OnceLock<OwnRuntime>>,
}

/// The runtimes of the process besides the main one.
pub(crate) type Runtimes = Arc<Mutex<Vec<Handle>>>;

/// A port of the webhook server.
pub(crate) struct WebhookPort {
    /// The protocols of the port, in the log.
    pub(crate) what: &'static str,
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    pub(crate) limits: Limits,
}

/// A runtime that may be dropped inside of another runtime. Its tasks end at their next await.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Servers {
    /// Starts a task that reloads the certificate files when they change.
    pub(crate) fn reload(&self, reloader: Reloader, poll: Duration) -> Acceptor {
        let acceptor = reloader.acceptor();
        let stop = self.tasks.stop();
        self.tasks.spawn("certificate reload", async move {
            reloader.run(poll, stop).await;
            Ok::<_, Infallible>(())
        });
        acceptor
    }

    /// Starts the webhook server on a runtime of its own. Calls therefore do not delay watches, probes and the lease,
    /// and these do not delay calls. All ports share the runtime.
    ///
    /// # Errors
    ///
    /// If the threads of the runtime cannot be started.
    pub(crate) fn serve_webhooks(
        &self,
        ports: Vec<WebhookPort>,
        acceptor: &Acceptor,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let runtime = Builder::new_multi_thread()
            .thread_name("webhooks")
            .event_interval(EVENT_INTERVAL)
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        self.add_runtime(&handle);
        let runtime = Arc::new(OwnRuntime(Some(runtime)));
        for WebhookPort {
            what,
            listener,
            router,
            limits,
        } in ports
        {
            info!(address = %listener.local_addr()?, "{what} served");
            let shutdown = Shutdown {
                draining: self.draining.clone(),
                stop: self.tasks.stop(),
            };
            // The connections inherit the sizes.
            set_socket_recv_buffer_size(&listener, RECEIVE_BUFFER)?;
            set_socket_send_buffer_size(&listener, SEND_BUFFER)?;
            // The listener is registered again, because the present runtime must not wake the server.
            let listener = listener.into_std()?;
            let (acceptor, metrics) = (acceptor.clone(), metrics.clone());
            let served = handle.spawn(async move {
                let listener = TcpListener::from_std(listener)?;
                let service = TowerToHyperService::new(router);
                certs::serve(listener, acceptor, service, limits, metrics, shutdown).await;
                Ok::<_, io::Error>(())
            });
            let runtime = Arc::clone(&runtime);
            self.tasks.spawn(what, async move {
                let _runtime = runtime;
                served.await.map_err(io::Error::other)?
            });
        }
        Ok(())
    }

    /// Starts the runtime for the work on large bodies. Its threads have a low priority, so the work uses only the CPU
    /// time that small requests leave.
    ///
    /// # Errors
    ///
    /// If the threads of the runtime cannot be started.
    pub(crate) fn long_work_runtime(&self) -> io::Result<Handle> {
        // One thread more than there is work at the same time, so that the time limits of requests that wait are kept.
        let runtime = Builder::new_multi_thread()
            .worker_threads(webhooks::long_work_max() + 1)
            .thread_name("large bodies")
            .on_thread_start(|| lower_priority(LONG_WORK_NICE))
            .enable_time()
            .build()?;
        Ok(self.keep_runtime(&self.long_work, runtime))
    }

    /// Starts the runtime for Lua scripts.
    ///
    /// # Errors
    ///
    /// If the threads of the runtime cannot be started.
    pub(crate) fn script_runtime(&self) -> io::Result<Handle> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(webhooks::SCRIPTS_AT_ONCE)
            .thread_name("scripts")
            .on_thread_start(|| lower_priority(SCRIPT_NICE))
            .build()?;
        Ok(self.keep_runtime(&self.script, runtime))
    }

    /// Keeps a runtime as long as the process lives.
    fn keep_runtime(&self, place: &OnceLock<OwnRuntime>, runtime: Runtime) -> Handle {
        let handle = runtime.handle().clone();
        self.add_runtime(&handle);
        let _first = place.set(OwnRuntime(Some(runtime)));
        handle
    }

    fn add_runtime(&self, runtime: &Handle) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.push(runtime.clone());
    }

    /// Returns the runtimes that the servers start, now and later.
    pub(crate) fn runtimes(&self) -> Runtimes {
        Arc::clone(&self.runtimes)
    }

    /// Stops the servers at `delay_over`, and waits until all requests are answered, or until the drain time is over.
    /// If a server ended unexpectedly, the servers stop at once, and the failure is returned.
    ///
    /// # Errors
    ///
    /// If another signal arrives before all requests are answered.
    pub(crate) async fn end(
        &self,
        delay_over: Instant,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<String>> {
        let stop = self.tasks.stop();
        let end = async {
            tokio::select! {
                () = sleep_until(delay_over) => {}
                () = stop.cancelled() => {}
            }
            stop.cancel();
            self.tasks.ended().await
        };
        tokio::select! {
            failure = end => Ok(failure),
            name = signals.next() => bail!("a second {name} came before all requests were answered"),
        }
    }

    /// Starts a server for operators, with few connections of its own. Callers of webhooks therefore cannot take the
    /// connections of probes.
    pub(crate) fn serve_operators(
        &self,
        what: &'static str,
        listener: TcpListener,
        acceptor: Acceptor,
        router: Router,
    ) {
        if let Ok(address) = listener.local_addr() {
            info!(%address, "{what} served");
        }
        let shutdown = Shutdown {
            draining: self.draining.clone(),
            stop: self.tasks.stop(),
        };
        self.tasks.spawn(what, async move {
            let service = TowerToHyperService::new(router);
            let (limits, metrics) = (operator_limits(), Metrics::default());
            certs::serve(listener, acceptor, service, limits, metrics, shutdown).await;
            Ok::<_, Infallible>(())
        });
    }
}

/// Lowers the priority of the present thread.
fn lower_priority(nice: i32) {
    // On Linux, the priority belongs to the thread. No process ID means the present thread.
    if let Err(error) = setpriority_process(None, nice) {
        warn!(%error, "a thread for large bodies or scripts has the priority of the others, so these delay small requests");
    }
}

/// Returns the limits of a server for operators. If all its connections are taken, the longest idle one is closed.
fn operator_limits() -> Limits {
    Limits {
        connections: OPERATOR_CONNECTIONS,
        connections_per_address: OPERATOR_CONNECTIONS / 4,
        requests: 4 * OPERATOR_CONNECTIONS,
        ..Limits::default()
    }
}

/// Listens at an address. Returns `None` if the address is off. An empty host means all IPv6 and IPv4 addresses.
///
/// # Errors
///
/// If the process cannot listen at the address. The error contains the address.
pub(crate) async fn listen(address: &BindAddress) -> anyhow::Result<Option<TcpListener>> {
    let BindAddress::At { host, port } = address else {
        return Ok(None);
    };
    let listener = if host.is_empty() {
        match TcpListener::bind(("::", *port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await,
        }
    } else {
        TcpListener::bind((host.as_str(), *port)).await
    };
    listener
        .map(Some)
        .with_context(|| format!("cannot listen at {host}:{port}"))
}
