//! Several projects of Milo share one hub with the project of another management plane.

#[path = "fleet/cut_off.rs"]
mod cut_off;
#[path = "fleet/gone.rs"]
mod gone;
#[path = "fleet/kubeconfigs.rs"]
mod kubeconfigs;
#[path = "fleet/refusing.rs"]
mod refusing;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::networking::CITY_CODE;
use api::{DEFAULT_NAMESPACE, Instance, Workload, WorkloadDeployment, condition, labels};
use harness::manager::Manager;
use harness::milo::ControlPlane;
use harness::rights::{PlaneUser, allow_leader_election};
use harness::{Federation, Milo, networking, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::fixture::{NETWORK, Space, WITHIN, create, patch, workload};
use crate::milo;
pub(crate) use cut_off::a_leader_with_an_old_cache_rolls_nothing_back;
pub(crate) use gone::a_deleted_project_is_cleaned_up;
pub(crate) use kubeconfigs::projects_from_kubeconfigs;
pub(crate) use refusing::{
    a_kind_that_a_project_does_not_serve, a_suspended_project_is_not_retried,
};

/// Milo with several projects. The Workloads of these projects run in the cells of a federation.
pub(crate) struct Fleet<'f> {
    federation: &'f Federation,
    milo: Milo,
    pub(crate) management: Manager,
}

/// A project with a Workload named `web`.
pub(crate) struct FleetProject<'f> {
    federation: &'f Federation,
    pub(crate) plane: Arc<ControlPlane>,
    hub_namespace: String,
}

/// The lease of the replicas of a manager.
struct LeaderElection {
    namespace: String,
    /// Path of the kubeconfig of the own cluster.
    own_cluster: String,
}

impl LeaderElection {
    /// Makes a manager take part in the election from its next start.
    fn join(&self, manager: &mut Manager) {
        let namespace = format!("--leader-elect-namespace={}", self.namespace);
        let own = format!("--kubeconfig={}", self.own_cluster);
        manager.add_flags(&["--leader-elect=true", &namespace, &own]);
    }
}

impl<'f> Fleet<'f> {
    /// Starts Milo with projects of these names. The names must be unique on this hub.
    pub(crate) async fn start(
        federation: &'f Federation,
        label: &str,
        projects: &[&str],
    ) -> anyhow::Result<Self> {
        let milo = milo::start(label, projects).await?;
        let mut management = milo.management("management", federation.hub())?;
        management.restart().await?;
        Ok(Self {
            federation,
            milo,
            management,
        })
    }

    /// Starts Milo with one project and a replica of the manager, which leads.
    async fn start_led(
        federation: &'f Federation,
        label: &str,
        project: &str,
    ) -> anyhow::Result<(Self, LeaderElection)> {
        // Unique names: the hub is shared with other projects.
        let milo = milo::start(label, &[project]).await?;
        let namespace = Space::create(federation, label).await?.name;
        let project_plane = federation.project();
        allow_leader_election(&project_plane.client(), &namespace).await?;
        let own_cluster = project_plane.kubeconfig_of(&PlaneUser::manager())?;
        let election = LeaderElection {
            namespace,
            own_cluster: own_cluster.display().to_string(),
        };
        let mut management = milo.management("management", federation.hub())?;
        election.join(&mut management);
        management.restart().await?;
        until_leading(&management).await?;
        let fleet = Self {
            federation,
            milo,
            management,
        };
        Ok((fleet, election))
    }

    /// Returns a project with everything that a Workload needs.
    pub(crate) async fn project(&self, name: &str) -> anyhow::Result<FleetProject<'f>> {
        let plane = self.milo.project(name)?;
        networking::create_network(&plane.client(), DEFAULT_NAMESPACE, NETWORK).await?;
        let namespaces: Api<Namespace> = Api::all(plane.client());
        let uid = namespaces.get(DEFAULT_NAMESPACE).await?.uid();
        let project = FleetProject {
            federation: self.federation,
            plane,
            hub_namespace: format!("ns-{}", uid.context("the namespace has no UID")?),
        };
        project.offer_dfw().await?;
        Ok(project)
    }

    pub(crate) async fn stop(mut self) {
        self.management.terminate().await;
        self.milo.stop().await;
    }
}

