//! compute-federation as Pods: a management cluster and cells with real nodes, and on the host Milo with one project,
//! and a hub. An operator installs compute-federation with the commands and the files of the documentation.

mod documentation;
mod exposed;
mod former;
mod image;
mod operator;
mod single;
mod steps;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::FutureExt;
use futures::future::{join_all, select_all, try_join_all};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, Client, ResourceExt};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

pub use former::FORMER_IMAGE;
pub use operator::Operator;
pub use single::SingleCluster;
pub use steps::refuses;

use crate::milo::{CopiedRegistrations, MiloUser};
use crate::node::NodePrograms;
use crate::peers::Peers;
use crate::process::ChildProcess;
use crate::{
    CellConfig, Hub, HubConfig, Milo, MiloConfig, Node, NodeConfig, files, inotify, networking,
};
use documentation::Page;
use exposed::ExposedServers;

/// The namespace of compute-federation in all clusters.
pub const NAMESPACE: &str = "compute-system";
/// Name of the project.
pub const PROJECT: &str = "project";
/// Name of the network of the project's Workloads, in the namespace `default`.
pub const NETWORK: &str = "default";
/// Name of the Service of the webhook server.
const SERVICE: &str = "compute-webhook";

/// The configuration of an installation.
#[derive(Clone, Debug)]
pub struct InstallationConfig {
    /// Cargo's target directory. The directories of all parts are below it.
    pub target: PathBuf,
    /// The compute-federation binary.
    pub binary: PathBuf,
    /// The external programs.
    pub peers: Peers,
    /// The programs of nodes.
    pub programs: NodePrograms,
    /// The cells. Each is a cluster with one node.
    pub cells: Vec<CellConfig>,
}

/// compute-federation as Pods, and all that it needs.
pub struct Installation {
    directory: PathBuf,
    management: Node,
    cells: Vec<Node>,
    hub: Hub,
    milo: Milo,
    operator: Operator,
    pages: Pages,
    providers: Vec<ChildProcess>,
    registrations: Option<CopiedRegistrations>,
    exposed: ExposedServers,
    booted_after: Duration,
    ready_after: Duration,
}

struct Pages {
    install: Page,
    deploy: Page,
    upgrade: Page,
}

impl Pages {
    fn read() -> anyhow::Result<Self> {
        Ok(Self {
            install: Page::read("docs/operate/install.md")?,
            deploy: Page::read("docs/operate/deploy.md")?,
            upgrade: Page::read("docs/operate/upgrade.md")?,
        })
    }

    /// Returns an operator who knows the shell functions of the documentation.
    fn operator(&self, directory: &Path, config: &InstallationConfig) -> anyhow::Result<Operator> {
        let functions = self.install.block("Install", "sh")?;
        let directory = directory.join("operator");
        Operator::new(directory, &config.peers, &config.binary, functions)
    }
}

impl InstallationConfig {
    fn node(&self, name: &str) -> NodeConfig {
        NodeConfig {
            name: name.to_owned(),
            target: self.target.clone(),
            peers: self.peers.clone(),
            programs: self.programs.clone(),
            apiserver_flags: Vec::new(),
        }
    }

    fn hub(&self) -> HubConfig {
        HubConfig {
            label: "hub".to_owned(),
            target: self.target.clone(),
            peers: self.peers.clone(),
        }
    }

    /// Writes the image of the binary. Returns the path of the archive.
    async fn image(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        let (binary, directory) = (self.binary.clone(), directory.to_owned());
        spawn_blocking(move || image::write(&binary, &directory)).await?
    }

    /// Offers the cities of all cells to a project, and creates the network.
    async fn offer_cities(&self, project: &Client) -> anyhow::Result<()> {
        for CellConfig { city, .. } in &self.cells {
            networking::offer_city(project, &city.to_lowercase(), city).await?;
        }
        networking::create_network(project, api::DEFAULT_NAMESPACE, NETWORK).await
    }
}

/// Returns the address of a Service of compute-federation in a cluster.
async fn service_address(cluster: &Node, service: &str) -> anyhow::Result<String> {
    let services: Api<Service> = Api::namespaced(cluster.client(), NAMESPACE);
    let spec = services.get(service).await?.spec;
    let address = spec.and_then(|spec| spec.cluster_ip);
    address.with_context(|| format!("the Service {service} has no address"))
}

