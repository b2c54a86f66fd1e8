//! Callers of the webhook server. They follow Karmada's rules: a caller trusts only the `caBundle` on the hub, verifies
//! the name of the server, and uses a timeout for every call.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::fixture::{CertificateFixture, bundle, client_config, connect};
use crate::fixture::{WITHIN, deployment};

/// Maximum age of a caller's bundle.
const LAG: Duration = Duration::from_secs(1);
/// Timeout of a call. The registration has the same timeout.
const TIME: Duration = Duration::from_secs(3);
/// Each entry of `NEW` is a caller that opens a connection for each call. The value is the age of the caller's bundle.
/// `KEPT` is the number of callers that keep one connection.
const NEW: [Duration; 4] = [Duration::ZERO, LAG, LAG, LAG];
const KEPT: usize = 2;
/// Interval between the calls of a caller.
const PACE: Duration = Duration::from_millis(20);

/// Running callers. They run until the test stops them. The first failed call stops all callers.
pub(super) struct KarmadaCallers {
    calls: Arc<Calls>,
    tasks: JoinSet<anyhow::Result<()>>,
}

#[derive(Default)]
struct Calls {
    new: AtomicU64,
    kept: AtomicU64,
}

/// Number of calls of each kind. All these calls succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    new: u64,
    kept: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { new, kept } = self;
        let all = new + kept;
        write!(
            f,
            "{all} calls, {new} of them by a connection of their own and {kept} by {KEPT} kept ones; 0 calls failed"
        )
    }
}

impl KarmadaCallers {
    /// Starts the callers and waits until each has made a call.
    pub(super) async fn start(fixture: &CertificateFixture<'_>) -> anyhow::Result<Self> {
        let mut callers = Self {
            calls: Arc::default(),
            tasks: JoinSet::new(),
        };
        let port = fixture.port();
        for lag in NEW {
            let trusted = callers.inform(fixture, lag).await?;
            let calls = Arc::clone(&callers.calls);
            callers.tasks.spawn(call_anew(port, trusted, calls));
        }
        let trusted = callers.inform(fixture, LAG).await?;
        for _ in 0..KEPT {
            let (trusted, calls) = (trusted.clone(), Arc::clone(&callers.calls));
            callers.tasks.spawn(call_again(port, trusted, calls));
        }
        callers.until_more_calls().await?;
        Ok(callers)
    }

    /// Publishes the bundle of the hub with a delay of `lag`, like a slow informer.
    async fn inform(
        &mut self,
        fixture: &CertificateFixture<'_>,
        lag: Duration,
    ) -> anyhow::Result<watch::Receiver<Arc<ClientConfig>>> {
        let first = client_config(&fixture.bundle().await?)?;
        let (publisher, trusted) = watch::channel(first);
        let (sender, mut queued) = mpsc::unbounded_channel();
        let api = fixture.configurations();
        self.tasks.spawn(watch_bundle(api, sender));
        self.tasks.spawn(async move {
            while let Some((at, config)) = queued.recv().await {
                sleep_until(at + lag).await;
                publisher.send_replace(config);
            }
            bail!("the informer has ended")
        });
        Ok(trusted)
    }

    fn figures(&self) -> Figures {
        Figures {
            new: self.calls.new.load(Ordering::Relaxed),
            kept: self.calls.kept.load(Ordering::Relaxed),
        }
    }

    /// Waits until each caller has made more calls. Fails if any call has failed.
    pub(super) async fn until_more_calls(&mut self) -> anyhow::Result<Figures> {
        let Figures { new, kept } = self.figures();
        let calls = Arc::clone(&self.calls);
        let more = async {
            let mut ticks = interval(PACE);
            while calls.new.load(Ordering::Relaxed) < new + 20
                || calls.kept.load(Ordering::Relaxed) < kept + 20
            {
                ticks.tick().await;
            }
        };
        tokio::select! {
            Some(ended) = self.tasks.join_next() => ended??,
            more = timeout(WITHIN, more) => more.context("the callers make no more calls")?,
        }
        Ok(self.figures())
    }

    /// Stops the callers and returns the number of calls.
    pub(super) async fn stop(mut self) -> anyhow::Result<Figures> {
        self.until_more_calls().await
    }
}

/// Watches the bundle of the hub.
async fn watch_bundle(
    api: Api<DynamicObject>,
    sender: mpsc::UnboundedSender<(Instant, Arc<ClientConfig>)>,
) -> anyhow::Result<()> {
    let mut versions = watch_object(api, "compute-federation")
        .backoff(SteadyBackoff)
        .boxed();
    while let Some(version) = versions.next().await {
        // The watcher restarts a broken watch.
        let Ok(Some(object)) = version else { continue };
        let config = client_config(&bundle(&object)?)?;
        sender.send((Instant::now(), config))?;
    }
    bail!("the watch has ended")
}

/// Calls repeatedly with a new connection each time.
async fn call_anew(
    port: u16,
    trusted: watch::Receiver<Arc<ClientConfig>>,
    calls: Arc<Calls>,
) -> anyhow::Result<()> {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let config = Arc::clone(&trusted.borrow());
        let answered = async { call(&mut open(port, &config).await?).await };
        let answered = timeout(TIME, answered).await?;
        answered.context("a call by a new connection")?;
        calls.new.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls repeatedly with one connection, which must stay open.
async fn call_again(
    port: u16,
    trusted: watch::Receiver<Arc<ClientConfig>>,
    calls: Arc<Calls>,
) -> anyhow::Result<()> {
    let config = Arc::clone(&trusted.borrow());
    let mut sender = open(port, &config).await?;
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let answered = timeout(TIME, call(&mut sender)).await?;
        answered.context("a call by a kept connection")?;
        calls.kept.fetch_add(1, Ordering::Relaxed);
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn open(port: u16, config: &Arc<ClientConfig>) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = connect((Ipv4Addr::LOCALHOST, port), config).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task of the connection ends when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}

async fn call(sender: &mut SendRequest<Full<Bytes>>) -> anyhow::Result<()> {
    let kind = json!({"group": "compute.datumapis.com", "version": "v1alpha", "kind": "WorkloadDeployment"});
    let object = deployment("web", "DFW");
    let review = json!({"request": {"uid": "of-the-test", "kind": kind, "operation": "InterpretReplica", "object": object}});
    let request = Request::post("/interpret?timeout=3s")
        .header(header::HOST, "127.0.0.1")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(review.to_string().into()))?;
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body)?;
    let is_right = answer["response"]["uid"] == "of-the-test"
        && answer["response"]["successful"] == true
        && answer["response"]["replicas"] == 1;
    ensure!(status == StatusCode::OK && is_right, "{status}: {answer}");
    Ok(())
}
