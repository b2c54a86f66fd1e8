//! Tests of the status in the project when a cell is unreachable, and when a city has no cell.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition::ConditionStatus::{self, False, True, Unknown};
use api::condition::{self, Condition};
use api::{Instance, Workload, WorkloadDeployment};
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use harness::{Config, Federation, networking, wait};
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::deletions;
use crate::events;
use crate::fixture::{self, ORD, Space, WITHIN, create, deployment, is_settled};

/// Time limits from a cut to the project's status, with Karmada's default thresholds. The first limit applies if the
/// cell refuses connections. The second limit applies if connections hang.
const REFUSED: Duration = Duration::from_secs(45);
const HANGING: Duration = Duration::from_secs(90);
/// Time limit from the observed change of the Cluster to the project's status.
const OURS: Duration = Duration::from_secs(2);
/// Time limit from the return of a cell until its Cluster is Ready. The API server of the cell starts first. Then
/// Karmada waits 30 s.
const HEALED: Duration = Duration::from_mins(2);
/// Time during which nothing may change after the cell has returned.
const CALM: Duration = Duration::from_secs(5);
/// Number of deployments in the cell that hangs.
const DEPLOYMENTS: usize = 200;

/// The deployment of `web` in the cell.
const WEB: &str = "web-west-ord";
/// A deployment that is deleted while its cell is dead.
const GONE: &str = "gone";
/// A deployment that is created while its cell is dead.
const NEW: &str = "new";

/// Status and reason of `Available` and of `CellsReporting`.
type ReportedConditions = [Option<(ConditionStatus, String)>; 2];

fn reported_conditions(deployment: &WorkloadDeployment) -> ReportedConditions {
    let status = deployment.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    ["Available", "CellsReporting"].map(|type_| {
        condition::find(conditions, type_)
            .map(|Condition { status, reason, .. }| (*status, reason.clone()))
    })
}

fn is_available(conditions: &ReportedConditions) -> bool {
    let [available, _] = conditions;
    available
        .as_ref()
        .is_some_and(|(status, _)| *status == True)
}

fn unreachable() -> ReportedConditions {
    [Unknown, False].map(|status| Some((status, "CellUnreachable".to_owned())))
}

/// Returns whether the deployment is available although a cell is unreachable.
pub(crate) fn is_available_in_part(deployment: &WorkloadDeployment) -> bool {
    let [available, reporting] = reported_conditions(deployment);
    let [_, unreachable] = unreachable();
    available.is_some_and(|(status, _)| status == True) && reporting == unreachable
}

/// Returns whether the project shows that no cell of the deployment can be reached.
pub(crate) fn is_unreachable(deployment: &WorkloadDeployment) -> bool {
    reported_conditions(deployment) == unreachable()
}

/// A value of an object, and the time of its observation.
#[derive(Clone)]
struct LoggedValue<T> {
    at: Instant,
    name: String,
    value: T,
}

/// All values that the test has observed of the objects of a kind.
struct ValueLog<T> {
    begin: Instant,
    all: watch::Receiver<Vec<LoggedValue<T>>>,
    task: JoinHandle<()>,
}

impl<T> Drop for ValueLog<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> ValueLog<T> {
    fn follow<K>(api: Api<K>, value_of: fn(&K) -> T) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let (sender, all) = watch::channel(Vec::<LoggedValue<T>>::new());
        // The watcher's events include every version of an object, not only the last one.
        let versions = watcher(api, watcher::Config::default());
        let mut versions = versions.backoff(SteadyBackoff).applied_objects().boxed();
        let task = tokio::spawn(async move {
            while let Some(version) = versions.next().await {
                // The watcher restarts a broken watch.
                let Ok(object) = version else { continue };
                let (name, value) = (object.name_any(), value_of(&object));
                sender.send_if_modified(|all| {
                    let last = all.iter().rfind(|other| other.name == name);
                    let is_new = last.is_none_or(|last| last.value != value);
                    if is_new {
                        let at = Instant::now();
                        all.push(LoggedValue { at, name, value });
                    }
                    is_new
                });
            }
        });
        let begin = Instant::now();
        Self { begin, all, task }
    }

    /// Waits until each of these objects has had a matching value after the time `after`. Returns the latest of the
    /// times at which the objects first had a matching value.
    async fn at(
        &self,
        names: &[String],
        after: Instant,
        within: Duration,
        is_meant: impl Fn(&T) -> bool,
    ) -> anyhow::Result<Instant> {
        let last = |all: &Vec<LoggedValue<T>>| {
            let when = |name: &String| {
                let mut later = all
                    .iter()
                    .filter(|one| one.name == *name && one.at >= after);
                later.find(|one| is_meant(&one.value)).map(|one| one.at)
            };
            let each: Option<Vec<_>> = names.iter().map(when).collect();
            each?.into_iter().max()
        };
        let mut all = self.all.clone();
        let found = timeout(within, all.wait_for(|all| last(all).is_some())).await;
        let at = found.ok().and_then(Result::ok).and_then(|all| last(&all));
        at.with_context(|| format!("not all values were observed within {} s", within.as_secs()))
    }

    /// Returns the values of this object, in order.
    fn of(&self, name: &str) -> Vec<T> {
        let all = self.all.borrow();
        let own = all.iter().filter(|one| one.name == name);
        own.map(|one| one.value.clone()).collect()
    }
}