impl FleetProject<'_> {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.plane.client(), DEFAULT_NAMESPACE)
    }

    pub(crate) fn on_hub<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.federation.hub().client(), &self.hub_namespace)
    }

    async fn offer_dfw(&self) -> anyhow::Result<()> {
        let labels = json!({CITY_CODE: "DFW"});
        self.plane.bind_location("dfw", &labels, Some(true)).await
    }

    pub(crate) async fn create(&self) -> anyhow::Result<()> {
        let body = workload("web", &[("us", &["DFW"], 1)]);
        create::<Workload>(&self.api(), body).await.map(drop)
    }

    async fn scale(&self, replicas: i32) -> anyhow::Result<()> {
        let scale = json!({"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"});
        let placement = json!({"name": "us", "cityCodes": ["DFW"], "scaleSettings": scale});
        let change = json!({"spec": {"placements": [placement]}});
        patch::<Workload>(&self.api(), "web", change)
            .await
            .map(drop)
    }

    /// Waits until the Workload is available and the project has this many Instances. Returns the duration of the wait.
    pub(crate) async fn until_settled(&self, instances: i32) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        self.until_available("web", instances).await?;
        let took = begin.elapsed();
        wait::eventually("Instances are projected", WITHIN, || async {
            let seen = self.api::<Instance>().list(&ListParams::default()).await?;
            let seen = seen.items.len();
            ensure!(i32::try_from(seen) == Ok(instances), "{seen} are");
            Ok(())
        })
        .await?;
        Ok(took)
    }

    /// Waits until this Workload is available with this many ready Instances.
    async fn until_available(&self, name: &str, instances: i32) -> anyhow::Result<()> {
        let settled = |workload: &Workload| {
            let status = workload.status.clone().unwrap_or_default();
            let available = condition::find(&status.conditions, "Available");
            [status.replicas, status.ready_replicas] == [instances; 2]
                && available.is_some_and(|available| {
                    available.is_true()
                        && available.observed_generation == workload.metadata.generation
                })
        };
        let workloads = self.api();
        let settled = wait::until(&workloads, name, "settled", WITHIN, settled);
        settled.await.map(drop)
    }

    pub(crate) async fn delete(&self) -> anyhow::Result<()> {
        let workloads: Api<Workload> = self.api();
        workloads.delete("web", &DeleteParams::default()).await?;
        wait::gone(&workloads, "web", WITHIN).await?;
        wait::eventually("nothing is left", WITHIN, || async {
            let copies = self.on_hub::<WorkloadDeployment>();
            let copies = copies.list(&ListParams::default()).await?.items.len();
            let seen = self.api::<Instance>().list(&ListParams::default()).await?;
            let seen = seen.items.len();
            ensure!(copies + seen == 0, "{copies} copies, {seen} projections");
            Ok(())
        })
        .await
    }
}

/// Waits until the manager's metrics contain this line.
async fn until_shown(manager: &Manager, metric: &str) -> anyhow::Result<()> {
    let line = format!("compute_federation_{metric}");
    wait::eventually(&line, WITHIN, || async {
        let metrics = manager.metrics().await?;
        let shown = metrics.lines().any(|it| it == line);
        ensure!(shown, "the metrics do not contain the line");
        Ok(())
    })
    .await
}

async fn until_leading(manager: &Manager) -> anyhow::Result<()> {
    until_shown(manager, "leader 1").await
}

