//! Constant calls of admission and of the interpreter, by API servers, by Karmada, and by callers with a new connection
//! for each call. No caller repeats a failed call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Workload, WorkloadDeployment};
use harness::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::objects::{self, INTERPRETED, REGISTRATION};
use super::platform::{NAMESPACE, Platform, WITHIN};
use crate::client::{Caller, Trusted};

/// Names of the Service in the certificate.
pub(super) const SERVER: &str = "compute-webhook.compute-system.svc";
/// The paths of the webhook server.
const INTERPRET: &str = "/interpret";
const VALIDATE: &str = "/validate-compute-datumapis-com-v1alpha-workload";
/// Timeouts of a call: those of the registrations.
const OF_INTERPRETER: Duration = Duration::from_secs(3);
const OF_ADMISSION: Duration = Duration::from_secs(10);
/// Time between two calls of one caller.
const PACE: Duration = Duration::from_millis(50);
/// Time between two looks at the certificates of the Pods.
const LOOK: Duration = Duration::from_millis(500);
/// Text of Karmada's log about a failed call.
const FAILED_IN_KARMADA: &str = "Failed calling webhook";

/// What has been called, by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Creations without effect, for which the project's API server calls two webhooks.
    ApiServer,
    /// The validating webhook, by new connections to the Service.
    Admission,
    /// The interpreter, by new connections to the Service.
    Interpreter,
    /// The interpreter, by Karmada.
    Karmada,
}

/// A call that has failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) at: Instant,
    pub(super) error: String,
}

#[derive(Default)]
struct Record {
    calls: BTreeMap<Kind, u64>,
    failures: Vec<Failure>,
    /// The certificates that each Pod has served.
    certificates: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

/// Running callers.
pub(super) struct Load {
    record: Arc<Mutex<Record>>,
    tasks: JoinSet<()>,
    karmada_log: PathBuf,
    karmada_lines: usize,
}

/// Number of calls and of renewals.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) calls: BTreeMap<Kind, u64>,
    pub(super) renewals: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.calls.values().sum();
        write!(f, "{calls} calls {:?}, {} renewed certificates", self.calls, self.renewals)
    }
}

impl Load {
    /// Starts the callers, and waits until all of them have made calls.
    pub(super) async fn start(platform: &Platform) -> anyhow::Result<Self> {
        let karmada_log = platform.hub.directory().join("logs/karmada-controller-manager.log");
        let mut load = Self {
            record: Arc::default(),
            tasks: JoinSet::new(),
            karmada_lines: failed_lines(&karmada_log)?.len(),
            karmada_log,
        };
        let address = format!("{}:443", platform.address().await?);
        let trusted = Trusted::follow(registrations(platform)).await?;
        let (user, customer) = platform.customer().await?;
        let caller = |path: &str| Caller {
            address: address.clone(),
            server: SERVER.to_owned(),
            path: path.to_owned(),
            trusted: trusted.clone(),
        };
        let (interpreter, admission) = (caller(INTERPRET), caller(VALIDATE));
        let review = objects::interpretation();
        load.spawn(Kind::Interpreter, OF_INTERPRETER, move || {
            let (caller, review) = (interpreter.clone(), review.clone());
            async move {
                let answer = caller.post(&review).await?;
                ensure!(answer["response"]["replicas"] == 1, "{answer}");
                Ok(())
            }
        });
        let review = objects::admission_review(&user);
        load.spawn(Kind::Admission, OF_ADMISSION, move || {
            let (caller, review) = (admission.clone(), review.clone());
            async move {
                let answer = caller.post(&review).await?;
                ensure!(answer["response"]["allowed"] == true, "{answer}");
                Ok(())
            }
        });
        load.spawn(Kind::ApiServer, OF_ADMISSION * 2, move || {
            let customer = customer.clone();
            async move { accepts(&customer).await }
        });
        load.ask_by_karmada(platform.hub.plane().client()).await?;
        load.look_at_certificates(platform.management.client(), trusted);
        load.until_more_calls().await?;
        Ok(load)
    }

