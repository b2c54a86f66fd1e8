//! Constant calls to admission and to the interpreter, by an API server, by Karmada, and by callers with a new
//! connection for each call. The callers of the test repeat no failed call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Workload, WorkloadDeployment};
use harness::installation::{Installation, NAMESPACE};
use harness::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::objects::{self, INTERPRETED};
use super::webhooks::{INTERPRET, VALIDATE, Webhooks};
use super::{CITY, WITHIN};

/// Timeouts of a call: those of the registrations.
const OF_INTERPRETER: Duration = Duration::from_secs(3);
const OF_ADMISSION: Duration = Duration::from_secs(10);
/// Time between two calls of one caller.
const PACE: Duration = Duration::from_millis(50);
/// Time between two looks at the certificates of the Pods, and at Karmada's log.
const LOOK: Duration = Duration::from_millis(250);
/// Text of Karmada's log about a failed call.
const FAILED_IN_KARMADA: &str = "Failed calling webhook";

/// The caller and the webhook that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallKind {
    /// Creations without effect. The project's API server calls two webhooks for each.
    ApiServer,
    /// The validating webhook, by new connections to the Service.
    Admission,
    /// The interpreter, by new connections to the Service.
    Interpreter,
    /// The interpreter, by Karmada. A call is a change that Karmada has interpreted.
    Karmada,
}

const KINDS: [CallKind; 4] = [
    CallKind::ApiServer,
    CallKind::Admission,
    CallKind::Interpreter,
    CallKind::Karmada,
];

/// A call that has failed.
#[derive(Clone, Debug)]
pub(super) struct FailedCall {
    pub(super) kind: CallKind,
    /// The begin of the call. For a line of Karmada's log, the time at which the test read it.
    pub(super) at: Instant,
    pub(super) error: String,
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.error)
    }
}

#[derive(Default)]
struct CallRecord {
    calls: BTreeMap<CallKind, u64>,
    failed: Vec<FailedCall>,
    /// The certificates that each Pod has served.
    certificates: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

impl CallRecord {
    fn add(&mut self, kind: CallKind, at: Instant, result: anyhow::Result<()>) {
        *self.calls.entry(kind).or_default() += 1;
        if let Err(error) = result {
            let error = format!("{error:#}");
            self.failed.push(FailedCall { kind, at, error });
        }
    }
}

/// Running callers.
#[derive(Default)]
pub(super) struct Load {
    record: Arc<Mutex<CallRecord>>,
    tasks: JoinSet<()>,
}

/// Number of calls, and of renewed certificates.
#[derive(Clone, Debug)]
pub(super) struct CallCounts {
    calls: BTreeMap<CallKind, u64>,
    renewals: usize,
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, renewals } = self;
        let all: u64 = calls.values().sum();
        write!(f, "{all} calls {calls:?}, {renewals} renewed certificates")
    }
}

impl Load {
    /// Starts the callers, and waits until all of them have made calls.
    pub(super) async fn start(installation: &Installation) -> anyhow::Result<Self> {
        let webhooks = Webhooks::of(installation).await?;
        let mut load = Self::default();
        let (user, customer) = installation.customer().await?;
        let interpreter = (webhooks.caller(INTERPRET), objects::interpretation());
        load.repeat(CallKind::Interpreter, OF_INTERPRETER, move || {
            let (caller, review) = interpreter.clone();
            async move {
                expect(
                    &caller.post(&review).await?,
                    "/response/replicas",
                    &json!(1),
                )
            }
        });
        let admission = (webhooks.caller(VALIDATE), objects::admission_review(&user));
        load.repeat(CallKind::Admission, OF_ADMISSION, move || {
            let (caller, review) = admission.clone();
            async move {
                expect(
                    &caller.post(&review).await?,
                    "/response/allowed",
                    &json!(true),
                )
            }
        });
        load.create_workloads(customer);
        load.ask_by_karmada(installation).await?;
        load.look_at_certificates(installation.management().client(), webhooks);
        load.until_more_calls().await?;
        Ok(load)
    }

    /// Starts only the creations by the project's API server. No other caller needs another program to answer.
    pub(super) async fn of_api_server(installation: &Installation) -> anyhow::Result<Self> {
        let mut load = Self::default();
        let (_, customer) = installation.customer().await?;
        load.create_workloads(customer);
        Ok(load)
    }

    fn create_workloads(&mut self, customer: Client) {
        self.repeat(CallKind::ApiServer, 2 * OF_ADMISSION, move || {
            let customer = customer.clone();
            async move { accepts(&customer).await }
        });
    }

    /// Repeats a call, and records its result.
    fn repeat<F>(&mut self, kind: CallKind, limit: Duration, call: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let record = Arc::clone(&self.record);
        self.tasks.spawn(async move {
            let mut ticks = interval(PACE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let at = Instant::now();
                let result = timeout(limit, call()).await;
                let result = result.unwrap_or_else(|late| Err(late.into()));
                lock(&record).add(kind, at, result);
            }
        });
    }

