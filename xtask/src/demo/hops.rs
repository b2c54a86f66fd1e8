//! The phases of the demo. Each phase is a sequence of hops.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use api::instance as gate;
use harness::process;
use serde_json::{Value, json};

use super::checks::{
    Check, HUB, Layout, PROJECT, available, deployments, deployments_in_cells, instances_in_cells,
    one_waits_for_quota, open, policies, ready, ready_in_cells, settled, workload_gone,
};
use super::scene::DemoScene;
use super::{apply, delete};
use crate::observe::ObservedState;

/// One change, and the hops that must follow it.
pub(crate) struct DemoPhase {
    pub(crate) title: &'static str,
    pub(crate) change: DemoChange,
    pub(crate) hops: Vec<Hop>,
}

/// A change that begins a phase.
pub(crate) enum DemoChange {
    /// The Workload gets this spec.
    Apply(Value),
    /// The Workload is deleted.
    Delete,
    /// The project gets more quota.
    RaiseQuota,
}

impl DemoChange {
    pub(super) async fn make(&self, scene: &DemoScene) -> anyhow::Result<()> {
        match (self, &scene.gates) {
            (Self::Apply(spec), _) => apply(&scene.customer, spec).await,
            (Self::Delete, _) => delete(&scene.customer).await,
            (Self::RaiseQuota, Some(gates)) => gates.raise_quota().await,
            (Self::RaiseQuota, None) => bail!("Instances have no gate Quota here"),
        }
    }
}

/// One step from one plane to the next plane.
pub(crate) struct Hop {
    pub(crate) title: &'static str,
    /// The process that performs the hop.
    process: &'static str,
    pub(crate) check: Check,
}

/// Returns all phases, in order. With gates, the quota of the project does not cover the Workload that is scaled up,
/// until it is raised.
pub(crate) fn phases(gates: bool) -> Vec<DemoPhase> {
    let scaled = || DemoChange::Apply(spec(&[("us", "DFW", 3), ("west", "ORD", 1)]));
    let scaled_layout: Layout = &[("web-us-dfw", "dfw1", 3), ("web-west-ord", "ord1", 1)];
    let mut phases = vec![creation("create: two placements in two cities", gates)];
    if gates {
        phases.push(DemoPhase {
            title: "scale up: us from 2 to 3, beyond the quota",
            change: scaled(),
            hops: waiting_hops(scaled_layout),
        });
        phases.push(DemoPhase {
            title: "raise the quota of the project",
            change: DemoChange::RaiseQuota,
            hops: hops(scaled_layout, gates),
        });
    } else {
        phases.push(DemoPhase {
            title: "scale up: us from 2 to 3",
            change: scaled(),
            hops: hops(scaled_layout, gates),
        });
    }
    phases.push(DemoPhase {
        title: "move: us from DFW to ORD",
        change: DemoChange::Apply(spec(&[("us", "ORD", 3), ("west", "ORD", 1)])),
        hops: hops(
            &[("web-us-ord", "ord1", 3), ("web-west-ord", "ord1", 1)],
            gates,
        ),
    });
    phases.push(DemoPhase {
        title: "delete",
        change: DemoChange::Delete,
        hops: last_hops(),
    });
    phases
}

/// Returns the phase that creates the Workload.
pub(crate) fn creation(title: &'static str, gates: bool) -> DemoPhase {
    DemoPhase {
        title,
        change: DemoChange::Apply(spec(&[("us", "DFW", 2), ("west", "ORD", 1)])),
        hops: hops(
            &[("web-us-dfw", "dfw1", 2), ("web-west-ord", "ord1", 1)],
            gates,
        ),
    }
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

/// Returns the hops of a Workload that runs.
fn hops(layout: Layout, gates: bool) -> Vec<Hop> {
    let mut hops = hops_to_instances(layout);
    if gates {
        hops.push(Hop::new(
            "cells: networks ready, gates Network open",
            CELL_MANAGER,
            open(gate::NETWORK_GATE, gate::NETWORK_READY),
        ));
        hops.push(Hop::new(
            "cells: quota granted, gates Quota open",
            CELL_MANAGER,
            open(gate::QUOTA_GATE, gate::QUOTA_GRANTED),
        ));
    }
    hops.extend(hops_back(layout));
    hops
}

/// Returns the hops of a Workload with one Instance without quota.
fn waiting_hops(layout: Layout) -> Vec<Hop> {
    let mut hops = hops_to_instances(layout);
    hops.push(Hop::new(
        "cells: one Instance has no quota, its gate stays",
        CELL_MANAGER,
        one_waits_for_quota("dfw1"),
    ));
    hops.push(Hop::new(
        "hub: its copy says PendingQuota",
        CELL_MANAGER,
        one_waits_for_quota(HUB),
    ));
    hops.push(Hop::new(
        "project: its projection says PendingQuota",
        MANAGER,
        one_waits_for_quota(PROJECT),
    ));
    hops
}

/// Returns the hops from the Workload to its Instances.
fn hops_to_instances(layout: Layout) -> Vec<Hop> {
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
    ]
}

/// Returns the hops of the status from the Instances to the Workload.
fn hops_back(layout: Layout) -> Vec<Hop> {
    vec![
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
            "cells: Instances gone",
            CELL_MANAGER,
            instances_in_cells(&[]),
        ),
        Hop::new(
            "hub: copies of the Instances gone",
            CELL_MANAGER,
            ready(HUB, &[]),
        ),
        Hop::new(
            "project: projections of the Instances gone",
            MANAGER,
            ready(PROJECT, &[]),
        ),
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
        Hop::new("hub: PropagationPolicies gone", MANAGER, policies(&[])),
        Hop::new(
            "cells: WorkloadDeployments gone",
            KARMADA,
            deployments_in_cells(&[]),
        ),
    ]
}
