//! The Go manager's installation, the takeover, and the way back, with the commands of `docs/operate/upgrade.md`.

use std::fs;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::steps::{
    ADMISSION, APPLY, CRDS_OF_OURS, DEPLOY_CELL, INTERPRETER, WITHIN, of_cell, refuses_with,
};
use super::{Installation, InstallationConfig};
use crate::former::{CUSTOMIZATION, customization, find_or_build};
use crate::node::ISSUER_NAME;
use crate::{checkout, wait};

/// The image of the stand-in.
pub const FORMER_IMAGE: &str = "ghcr.io/datum-cloud/compute:v0.9.0";
/// Folder with the manifests, and with the kustomizations of the operator.
const MANIFESTS: &str = "tests/harness/former";
/// The kustomizations of the operator.
const KUSTOMIZATIONS: [&str; 5] = [
    "management",
    "cell",
    "webhook",
    "federation",
    "downstream-rbac",
];
/// The operator has applied the manifests of the management cluster on the server side, and those of the cells on the
/// client side.
const INSTALL: &str = "
hub apply --server-side --kustomize=former/downstream-rbac
hub apply --server-side --kustomize=former/federation
management apply --server-side --kustomize=former/management
management --namespace=compute-system rollout status deployment/compute-manager --timeout=2m
";
const INSTALL_IN_CELL: &str = "
cell apply --kustomize=former/cell
cell --namespace=compute-system rollout status deployment/compute-manager --timeout=2m
";

impl Installation {
    pub(super) async fn install_former(
        &mut self,
        config: &InstallationConfig,
    ) -> anyhow::Result<()> {
        self.prepare(config).await?;
        self.write_former_files().await?;
        let program = find_or_build(|progress| eprintln!("{progress}"))?;
        let nodes = self.cells.iter().chain([&self.management]);
        try_join_all(
            nodes.map(|node| node.load_programs(FORMER_IMAGE, std::slice::from_ref(&program))),
        )
        .await?;
        // The namespace and the Secrets are the same before and after a takeover.
        let secrets = before(self.deploy_step(APPLY, 0)?, "management apply")?;
        self.operator.run(secrets).await?;
        self.operator.run(INSTALL).await?;
        for cell in &config.cells {
            self.hub.until_joined(&cell.name).await?;
            let secrets = before(self.deploy_step(DEPLOY_CELL, 0)?, "cell apply")?;
            let commands = format!("{secrets}{INSTALL_IN_CELL}");
            self.operator.run(&of_cell(&commands, cell)).await?;
        }
        self.create_services("in root").await?;
        let registrations = "root apply --server-side --kustomize=former/webhook";
        self.operator.run(registrations).await?;
        self.start_platform().await?;
        self.until_former_admits().await
    }

    async fn write_former_files(&self) -> anyhow::Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.management.client(), "cert-manager");
        let issuer = secrets.get(ISSUER_NAME).await?.data.unwrap_or_default();
        let authority = issuer.get("ca.crt").context("the issuer has no CA")?;
        let authority = STANDARD.encode(&authority.0);
        for folder in KUSTOMIZATIONS {
            let file = format!("{folder}/kustomization.yaml");
            let manifests = checkout::root().join(MANIFESTS).join("operator");
            let text = fs::read_to_string(manifests.join(&file)).context(folder)?;
            let text = text.replace("CA_BUNDLE", &authority);
            self.operator.write(&format!("former/{file}"), &text)?;
        }
        let customization = customization(CUSTOMIZATION, "WorkloadDeployment")?.to_string();
        self.operator
            .write("former/federation/customization.yaml", &customization)?;
        let hub = "downstream-kubeconfig.yaml";
        let hub_kubeconfig = fs::read_to_string(self.operator.file(&format!("management/{hub}")))?;
        self.operator
            .write(&format!("former/management/{hub}"), &hub_kubeconfig)
    }

    /// Waits until admission of the stand-in answers the project's API server.
    ///
    /// # Errors
    ///
    /// When another program answers, or none does.
    pub async fn until_former_admits(&self) -> anyhow::Result<()> {
        let (_, customer) = self.customer().await?;
        let answers = || refuses_with(&customer, "the Go manager refuses the city NONE");
        wait::eventually("the former admission answers", WITHIN, answers).await
    }

    /// Takes over, until the step in which the objects are adopted. Returns when admission and the interpreter are
    /// called.
    ///
    /// # Errors
    ///
    /// When a command of the documentation fails. The error contains the command.
    pub async fn begin_takeover(&self, config: &InstallationConfig) -> anyhow::Result<()> {
        self.run_step("1. Save a copy", config).await?;
        for cell in &config.cells {
            let crds = self.install_step(CRDS_OF_OURS, 0)?;
            self.operator.run(&of_cell(crds, cell)).await?;
        }
        self.run_step("3. Stop the Go manager in the cells", config)
            .await?;
        self.give_rights().await?;
        self.run_step("4. Replace the management process", config)
            .await?;
        self.run_step("5. Start the processes of the cells", config)
            .await?;
        self.create_services("in hub").await?;
        for heading in [INTERPRETER, ADMISSION] {
            self.operator.run(self.install_step(heading, 0)?).await?;
        }
        self.until_called().await
    }

    /// Runs all commands of a step of a takeover, or of the way back, and returns their output. Commands for `cell` run
    /// for every cell.
    ///
    /// # Errors
    ///
    /// When the page has no such step, or a command fails.
    pub async fn run_step(
        &self,
        heading: &str,
        config: &InstallationConfig,
    ) -> anyhow::Result<String> {
        let blocks = self.pages.upgrade.all(heading, "sh");
        ensure!(!blocks.is_empty(), "no commands below {heading:?}");
        let mut output = String::new();
        for block in blocks {
            // The shell function `cell` of the documentation, with its arguments.
            if !block.contains("cell ") {
                output += &self.operator.run(block).await?;
                continue;
            }
            for cell in &config.cells {
                output += &self.operator.run(&of_cell(block, cell)).await?;
            }
        }
        Ok(output)
    }
}

/// Returns the commands before the line that begins with `mark`.
fn before<'c>(commands: &'c str, mark: &str) -> anyhow::Result<&'c str> {
    let parts = commands.split_once(mark);
    let (before, _) = parts.with_context(|| format!("no {mark:?} in {commands}"))?;
    Ok(before)
}
