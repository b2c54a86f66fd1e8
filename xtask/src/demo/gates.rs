//! What the gates of the demo's Instances wait for: networks in the cells, and the quota of the project.

use anyhow::Context;
use harness::network_operator::{Generation, NetworkDelays};
use harness::quota::{INSTANCES, MEMORY, QuotaDelays, VCPUS};
use harness::{Federation, NetworkOperator, QuotaSystem};

/// The project of a federation without Milo.
const PROJECT: &str = "single";
/// The strategy of the cells.
pub(super) const STRATEGY: &str = "InterfaceClaims";
/// The kinds that this strategy needs.
pub(super) const KINDS: Generation = Generation::InterfaceClaims;
/// The quota of the project at first, in Instances. It covers the first Workload, and not one Instance more.
const AT_FIRST: i64 = 3;
/// The quota after it is raised.
const RAISED: i64 = 10;
/// An amount that is always enough.
const ENOUGH: i64 = 1_000_000;

/// The doubles of the network operators and of the quota system. They end when this is dropped.
pub(super) struct DemoGates {
    quota: QuotaSystem,
    _networks: Vec<NetworkOperator>,
}

impl DemoGates {
    /// Starts a network operator in each cell, and the quota system of the project. Only `--once` raises the quota, so
    /// without it the quota is enough from the beginning.
    pub(super) async fn start(federation: &Federation, once: bool) -> anyhow::Result<Self> {
        let mut networks = Vec::new();
        for (cell, city) in [("dfw1", "DFW"), ("ord1", "ORD")] {
            let client = federation.cell(cell).context("no such cell")?.client();
            let delays = NetworkDelays::default();
            let operator = NetworkOperator::start(&client, KINDS, delays).await?;
            operator.serve(&city.to_lowercase(), city).await?;
            networks.push(operator);
        }
        let project = federation.project().client();
        let quota = QuotaSystem::start(&[(PROJECT, project)], QuotaDelays::default()).await?;
        let limits = [
            (INSTANCES, if once { AT_FIRST } else { ENOUGH }),
            (VCPUS, ENOUGH),
            (MEMORY, ENOUGH),
        ];
        for (resource, amount) in limits {
            quota.set_limit(PROJECT, resource, amount).await?;
        }
        Ok(Self {
            quota,
            _networks: networks,
        })
    }

    pub(super) async fn raise_quota(&self) -> anyhow::Result<()> {
        self.quota.set_limit(PROJECT, INSTANCES, RAISED).await
    }
}
