//! Configuration of Milo, and the paths of its files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use api::milo::RESOURCE_MANAGER_GROUP;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use multicluster::clock;
use serde_json::{Value, json};

use super::ControlPlane;
use crate::federation::StartInputs;
use crate::federation::parts::{crd_of_others, project_crds};
use crate::objects::{apply, apply_status};
use crate::peers::Peers;
use crate::pki::Pki;
use crate::plane::{Plane, PlanePorts, RBAC, flag};
use crate::rights::{MILO_PROJECT, MILO_ROOT};
use crate::{files, inotify};

/// Foreign CRDs that the root API server needs.
const ROOT_CRDS: [&str; 2] = [
    "resourcemanager.miloapis.com_projects.yaml",
    "infrastructure.miloapis.com_projectcontrolplanes.yaml",
];
const PROJECT_VERSION: &str = "resourcemanager.miloapis.com/v1alpha1";

/// The parts to start.
#[derive(Clone, Debug)]
pub struct MiloConfig {
    /// Prefix of the directory's name.
    pub label: String,
    /// Cargo's target directory. Milo's directory is created below it.
    pub target: PathBuf,
    /// The compute-federation binary.
    pub binary: PathBuf,
    /// The external programs.
    pub peers: Peers,
    /// Names of the initial projects.
    pub projects: Vec<String>,
}

/// Paths and inputs that the start functions of all parts share.
pub(super) struct MiloPaths {
    binary: PathBuf,
    peers: Peers,
    directory: PathBuf,
    logs: PathBuf,
    pki: Pki,
    webhook_certificates: PathBuf,
}

impl MiloPaths {
    pub(super) fn create(config: &MiloConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let directory = files::create(&config.target, &config.label)?;
        let logs = directory.join("logs");
        fs::create_dir_all(&logs)?;
        Ok(Self {
            binary: config.binary.clone(),
            peers: config.peers.clone(),
            pki: Pki::create(&directory.join("pki"))?,
            webhook_certificates: directory.join("webhook-certificates"),
            logs,
            directory,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn pki(&self) -> &Pki {
        &self.pki
    }

    pub(super) fn webhook_certificates(&self) -> &Path {
        &self.webhook_certificates
    }

    pub(super) fn setup(&self) -> StartInputs<'_> {
        StartInputs {
            binary: &self.binary,
            directory: &self.directory,
            logs: &self.logs,
            peers: &self.peers,
            pki: &self.pki,
            webhook_certificates: &self.webhook_certificates,
        }
    }

    /// Starts the API server with the Projects.
    pub(super) async fn start_root(
        &self,
        apiserver: u16,
        etcd: u16,
    ) -> anyhow::Result<ControlPlane> {
        let crds = ROOT_CRDS.map(crd_of_others);
        let ports = PlanePorts { apiserver, etcd };
        let flags = [RBAC.into()];
        let plane = Plane::start_bare(
            &self.setup(),
            "root",
            "root",
            ports,
            &crds,
            &flags,
            MILO_ROOT,
        )
        .await?;
        ControlPlane::new(plane)
    }

    /// Starts the API server of a project. The authorizer is its authorization webhook.
    pub(super) async fn start_project(
        &self,
        name: &str,
        apiserver: u16,
        etcd: u16,
        authorizer: &str,
    ) -> anyhow::Result<ControlPlane> {
        let file = self.directory.join(format!("{name}-authorizer.kubeconfig"));
        // The path identifies the project to the authorizer.
        let url = format!("{authorizer}/{name}");
        fs::write(&file, self.pki.kubeconfig_of(&url, "{}"))?;
        let flags: [OsString; 5] = [
            "--authorization-mode=RBAC,Webhook".into(),
            flag("authorization-webhook-config-file", &file),
            "--authorization-webhook-version=v1".into(),
            "--authorization-webhook-cache-authorized-ttl=0s".into(),
            "--authorization-webhook-cache-unauthorized-ttl=0s".into(),
        ];
        let crds = project_crds()?;
        let ports = PlanePorts { apiserver, etcd };
        let plane = Plane::start_bare(
            &self.setup(),
            "project",
            name,
            ports,
            &crds,
            &flags,
            MILO_PROJECT,
        )
        .await?;
        ControlPlane::new(plane)
    }
}

/// Returns the API for Projects.
pub(super) fn projects(root: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(RESOURCE_MANAGER_GROUP, "v1alpha1", "Project");
    Api::all_with(root.clone(), &ApiResource::from_gvk(&kind))
}

pub(super) async fn create_project(root: &Client, name: &str) -> anyhow::Result<()> {
    let project = json!({
        "apiVersion": PROJECT_VERSION,
        "kind": "Project",
        "metadata": {"name": name},
        "spec": {"ownerRef": {"kind": "Organization", "name": "harness"}},
    });
    apply(root, &project).await.map(drop)
}

pub(super) async fn set_ready(root: &Client, name: &str, ready: bool) -> anyhow::Result<()> {
    let reason = match ready {
        true => "Ready",
        false => "Provisioning",
    };
    let project = json!({
        "apiVersion": PROJECT_VERSION,
        "kind": "Project",
        "metadata": {"name": name},
        "status": {"conditions": [condition("Ready", ready, reason)]},
    });
    apply_status(root, &project).await.map(drop)
}

/// Writes the condition `Suspended` of a project.
pub(super) async fn set_suspended(root: &Client, name: &str, holds: bool) -> anyhow::Result<()> {
    let reason = if holds { "Suspended" } else { "Active" };
    let conditions = [
        condition("Ready", true, "Ready"),
        condition("Suspended", holds, reason),
    ];
    let project = json!({
        "apiVersion": PROJECT_VERSION,
        "kind": "Project",
        "metadata": {"name": name},
        "status": {"conditions": conditions},
    });
    apply_status(root, &project).await.map(drop)
}

/// Returns a condition whose transition time is now.
pub(super) fn condition(name: &str, holds: bool, reason: &str) -> Value {
    json!({
        "type": name,
        "status": match holds {
            true => "True",
            false => "False",
        },
        "reason": reason,
        "message": reason,
        "lastTransitionTime": clock::now().to_string(),
    })
}
