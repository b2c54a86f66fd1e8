//! The phases of the demo, and the hops of each: what must be seen where.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{Instance, Workload, WorkloadDeployment, condition};
use harness::{Federation, process};
use kube::Resource;
use serde_json::{Value, json};

use super::WORKLOAD;
use super::observe::{Objects, State};

/// Names of the planes, as the harness has them.
const PROJECT: &str = "project";
const HUB: &str = "hub";
const CELLS: [&str; 2] = ["dfw1", "ord1"];

/// Deployments with their cell and number of Instances.
type Layout = &'static [(&'static str, &'static str, i32)];

/// What must be seen; the error says what is seen instead.
type Check = Box<dyn Fn(&State) -> Result<(), String> + Send + Sync>;

/// One change of the Workload and what must follow.
pub(crate) struct Phase {
    pub(crate) title: &'static str,
    /// The Workload's spec; `None` deletes it.
    pub(crate) spec: Option<Value>,
    pub(crate) hops: Vec<Hop>,
}

/// One step of the way.
pub(crate) struct Hop {
    pub(crate) title: &'static str,
    /// The process whose work it is.
    process: &'static str,
    pub(crate) check: Check,
}

/// All phases, in order.
pub(crate) fn phases() -> Vec<Phase> {
    vec![
        Phase::new(
            "create: two placements in two cities",
            spec(&[("us", "DFW", 2), ("west", "ORD", 1)]),
            &[("web-us-dfw", "dfw1", 2), ("web-west-ord", "ord1", 1)],
        ),
        Phase::new(
            "scale up: us from 2 to 3",
            spec(&[("us", "DFW", 3), ("west", "ORD", 1)]),
            &[("web-us-dfw", "dfw1", 3), ("web-west-ord", "ord1", 1)],
        ),
        Phase::new(
            "move: us from DFW to ORD",
            spec(&[("us", "ORD", 3), ("west", "ORD", 1)]),
            &[("web-us-ord", "ord1", 3), ("web-west-ord", "ord1", 1)],
        ),
        Phase {
            title: "delete",
            spec: None,
            hops: last_hops(),
        },
    ]
}

fn spec(placements: &[(&str, &str, i32)]) -> Value {
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
    let interfaces = json!([{"network": {"name": "default"}}]);
    json!({"placements": placements, "template": {"spec": {"networkInterfaces": interfaces, "runtime": runtime}}})
}

impl Phase {
    fn new(title: &'static str, spec: Value, layout: Layout) -> Self {
        Self {
            title,
            spec: Some(spec),
            hops: hops(layout),
        }
    }

    /// The first hop that does not hold, and why.
    pub(crate) fn missing(&self, state: &State) -> Option<(&Hop, String)> {
        self.hops
            .iter()
            .find_map(|hop| Some((hop, (hop.check)(state).err()?)))
    }

    /// Says which hop did not happen, with the evidence.
    pub(crate) fn failure(
        &self,
        state: &State,
        federation: &Federation,
        within: Duration,
    ) -> anyhow::Error {
        let Some((hop, evidence)) = self.missing(state) else {
            return anyhow::anyhow!(
                "{}: the hops did not hold together within {} s",
                self.title,
                within.as_secs()
            );
        };
        let log = federation
            .directory()
            .join("logs")
            .join(format!("{}.log", hop.process));
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

const MANAGER: &str = "project-manager";
const CELL_MANAGER: &str = "dfw1-manager";
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

/// The way of a Workload that runs.
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
        Hop::new(
            "cells: all Instances ready",
            "dfw1-provider",
            ready_in_cells(),
        ),
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

/// The way of a Workload that ends.
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

/// The deployments of a layout with their number of Instances; in one cell, or everywhere.
fn wanted(layout: Layout, cell: Option<&str>) -> BTreeMap<&'static str, i32> {
    let here = layout
        .iter()
        .filter(|(_, of, _)| cell.is_none_or(|cell| cell == *of));
    here.map(|(name, _, replicas)| (*name, *replicas)).collect()
}

fn deployments(plane: &'static str, layout: Layout) -> Check {
    Box::new(move |state| same_deployments(state, plane, &wanted(layout, None)))
}

fn deployments_in_cells(layout: Layout) -> Check {
    Box::new(move |state| {
        CELLS
            .iter()
            .try_for_each(|cell| same_deployments(state, cell, &wanted(layout, Some(cell))))
    })
}

fn instances_in_cells(layout: Layout) -> Check {
    Box::new(move |state| {
        CELLS
            .iter()
            .try_for_each(|cell| same_instances(state, cell, &wanted(layout, Some(cell))))
    })
}

fn ready_in_cells() -> Check {
    Box::new(|state| CELLS.iter().try_for_each(|cell| all_ready(state, cell)))
}

fn ready(plane: &'static str, layout: Layout) -> Check {
    Box::new(move |state| {
        same_instances(state, plane, &wanted(layout, None))?;
        all_ready(state, plane)
    })
}

fn policies(layout: Layout) -> Check {
    Box::new(move |state| same_policies(state, layout))
}

fn settled(plane: &'static str) -> Check {
    Box::new(move |state| all_settled(state, plane))
}

fn available(layout: Layout) -> Check {
    let total = layout.iter().map(|(_, _, replicas)| replicas).sum();
    Box::new(move |state| workload_available(state, total))
}

fn on<'s, K>(objects: &'s Objects<K>, plane: &str) -> impl Iterator<Item = (&'s String, &'s K)> {
    objects.get(plane).into_iter().flatten()
}

