//! The fixture: a federation whose cells enforce quota and have a network operator. Another cell of the second city has
//! the same names in it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use api::networking::NetworkInterfaceClaim;
use api::quota::ResourceClaim;
use api::{Instance, annotations, labels};
use harness::federation::CellProxies;
use harness::network_operator::{Generation, NetworkDelays};
use harness::quota::{INSTANCES, MEMORY, QuotaDelays, VCPUS};
use harness::{CellConfig, Config, Federation, NetworkOperator, QuotaSystem, networking, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::witness::Witness;
use crate::fixture::{self, DFW, NETWORK, ORD, Space, WITHIN, is_ready};

/// The second cell of ORD.
pub(super) const TWIN: &str = "ord2";
/// The name of the only project.
pub(super) const PROJECT: &str = "single";
/// What the network operator needs for an interface.
const PROVISION: Duration = Duration::from_millis(300);
/// Time limit for a state after a fault: the back-off between retries has grown.
pub(super) const CONVERGED: Duration = Duration::from_mins(2);
/// More than any test needs.
const PLENTY: i64 = 1_000_000;
/// A federation whose cells enforce quota and have a network operator.
pub(crate) struct GatedFederation {
    pub(crate) federation: Federation,
    pub(super) quota: QuotaSystem,
    /// Between compute-federation of DFW and its API servers.
    pub(super) proxies: CellProxies,
    pub(super) operators: BTreeMap<&'static str, NetworkOperator>,
    generation: Generation,
    witness: Witness,
}

impl GatedFederation {
    /// Starts the federation. The project may have as many Instances as it likes.
    pub(crate) async fn start(label: &str, generation: Generation) -> anyhow::Result<Self> {
        let networking = match generation {
            Generation::InterfaceClaims => "InterfaceClaims",
            Generation::Bindings => "Bindings",
        };
        let mut config = Config {
            networking: Some(networking),
            network_kinds: Some(generation),
            quota: true,
            ..fixture::config(label)?
        };
        config.cells.push(CellConfig::new(TWIN, "ORD"));
        let federation = fixture::start_from(&config).await?;
        let project = federation.project().client();
        let quota = QuotaSystem::start(&[(PROJECT, project)], QuotaDelays::default()).await?;
        let mut operators = BTreeMap::new();
        for (cell, city) in [(DFW, "DFW"), (ORD, "ORD"), (TWIN, "ORD")] {
            let delays = NetworkDelays {
                provision: PROVISION,
                ..NetworkDelays::default()
            };
            let client = federation.cell(cell)?.client();
            let operator = NetworkOperator::start(&client, generation, delays).await?;
            match generation {
                Generation::InterfaceClaims => operator.serve("here", city).await?,
                Generation::Bindings => operator.locate("here", city).await?,
            }
            operators.insert(cell, operator);
        }
        let proxies = federation.put_cell_proxies(DFW).await?;
        let witness = Witness::begin(&federation).await?;
        let gated = Self {
            federation,
            quota,
            proxies,
            operators,
            generation,
            witness,
        };
        gated.reset().await?;
        Ok(gated)
    }

    /// Undoes what a test that failed has done to the quota system.
    pub(crate) async fn reset(&self) -> anyhow::Result<()> {
        self.quota.resume().await;
        self.allow_all().await
    }

    /// Creates a namespace in the project.
    pub(super) async fn space(&self, prefix: &str) -> anyhow::Result<Space<'_>> {
        Space::create(&self.federation, prefix).await
    }

    /// Creates the Network of a namespace in DFW, as soon as Karmada has made the namespace. Only bindings need it.
    pub(super) async fn create_network(&self, space: &Space<'_>) -> anyhow::Result<()> {
        if self.generation == Generation::InterfaceClaims {
            return Ok(());
        }
        let cell = self.federation.cell(DFW)?.client();
        let namespaces: Api<Namespace> = Api::all(cell.clone());
        let is_there = |_: &Namespace| true;
        wait::until(&namespaces, &space.hub_name, "there", WITHIN, is_there).await?;
        networking::create_network(&cell, &space.hub_name, NETWORK).await
    }

    /// Sets the number of Instances that the project may have.
    pub(super) async fn allow(&self, instances: i64) -> anyhow::Result<()> {
        self.quota.set_limit(PROJECT, INSTANCES, instances).await
    }

    /// Allows as many Instances of any size as a test can need. Waits until the buckets have these limits.
    pub(super) async fn allow_all(&self) -> anyhow::Result<()> {
        for resource in [INSTANCES, VCPUS, MEMORY] {
            self.quota.set_limit(PROJECT, resource, PLENTY).await?;
        }
        wait::eventually("the buckets have their limits", WITHIN, || async {
            for resource in [INSTANCES, VCPUS, MEMORY] {
                let bucket = self.quota.bucket(PROJECT, resource).await?;
                let limit = bucket.map(|bucket| bucket.limit);
                ensure!(limit == Some(PLENTY), "{resource}: {limit:?}");
            }
            Ok(())
        })
        .await
    }

    /// Returns the claims of a namespace.
    pub(super) async fn claims(&self, space: &Space<'_>) -> anyhow::Result<Vec<ResourceClaim>> {
        let claims = space.in_project::<ResourceClaim>();
        Ok(claims.list(&ListParams::default()).await?.items)
    }

    /// Waits until these cells have this number of Instances in a namespace, all of them run, and each has what it asked
    /// for, exactly once. Nobody else has anything.
    pub(super) async fn until_all_run(
        &self,
        space: &Space<'_>,
        cells: &[&'static str],
        each: usize,
    ) -> anyhow::Result<()> {
        wait::eventually("each Instance has what it needs", CONVERGED, || async {
            let mut claimants = Vec::new();
            for cell in cells {
                let instances = space.in_cell::<Instance>(cell);
                let instances = instances.list(&ListParams::default()).await?.items;
                let ready = instances.iter().filter(|it| is_ready(it)).count();
                ensure!(
                    (ready, instances.len()) == (each, each),
                    "{ready} of {} Instances in {cell} run",
                    instances.len()
                );
                self.have_their_networks(space, cell, &instances).await?;
                let names = instances.iter().map(ResourceExt::name_any);
                claimants.extend(names.map(|name| format!("{cell} {name}")));
            }
            let claims = self.claims(space).await?;
            let mut held: Vec<_> = claims.iter().map(claimant).collect();
            held.sort();
            claimants.sort();
            ensure!(held == claimants, "{held:?} claim for {claimants:?}");
            Ok(())
        })
        .await
    }

    /// I-32: each Instance owns its claim of an interface.
    async fn have_their_networks(
        &self,
        space: &Space<'_>,
        cell: &'static str,
        instances: &[Instance],
    ) -> anyhow::Result<()> {
        if self.generation == Generation::Bindings {
            return Ok(());
        }
        let claims = space.in_cell::<NetworkInterfaceClaim>(cell);
        let claims = claims.list(&ListParams::default()).await?.items;
        let owners = claims.iter().flat_map(ResourceExt::owner_references);
        let mut owners: Vec<_> = owners.map(|owner| owner.uid.clone()).collect();
        let mut uids: Vec<_> = instances.iter().filter_map(ResourceExt::uid).collect();
        owners.sort();
        uids.sort();
        ensure!(owners == uids, "{cell}: {owners:?} claim for {uids:?}");
        Ok(())
    }

    /// Deletes a Workload, and waits until nothing of a namespace is left on any plane.
    pub(super) async fn delete(&self, space: &Space<'_>, workload: &str) -> anyhow::Result<()> {
        space.delete_workload(workload).await?;
        self.until_nothing_is_left(space).await
    }

    /// Waits until nothing of a namespace is left on any plane, and the project has all its quota. Then checks all
    /// versions so far.
    pub(super) async fn until_nothing_is_left(&self, space: &Space<'_>) -> anyhow::Result<()> {
        space.until_empty().await?;
        let kinds = match self.generation {
            Generation::InterfaceClaims => ["NetworkInterfaceClaim", "NetworkInterface"],
            Generation::Bindings => ["NetworkBinding", "SubnetClaim"],
        };
        wait::eventually("nothing is left", CONVERGED, || async {
            let claims = self.claims(space).await?;
            let claims: Vec<_> = claims.iter().map(claimant).collect();
            ensure!(claims.is_empty(), "claims: {claims:?}");
            for (cell, operator) in &self.operators {
                let left = operator.objects(&kinds).await?;
                ensure!(left.is_empty(), "{cell}: {left:?}");
            }
            for resource in [INSTANCES, VCPUS, MEMORY] {
                let allocated = self.quota.allocated(PROJECT, resource).await?;
                ensure!(allocated == 0, "{resource}: {allocated}");
            }
            Ok(())
        })
        .await?;
        self.witness.check()
    }

    /// Returns the time from the last grant of a claim to the last opening of a gate `Quota`.
    pub(super) fn between_grants_and_gates(&self) -> anyhow::Result<Duration> {
        self.witness.between_grants_and_gates()
    }

    /// Ends all processes.
    pub(crate) async fn stop(self) {
        self.federation.stop().await;
    }
}

/// Returns the cell and the name of the Instance that a claim is for.
pub(super) fn claimant(claim: &ResourceClaim) -> String {
    let cell = claim.labels().get(labels::SOURCE_CLUSTER);
    let name = claim.annotations().get(annotations::INSTANCE_NAME);
    let text = |it: Option<&String>| it.map_or("?", String::as_str).to_owned();
    format!("{} {}", text(cell), text(name))
}