impl Installation {
    /// Starts all clusters and installs compute-federation. Returns when the project's API server calls admission, and
    /// the registration of the interpreter has a `caBundle`.
    ///
    /// # Errors
    ///
    /// When a part does not start, or a command of the documentation fails. The error contains the command.
    pub async fn start(config: &InstallationConfig) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let mut installation = Self::boot(config).await?;
        installation.booted_after = begin.elapsed();
        // On the heap: the futures of all steps would overflow the stack of a test.
        let installed = installation.install(config).boxed().await;
        installed.with_context(|| format!("in {}", installation.directory.display()))?;
        installation.ready_after = begin.elapsed();
        Ok(installation)
    }

    /// Starts all clusters and installs a stand-in for the Go manager, with manifests of the Go manager's names. Returns
    /// when the project's API server calls admission.
    ///
    /// # Errors
    ///
    /// When a part does not start, or a manifest is refused.
    pub async fn start_former(config: &InstallationConfig) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let mut installation = Self::boot(config).await?;
        installation.booted_after = begin.elapsed();
        let installed = installation.install_former(config).boxed().await;
        installed.with_context(|| format!("in {}", installation.directory.display()))?;
        installation.ready_after = begin.elapsed();
        Ok(installation)
    }

    async fn boot(config: &InstallationConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let directory = files::create(&config.target, "installation")?;
        let pages = Pages::read()?;
        let operator = pages.operator(&directory, config)?;
        let management = async {
            let node = Node::start(&config.node("management")).await?;
            node.install_cert_manager().await?;
            anyhow::Ok(node)
        };
        let cells = config.cells.iter().map(|cell| {
            let node = config.node(&cell.name);
            async move { Node::start(&node).await }.boxed()
        });
        let hub = config.hub();
        let milo = MiloConfig {
            label: "milo".to_owned(),
            target: config.target.clone(),
            binary: config.binary.clone(),
            peers: config.peers.clone(),
            projects: vec![PROJECT.to_owned()],
        };
        let (image, management, cells, hub, milo) = tokio::try_join!(
            config.image(&directory).boxed(),
            management.boxed(),
            try_join_all(cells),
            Hub::start(&hub).boxed(),
            Milo::start(&milo).boxed(),
        )?;
        let nodes = cells.iter().chain([&management]);
        try_join_all(nodes.map(|node| node.load(&image))).await?;
        fs::remove_file(&image)?;
        Ok(Self {
            directory,
            management,
            cells,
            hub,
            milo,
            operator,
            pages,
            providers: Vec::new(),
            registrations: None,
            exposed: ExposedServers::default(),
            booted_after: Duration::ZERO,
            ready_after: Duration::ZERO,
        })
    }

    /// Returns the time from the start until all clusters were ready, and until compute-federation was ready.
    pub fn ready_after(&self) -> (Duration, Duration) {
        (self.booted_after, self.ready_after)
    }

    /// Returns the directory of the installation.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the management cluster.
    pub fn management(&self) -> &Node {
        &self.management
    }

    /// Returns the cells, in the order of the configuration.
    pub fn cells(&self) -> &[Node] {
        &self.cells
    }

    /// Returns a cell.
    ///
    /// # Errors
    ///
    /// When there is no cell of this name.
    pub fn cell(&self, name: &str) -> anyhow::Result<&Node> {
        let cell = self.cells.iter().find(|cell| cell.name() == name);
        cell.with_context(|| format!("there is no cell {name}"))
    }

    /// Returns the hub.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns Milo, which has the project [`PROJECT`].
    pub fn milo(&self) -> &Milo {
        &self.milo
    }

    /// Returns the operator.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Returns the address of the Service of the webhook server. The host reaches it.
    ///
    /// # Errors
    ///
    /// When the Service does not exist.
    pub async fn webhook_address(&self) -> anyhow::Result<String> {
        self.service_address(SERVICE).await
    }

    /// Returns the address of a Service of compute-federation in the management cluster. The host reaches it.
    ///
    /// # Errors
    ///
    /// When the Service does not exist.
    pub async fn service_address(&self, service: &str) -> anyhow::Result<String> {
        service_address(&self.management, service).await
    }

    /// Returns a customer who may use the network of the project, and a client of this customer.
    ///
    /// # Errors
    ///
    /// When the kubeconfig of the customer cannot be written.
    pub async fn customer(&self) -> anyhow::Result<(MiloUser, Client)> {
        let user = MiloUser::new("ada@example.com", "ada");
        let permission = "networking.datumapis.com/networks.use";
        self.milo.authorizer().allow("ada", PROJECT, permission);
        let client = self.milo.client(&user, Some(PROJECT)).await?;
        Ok((user, client))
    }

    /// Returns the namespace on the hub and in the cells for a namespace of the project.
    ///
    /// # Errors
    ///
    /// When the project has no such namespace.
    pub async fn hub_namespace(&self, namespace: &str) -> anyhow::Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.milo.project(PROJECT)?.client());
        let uid = namespaces.get(namespace).await?.uid();
        Ok(format!("ns-{}", uid.context("the namespace has no UID")?))
    }

    /// Waits until a node, the hub or Milo ends unexpectedly. Returns an error with the end of its log.
    pub async fn death(&self) -> anyhow::Error {
        let nodes = self.cells.iter().chain([&self.management]);
        let nodes = nodes.map(|node| node.death().boxed());
        select_all(nodes.chain([self.hub.death().boxed(), self.milo.death().boxed()]))
            .await
            .0
    }

    /// Checks that no API server has refused a request of compute-federation with 403.
    ///
    /// # Errors
    /// When an API server has refused one. The error contains the requests.
    pub async fn check_rights(&self) -> anyhow::Result<()> {
        let project = self.milo.project(PROJECT)?;
        let mut logs = vec![
            self.hub.plane().audit_log().to_owned(),
            self.milo.root().plane().await.audit_log().to_owned(),
            project.plane().await.audit_log().to_owned(),
        ];
        let nodes = self.cells.iter().chain([&self.management]);
        logs.extend(nodes.map(Node::audit_log));
        let mut refused = Vec::new();
        for log in logs {
            let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
            let ours = text.lines().filter(|line| {
                line.contains(r#""userAgent":"compute-federation/"#)
                    && line.contains(r#""code":403"#)
            });
            refused.extend(ours.map(|line| format!("{}: {line}", log.display())));
        }
        ensure!(
            refused.is_empty(),
            "{} requests refused: {refused:#?}",
            refused.len()
        );
        Ok(())
    }

    /// Ends all parts and waits until their processes have ended. Logs and the files of the operator stay on disk.
    pub async fn stop(self) {
        drop((self.registrations, self.exposed));
        join_all(self.providers.into_iter().map(ChildProcess::kill)).await;
        let nodes = self.cells.into_iter().chain([self.management]);
        tokio::join!(
            join_all(nodes.map(Node::stop)),
            self.hub.stop(),
            self.milo.stop()
        );
    }
}