    /// Repeats a call, and records its failures.
    fn spawn<F>(&mut self, kind: Kind, limit: Duration, call: impl Fn() -> F + Send + 'static)
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
                let mut record = lock(&record);
                *record.calls.entry(kind).or_default() += 1;
                if let Err(error) = result {
                    let error = format!("{error:#}");
                    record.failures.push(Failure { kind, at, error });
                }
            }
        });
    }

    /// Changes an object on the hub again and again. Karmada asks the interpreter for the replicas after each change.
    async fn ask_by_karmada(&mut self, hub: Client) -> anyhow::Result<()> {
        objects::create_interpreted(&hub).await?;
        let record = Arc::clone(&self.record);
        self.tasks.spawn(async move {
            for replicas in (2..=9).cycle() {
                // Karmada repeats a failed call. Its log tells about the failed one.
                if let Err(error) = asked(&hub, replicas).await {
                    let (kind, at) = (Kind::Karmada, Instant::now());
                    let error = format!("{error:#}");
                    lock(&record).failures.push(Failure { kind, at, error });
                }
                *lock(&record).calls.entry(Kind::Karmada).or_default() += 1;
            }
        });
        Ok(())
    }

    /// Records the certificates of all Pods. A Pod may end at any time, so errors do not count.
    fn look_at_certificates(&mut self, management: Client, trusted: Trusted) {
        let record = Arc::clone(&self.record);
        let pods: Api<Pod> = Api::namespaced(management, NAMESPACE);
        self.tasks.spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Ok(all) = pods.list(&ListParams::default()).await else {
                    continue;
                };
                for pod in all {
                    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
                    let caller = Caller {
                        address: format!("{}:9443", address.unwrap_or_default()),
                        server: SERVER.to_owned(),
                        path: INTERPRET.to_owned(),
                        trusted: trusted.clone(),
                    };
                    if let Ok(Ok(leaf)) = timeout(LOOK, caller.certificate()).await {
                        let mut record = lock(&record);
                        record.certificates.entry(pod.name_any()).or_default().insert(leaf);
                    }
                }
            }
        });
    }

    /// Returns the number of calls and renewals until now.
    pub(super) fn figures(&self) -> Figures {
        let record = lock(&self.record);
        let renewed = record.certificates.values().map(|all| all.len() - 1);
        Figures {
            calls: record.calls.clone(),
            renewals: renewed.sum(),
        }
    }

    /// Returns the calls that have failed until now. For calls of Karmada, the time is the one of this call.
    pub(super) fn failures(&self) -> anyhow::Result<Vec<Failure>> {
        let mut failures = lock(&self.record).failures.clone();
        let lines = failed_lines(&self.karmada_log)?;
        failures.extend(lines.into_iter().skip(self.karmada_lines).map(|error| Failure {
            kind: Kind::Karmada,
            at: Instant::now(),
            error,
        }));
        Ok(failures)
    }

    /// Forgets the failures until now.
    pub(super) fn forget(&mut self) -> anyhow::Result<()> {
        lock(&self.record).failures.clear();
        self.karmada_lines = failed_lines(&self.karmada_log)?.len();
        Ok(())
    }

    /// Fails if a call has failed until now. `what` describes the change during the calls.
    pub(super) fn expect_no_failure(&self, what: &str) -> anyhow::Result<()> {
        let failures = self.failures()?;
        ensure!(failures.is_empty(), "{what}: {} calls failed: {failures:#?}", failures.len());
        Ok(())
    }

    /// Waits until every caller has made more calls.
    pub(super) async fn until_more_calls(&self) -> anyhow::Result<()> {
        let before = self.figures().calls;
        wait::eventually("more calls", WITHIN, || async {
            let now = self.figures().calls;
            let kinds = [Kind::ApiServer, Kind::Admission, Kind::Interpreter, Kind::Karmada];
            for kind in kinds {
                let count = |calls: &BTreeMap<Kind, u64>| calls.get(&kind).copied().unwrap_or(0);
                ensure!(count(&now) >= count(&before) + 2, "{kind:?}: {now:?}");
            }
            Ok(())
        })
        .await
    }

    /// Waits until this many certificates have been renewed since the start.
    pub(super) async fn until_renewals(&self, count: usize, limit: Duration) -> anyhow::Result<()> {
        wait::eventually("renewed certificates", limit, || async {
            let renewals = self.figures().renewals;
            ensure!(renewals >= count, "{renewals} of {count}");
            Ok(())
        })
        .await
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed_lines(log: &PathBuf) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let lines = text.lines().filter(|line| line.contains(FAILED_IN_KARMADA));
    Ok(lines.map(str::to_owned).collect())
}

/// Returns the API of the interpreter's registration on the hub.
pub(super) fn registrations(platform: &Platform) -> (Api<DynamicObject>, &'static str) {
    let kind = "ResourceInterpreterWebhookConfiguration";
    let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
    let client = platform.hub.plane().client();
    (Api::all_with(client, &ApiResource::from_gvk(&kind)), REGISTRATION)
}

/// Creates a Workload without effect.
async fn accepts(customer: &Client) -> anyhow::Result<()> {
    let workloads: Api<Workload> = Api::namespaced(customer.clone(), "default");
    let workload = serde_json::from_value(objects::workload("dry", &["DFW"], 1))?;
    workloads.create(&dry_run(), &workload).await?;
    Ok(())
}

/// Creates a Workload that only the webhook refuses. Fails if the webhook does not refuse it.
pub(super) async fn refuses(customer: &Client) -> anyhow::Result<()> {
    let workloads: Api<Workload> = Api::namespaced(customer.clone(), "default");
    let workload = serde_json::from_value(objects::workload("refused", &["XXX"], 1))?;
    let answer = workloads.create(&dry_run(), &workload).await;
    let error = answer.err().context("the Workload is accepted")?.to_string();
    let expected = "Unsupported value: \"XXX\": supported values: \"DFW\"";
    ensure!(error.contains(expected), "{error}");
    Ok(())
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// Changes the replicas of an object on the hub, and waits until Karmada knows them from the interpreter.
async fn asked(hub: &Client, replicas: i32) -> anyhow::Result<()> {
    let deployments: Api<WorkloadDeployment> = Api::namespaced(hub.clone(), "default");
    let change = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
    deployments
        .patch(INTERPRETED, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    let kind = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
    let bindings: Api<DynamicObject> =
        Api::namespaced_with(hub.clone(), "default", &ApiResource::from_gvk(&kind));
    let name = format!("{INTERPRETED}-workloaddeployment");
    let knows = |binding: &DynamicObject| binding.data["spec"]["replicas"] == replicas;
    wait::until(&bindings, &name, "of the new replicas", WITHIN, knows)
        .await
        .map(drop)
}
