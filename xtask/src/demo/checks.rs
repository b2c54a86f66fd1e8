//! The states that each hop must reach. Each state is a check of the observed objects.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow, ensure};
use api::{Instance, Workload, WorkloadDeployment, condition};
use kube::Resource;
use serde_json::json;

use super::WORKLOAD;
use crate::observe::{Objects, ObservedState};

/// Names of the planes in the harness.
pub(super) const PROJECT: &str = "project";
pub(super) const HUB: &str = "hub";
const CELLS: [&str; 2] = ["dfw1", "ord1"];

/// Name, cell and number of Instances, for each deployment.
pub(super) type Layout = &'static [(&'static str, &'static str, i32)];

/// A check of the observed state. The error describes the difference.
pub(super) type Check = Box<dyn Fn(&ObservedState) -> anyhow::Result<()> + Send + Sync>;

/// Returns the deployments of a layout with the number of their Instances. With a cell, returns only the deployments in
/// this cell.
fn wanted(layout: Layout, cell: Option<&str>) -> BTreeMap<&'static str, i32> {
    let here = layout
        .iter()
        .filter(|(_, of, _)| cell.is_none_or(|cell| cell == *of));
    here.map(|(name, _, replicas)| (*name, *replicas)).collect()
}

pub(super) fn deployments(plane: &'static str, layout: Layout) -> Check {
    Box::new(move |state| same_deployments(state, plane, &wanted(layout, None)))
}

pub(super) fn deployments_in_cells(layout: Layout) -> Check {
    Box::new(move |state| {
        CELLS
            .iter()
            .try_for_each(|cell| same_deployments(state, cell, &wanted(layout, Some(cell))))
    })
}

pub(super) fn instances_in_cells(layout: Layout) -> Check {
    Box::new(move |state| {
        CELLS
            .iter()
            .try_for_each(|cell| same_instances(state, cell, &wanted(layout, Some(cell))))
    })
}

pub(super) fn ready_in_cells() -> Check {
    Box::new(|state| CELLS.iter().try_for_each(|cell| all_ready(state, cell)))
}

/// Checks that no Instance of a cell has this gate, and that each has the condition that opens it.
pub(super) fn open(gate: &'static str, condition: &'static str) -> Check {
    Box::new(move |state| {
        let instances = CELLS.iter().flat_map(|cell| on(&state.instances, cell));
        for (name, instance) in instances {
            let is_open = !gates(instance).any(|closed| closed == gate);
            let has_condition = instance
                .status
                .as_ref()
                .is_some_and(|status| condition::is_true(&status.conditions, condition));
            ensure!(
                is_open && has_condition,
                "gate {gate} of {name}:\n{}",
                status(instance)
            );
        }
        Ok(())
    })
}

/// Returns the gates of an Instance that are closed.
pub(super) fn gates(instance: &Instance) -> impl Iterator<Item = &str> {
    let controller = instance.spec.controller.iter();
    let gates = controller.flat_map(|controller| &controller.scheduling_gates);
    gates.map(|gate| gate.name.as_str())
}

/// Checks that exactly one Instance on this plane waits for quota.
pub(super) fn one_waits_for_quota(plane: &'static str) -> Check {
    Box::new(move |state| {
        let waits = |instance: &Instance| {
            let status = instance.status.as_ref();
            let ready = status.and_then(|status| condition::find(&status.conditions, "Ready"));
            ready.is_some_and(|ready| ready.is_false() && ready.reason == "PendingQuota")
        };
        let count = on(&state.instances, plane)
            .filter(|(_, it)| waits(it))
            .count();
        ensure!(count == 1, "{count} Instances on {plane} wait for quota");
        Ok(())
    })
}

pub(super) fn ready(plane: &'static str, layout: Layout) -> Check {
    Box::new(move |state| {
        same_instances(state, plane, &wanted(layout, None))?;
        all_ready(state, plane)
    })
}

pub(super) fn policies(layout: Layout) -> Check {
    Box::new(move |state| same_policies(state, layout))
}

pub(super) fn settled(plane: &'static str) -> Check {
    Box::new(move |state| all_settled(state, plane))
}

pub(super) fn available(layout: Layout) -> Check {
    let total = layout.iter().map(|(_, _, replicas)| replicas).sum();
    Box::new(move |state| workload_available(state, total))
}

fn on<'s, K>(objects: &'s Objects<K>, plane: &str) -> impl Iterator<Item = (&'s String, &'s K)> {
    objects.get(plane).into_iter().flatten()
}

fn same_deployments(
    state: &ObservedState,
    plane: &str,
    wanted: &BTreeMap<&str, i32>,
) -> anyhow::Result<()> {
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

fn same_policies(state: &ObservedState, layout: Layout) -> anyhow::Result<()> {
    let found: BTreeSet<_> = on(&state.policies, HUB)
        .map(|(name, _)| name.clone())
        .collect();
    let wanted = layout
        .iter()
        .filter_map(|(name, _, _)| Some(format!("city-{}", name.rsplit('-').next()?)));
    expect(HUB, "PropagationPolicies", &found, &wanted.collect())
}

fn same_instances(
    state: &ObservedState,
    plane: &str,
    wanted: &BTreeMap<&str, i32>,
) -> anyhow::Result<()> {
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
) -> anyhow::Result<()> {
    ensure!(
        found == wanted,
        "{what} on {plane} are {found:?}, should be {wanted:?}"
    );
    Ok(())
}

fn all_ready(state: &ObservedState, plane: &str) -> anyhow::Result<()> {
    let is_ready = |instance: &Instance| {
        instance
            .status
            .as_ref()
            .is_some_and(|status| condition::is_true(&status.conditions, "Ready"))
    };
    let unready = on(&state.instances, plane).find(|(_, instance)| !is_ready(instance));
    unready.map_or(Ok(()), |(_, instance)| {
        Err(anyhow!("not ready on {plane}:\n{}", status(instance)))
    })
}

fn all_settled(state: &ObservedState, plane: &str) -> anyhow::Result<()> {
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
        Err(anyhow!("not settled on {plane}:\n{}", status(deployment)))
    })
}

fn workload(state: &ObservedState) -> Option<&Workload> {
    state.workloads.get(PROJECT)?.get(WORKLOAD)
}

fn workload_available(state: &ObservedState, total: i32) -> anyhow::Result<()> {
    let workload = workload(state).context("there is no Workload")?;
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
        Err(anyhow!(status(workload)))
    }
}

pub(super) fn workload_gone(state: &ObservedState) -> anyhow::Result<()> {
    workload(state).map_or(Ok(()), |workload| Err(anyhow!(status(workload))))
}

/// Returns the status and the relevant metadata of an object, for error messages.
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
