//! The steps of `docs/operate/install.md` and `docs/operate/deploy.md`, and what these pages require.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::Workload;
use futures::FutureExt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::exposed::field;
use super::{Installation, InstallationConfig, NETWORK, Operator, PROJECT, Pages};
use crate::milo::MiloUser;
use crate::node::ISSUER_NAME;
use crate::objects::{apply, apply_crds};
use crate::rights::PlaneUser;
use crate::{CellConfig, Hub, Node, checkout, provider, wait};

/// Time limit until the project's API server calls admission, and until the interpreter's registration has a
/// `caBundle`.
pub(super) const WITHIN: Duration = Duration::from_mins(1);
/// The cell of the documentation.
const CELL: &str = "dfw1";
/// The issuer of certificates in the documentation.
pub(super) const ISSUER: &str = "datum-control-plane";
/// CRDs of other Kubernetes operators that the documentation requires in the management cluster.
const CRDS: [&str; 3] = [
    "grafana.integreatly.org_grafanadashboards",
    "operator.victoriametrics.com_vmrules",
    "resourcemetrics.miloapis.com_resourcemetricspolicies",
];
/// Headings of the steps.
pub(super) const RIGHTS: &str = "3. Give the rights on the hub";
pub(super) const SERVICE_FOR_OTHERS: &str = "4. Deploy the management process";
pub(super) const INTERPRETER: &str = "6. Register the interpreter";
pub(super) const ADMISSION: &str = "7. Register admission";
pub(super) const APPLY: &str = "Apply";
pub(super) const DEPLOY_CELL: &str = "Deploy a cell";
pub(super) const CRDS_OF_OURS: &str = "1. Install the CRDs";
const USER_ON_HUB: &str = "The user on the hub";
/// Paths of Milo's front. compute-federation replaces the second one by the path of each project.
const ROOT: &str = "";
const PROJECTS: &str = "/projects/none/control-plane";

impl Installation {
    pub(super) async fn install(&mut self, config: &InstallationConfig) -> anyhow::Result<()> {
        self.prepare(config).await?;
        self.give_rights().await?;
        let management = async { self.operator.run(self.deploy_step(APPLY, 0)?).await };
        let cells = config.cells.iter().map(|cell| self.deploy_cell(cell));
        tokio::try_join!(management, try_join_all(cells))?;
        self.create_services("in hub root").await?;
        for heading in [INTERPRETER, ADMISSION] {
            self.operator.run(self.install_step(heading, 0)?).await?;
        }
        self.start_platform().await?;
        self.until_called().await
    }

    /// Writes the files of the operator, gives the clusters what the documentation requires, and registers the cells.
    pub(super) async fn prepare(&mut self, config: &InstallationConfig) -> anyhow::Result<()> {
        self.write_files(config).await?;
        let project = self.milo.project(PROJECT)?.client();
        tokio::try_join!(
            self.prepare_management().boxed(),
            self.prepare_cells().boxed(),
            config.offer_cities(&project).boxed()
        )?;
        for cell in &config.cells {
            let crds = self.install_step(CRDS_OF_OURS, 0)?;
            self.operator.run(&of_cell(crds, cell)).await?;
            self.hub.register(self.cell(&cell.name)?).await?;
            let label = self.install_step("2. Label the cells", 0)?;
            self.operator.run(&of_cell(label, cell)).await?;
        }
        trust(&self.pages, &self.operator, &self.hub, &self.management).await
    }

    /// Gives the users of the processes their roles on the hub, at the root and in the project.
    pub(super) async fn give_rights(&self) -> anyhow::Result<()> {
        self.operator.run(self.install_step(RIGHTS, 0)?).await?;
        let rights = "The users at the root and in the projects";
        self.operator
            .run(self.deploy_step(rights, 0)?)
            .await
            .map(drop)
    }

    /// Creates the Service of the webhook server on other API servers: `in hub root`, or one of them.
    pub(super) async fn create_services(&self, planes: &str) -> anyhow::Result<()> {
        let commands = self.install_step(SERVICE_FOR_OTHERS, 0)?;
        let commands = commands.replace("in hub root", planes);
        let address = self.webhook_address().await?;
        let commands = commands.replace("ADDRESS", &address);
        self.operator.run(&commands).await.map(drop)
    }

    /// Lets the project's API server call the webhooks of the root, and starts the providers.
    pub(super) async fn start_platform(&mut self) -> anyhow::Result<()> {
        self.registrations = Some(self.milo.copy_registrations(PROJECT)?);
        for cell in &self.cells {
            let logs = cell.directory().join("logs");
            let provider = provider::start(cell.name(), &cell.kubeconfig(), &logs).await?;
            self.providers.push(provider);
        }
        Ok(())
    }

