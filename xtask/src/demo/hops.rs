//! The phases of the demo. Each phase is a sequence of hops.

use std::path::PathBuf;
use std::time::Duration;

use harness::process;
use serde_json::{Value, json};

use super::checks::{
    Check, HUB, Layout, PROJECT, available, deployments, deployments_in_cells, instances_in_cells,
    policies, ready, ready_in_cells, settled, workload_gone,
};
use crate::observe::ObservedState;

/// One change of the Workload, and the hops that must follow it.
pub(crate) struct DemoPhase {
    pub(crate) title: &'static str,
    /// The new spec of the Workload. `None` deletes the Workload.
    pub(crate) spec: Option<Value>,
    pub(crate) hops: Vec<Hop>,
}

/// One step from one plane to the next plane.
pub(crate) struct Hop {
    pub(crate) title: &'static str,
    /// The process that performs the hop.
    process: &'static str,
    pub(crate) check: Check,
}

/// Returns all phases, in order.
pub(crate) fn phases() -> Vec<DemoPhase> {
    vec![
        creation("create: two placements in two cities"),
        DemoPhase::new(
            "scale up: us from 2 to 3",
            spec(&[("us", "DFW", 3), ("west", "ORD", 1)]),
            &[("web-us-dfw", "dfw1", 3), ("web-west-ord", "ord1", 1)],
        ),
        DemoPhase::new(
            "move: us from DFW to ORD",
            spec(&[("us", "ORD", 3), ("west", "ORD", 1)]),
            &[("web-us-ord", "ord1", 3), ("web-west-ord", "ord1", 1)],
        ),
        DemoPhase {
            title: "delete",
            spec: None,
            hops: last_hops(),
        },
    ]
}

/// Returns the phase that creates the Workload.
pub(crate) fn creation(title: &'static str) -> DemoPhase {
    DemoPhase::new(
        title,
        spec(&[("us", "DFW", 2), ("west", "ORD", 1)]),
        &[("web-us-dfw", "dfw1", 2), ("web-west-ord", "ord1", 1)],
    )
}

/// Returns a Workload spec with placements. Each placement has a name, a city code and a number of replicas.
pub(crate) fn spec(placements: &[(&str, &str, i32)]) -> Value {
    let placements: Vec<_> = placements
        .iter()
        .map(|(name, city, replicas)| {
            let scale =
                json!({"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"});
            json!({"name": name, "cityCodes": [city], "scaleSettings": scale})
        })
        .collect();
    let sandbox = json!({"containers": [{"name": "app", "image": "app:1"}]});
    let runtime =
        json!({"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": sandbox});
    let interfaces = json!([{"network": {"name": NETWORK}}]);
    json!({"placements": placements, "template": {"spec": {"networkInterfaces": interfaces, "runtime": runtime}}})
}

impl DemoPhase {
    fn new(title: &'static str, spec: Value, layout: Layout) -> Self {
        Self {
            title,
            spec: Some(spec),
            hops: hops(layout),
        }
    }

    /// Returns the first hop whose check fails, and the error of the check.
    pub(crate) fn missing(&self, state: &ObservedState) -> Option<(&Hop, anyhow::Error)> {
        self.hops
            .iter()
            .find_map(|hop| Some((hop, (hop.check)(state).err()?)))
    }

    /// Returns an error about the missing hop. The error contains the result of the check, and the last lines of the
    /// log of the process that performs the hop. `log` returns the log of a process.
    pub(crate) fn failure(
        &self,
        state: &ObservedState,
        log: impl Fn(&str) -> PathBuf,
        within: Duration,
    ) -> anyhow::Error {
        let Some((hop, evidence)) = self.missing(state) else {
            return anyhow::anyhow!(
                "{}: the hops were not all complete at the same time within {} s",
                self.title,
                within.as_secs()
            );
        };
        let log = log(hop.process);
        anyhow::anyhow!(
            "{}: this hop did not happen within {} s: {}\n{evidence}\nlast lines of {}:\n{}",
            self.title,
            within.as_secs(),
            hop.title,
            log.display(),
            process::tail(&log)
        )
    }
}

/// The network of the Instances.
pub(crate) const NETWORK: &str = "default";

pub(super) const MANAGER: &str = "project-manager";
pub(super) const CELL_MANAGER: &str = "dfw1-manager";
pub(super) const PROVIDER: &str = "dfw1-provider";
const KARMADA: &str = "karmada-controller-manager";

impl Hop {
    fn new(title: &'static str, process: &'static str, check: Check) -> Self {
        Self {
            title,
            process,
            check,
        }
    }
}

/// Returns the hops of a running Workload.
fn hops(layout: Layout) -> Vec<Hop> {
    vec![
        Hop::new(
            "project: WorkloadDeployments as the Workload wants",
            MANAGER,
            deployments(PROJECT, layout),
        ),
        Hop::new(
            "hub: copies of the WorkloadDeployments",
            MANAGER,
            deployments(HUB, layout),
        ),
        Hop::new(
            "hub: PropagationPolicies of the cities",
            MANAGER,
            policies(layout),
        ),
        Hop::new(
            "cells: WorkloadDeployments, brought by Karmada",
            KARMADA,
            deployments_in_cells(layout),
        ),
        Hop::new(
            "cells: Instances in the right cells",
            CELL_MANAGER,
            instances_in_cells(layout),
        ),
        Hop::new("cells: all Instances ready", PROVIDER, ready_in_cells()),
        Hop::new(
            "hub: copies of the Instances, ready",
            CELL_MANAGER,
            ready(HUB, layout),
        ),
        Hop::new(
            "project: projections of the Instances, ready",
            MANAGER,
            ready(PROJECT, layout),
        ),
        Hop::new(
            "hub: status, joined by our interpreter",
            KARMADA,
            settled(HUB),
        ),
        Hop::new(
            "project: status of the WorkloadDeployments",
            MANAGER,
            settled(PROJECT),
        ),
        Hop::new(
            "project: Workload Available, all Instances ready",
            MANAGER,
            available(layout),
        ),
    ]
}

/// Returns the hops of a deleted Workload.
fn last_hops() -> Vec<Hop> {
    vec![
        Hop::new(
            "hub: copies of the WorkloadDeployments gone",
            MANAGER,
            deployments(HUB, &[]),
        ),
        Hop::new(
            "project: WorkloadDeployments gone",
            MANAGER,
            deployments(PROJECT, &[]),
        ),
        Hop::new("project: Workload gone", MANAGER, Box::new(workload_gone)),
        Hop::new(
            "hub: copies of the Instances gone",
            "hub-controller-manager",
            ready(HUB, &[]),
        ),
        Hop::new(
            "project: projections of the Instances gone",
            MANAGER,
            ready(PROJECT, &[]),
        ),
        Hop::new("hub: PropagationPolicies gone", MANAGER, policies(&[])),
        Hop::new(
            "cells: Instances gone",
            CELL_MANAGER,
            instances_in_cells(&[]),
        ),
        Hop::new(
            "cells: WorkloadDeployments gone",
            KARMADA,
            deployments_in_cells(&[]),
        ),
    ]
}
