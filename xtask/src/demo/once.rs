//! `--once`: runs all phases in order and prints how long each hop took.

use std::time::Duration;

use anyhow::ensure;
use api::{Instance, WorkloadDeployment};
use kube::Api;
use kube::api::ListParams;
use tokio::time::{Instant, sleep_until};

use super::NAMESPACE;
use super::hops::{DemoPhase, Hop};
use super::scene::DemoScene;
use super::screen::Screen;
use crate::observe::Observer;
use crate::output::print;

/// Time limit of one phase.
const PHASE: Duration = Duration::from_mins(1);
/// Width of the column with the hops in the report, in characters.
const HOP_WIDTH: usize = 52;

/// Title of a phase. For each hop, the title of the hop and the time when the hop was complete.
type PhaseReport = (&'static str, Vec<(&'static str, Option<Duration>)>);

/// Runs the phases and prints how long each hop took.
pub(super) async fn run(
    phases: Vec<DemoPhase>,
    scene: &DemoScene,
    observer: &mut Observer,
    screen: &mut Screen,
) -> anyhow::Result<()> {
    let mut report: Vec<PhaseReport> = Vec::new();
    for phase in phases {
        let begin = Instant::now();
        phase.change.make(scene).await?;
        let done = follow(&phase, begin, observer, screen).await?;
        let hops = phase.hops.iter().map(|hop| hop.title);
        report.push((phase.title, hops.zip(done).collect()));
        if phase.missing(&observer.state).is_some() {
            print_report(&report)?;
            return Err(phase.failure(&observer.state, |process| scene.log(process), PHASE));
        }
    }
    print_report(&report)
}

/// Waits until every hop is complete. Returns a time for each hop: the time when this hop and all earlier hops were
/// complete, or `None` if this did not happen within the time limit of the phase.
async fn follow(
    phase: &DemoPhase,
    begin: Instant,
    observer: &mut Observer,
    screen: &mut Screen,
) -> anyhow::Result<Vec<Option<Duration>>> {
    let mut done: Vec<Option<Duration>> = vec![None; phase.hops.len()];
    screen.tell(phase.title)?;
    loop {
        let holding = phase
            .hops
            .iter()
            .take_while(|hop| (hop.check)(&observer.state).is_ok());
        for (hop, done) in holding.zip(&mut done) {
            if done.is_none() {
                *done = Some(begin.elapsed());
                screen.tell(&progress(hop, *done))?;
            }
        }
        let hops = phase.hops.iter().zip(&done);
        let lines: Vec<_> = std::iter::once(phase.title.to_owned())
            .chain(hops.map(|(hop, done)| progress(hop, *done)))
            .collect();
        screen.draw(&observer.state, &lines)?;
        if phase.missing(&observer.state).is_none() {
            return Ok(done);
        }
        tokio::select! {
            changed = observer.changed() => if changed.is_err() { return Ok(done) },
            () = sleep_until(begin + PHASE) => return Ok(done),
        }
    }
}

fn progress(hop: &Hop, done: Option<Duration>) -> String {
    match done {
        Some(after) => format!("{:>8} ms  {}", after.as_millis(), hop.title),
        None => format!("{:>11}  {}", "…", hop.title),
    }
}

/// Prints two times for each hop: the time since the previous hop, and the time since the change of the Workload.
fn print_report(report: &[PhaseReport]) -> anyhow::Result<()> {
    print(format!(
        "\n{:<HOP_WIDTH$}{:>14}{:>14}",
        "HOP", "SINCE PREVIOUS", "SINCE CHANGE"
    ))?;
    for (phase, hops) in report {
        print(phase)?;
        let mut before = Duration::ZERO;
        for (hop, after) in hops {
            let hop = format!("  {hop}");
            match after {
                Some(after) => {
                    let since = after.saturating_sub(before).as_millis();
                    let after_change = after.as_millis();
                    print(format!(
                        "{hop:<HOP_WIDTH$}{since:>11} ms{after_change:>11} ms"
                    ))?;
                    before = *after;
                }
                None => print(format!("{hop:<HOP_WIDTH$}{:>14}", "never"))?,
            }
        }
    }
    Ok(())
}

/// Checks on every API server that no object is left.
pub(super) async fn show_emptiness(scene: &DemoScene, hub_namespace: &str) -> anyhow::Result<()> {
    print("")?;
    for plane in &scene.planes {
        let namespace = plane.namespace(NAMESPACE, hub_namespace);
        let deployments: Api<WorkloadDeployment> = Api::namespaced(plane.client.clone(), namespace);
        let instances: Api<Instance> = Api::namespaced(plane.client.clone(), namespace);
        let deployments = deployments.list(&ListParams::default()).await?.items.len();
        let instances = instances.list(&ListParams::default()).await?.items.len();
        let name = &plane.name;
        print(format!(
            "{name:<8} {deployments} WorkloadDeployments, {instances} Instances"
        ))?;
        ensure!(deployments == 0 && instances == 0, "{name} is not empty");
    }
    Ok(())
}
