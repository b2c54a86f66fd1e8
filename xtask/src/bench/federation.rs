//! `cargo xtask bench federation`: measures the time of each hop of a Workload. The federation is real and otherwise
//! idle.

use std::time::Duration;

use anyhow::{Context, bail};
use api::{Workload, condition};
use harness::Federation;
use harness::peers::Peers;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::percentile::percentile;
use super::{Bound, Programs, Row};
use crate::demo::{self, spec};
use crate::observe::{ObservedPlane, ObservedState, Observer};

/// The namespace of the Workloads.
const NAMESPACE: &str = "bench";
/// Names of the planes.
const PROJECT: &str = "project";
const HUB: &str = "hub";
const CELL: &str = "dfw1";
/// Number of Workloads that are created before the measurement. They create objects that later Workloads share: hub
/// namespace, policy, connections.
const WARM_UP: usize = 5;
/// Time limit for one Workload to become available.
const WITHIN: Duration = Duration::from_mins(1);
/// Maximum time in milliseconds for a hop of compute-federation.
const OURS: f64 = 50.0;

/// A state that each Workload reaches, and that the benchmark observes.
struct Milestone {
    is_reached: fn(&ObservedState, &WorkloadNames) -> bool,
    /// The hop that leads to this state. `None` for the first milestone and for the work of external processes.
    hop: Option<MeasuredHop>,
}

struct MeasuredHop {
    title: &'static str,
    /// Index of the milestone at which the hop starts.
    from: usize,
    is_ours: bool,
}

/// The names of a Workload and of the objects that are created for it.
struct WorkloadNames {
    workload: String,
    deployment: String,
    instance: String,
}

impl WorkloadNames {
    fn of(number: usize) -> Self {
        let workload = format!("web{number}");
        let deployment = format!("{workload}-us-dfw");
        Self {
            instance: format!("{deployment}-0"),
            workload,
            deployment,
        }
    }
}

/// Returns all milestones. Each milestone comes after the milestone at which its hop starts.
fn milestones() -> Vec<Milestone> {
    let hop = |title, from, is_ours| {
        Some(MeasuredHop {
            title,
            from,
            is_ours,
        })
    };
    let milestone = |is_reached, hop| Milestone { is_reached, hop };
    vec![
        milestone(|state, names| workload(state, names).is_some(), None),
        milestone(
            |state, names| deployment(state, PROJECT, names).is_some(),
            hop("workload: Workload to WorkloadDeployment", 0, true),
        ),
        milestone(
            |state, names| deployment(state, HUB, names).is_some(),
            hop("federator: WorkloadDeployment to the hub", 1, true),
        ),
        milestone(
            |state, names| deployment(state, CELL, names).is_some(),
            hop("Karmada: WorkloadDeployment to the cell", 2, false),
        ),
        milestone(
            |state, names| instance(state, CELL, names).is_some(),
            hop("deployment: WorkloadDeployment to Instance", 3, true),
        ),
        milestone(
            |state, names| instance(state, HUB, names).is_some(),
            hop("instance-writeback: Instance to the hub", 4, true),
        ),
        milestone(
            |state, names| instance(state, PROJECT, names).is_some(),
            hop("projector: Instance to the project", 5, true),
        ),
        milestone(
            |state, names| is_true(instance(state, CELL, names), "Running"),
            None,
        ),
        milestone(
            |state, names| is_true(instance(state, CELL, names), "Ready"),
            hop("instance: runs, to Ready", 7, true),
        ),
        milestone(
            |state, names| is_ready(deployment(state, CELL, names)),
            hop("deployment: Instance's Ready to its status", 8, true),
        ),
        milestone(
            |state, names| is_ready(deployment(state, HUB, names)),
            hop("Karmada: status to the hub, by our interpreter", 9, false),
        ),
        milestone(
            |state, names| is_ready(deployment(state, PROJECT, names)),
            hop("federator: status to the project", 10, true),
        ),
        milestone(
            |state, names| is_available(workload(state, names)),
            hop("workload: WorkloadDeployment's status to its own", 11, true),
        ),
        milestone(
            |state, names| is_true(instance(state, HUB, names), "Ready"),
            hop("instance-writeback: Ready to the hub", 8, true),
        ),
        milestone(
            |state, names| is_true(instance(state, PROJECT, names), "Ready"),
            hop("projector: Ready to the project", 13, true),
        ),
    ]
}

fn workload<'s>(state: &'s ObservedState, names: &WorkloadNames) -> Option<&'s Workload> {
    state.workloads.get(PROJECT)?.get(&names.workload)
}

fn deployment<'s>(
    state: &'s ObservedState,
    plane: &str,
    names: &WorkloadNames,
) -> Option<&'s api::WorkloadDeployment> {
    state.deployments.get(plane)?.get(&names.deployment)
}