    /// Waits until the project's API server calls admission, and the interpreter's registration has a `caBundle`.
    pub(super) async fn until_called(&self) -> anyhow::Result<()> {
        let (_, customer) = self.customer().await?;
        let called = || refuses(&customer);
        wait::eventually("the project's API server calls admission", WITHIN, called).await?;
        let trusts = || self.hub_trusts_the_interpreter();
        wait::eventually(
            "the interpreter's registration has a caBundle",
            WITHIN,
            trusts,
        )
        .await
    }

    async fn hub_trusts_the_interpreter(&self) -> anyhow::Result<()> {
        let kind = "ResourceInterpreterWebhookConfiguration";
        let kind = GroupVersionKind::gvk("config.karmada.io", "v1alpha1", kind);
        let client = self.hub.plane().client();
        let registrations: Api<DynamicObject> =
            Api::all_with(client, &ApiResource::from_gvk(&kind));
        let registration = registrations.get("compute-federation").await?;
        let bundle = registration
            .data
            .pointer("/webhooks/0/clientConfig/caBundle");
        ensure!(bundle.is_some(), "no caBundle");
        Ok(())
    }

    /// Installs the process of a cell, as soon as Karmada can place our kinds in the cell.
    async fn deploy_cell(&self, cell: &CellConfig) -> anyhow::Result<String> {
        self.hub.until_joined(&cell.name).await?;
        let check = self.install_step(CRDS_OF_OURS, 1)?;
        self.operator.run(&of_cell(check, cell)).await?;
        let commands = self.deploy_step(DEPLOY_CELL, 0)?;
        self.operator.run(&of_cell(commands, cell)).await
    }

    pub(super) fn install_step(&self, heading: &str, index: usize) -> anyhow::Result<&str> {
        self.pages.install.nth(heading, "sh", index)
    }

    /// Runs the check of `docs/operate/install.md` with the address of a Pod of the management process. Returns the
    /// output.
    ///
    /// # Errors
    ///
    /// When a command fails.
    pub async fn check(&self, pod: &str) -> anyhow::Result<String> {
        let check = self.install_step("8. Check", 0)?;
        self.operator.run(&check.replace("POD", pod)).await
    }

    /// Returns commands below a heading of `docs/operate/deploy.md`. The first block of commands has the index 0.
    ///
    /// # Errors
    ///
    /// When the page has no such commands.
    pub fn deploy_step(&self, heading: &str, index: usize) -> anyhow::Result<&str> {
        self.pages.deploy.nth(heading, "sh", index)
    }

    /// Returns the content of a file in `docs/operate/deploy.md`.
    ///
    /// # Errors
    ///
    /// When the page has no such file.
    pub fn deploy_file(&self, name: &str) -> anyhow::Result<&str> {
        self.pages.deploy.file(name)
    }

    /// Writes the files of the operator: kubeconfigs of an administrator, those of the processes, and the
    /// kustomizations of the documentation.
    async fn write_files(&mut self, config: &InstallationConfig) -> anyhow::Result<()> {
        let user = MiloUser::administrator();
        let project = self.milo.kubeconfig(&user, Some(PROJECT))?;
        let planes = [
            ("hub", self.hub.plane().kubeconfig()),
            ("root", self.milo.root().kubeconfig()),
            ("project", &project),
            ("management", &self.management.kubeconfig()),
        ];
        for (name, kubeconfig) in planes {
            self.copy_kubeconfig(name, kubeconfig)?;
        }
        for cell in &self.cells {
            self.copy_kubeconfig(&folder(cell.name()), &cell.kubeconfig())?;
        }
        for (name, path) in [("root", ROOT), ("project", PROJECTS)] {
            let kubeconfig = self.milo.kubeconfig_at(&MiloUser::management(), path)?;
            self.write_for_pods(&format!("management/{name}.kubeconfig"), &kubeconfig, None)
                .await?;
        }
        let user = user_on_hub(&self.pages)?;
        let (name, hub) = (
            "management/downstream-kubeconfig.yaml",
            self.hub.plane().kubeconfig().to_owned(),
        );
        self.write_for_pods(name, &hub, Some(&user)).await?;
        self.write_kustomization("management", "management")?;
        for CellConfig { name, .. } in &config.cells {
            let kubeconfig = self.hub.plane().kubeconfig_of(&PlaneUser::cell(name))?;
            let folder = folder(name);
            self.write_for_pods(&format!("{folder}/hub.kubeconfig"), &kubeconfig, None)
                .await?;
            self.write_kustomization("cell", &folder)?;
            let config = fs::read_to_string(self.operator.file(&format!("{folder}/config.yaml")))?;
            let config = config.replace(CELL, name);
            self.operator
                .write(&format!("{folder}/config.yaml"), &config)?;
        }
        Ok(())
    }

    fn copy_kubeconfig(&self, name: &str, kubeconfig: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(kubeconfig)?;
        self.operator.write(&format!("{name}.kubeconfig"), &text)
    }