    /// Changes an object on the hub again and again. Karmada asks the interpreter for the replicas after each change.
    /// Karmada repeats a failed call, so only its log shows the failure.
    async fn ask_by_karmada(&mut self, installation: &Installation) -> anyhow::Result<()> {
        let hub = installation.hub();
        let (client, log) = (
            hub.plane().client(),
            hub.directory().join("logs/karmada-controller-manager.log"),
        );
        objects::create_interpreted(&client).await?;
        let kind = CallKind::Karmada;
        let record = Arc::clone(&self.record);
        self.tasks.spawn(async move {
            for replicas in (2..=9).cycle() {
                let at = Instant::now();
                let asked = asked(&client, replicas).await;
                lock(&record).add(kind, at, asked);
            }
        });
        let mut known = failed_lines(&log)?.len();
        let record = Arc::clone(&self.record);
        self.tasks.spawn(async move {
            loop {
                sleep(LOOK).await;
                let lines = failed_lines(&log).unwrap_or_default();
                let at = Instant::now();
                for line in lines.iter().skip(known) {
                    let error = line.clone();
                    lock(&record).failed.push(FailedCall { kind, at, error });
                }
                known = lines.len();
            }
        });
        Ok(())
    }

    /// Records the certificates of all Pods. A Pod may end at any time, so errors do not count.
    fn look_at_certificates(&mut self, management: Client, webhooks: Webhooks) {
        let record = Arc::clone(&self.record);
        let pods: Api<Pod> = Api::namespaced(management, NAMESPACE);
        self.tasks.spawn(async move {
            loop {
                sleep(LOOK).await;
                let Ok(all) = pods.list(&ListParams::default()).await else {
                    continue;
                };
                for pod in all {
                    let Ok(caller) = webhooks.caller_of(&pod, INTERPRET) else {
                        continue;
                    };
                    if let Ok(Ok(leaf)) = timeout(LOOK, caller.certificate()).await {
                        let mut record = lock(&record);
                        let of_pod = record.certificates.entry(pod.name_any());
                        of_pod.or_default().insert(leaf);
                    }
                }
            }
        });
    }

    /// Returns the number of calls and renewals until now.
    pub(super) fn counts(&self) -> CallCounts {
        let record = lock(&self.record);
        let renewed = record.certificates.values().map(|all| all.len() - 1);
        CallCounts {
            calls: record.calls.clone(),
            renewals: renewed.sum(),
        }
    }

    /// Returns the calls that have failed until now.
    pub(super) fn failed(&self) -> Vec<FailedCall> {
        lock(&self.record).failed.clone()
    }

    /// Waits until every caller has made more calls, and Karmada's log has been read.
    pub(super) async fn until_more_calls(&self) -> anyhow::Result<()> {
        let before = self.counts().calls;
        sleep(2 * LOOK).await;
        wait::eventually("more calls", WITHIN, || async {
            let now = self.counts().calls;
            for kind in KINDS {
                let count =
                    |calls: &BTreeMap<CallKind, u64>| calls.get(&kind).copied().unwrap_or(0);
                ensure!(count(&now) >= count(&before) + 2, "{kind:?}: {now:?}");
            }
            Ok(())
        })
        .await
    }

    /// Waits until this many certificates have been renewed since the start.
    pub(super) async fn until_renewals(&self, count: usize) -> anyhow::Result<()> {
        // The CSI driver renews the certificate of each Pod every 20 s.
        let limit = WITHIN + Duration::from_secs(20) * u32::try_from(count)?;
        wait::eventually("renewed certificates", limit, || async {
            let renewals = self.counts().renewals;
            ensure!(renewals >= count, "{renewals} of {count}");
            Ok(())
        })
        .await
    }
}

fn lock(record: &Mutex<CallRecord>) -> MutexGuard<'_, CallRecord> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expect(answer: &Value, pointer: &str, value: &Value) -> anyhow::Result<()> {
    ensure!(answer.pointer(pointer) == Some(value), "{answer}");
    Ok(())
}

fn failed_lines(log: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let lines = text.lines().filter(|line| line.contains(FAILED_IN_KARMADA));
    Ok(lines.map(str::to_owned).collect())
}

/// Creates a Workload without effect.
async fn accepts(customer: &Client) -> anyhow::Result<()> {
    let workloads: Api<Workload> = Api::namespaced(customer.clone(), api::DEFAULT_NAMESPACE);
    let workload = serde_json::from_value(objects::workload("dry", &[CITY], 1))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    workloads.create(&dry_run, &workload).await?;
    Ok(())
}

/// Changes the replicas of an object on the hub, and waits until Karmada knows them from the interpreter.
pub(super) async fn asked(hub: &Client, replicas: i32) -> anyhow::Result<()> {
    let namespace = api::DEFAULT_NAMESPACE;
    let deployments: Api<WorkloadDeployment> = Api::namespaced(hub.clone(), namespace);
    let change = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
    deployments
        .patch(INTERPRETED, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    let bindings = objects::bindings(hub, namespace);
    let name = format!("{INTERPRETED}-workloaddeployment");
    let knows = |binding: &DynamicObject| binding.data["spec"]["replicas"] == replicas;
    wait::until(
        &bindings,
        &name,
        "updated with the new replicas",
        WITHIN,
        knows,
    )
    .await
    .map(drop)
}
