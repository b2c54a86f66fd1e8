//! `cargo xtask demo`: follows a Workload through a real federation.

mod checks;
mod deployed;
mod gates;
mod hops;
mod layout;
mod once;
mod play;
mod scene;
mod screen;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use harness::peers::Peers;
use harness::{CellConfig, Config, Federation, federation, networking};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::build;
use crate::observe::ObservedPlane;
use crate::output::{Closed, print, tell};
use gates::DemoGates;
pub(crate) use hops::spec;
use play::play;
use scene::DemoScene;

/// Namespace of the demo in the project.
const NAMESPACE: &str = "demo";
/// Name of the demo's Workload.
const WORKLOAD: &str = "web";

/// Follows a Workload through a real federation and shows it live.
#[derive(clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is a flag of the command line"
)]
pub(crate) struct Args {
    /// Create, scale, move and delete the Workload, print how long each hop took, and exit.
    #[arg(long)]
    once: bool,
    /// With --once: create the Workload again at the end. Leave the federation running, also if the demo fails.
    /// Instances have no gates.
    #[arg(long)]
    keep: bool,
    /// Run compute-federation as Pods on real nodes, installed from the overlays of deploy. Needs root and cgroups.
    #[arg(long, conflicts_with_all = ["keep", "down"])]
    deployed: bool,
    /// End the federations that --keep has left running.
    #[arg(long, conflicts_with_all = ["once", "keep"])]
    down: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.down {
        return down();
    }
    tell("building compute-federation");
    let binary = build::binary()?;
    let peers = Peers::find_or_build(|progress| tell(progress))?;
    if args.deployed {
        return deployed::run(args, binary, peers);
    }
    let config = config("demo", binary, peers);
    // The doubles of networks and quota end with this process, so a federation that is kept has no gates.
    let config = match args.keep {
        true => config,
        false => Config {
            quota: true,
            networking: Some(gates::STRATEGY),
            network_kinds: Some(gates::KINDS),
            ..config
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tell("starting a federation");
        let federation = tokio::select! {
            federation = Federation::start(&config) => federation?,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        };
        let shown = tokio::select! {
            shown = show(args, &config.peers, &federation) => Some(shown),
            death = federation.death() => Some(Err(death)),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        match shown {
            Some(Err(error)) if error.is::<Closed>() => interrupted(args, federation).await,
            Some(shown) if args.once && args.keep => keep(federation, shown).await,
            Some(shown) => {
                federation.stop().await;
                shown
            }
            None => interrupted(args, federation).await,
        }
    })
}

/// Returns the configuration of a federation with two cells.
pub(crate) fn config(label: &str, binary: PathBuf, peers: Peers) -> Config {
    Config {
        label: label.to_owned(),
        target: build::target(),
        binary,
        peers,
        cells: vec![
            CellConfig::new("dfw1", "DFW"),
            CellConfig::new("ord1", "ORD"),
        ],
        managers: true,
        default_thresholds: false,
        hub_etcd: false,
        quota: false,
        networking: None,
        network_kinds: None,
    }
}

/// Creates a namespace with the network of the Workloads. Returns the name of its hub namespace.
pub(crate) async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespace = harness::objects::apply(client, &namespace).await?;
    let uid = namespace.metadata.uid.context("the namespace has no UID")?;
    networking::create_network(client, name, hops::NETWORK).await?;
    Ok(format!("ns-{uid}"))
}

/// Ends the federations that earlier demos left running.
fn down() -> anyhow::Result<()> {
    let target = build::target();
    let ended = federation::stop_kept(&target)?;
    if ended.is_empty() {
        let directory = target.join("federation");
        print(format!(
            "no federation is running in {}",
            directory.display()
        ))?;
    }
    for directory in ended {
        print(format!("ended: {}", directory.display()))?;
    }
    Ok(())
}

async fn interrupted(args: &Args, federation: Federation) -> anyhow::Result<()> {
    tell("ending the federation");
    federation.stop().await;
    // A live demo always ends by an interrupt. Only with --once is an interrupt an error.
    ensure!(!args.once, "interrupted");
    Ok(())
}

/// Keeps the federation running, whether the demo succeeded or failed.
async fn keep(federation: Federation, shown: anyhow::Result<()>) -> anyhow::Result<()> {
    let directory = federation.directory().display().to_string();
    let kept = federation.keep().await;
    let kept = kept.map(|()| {
        format!("the federation keeps running in {directory}; `cargo xtask demo --down` ends it")
    });
    match (shown, kept) {
        (Ok(()), Ok(kept)) => print(kept),
        (Err(error), Ok(kept)) => bail!("{error:#}\n{kept}"),
        (Ok(()), Err(error)) => Err(error.context("the federation has been ended")),
        (Err(error), Err(not_kept)) => {
            bail!("{error:#}\nthe federation has been ended: {not_kept:#}")
        }
    }
}

async fn show(args: &Args, peers: &Peers, federation: &Federation) -> anyhow::Result<()> {
    print(format!(
        "federation ready after {:.1} s",
        federation.ready_after().as_secs_f64()
    ))?;
    let logs = federation.directory().join("logs");
    print(format!("logs {}", logs.display()))?;
    for plane in federation.planes() {
        print(format!(
            "{} {} {}",
            plane.kind(),
            plane.name(),
            plane.kubeconfig().display()
        ))?;
    }
    let client = federation.project().client();
    let hub_namespace = create_namespace(&client, NAMESPACE).await?;
    federation.register_admission().await?;
    let gates = match args.keep {
        true => None,
        false => Some(DemoGates::start(federation, args.once).await?),
    };
    let logs = logs.clone();
    let scene = DemoScene {
        planes: ObservedPlane::all_of(federation),
        customer: client,
        gates,
        hub_namespace,
        log: Box::new(move |process| logs.join(format!("{process}.log"))),
        edit: format!(
            "{} --kubeconfig={} --namespace={NAMESPACE} edit workload {WORKLOAD}",
            peers.program("kubectl").display(),
            federation.project().kubeconfig().display()
        ),
    };
    play(&scene, args).await
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
