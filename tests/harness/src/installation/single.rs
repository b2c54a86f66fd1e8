//! compute-federation as Pods in a cluster that is its own project, with a hub and without cells.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use tokio::time::Instant;

use super::exposed::ExposedServers;
use super::operator::Operator;
use super::steps::{INTERPRETER, RIGHTS, SERVICE_FOR_OTHERS, refuses, trust, user_on_hub};
use super::{InstallationConfig, Pages};
use crate::federation::parts::crd_of_others;
use crate::objects::apply_crds;
use crate::{Hub, Node, files, inotify, wait};

/// Name of the node, and of the operator's folder.
const NAME: &str = "single";
/// Time limit until the API server calls admission.
const WITHIN: Duration = Duration::from_mins(1);
/// CRDs of other operators that the documentation requires.
const CRDS: [&str; 3] = [
    "networking.datumapis.com_locationbindings.yaml",
    "networking.datumapis.com_networks.yaml",
    "resourcemetrics.miloapis.com_resourcemetricspolicies.yaml",
];

/// A cluster that is its own project, and a hub.
pub struct SingleCluster {
    node: Node,
    hub: Hub,
    ready_after: Duration,
    _exposed: ExposedServers,
}

impl SingleCluster {
    /// Starts the cluster and a hub, and installs the overlay `single-cluster` as the documentation says. Returns when
    /// the API server calls admission. Starts none of the cells, but offers their cities.
    ///
    /// # Errors
    ///
    /// When a part does not start, or a command of the documentation fails. The error contains the command.
    pub async fn start(config: &InstallationConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let begin = Instant::now();
        let directory = files::create(&config.target, "single-cluster")?;
        let pages = Pages::read()?;
        let operator = pages.operator(directory.join("operator"), &config.peers)?;
        let node = async {
            let node = Node::start(&config.node(NAME)).await?;
            node.install_cert_manager().await?;
            let crds = CRDS.map(crd_of_others);
            apply_crds(&node.client(), &crds).await?;
            anyhow::Ok(node)
        };
        let hub = config.hub();
        let (image, node, hub) = tokio::try_join!(
            config.image(&directory).boxed(),
            node.boxed(),
            Hub::start(&hub).boxed()
        )?;
        node.load(&image).await?;
        fs::remove_file(&image)?;
        let mut exposed = ExposedServers::default();
        let installed = install(&pages, &operator, &node, &hub, &mut exposed).boxed();
        installed
            .await
            .with_context(|| format!("in {}", directory.display()))?;
        config.offer_cities(&node.client()).await?;
        let client = node.client();
        let called = || refuses(&client);
        wait::eventually("the API server calls admission", WITHIN, called).await?;
        Ok(Self {
            node,
            hub,
            ready_after: begin.elapsed(),
            _exposed: exposed,
        })
    }

    /// Returns the time from the start until compute-federation was ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Returns the cluster.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the hub.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Ends the cluster and the hub.
    pub async fn stop(self) {
        tokio::join!(self.node.stop(), self.hub.stop());
    }
}

async fn install(
    pages: &Pages,
    operator: &Operator,
    node: &Node,
    hub: &Hub,
    exposed: &mut ExposedServers,
) -> anyhow::Result<()> {
    for (name, kubeconfig) in [
        ("hub", hub.plane().kubeconfig()),
        ("management", &node.kubeconfig()),
    ] {
        let text = fs::read_to_string(kubeconfig)?;
        operator.write(&format!("{name}.kubeconfig"), &text)?;
    }
    let kubeconfig = hub.plane().kubeconfig();
    let user = user_on_hub(pages)?;
    let kubeconfig = exposed.kubeconfig(node, kubeconfig, Some(&user)).await?;
    operator.write(&format!("{NAME}/downstream-kubeconfig.yaml"), &kubeconfig)?;
    let kustomization = format!("{NAME}/kustomization.yaml");
    operator.write(&kustomization, pages.deploy.file(&kustomization)?)?;

    operator.run(pages.install.block(RIGHTS, "sh")?).await?;
    trust(pages, operator, hub, node).await?;
    let commands = pages.deploy.block("Deploy to a single cluster", "sh")?;
    operator.run(commands).await?;
    // The API server of this cluster finds the Service itself.
    let service = pages.install.block(SERVICE_FOR_OTHERS, "sh")?;
    let service = service.replace("in hub root", "in hub");
    let address = super::service_address(node).await?;
    operator.run(&service.replace("ADDRESS", &address)).await?;
    operator
        .run(pages.install.block(INTERPRETER, "sh")?)
        .await
        .map(drop)
}