/// Equal names in two projects do not collide, and a failing project does not affect the other.
pub(crate) async fn projects_share_a_hub(federation: &Federation) -> anyhow::Result<()> {
    let fleet = Fleet::start(federation, "fleet", &milo::PROJECTS).await?;
    let (a, b) = (fleet.project("a").await?, fleet.project("b").await?);
    for project in [&a, &b] {
        project.create().await?;
    }
    for (project, name) in [(&a, "a"), (&b, "b")] {
        project.until_settled(1).await?;
        let namespaces: Api<Namespace> = Api::all(federation.hub().client());
        let namespace = namespaces.get(&project.hub_namespace).await?;
        let named = &namespace.labels()[labels::UPSTREAM_CLUSTER_NAME];
        assert_eq!(*named, format!("cluster-{name}"));
    }

    // The first project hangs. It must not delay the second project.
    b.scale(2).await?;
    let before = b.until_settled(2).await?;
    a.plane.hang();
    let mut beside = Vec::new();
    for replicas in [1, 2, 1, 2] {
        b.scale(replicas).await?;
        beside.push(b.until_settled(replicas).await?);
    }
    eprintln!("a change took {before:?} before, and {beside:?} beside a project that hangs");
    // A request that hangs ends after 30 s. No change of the second project waits for one. The share of the first
    // project is asserted on a paused clock, in `multicluster/src/queue/tests/tenants.rs`.
    ensure!(
        beside.iter().all(|took| *took < Duration::from_secs(30)),
        "{beside:?} beside a project that hangs"
    );
    a.plane.pass();

    // A project is unreachable during a change. The manager applies the change when the project is reachable again.
    fleet.milo.set_ready("a", false).await?;
    until_shown(&fleet.management, "projects_engaged 1").await?;
    a.scale(2).await?;
    b.scale(1).await?;
    b.until_settled(1).await?;
    let untouched = a.api::<Workload>().get("web").await?;
    let generation = untouched.metadata.generation;
    let observed = |workload: &Workload| {
        let status = workload.status.clone().unwrap_or_default();
        condition::find(&status.conditions, "Available").and_then(|it| it.observed_generation)
    };
    assert_ne!(
        observed(&untouched),
        generation,
        "compute-federation wrote to a project that is not ready"
    );
    fleet.milo.set_ready("a", true).await?;
    a.until_settled(2).await?;

    for project in [&a, &b] {
        project.delete().await?;
    }
    fleet.stop().await;
    Ok(())
}

/// A leader must not write after a suspension that was longer than its lease.
pub(crate) async fn a_paused_leader_writes_nothing(federation: &Federation) -> anyhow::Result<()> {
    let (mut fleet, election) = Fleet::start_led(federation, "leaders", "led").await?;
    let mut other = fleet.milo.management("other", federation.hub())?;
    election.join(&mut other);
    other.restart().await?;
    let project = fleet.project("led").await?;
    project.create().await?;
    project.until_settled(1).await?;
    let writes = |manager: &Manager| {
        let log = fs::read_to_string(manager.log());
        log.map(|log| {
            log.lines()
                .filter(|line| line.contains(" written "))
                .count()
        })
    };
    assert_eq!(writes(&other)?, 0, "two replicas write");
    // No write may be in flight when the test suspends the leader. Otherwise the leader could log this write after it
    // resumes, and the test would count it.
    wait::eventually("no write is under way", WITHIN, || async {
        let before = writes(&fleet.management)?;
        sleep(Duration::from_secs(2)).await;
        ensure!(
            writes(&fleet.management)? == before,
            "the leader still writes"
        );
        Ok(())
    })
    .await?;

    fleet.management.signal(Signal::STOP)?;
    // No other replica writes before the lease expires.
    project.scale(3).await?;
    until_leading(&other).await?;
    let before = writes(&fleet.management)?;
    ensure!(before > 0, "the leader has made no writes");
    project.until_settled(3).await?;
    // The suspended leader has observed neither the loss of its lease nor this change.
    project.scale(2).await?;
    fleet.management.signal(Signal::CONT)?;
    let code = timeout(WITHIN, fleet.management.ended()).await?;
    ensure!(
        code.is_some_and(|code| code != 0),
        "the suspended leader ended with {code:?}"
    );
    assert_eq!(writes(&fleet.management)?, before);
    project.until_settled(2).await?;
    project.delete().await?;
    other.terminate().await;
    fleet.stop().await;
    Ok(())
}