/// Observes whether each Cluster is Ready.
fn clusters(federation: &Federation) -> ValueLog<bool> {
    let kind = GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "Cluster");
    let clusters: Api<DynamicObject> =
        Api::all_with(federation.hub().client(), &ApiResource::from_gvk(&kind));
    ValueLog::follow(clusters, |cluster| {
        let conditions = cluster.data["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        })
    })
}

/// Observes a cell and the deployments that are placed there.
struct CellObserver {
    names: Vec<String>,
    deployments: ValueLog<ReportedConditions>,
    clusters: ValueLog<bool>,
}

impl CellObserver {
    /// Observes the deployments of these names. They must be available.
    async fn new(
        federation: &Federation,
        deployments: &Api<WorkloadDeployment>,
        names: Vec<String>,
    ) -> anyhow::Result<Self> {
        let deployments = ValueLog::follow(deployments.clone(), reported_conditions);
        let clusters = clusters(federation);
        let begin = deployments.begin;
        deployments.at(&names, begin, WITHIN, is_available).await?;
        clusters
            .at(&[ORD.to_owned()], begin, WITHIN, |ready| *ready)
            .await?;
        Ok(Self {
            names,
            deployments,
            clusters,
        })
    }

    /// Waits until the project shows a state, and checks two durations: from the change of the cell, and from the
    /// change of the Cluster.
    async fn until(
        &self,
        since: Instant,
        within: Duration,
        ready: bool,
        is_shown: impl Fn(&ReportedConditions) -> bool,
    ) -> anyhow::Result<()> {
        let cluster = [ORD.to_owned()];
        let is_meant = |value: &bool| *value == ready;
        let known = self.clusters.at(&cluster, since, within, is_meant).await?;
        let shown = self
            .deployments
            .at(&self.names, since, within, is_shown)
            .await?;
        let (all, ours) = (shown - since, shown.saturating_duration_since(known));
        eprintln!(
            "Ready={ready} of the Cluster after {:.1} s, {} deployments {:.3} s later",
            (known - since).as_secs_f64(),
            self.names.len(),
            ours.as_secs_f64()
        );
        ensure!(all <= within, "after {all:?}");
        ensure!(ours <= OURS, "{ours:?} after the Cluster");
        Ok(())
    }

    /// Checks that each deployment has the same state after the cut as before it, and had only the state `between`
    /// during the cut.
    async fn check_calm(&self, between: &ReportedConditions) -> anyhow::Result<()> {
        // Nothing may change during this time.
        sleep(CALM).await;
        for name in &self.names {
            let all = self.deployments.of(name);
            let is_calm = matches!(all.as_slice(), [a, b, c] if (a, b) == (c, between));
            ensure!(is_calm, "{name} flapped: {all:#?}");
        }
        Ok(())
    }
}

/// Starts a federation whose Karmada uses its default thresholds.
async fn start(label: &str) -> anyhow::Result<Federation> {
    let config = Config {
        default_thresholds: true,
        ..fixture::config(label)?
    };
    fixture::start_from(&config).await
}

