//! A cluster that is its own project, with a hub and without cells.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;

use super::exposed::ExposedServers;
use super::operator::Operator;
use super::steps::{INTERPRETER, RIGHTS, SERVICE_FOR_OTHERS, refuses, trust, user_on_hub};
use super::{InstallationConfig, Pages, SERVICE, service_address};
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
/// Heading of the steps with the overlay `dev`.
const DEVELOP: &str = "Develop against a cluster";

/// A cluster that is its own project, and a hub. The cluster needs what the documentation requires, and the operator
/// has the kubeconfigs.
pub struct SingleCluster {
    directory: PathBuf,
    node: Node,
    hub: Hub,
    pages: Pages,
    operator: Operator,
    exposed: ExposedServers,
}

impl SingleCluster {
    /// Starts the cluster and a hub. Starts none of the cells in the configuration, but offers their cities.
    ///
    /// # Errors
    ///
    /// When a part does not start.
    pub async fn start(config: &InstallationConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let directory = files::create(&config.target, "single-cluster")?;
        let pages = Pages::read()?;
        let operator = pages.operator(&directory, config)?;
        let node = async {
            let node = Node::start(&config.node(NAME)).await?;
            node.install_cert_manager().await?;
            let crds = CRDS.map(crd_of_others);
            apply_crds(&node.client(), &crds).await?;
            config.offer_cities(&node.client()).await?;
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
        for (name, kubeconfig) in [
            ("hub", hub.plane().kubeconfig()),
            ("management", &node.kubeconfig()),
        ] {
            let text = fs::read_to_string(kubeconfig)?;
            operator.write(&format!("{name}.kubeconfig"), &text)?;
        }
        operator.run(pages.install.block(RIGHTS, "sh")?).await?;
        Ok(Self {
            directory,
            node,
            hub,
            pages,
            operator,
            exposed: ExposedServers::default(),
        })
    }

    /// Applies the overlay `dev` and runs the binary on the host. Returns when the API server has called its admission.
    ///
    /// # Errors
    ///
    /// When a command of the documentation fails, or the API server does not call admission.
    pub async fn develop(&self) -> anyhow::Result<()> {
        let pages = &self.pages.deploy;
        let config = pages.block(DEVELOP, "yaml")?;
        self.operator.write("dev.yaml", config)?;
        self.operator.run(pages.nth(DEVELOP, "sh", 0)?).await?;
        let command = pages.nth(DEVELOP, "sh", 1)?;
        let process = self.operator.start("dev", command).await?;
        process
            .while_running(self.until_admission_is_called())
            .await?;
        process.terminate().await;
        Ok(())
    }

    /// Installs the overlay `single-cluster`. Returns when the API server calls admission.
    ///
    /// # Errors
    ///
    /// When a command of the documentation fails, or the API server does not call admission.
    pub async fn install(&mut self) -> anyhow::Result<()> {
        let installed = self.follow_the_documentation().boxed().await;
        installed.with_context(|| format!("in {}", self.directory.display()))?;
        self.until_admission_is_called().await
    }

    async fn follow_the_documentation(&mut self) -> anyhow::Result<()> {
        let Self {
            node,
            hub,
            pages,
            operator,
            ..
        } = self;
        let kubeconfig = hub.plane().kubeconfig();
        let user = user_on_hub(pages)?;
        let kubeconfig = self.exposed.kubeconfig(node, kubeconfig, Some(&user));
        let name = format!("{NAME}/downstream-kubeconfig.yaml");
        operator.write(&name, &kubeconfig.await?)?;
        let name = format!("{NAME}/kustomization.yaml");
        operator.write(&name, pages.deploy.file(&name)?)?;
        trust(pages, operator, hub, node).await?;
        let commands = pages.deploy.block("Deploy to a single cluster", "sh")?;
        // The overlay `dev` may have created the namespace.
        let again = commands.replace("create namespace", "get namespace");
        let namespace = operator
            .run("management get namespace compute-system")
            .await;
        let commands = if namespace.is_ok() { &again } else { commands };
        operator.run(commands).await?;
        // The API server of this cluster finds the Service itself.
        let service = pages.install.block(SERVICE_FOR_OTHERS, "sh")?;
        let service = service.replace("in hub root", "in hub");
        let address = service_address(node, SERVICE).await?;
        operator.run(&service.replace("ADDRESS", &address)).await?;
        let interpreter = pages.install.block(INTERPRETER, "sh")?;
        operator.run(interpreter).await.map(drop)
    }

    async fn until_admission_is_called(&self) -> anyhow::Result<()> {
        let client = self.node.client();
        let called = || refuses(&client);
        wait::eventually("the API server calls admission", WITHIN, called).await
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
