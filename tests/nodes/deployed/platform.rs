//! A platform on which compute-federation runs as Pods: a management cluster and a cell with real nodes, and on the host
//! Milo with one project, and a hub. Everything of compute-federation is installed as the documentation says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::select_all;
use harness::milo::{CopiedRegistrations, MiloUser};
use harness::node::{ExposedPort, HOST, ISSUER_NAME};
use harness::objects::apply;
use harness::peers::Peers;
use harness::process::ChildProcess;
use harness::rights::PlaneUser;
use harness::{Hub, HubConfig, Milo, MiloConfig, Node, checkout, networking, provider, wait};
use k8s_openapi::api::core::v1::{Node as NodeObject, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::documentation::Page;
use super::image;
use super::operator::Operator;
use crate::fixture;

/// Time limit for one change to pass through all planes, on a machine with two cores.
pub(super) const WITHIN: Duration = Duration::from_mins(2);
/// The namespace of compute-federation in both clusters.
pub(super) const NAMESPACE: &str = "compute-system";
/// The project, its city, and the cell of the city.
pub(super) const PROJECT: &str = "p1";
pub(super) const CITY: &str = "DFW";
const CELL: &str = "dfw1";
/// The network of the Workloads.
pub(super) const NETWORK: &str = "default";
/// The issuer that the documentation names.
const ISSUER: &str = "datum-control-plane";
/// CRDs of other operators that the documentation requires in the management cluster.
const CRDS: [&str; 3] = [
    "grafana.integreatly.org_grafanadashboards",
    "operator.victoriametrics.com_vmrules",
    "resourcemetrics.miloapis.com_resourcemetricspolicies",
];
/// Paths of the front. The process replaces the path of the second one.
const ROOT: &str = "";
const PROJECTS: &str = "/projects/none/control-plane";

/// The running platform.
pub(crate) struct Platform {
    pub(super) management: Node,
    pub(super) cell: Node,
    pub(super) hub: Hub,
    pub(super) milo: Milo,
    pub(super) operator: Operator,
    pages: Pages,
    provider: Option<ChildProcess>,
    registrations: Option<CopiedRegistrations>,
    exposed: BTreeMap<u16, ExposedPort>,
}

struct Pages {
    install: Page,
    deploy: Page,
}

impl Platform {
    /// Starts the platform and installs compute-federation.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let begin = Instant::now();
        let pages = Pages {
            install: Page::read("docs/operate/install.md")?,
            deploy: Page::read("docs/operate/deploy.md")?,
        };
        let peers = Peers::find_or_build(|progress| eprintln!("{progress}"))?;
        let operator = Operator::new(&peers, pages.install.block("Install", "sh")?)?;
        let mut platform = Self::boot(pages, operator, peers).await?;
        let booted = begin.elapsed().as_secs_f64();
        let installed = platform.install().boxed().await;
        installed.with_context(|| format!("in {}", platform.directories()))?;
        eprintln!(
            "platform ready after {:.1} s, {booted:.1} s of them without compute-federation: {}",
            begin.elapsed().as_secs_f64(),
            platform.directories()
        );
        Ok(platform)
    }

    async fn boot(pages: Pages, operator: Operator, peers: Peers) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let folder = directory.path().to_owned();
        let image = async { spawn_blocking(move || image::write(&folder)).await? };
        let management = async {
            let node = fixture::start("management").await?;
            node.install_cert_manager().await?;
            anyhow::Ok(node)
        };
        let hub = HubConfig {
            label: "hub".to_owned(),
            target: fixture::target(),
            peers: peers.clone(),
        };
        let milo = MiloConfig {
            label: "milo".to_owned(),
            target: fixture::target(),
            binary: env!("CARGO_BIN_EXE_compute-federation").into(),
            peers,
            projects: vec![PROJECT.to_owned()],
        };
        let (image, management, cell, hub, milo) = tokio::try_join!(
            image.boxed(),
            management.boxed(),
            fixture::start(CELL).boxed(),
            Hub::start(&hub).boxed(),
            Milo::start(&milo).boxed(),
        )?;
        tokio::try_join!(management.load(&image), cell.load(&image))?;
        Ok(Self {
            management,
            cell,
            hub,
            milo,
            operator,
            pages,
            provider: None,
            registrations: None,
            exposed: BTreeMap::new(),
        })
    }

    fn directories(&self) -> String {
        let directories = [
            self.management.directory(),
            self.cell.directory(),
            self.hub.directory(),
            self.milo.directory(),
        ];
        directories.map(|it| it.display().to_string()).join(" ")
    }

    /// Follows `docs/operate/install.md` and `docs/operate/deploy.md`.
    async fn install(&mut self) -> anyhow::Result<()> {
        self.write_files().await?;
        self.prepare_clusters().await?;
        self.run_install("1. Install the CRDs", 0).await?;
        self.hub.register(&self.cell).await?;
        self.run_install("2. Label the cells", 0).await?;
        self.run_install("3. Give the rights on the hub", 0).await?;
        self.trust_the_management_cluster().await?;
        let heading = "The users at the root and in the projects";
        self.run_deploy(heading).await?;
        self.hub.until_joined(CELL).await?;
        self.run_install("1. Install the CRDs", 1).await?;
        tokio::try_join!(self.run_deploy("Apply"), self.run_deploy("Deploy a cell"))?;
        self.run_install("4. Deploy the management process", 0)
            .await?;
        self.run_install("6. Register the interpreter", 0).await?;
        self.run_install("7. Register admission", 0).await?;
        self.registrations = Some(self.milo.copy_registrations(PROJECT)?);
        let logs = self.cell.directory().join("logs");
        self.provider = Some(provider::start(CELL, &self.cell.kubeconfig(), &logs).await?);
        self.until_admission_is_called().await
    }

    /// Runs commands of the page about the installation.
    async fn run_install(&self, heading: &str, index: usize) -> anyhow::Result<()> {
        let commands = self.pages.install.nth(heading, "sh", index)?;
        let address = self.address().await.unwrap_or_default();
        let commands = commands.replace("ADDRESS", &address);
        self.operator.run(&commands).await.map(drop)
    }

    /// Runs commands of the page about deployment.
    async fn run_deploy(&self, heading: &str) -> anyhow::Result<()> {
        let commands = self.pages.deploy.block(heading, "sh")?;
        self.operator.run(commands).await.map(drop)
    }

    /// Returns the address of the Service of the webhook server.
    pub(super) async fn address(&self) -> anyhow::Result<String> {
        let services: Api<Service> = Api::namespaced(self.management.client(), NAMESPACE);
        let spec = services.get("compute-webhook").await?.spec;
        spec.and_then(|spec| spec.cluster_ip)
            .context("the Service has no address")
    }

    /// Writes the files of the operator.
    async fn write_files(&mut self) -> anyhow::Result<()> {
        let user = MiloUser::administrator();
        let project = self.milo.kubeconfig(&user, Some(PROJECT))?;
        for (name, kubeconfig) in [
            ("hub", self.hub.plane().kubeconfig()),
            ("root", self.milo.root().kubeconfig()),
            ("project", &project),
            ("cell", &self.cell.kubeconfig()),
            ("management", &self.management.kubeconfig()),
        ] {
            let text = fs::read_to_string(kubeconfig)?;
            self.operator.write(&format!("{name}.kubeconfig"), &text)?;
        }
        for (name, path) in [("root", ROOT), ("project", PROJECTS)] {
            let kubeconfig = self.milo.kubeconfig_at(&MiloUser::management(), path)?;
            let text = self.for_pods(&kubeconfig).await?.to_string();
            let name = format!("management/{name}.kubeconfig");
            self.operator.write(&name, &text)?;
        }
        let hub = self.hub.plane();
        let mut of_management = self.for_pods(&hub.kubeconfig().to_owned()).await?;
        let user: Value =
            serde_saphyr::from_str(self.pages.deploy.block("The user on the hub", "yaml")?)?;
        of_management["contexts"][0]["context"]["user"] = user["users"][0]["name"].clone();
        of_management["users"] = user["users"].clone();
        self.operator.write(
            "management/downstream-kubeconfig.yaml",
            &of_management.to_string(),
        )?;
        let of_cell = self.hub.plane().kubeconfig_of(&PlaneUser::cell(CELL))?;
        let of_cell = self.for_pods(&of_cell).await?.to_string();
        self.operator.write("cell/hub.kubeconfig", &of_cell)?;
        for folder in ["management", "cell"] {
            for file in ["kustomization.yaml", "config.yaml"] {
                let name = format!("{folder}/{file}");
                self.operator.write(&name, self.pages.deploy.file(&name)?)?;
            }
        }
        Ok(())
    }

    /// Returns a kubeconfig that is valid in Pods. Exposes the port of the server to the nodes.
    async fn for_pods(&mut self, kubeconfig: &Path) -> anyhow::Result<Value> {
        let text = fs::read_to_string(kubeconfig)?;
        let mut kubeconfig: Value = serde_saphyr::from_str(&text)?;
        let server = &mut kubeconfig["clusters"][0]["cluster"]["server"];
        let url: http::Uri = server.as_str().context("no server")?.parse()?;
        let port = url.port_u16().context("no port")?;
        if !self.exposed.contains_key(&port) {
            let exposed = self.management.expose(port).await?;
            self.exposed.insert(port, exposed);
        }
        *server = format!("https://{HOST}:{port}{}", url.path().trim_end_matches('/')).into();
        Ok(kubeconfig)
    }

    /// Gives the clusters what the documentation requires of them.
    async fn prepare_clusters(&self) -> anyhow::Result<()> {
        let issuer = json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "ClusterIssuer",
            "metadata": {"name": ISSUER},
            "spec": {"ca": {"secretName": ISSUER_NAME}},
        });
        apply(&self.management.client(), &issuer).await?;
        let crds = checkout::root().join("tests/harness/crds");
        for name in CRDS {
            let file = fs::read_to_string(crds.join(format!("{name}.yaml")))?;
            let definition: Value = serde_saphyr::from_str(&file)?;
            apply(&self.management.client(), &definition).await?;
        }
        let nodes: Api<NodeObject> = Api::all(self.cell.client());
        let labelled =
            json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        nodes
            .patch(CELL, &PatchParams::default(), &Patch::Merge(labelled))
            .await?;
        let project = self.milo.project(PROJECT)?.client();
        networking::offer_city(&project, &CITY.to_lowercase(), CITY).await?;
        networking::create_network(&project, "default", NETWORK).await
    }

    /// Lets the hub accept the tokens of the management cluster.
    async fn trust_the_management_cluster(&self) -> anyhow::Result<()> {
        let heading = "The user on the hub";
        self.run_deploy(heading).await?;
        let example = self.pages.deploy.nth(heading, "yaml", 1)?;
        let mut configuration: Value = serde_saphyr::from_str(example)?;
        let issuer = &mut configuration["jwt"][0]["issuer"];
        issuer["url"] = self.management.url().into();
        issuer["certificateAuthority"] = self.management.authority()?.into();
        let jwt = configuration["jwt"].as_array().context("no jwt")?;
        self.hub.trust_issuers(jwt)
    }

    /// Returns a customer of the project, and a client of this customer.
    pub(super) async fn customer(&self) -> anyhow::Result<(MiloUser, Client)> {
        let user = MiloUser::new("ada@example.com", "ada");
        let permission = "networking.datumapis.com/networks.use";
        self.milo.authorizer().allow("ada", PROJECT, permission);
        let client = self.milo.client(&user, Some(PROJECT)).await?;
        Ok((user, client))
    }

    /// Returns the name of the namespace on the hub and in the cell for a namespace of the project.
    pub(super) async fn hub_namespace(&self, namespace: &str) -> anyhow::Result<String> {
        let project = self.milo.project(PROJECT)?.client();
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(project);
        let uid = namespaces.get(namespace).await?.uid();
        Ok(format!("ns-{}", uid.context("the namespace has no UID")?))
    }

    /// Waits until the project's API server calls the webhook and trusts its certificate.
    async fn until_admission_is_called(&self) -> anyhow::Result<()> {
        let (_, client) = self.customer().await?;
        wait::eventually("the project calls admission", WITHIN, || async {
            super::load::refuses(&client).await
        })
        .await
    }

    /// Waits until a part of the platform ends unexpectedly. Returns an error with the end of its log.
    pub(crate) async fn death(&self) -> anyhow::Error {
        let parts = [
            self.management.death().boxed(),
            self.cell.death().boxed(),
            self.hub.death().boxed(),
            self.milo.death().boxed(),
        ];
        select_all(parts).await.0
    }

    /// Ends the platform and waits until nothing of it is left. Logs stay on disk.
    pub(crate) async fn stop(self) {
        drop((self.registrations, self.exposed));
        if let Some(provider) = self.provider {
            provider.kill().await;
        }
        tokio::join!(
            self.management.stop(),
            self.cell.stop(),
            self.hub.stop(),
            self.milo.stop(),
        );
    }
}