/// I-10: the copies of a deployment are deleted with it although their cell is dead.
pub(crate) async fn a_cell_that_dies() -> anyhow::Result<()> {
    let mut federation = start("freshness").await?;
    let space = Space::create(&federation, "cut").await?;
    space
        .create_workload("web", &[("west", &["ORD"], 1)])
        .await?;
    space.until_settled("web", 1).await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    create(&deployments, deployment(GONE, "ORD")).await?;
    let copies = space.on_hub::<Instance>();
    let instance = format!("{GONE}-0");
    wait::until(&copies, &instance, "there", WITHIN, |_| true).await?;
    let on_hub: Api<WorkloadDeployment> = space.on_hub();
    let workloads: Api<Workload> = space.in_project();
    let events = space.in_project();
    let before = on_hub.get(WEB).await?.resource_version();
    let observer = CellObserver::new(&federation, &deployments, vec![WEB.to_owned()]).await?;

    let cut = Instant::now();
    federation.cell_mut(ORD)?.kill_apiserver().await;
    let is_unreachable = |conditions: &ReportedConditions| *conditions == unreachable();
    observer.until(cut, REFUSED, false, is_unreachable).await?;
    let has_reason_in_workload = |workload: &Workload| {
        has_reason(workload, "CellUnreachable", |available| {
            !available.is_true()
        })
    };
    wait::until(
        &workloads,
        "web",
        "unavailable for that reason",
        REFUSED,
        has_reason_in_workload,
    )
    .await?;
    eprintln!("Workload after {:.1} s", cut.elapsed().as_secs_f64());
    ensure!(cut.elapsed() <= REFUSED);
    // The status keeps the last counters. The copy on the hub does not change.
    let status = deployments.get(WEB).await?.status.unwrap_or_default();
    assert_eq!((status.replicas, status.ready_replicas), (1, 1));
    assert_eq!(status.cells, []);
    assert_eq!(on_hub.get(WEB).await?.resource_version(), before);

    // A new deployment waits for the cell.
    create(&deployments, deployment(NEW, "ORD")).await?;
    wait::until(
        &deployments,
        NEW,
        "unreachable",
        WITHIN,
        self::is_unreachable,
    )
    .await?;

    // The hub deletes the copies of a deployment without the cell.
    let deletion = DeleteParams::default();
    deployments.delete(GONE, &deletion).await?;
    wait::gone(&on_hub, GONE, WITHIN).await?;
    wait::gone(&copies, &instance, WITHIN).await?;
    wait::gone(&deployments, GONE, WITHIN).await?;
    deletions::until_told(&events, GONE).await?;

    let back = Instant::now();
    federation.cell_mut(ORD)?.restart_apiserver().await?;
    observer.until(back, HEALED, true, is_available).await?;
    observer.check_calm(&unreachable()).await?;
    assert!(is_settled(&deployments.get(WEB).await?, 1));
    let is_settled = |deployment: &WorkloadDeployment| is_settled(deployment, 1);
    wait::until(&deployments, NEW, "settled", WITHIN, is_settled).await?;
    let expected_events = [
        ("Normal", "StableInstanceFound"),
        ("Warning", "CellUnreachable"),
        ("Warning", "CellUnreachable"),
        ("Normal", "StableInstanceFound"),
        ("Normal", "CellsReporting"),
    ];
    events::until(&events, "WorkloadDeployment", WEB, &expected_events).await?;
    federation.stop().await;
    Ok(())
}

/// Returns whether the condition `Available` of the Workload has this reason and satisfies `holds`. The reason can also
/// be part of the message, if it comes from a deployment.
fn has_reason(workload: &Workload, reason: &str, holds: impl Fn(&Condition) -> bool) -> bool {
    let status = workload.status.as_ref();
    let available = status.and_then(|it| condition::find(&it.conditions, "Available"));
    available.is_some_and(|it| holds(it) && (it.reason == reason || it.message.contains(reason)))
}

pub(crate) async fn a_city_without_a_cell(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "nowhere").await?;
    networking::offer_city(&federation.project().client(), "lhr", "LHR").await?;
    space
        .create_workload("web", &[("nowhere", &["LHR"], 1)])
        .await?;
    let expected = [Unknown, False].map(|status| Some((status, "NoMatchingCell".to_owned())));
    let shown = |deployment: &WorkloadDeployment| reported_conditions(deployment) == expected;
    let deployments = space.in_project();
    wait::until(&deployments, "web-nowhere-lhr", "shown", WITHIN, shown).await?;
    let has_reason_in_workload =
        |workload: &Workload| has_reason(workload, "NoMatchingCell", |_| true);
    wait::until(
        &space.in_project(),
        "web",
        "unavailable for that reason",
        WITHIN,
        has_reason_in_workload,
    )
    .await?;
    let on_hub: Api<WorkloadDeployment> = space.on_hub();
    assert_eq!(on_hub.get("web-nowhere-lhr").await?.status, None);
    Ok(())
}

/// The cell has many deployments. The API server of the cell accepts connections and does not answer.
pub(crate) async fn a_cell_that_hangs() -> anyhow::Result<()> {
    let federation = start("hanging").await?;
    let space = Space::create(&federation, "hanging").await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let names: Vec<_> = (0..DEPLOYMENTS).map(|n| format!("idle-{n}")).collect();
    for name in &names {
        let mut idle = deployment(name, "ORD");
        idle["spec"]["scaleSettings"]["minReplicas"] = 0.into();
        create(&deployments, idle).await?;
    }
    let settled = |deployment: &WorkloadDeployment| is_settled(deployment, 0);
    for name in &names {
        wait::until(&deployments, name, "settled", 5 * WITHIN, settled).await?;
    }
    let observer = CellObserver::new(&federation, &deployments, names).await?;

    let cut = Instant::now();
    federation.cell(ORD)?.pause_apiserver()?;
    let is_unreachable = |conditions: &ReportedConditions| *conditions == unreachable();
    observer.until(cut, HANGING, false, is_unreachable).await?;

    let back = Instant::now();
    federation.cell(ORD)?.resume_apiserver()?;
    observer.until(back, HEALED, true, is_available).await?;
    observer.check_calm(&unreachable()).await?;
    federation.stop().await;
    Ok(())
}
