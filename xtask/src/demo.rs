//! `cargo xtask demo`: a Workload all the way through a real federation.

mod checks;
mod hops;
mod observe;
mod screen;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use harness::peers::Peers;
use harness::{CellConfig, Config, Federation, federation};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use crate::build;
use hops::{Hop, Phase, phases};
use observe::Observer;
use screen::Screen;

/// Namespace of the demo on the project plane.
const NAMESPACE: &str = "demo";
/// Name of its Workload.
const WORKLOAD: &str = "web";
/// Time for one phase.
const PHASE: Duration = Duration::from_mins(1);

/// Shows a Workload all the way through a real federation.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Create, scale, move and delete the Workload, print how long each hop took, and end.
    #[arg(long)]
    once: bool,
    /// Print one line per plane (its kind, its name, its kubeconfig), and with --once leave the federation up.
    #[arg(long)]
    keep: bool,
    /// End the federations that --keep has left up.
    #[arg(long, conflicts_with_all = ["once", "keep"])]
    down: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.down {
        for directory in federation::stop_kept(&build::target())? {
            println!("ended: {}", directory.display());
        }
        return Ok(());
    }
    eprintln!("building compute-federation");
    let binary = build::binary()?;
    let peers = Peers::find_or_build(|progress| eprintln!("{progress}"))?;
    let config = Config {
        label: "demo".to_owned(),
        target: build::target(),
        binary,
        peers,
        cells: vec![
            CellConfig::new("dfw1", "DFW"),
            CellConfig::new("ord1", "ORD"),
        ],
        managers: true,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        eprintln!("starting a federation");
        let federation = tokio::select! {
            federation = Federation::start(&config) => federation?,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        };
        let shown = tokio::select! {
            shown = show(args, &federation) => Some(shown),
            death = federation.death() => Some(Err(death)),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        match shown {
            Some(shown) if args.keep => {
                let directory = federation.directory().display().to_string();
                federation.keep().await?;
                println!(
                    "the federation goes on in {directory}; `cargo xtask demo --down` ends it"
                );
                shown
            }
            Some(shown) => {
                federation.stop().await;
                shown
            }
            None => {
                eprintln!("ending the federation");
                federation.stop().await;
                // A live demo has no other end.
                ensure!(!args.once, "interrupted");
                Ok(())
            }
        }
    })
}

async fn show(args: &Args, federation: &Federation) -> anyhow::Result<()> {
    let logs = federation.directory().join("logs");
    println!(
        "federation ready after {:.1} s",
        federation.ready_after().as_secs_f64()
    );
    println!("logs {}", logs.display());
    if args.keep {
        for plane in federation.planes() {
            println!(
                "{} {} {}",
                plane.kind(),
                plane.name(),
                plane.kubeconfig().display()
            );
        }
    }
    let client = federation.project().client();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let namespace = harness::objects::apply(&client, &namespace).await?;
    let uid = namespace.metadata.uid.context("a namespace has a UID")?;
    let hub_namespace = format!("ns-{uid}");
    let mut observer = Observer::start(federation, NAMESPACE, &hub_namespace);
    let mut screen = Screen::new(federation);
    if args.once {
        once(federation, &mut observer, &mut screen).await?;
        return show_emptiness(federation, &hub_namespace).await;
    }
    println!(
        "Workload {WORKLOAD} in namespace {NAMESPACE} of the project; change it and see, Ctrl-C ends the demo"
    );
    if let Some(Phase {
        spec: Some(spec), ..
    }) = phases().into_iter().next()
    {
        apply(&client, &spec).await?;
    }
    loop {
        screen.draw(&observer.state, &[]);
        observer.changed().await?;
    }
}

/// A phase, and when each of its hops had happened.
type Outcome = (&'static str, Vec<(&'static str, Option<Duration>)>);