fn instance<'s>(
    state: &'s ObservedState,
    plane: &str,
    names: &WorkloadNames,
) -> Option<&'s api::Instance> {
    state.instances.get(plane)?.get(&names.instance)
}

fn is_true(instance: Option<&api::Instance>, type_: &str) -> bool {
    let status = instance.and_then(|it| it.status.as_ref());
    status.is_some_and(|status| condition::is_true(&status.conditions, type_))
}

fn is_ready(deployment: Option<&api::WorkloadDeployment>) -> bool {
    let status = deployment.and_then(|it| it.status.as_ref());
    status.is_some_and(|status| status.ready_replicas == 1)
}

fn is_available(workload: Option<&Workload>) -> bool {
    let status = workload.and_then(|it| it.status.as_ref());
    status.is_some_and(|status| condition::is_true(&status.conditions, "Available"))
}

/// Starts a federation and measures.
pub(super) async fn run(programs: Programs, workloads: usize) -> anyhow::Result<Vec<Row>> {
    let binary = programs.binary;
    let peers = Peers::find_or_build(|progress| eprintln!("{progress}"))?;
    let federation = Federation::start(&demo::config("bench", binary, peers)).await?;
    let measured = tokio::select! {
        measured = measure(&federation, workloads) => measured,
        death = federation.death() => Err(death),
    };
    federation.stop().await;
    measured
}

async fn measure(federation: &Federation, workloads: usize) -> anyhow::Result<Vec<Row>> {
    let client = federation.project().client();
    let hub_namespace = demo::create_namespace(&client, NAMESPACE).await?;
    let planes = ObservedPlane::all_of(federation);
    let mut observer = Observer::start(&planes, NAMESPACE, &hub_namespace);
    let api: Api<Workload> = Api::namespaced(client, NAMESPACE);
    let milestones = milestones();
    let mut taken: Vec<Vec<f64>> = vec![Vec::new(); milestones.len()];
    for number in 0..workloads + WARM_UP {
        let names = WorkloadNames::of(number);
        let workload = serde_json::from_value(json!({
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Workload",
            "metadata": {"name": names.workload},
            "spec": spec(&[("us", "DFW", 1)]),
        }))?;
        api.create(&PostParams::default(), &workload).await?;
        let reached = follow(&mut observer, &milestones, &names).await?;
        if number < WARM_UP {
            continue;
        }
        for ((milestone, at), taken) in milestones.iter().zip(&reached).zip(&mut taken) {
            let from = milestone.hop.as_ref().and_then(|hop| reached.get(hop.from));
            taken.extend(from.map(|from| (*at - *from).as_secs_f64() * 1000.0));
        }
        if number % 20 == 0 {
            eprintln!("{} of {workloads} Workloads", number - WARM_UP);
        }
    }
    let hops = milestones.iter().zip(&mut taken);
    let rows = hops.filter_map(|(milestone, taken)| Some((milestone.hop.as_ref()?, taken)));
    Ok(rows.flat_map(|(hop, taken)| of_hop(hop, taken)).collect())
}

/// Waits until all milestones are reached. Returns the time at which each milestone was observed.
async fn follow(
    observer: &mut Observer,
    milestones: &[Milestone],
    names: &WorkloadNames,
) -> anyhow::Result<Vec<Instant>> {
    let end = Instant::now() + WITHIN;
    let mut reached: Vec<Option<Instant>> = vec![None; milestones.len()];
    loop {
        let now = Instant::now();
        for (milestone, at) in milestones.iter().zip(&mut reached) {
            if at.is_none() && (milestone.is_reached)(&observer.state, names) {
                *at = Some(now);
            }
        }
        if let Some(reached) = reached.iter().copied().collect() {
            return Ok(reached);
        }
        let Ok(changed) = timeout_at(end, observer.changed()).await else {
            let missing = reached.iter().position(Option::is_none).unwrap_or_default();
            let hop = milestones.get(missing).and_then(|it| it.hop.as_ref());
            let title = hop.map_or("a step of an external process", |hop| hop.title);
            bail!(
                "{}: not reached within {} s: {title}",
                names.workload,
                WITHIN.as_secs()
            );
        };
        changed.context("the watches of the benchmark have ended")?;
    }
}

fn of_hop(hop: &MeasuredHop, taken: &mut [f64]) -> [Row; 2] {
    taken.sort_by(f64::total_cmp);
    let at = |percent| percentile(taken, percent).unwrap_or(f64::NAN);
    let whose = if hop.is_ours { "ours" } else { "not ours" };
    let row = |what, percent| {
        Row::new(
            format!("{}: {what} ({whose})", hop.title),
            at(percent),
            "ms",
        )
    };
    let p99 = row("p99", 99);
    let p99 = if hop.is_ours {
        p99.target(Bound::AtMost(OURS))
    } else {
        p99
    };
    [row("p50", 50), p99]
}