fn same_deployments(
    state: &State,
    plane: &str,
    wanted: &BTreeMap<&str, i32>,
) -> Result<(), String> {
    let found: BTreeMap<_, _> = on(&state.deployments, plane)
        .map(|(name, d)| (name.as_str(), d.spec.desired_replicas()))
        .collect();
    expect(
        plane,
        "WorkloadDeployments with their replicas",
        &found,
        wanted,
    )
}

fn same_policies(state: &State, layout: Layout) -> Result<(), String> {
    let found: BTreeSet<_> = on(&state.policies, HUB)
        .map(|(name, _)| name.clone())
        .collect();
    let wanted = layout
        .iter()
        .filter_map(|(name, _, _)| Some(format!("city-{}", name.rsplit('-').next()?)));
    expect(HUB, "PropagationPolicies", &found, &wanted.collect())
}

fn same_instances(state: &State, plane: &str, wanted: &BTreeMap<&str, i32>) -> Result<(), String> {
    let found: BTreeSet<_> = on(&state.instances, plane)
        .map(|(name, _)| name.clone())
        .collect();
    let wanted = wanted.iter().flat_map(|(name, replicas)| {
        (0..*replicas).map(move |ordinal| format!("{name}-{ordinal}"))
    });
    expect(plane, "Instances", &found, &wanted.collect())
}

fn expect<T: PartialEq + std::fmt::Debug>(
    plane: &str,
    what: &str,
    found: &T,
    wanted: &T,
) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!(
            "{what} on {plane} are {found:?}, should be {wanted:?}"
        ))
    }
}

fn all_ready(state: &State, plane: &str) -> Result<(), String> {
    let is_ready = |instance: &Instance| {
        instance
            .status
            .as_ref()
            .is_some_and(|status| condition::is_true(&status.conditions, "Ready"))
    };
    let unready = on(&state.instances, plane).find(|(_, instance)| !is_ready(instance));
    unready.map_or(Ok(()), |(_, instance)| {
        Err(format!("not ready on {plane}:\n{}", status(instance)))
    })
}

fn all_settled(state: &State, plane: &str) -> Result<(), String> {
    let is_settled = |deployment: &WorkloadDeployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let counters = [
            status.replicas,
            status.desired_replicas,
            status.ready_replicas,
            status.current_replicas,
        ];
        counters == [deployment.spec.desired_replicas(); 4]
            && status.observed_generation == deployment.metadata.generation
            && condition::is_true(&status.conditions, "Available")
    };
    let unsettled = on(&state.deployments, plane).find(|(_, deployment)| !is_settled(deployment));
    unsettled.map_or(Ok(()), |(_, deployment)| {
        Err(format!("not settled on {plane}:\n{}", status(deployment)))
    })
}

fn workload(state: &State) -> Option<&Workload> {
    state.workloads.get(PROJECT)?.get(WORKLOAD)
}

fn workload_available(state: &State, total: i32) -> Result<(), String> {
    let workload = workload(state).ok_or("there is no Workload")?;
    let seen = workload.status.clone().unwrap_or_default();
    let available = condition::find(&seen.conditions, "Available");
    let is_current = available.is_some_and(|available| {
        available.is_true() && available.observed_generation == workload.metadata.generation
    });
    if is_current
        && [
            seen.replicas,
            seen.desired_replicas,
            seen.ready_replicas,
            seen.current_replicas,
        ] == [total; 4]
    {
        Ok(())
    } else {
        Err(status(workload))
    }
}

fn workload_gone(state: &State) -> Result<(), String> {
    workload(state).map_or(Ok(()), |workload| Err(status(workload)))
}

/// Metadata that matters and status of an object, as evidence.
fn status<K: Resource + serde::Serialize>(object: &K) -> String {
    let value = json!(object);
    let meta = object.meta();
    let evidence = json!({
        "name": meta.name,
        "generation": meta.generation,
        "deletionTimestamp": meta.deletion_timestamp,
        "finalizers": meta.finalizers,
        "status": value.get("status"),
    });
    serde_json::to_string_pretty(&evidence).unwrap_or_default()
}
