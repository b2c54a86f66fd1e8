//! `--deployed`: the demo with compute-federation as Pods.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use harness::installation::{NAMESPACE as SYSTEM, PROJECT};
use harness::milo::MiloUser;
use harness::node::{self, NodePrograms};
use harness::peers::Peers;
use harness::{CellConfig, Installation, InstallationConfig, Node};
use tokio::signal::unix::{SignalKind, signal};

use super::hops::{CELL_MANAGER, MANAGER, PROVIDER};
use super::play::play;
use super::scene::DemoScene;
use super::{Args, NAMESPACE, WORKLOAD, create_namespace};
use crate::build;
use crate::observe::ObservedPlane;
use crate::output::{Closed, print, tell};

pub(super) fn run(args: &Args, binary: PathBuf, peers: Peers) -> anyhow::Result<()> {
    if let Err(reason) = node::check() {
        bail!("--deployed cannot run here: {reason}");
    }
    let config = InstallationConfig {
        target: build::target(),
        binary,
        peers,
        programs: NodePrograms::find_or_build(|progress| tell(progress))?,
        cells: vec![
            CellConfig::new("dfw1", "DFW"),
            CellConfig::new("ord1", "ORD"),
        ],
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tell("starting three nodes, a hub and Milo, and installing compute-federation");
        let installation = tokio::select! {
            installation = Installation::start(&config) => installation?,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        };
        let shown = tokio::select! {
            shown = show(args, &config.peers, &installation) => Some(shown),
            death = installation.death() => Some(Err(death)),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        tell("ending the nodes");
        installation.stop().await;
        match shown {
            Some(Err(error)) if !error.is::<Closed>() => Err(error),
            Some(Ok(())) => Ok(()),
            // A live demo always ends by an interrupt. Only with --once is an interrupt an error.
            _ => {
                ensure!(!args.once, "interrupted");
                Ok(())
            }
        }
    })
}

async fn show(args: &Args, peers: &Peers, installation: &Installation) -> anyhow::Result<()> {
    let (booted, ready) = installation.ready_after();
    print(format!(
        "clusters ready after {:.1} s, compute-federation after {:.1} s",
        booted.as_secs_f64(),
        ready.as_secs_f64()
    ))?;
    print(format!(
        "kustomizations {}",
        installation.operator().file("").display()
    ))?;
    let (milo, hub) = (installation.milo(), installation.hub().plane());
    let user = MiloUser::administrator();
    let project = milo.kubeconfig(&user, Some(PROJECT))?;
    print(format!("root root {}", milo.root().kubeconfig().display()))?;
    print(format!("project {PROJECT} {}", project.display()))?;
    print(format!("hub hub {}", hub.kubeconfig().display()))?;
    let nodes = || {
        installation
            .cells()
            .iter()
            .chain([installation.management()])
    };
    for node in nodes() {
        let kind = match node.name() {
            "management" => "management",
            _ => "cell",
        };
        print(format!(
            "{kind} {} {}",
            node.name(),
            node.kubeconfig().display()
        ))?;
    }
    for node in nodes() {
        let kubeconfig = node.kubeconfig();
        let pods = format!(
            "kubectl --kubeconfig={} get pods --all-namespaces",
            kubeconfig.display()
        );
        let pods = installation.operator().run(&pods).await?;
        print(format!("\nPods of {}:\n{pods}", node.name()))?;
    }

    let client = milo.project(PROJECT)?.client();
    let hub_namespace = create_namespace(&client, NAMESPACE).await?;
    let customer = milo.client(&user, Some(PROJECT)).await?;
    let mut planes = vec![
        ObservedPlane {
            kind: "project",
            name: PROJECT.to_owned(),
            client: customer.clone(),
        },
        ObservedPlane {
            kind: "hub",
            name: hub.name().to_owned(),
            client: hub.client(),
        },
    ];
    planes.extend(installation.cells().iter().map(|cell| ObservedPlane {
        kind: "cell",
        name: cell.name().to_owned(),
        client: cell.client(),
    }));
    let scene = DemoScene {
        planes,
        customer,
        gates: None,
        hub_namespace,
        log: logs(installation),
        edit: format!(
            "{} --kubeconfig={} --namespace={NAMESPACE} edit workload {WORKLOAD}",
            peers.program("kubectl").display(),
            project.display()
        ),
    };
    play(&scene, args).await
}

/// Returns a function that finds the log of a process. The processes of compute-federation are Pods here. Of the cells,
/// only the first one is used.
fn logs(installation: &Installation) -> Box<dyn Fn(&str) -> PathBuf + Send + Sync> {
    let management = installation.management().directory().to_owned();
    let cell = installation.cells().first().map(Node::directory);
    let cell = cell.unwrap_or(&management).to_owned();
    let hub = installation.hub().directory().to_owned();
    Box::new(move |process| match process {
        MANAGER => log_of_pod(&management),
        CELL_MANAGER => log_of_pod(&cell),
        PROVIDER => cell.join(format!("logs/{process}.log")),
        _ => hub.join(format!("logs/{process}.log")),
    })
}

/// Returns the log of the first container of our newest Pod on a node.
fn log_of_pod(node: &Path) -> PathBuf {
    let pods = node.join("var-log/pods");
    let folders = fs::read_dir(&pods).into_iter().flatten().flatten();
    let ours = folders.filter(|folder| {
        let name = folder.file_name();
        name.to_string_lossy().starts_with(&format!("{SYSTEM}_"))
    });
    let logs = ours.map(|folder| folder.path().join("manager/0.log"));
    let newest = logs.max_by_key(|log| fs::metadata(log).and_then(|data| data.modified()).ok());
    newest.unwrap_or(pods)
}