/// Goes through all phases and prints how long each hop took.
async fn once(
    federation: &Federation,
    observer: &mut Observer,
    screen: &mut Screen,
) -> anyhow::Result<()> {
    let mut report: Vec<Outcome> = Vec::new();
    for phase in phases() {
        let begin = Instant::now();
        match &phase.spec {
            Some(spec) => apply(&federation.project().client(), spec).await?,
            None => delete(&federation.project().client()).await?,
        }
        let done = follow(&phase, begin, observer, screen).await;
        report.push((
            phase.title,
            phase
                .hops
                .iter()
                .map(|hop| hop.title)
                .zip(done)
                .collect::<Vec<_>>(),
        ));
        if phase.missing(&observer.state).is_some() {
            print_report(&report);
            return Err(phase.failure(&observer.state, federation, PHASE));
        }
    }
    print_report(&report);
    Ok(())
}

/// Waits until every hop has happened, and gives the time at which each had, with all before it. Ends when the phase's
/// time is over.
async fn follow(
    phase: &Phase,
    begin: Instant,
    observer: &mut Observer,
    screen: &mut Screen,
) -> Vec<Option<Duration>> {
    let mut done: Vec<Option<Duration>> = vec![None; phase.hops.len()];
    loop {
        let holding = phase
            .hops
            .iter()
            .take_while(|hop| (hop.check)(&observer.state).is_ok());
        for (hop, done) in holding.zip(&mut done) {
            if done.is_none() {
                let after = *done.insert(begin.elapsed());
                screen.tell(&format!(
                    "{:>8} ms  {}: {}",
                    after.as_millis(),
                    phase.title,
                    hop.title
                ));
            }
        }
        let lines: Vec<_> = phase
            .hops
            .iter()
            .zip(&done)
            .map(|(hop, done)| progress(hop, *done))
            .collect();
        screen.draw(&observer.state, &lines);
        if phase.missing(&observer.state).is_none() {
            return done;
        }
        tokio::select! {
            changed = observer.changed() => if changed.is_err() { return done },
            () = sleep_until(begin + PHASE) => return done,
        }
    }
}

fn progress(hop: &Hop, done: Option<Duration>) -> String {
    match done {
        Some(after) => format!("{:>8} ms  {}", after.as_millis(), hop.title),
        None => format!("{:>11}  {}", "…", hop.title),
    }
}

/// When each hop had happened, and how long it took after the one before it.
fn print_report(report: &[Outcome]) {
    println!("\n{:<60} {:>10} {:>10}", "HOP", "TOOK", "AFTER");
    for (phase, hops) in report {
        println!("{phase}");
        let mut before = Duration::ZERO;
        for (hop, after) in hops {
            match after {
                Some(after) => {
                    let took = after.saturating_sub(before).as_millis();
                    println!("  {hop:<58} {took:>7} ms {:>7} ms", after.as_millis());
                    before = *after;
                }
                None => println!("  {hop:<58} {:>10}", "never"),
            }
        }
    }
}

/// Asks every API server itself that nothing is left.
async fn show_emptiness(federation: &Federation, hub_namespace: &str) -> anyhow::Result<()> {
    println!();
    for plane in federation
        .planes()
        .filter(|plane| plane.kind() != "project")
    {
        let deployments: Api<api::WorkloadDeployment> =
            Api::namespaced(plane.client(), hub_namespace);
        let instances: Api<api::Instance> = Api::namespaced(plane.client(), hub_namespace);
        let deployments = deployments.list(&ListParams::default()).await?.items.len();
        let instances = instances.list(&ListParams::default()).await?.items.len();
        println!(
            "{:<8} {deployments} WorkloadDeployments, {instances} Instances",
            plane.name()
        );
        ensure!(
            deployments == 0 && instances == 0,
            "{} is not empty",
            plane.name()
        );
    }
    Ok(())
}

async fn apply(client: &Client, spec: &Value) -> anyhow::Result<()> {
    let workloads: Api<api::Workload> = Api::namespaced(client.clone(), NAMESPACE);
    let workload = json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": WORKLOAD},
        "spec": spec,
    });
    workloads
        .patch(
            WORKLOAD,
            &PatchParams::apply("demo"),
            &Patch::Apply(workload),
        )
        .await?;
    Ok(())
}

async fn delete(client: &Client) -> anyhow::Result<()> {
    let workloads: Api<api::Workload> = Api::namespaced(client.clone(), NAMESPACE);
    workloads.delete(WORKLOAD, &DeleteParams::default()).await?;
    Ok(())
}