    /// Writes the kustomization of the documentation for a kind of cluster into a folder.
    fn write_kustomization(&self, kind: &str, folder: &str) -> anyhow::Result<()> {
        for file in ["kustomization.yaml", "config.yaml"] {
            let text = self.pages.deploy.file(&format!("{kind}/{file}"))?;
            self.operator.write(&format!("{folder}/{file}"), text)?;
        }
        Ok(())
    }

    /// Writes a kubeconfig that is valid in Pods, with the first user of `users`.
    async fn write_for_pods(
        &mut self,
        name: &str,
        kubeconfig: &Path,
        users: Option<&Value>,
    ) -> anyhow::Result<()> {
        let text = self.exposed.kubeconfig(&self.management, kubeconfig, users);
        self.operator.write(name, &text.await?)
    }

    /// Gives the management cluster what the documentation requires.
    async fn prepare_management(&self) -> anyhow::Result<()> {
        let client = self.management.client();
        let issuer = json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "ClusterIssuer",
            "metadata": {"name": ISSUER},
            "spec": {"ca": {"secretName": ISSUER_NAME}},
        });
        apply(&client, &issuer).await?;
        let crds = checkout::root().join("tests/harness/crds");
        apply_crds(&client, &CRDS.map(|name| crds.join(format!("{name}.yaml")))).await
    }

    /// Gives the nodes of cells the label that the documentation requires.
    async fn prepare_cells(&self) -> anyhow::Result<()> {
        let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        for cell in &self.cells {
            let nodes: Api<NodeObject> = Api::all(cell.client());
            let params = PatchParams::default();
            nodes
                .patch(cell.name(), &params, &Patch::Merge(&label))
                .await?;
        }
        Ok(())
    }
}

/// Returns the user of the management process in the kubeconfig of the hub.
pub(super) fn user_on_hub(pages: &Pages) -> anyhow::Result<Value> {
    let user = pages.deploy.block(USER_ON_HUB, "yaml")?;
    Ok(serde_saphyr::from_str(user)?)
}

/// Lets a hub accept the tokens of a cluster.
pub(super) async fn trust(
    pages: &Pages,
    operator: &Operator,
    hub: &Hub,
    cluster: &Node,
) -> anyhow::Result<()> {
    operator.run(pages.deploy.block(USER_ON_HUB, "sh")?).await?;
    let example = pages.deploy.nth(USER_ON_HUB, "yaml", 1)?;
    let mut configuration: Value = serde_saphyr::from_str(example)?;
    *field(&mut configuration, "/jwt/0/issuer/url")? = cluster.url().into();
    let authority = cluster.authority()?;
    *field(&mut configuration, "/jwt/0/issuer/certificateAuthority")? = authority.into();
    let jwt = configuration.get("jwt").and_then(Value::as_array);
    hub.trust_issuers(jwt.context("no jwt")?)
}

/// Returns the operator's folder of a cell. The documentation calls it `cell`.
fn folder(cell: &str) -> String {
    format!("cell-{cell}")
}

/// Returns the commands of the documentation for this cell.
pub(super) fn of_cell(commands: &str, cell: &CellConfig) -> String {
    let folder = folder(&cell.name);
    let commands = commands
        .replace(
            "from-file=kubeconfig=cell/",
            &format!("from-file=kubeconfig={folder}/"),
        )
        .replace("--kustomize=cell", &format!("--kustomize={folder}"))
        .replace(CELL, &cell.name)
        .replace("city-code=DFW", &format!("city-code={}", cell.city));
    // The function `cell` of the documentation is for one cell.
    format!("cell() {{ kubectl --kubeconfig={folder}.kubeconfig \"$@\"; }}\n{commands}")
}

/// Checks that admission refuses a Workload because its city does not exist.
///
/// # Errors
///
/// When the Workload is accepted, or refused with another error.
pub async fn refuses(customer: &Client) -> anyhow::Result<()> {
    refuses_with(customer, "Unsupported value: \"NONE\": supported values: ").await
}

/// Checks that admission refuses a Workload with this error, because its city does not exist.
pub(super) async fn refuses_with(customer: &Client, expected: &str) -> anyhow::Result<()> {
    let scale = json!({"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"});
    let workload = json!({
        "metadata": {"name": "refused"},
        "spec": {
            "placements": [{"name": "nowhere", "cityCodes": ["NONE"], "scaleSettings": scale}],
            "template": {"spec": {
                "networkInterfaces": [{"network": {"name": NETWORK}}],
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{"name": "app", "image": "app:1"}]},
                },
            }},
        },
    });
    let workloads: Api<Workload> = Api::namespaced(customer.clone(), api::DEFAULT_NAMESPACE);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = workloads
        .create(&dry_run, &serde_json::from_value(workload)?)
        .await;
    let error = answer
        .err()
        .context("the Workload is accepted")?
        .to_string();
    ensure!(error.contains(expected), "{error}");
    Ok(())
}
