//! Copies the webhook registrations of the root to the API server of a project. Real Milo is one process: a webhook
//! that is registered at the root is called about the objects of all projects.

use std::time::Duration;

use anyhow::Context;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Milo;
use crate::objects::apply;

/// The kinds and names of our registrations.
const REGISTRATIONS: [(&str, &str); 2] = [
    ("MutatingWebhookConfiguration", "compute-mutating"),
    ("ValidatingWebhookConfiguration", "compute-validating"),
];
/// Namespace and name of the Service that the registrations name.
const SERVICE: (&str, &str) = ("compute-system", "compute-webhook");
/// Time between two looks at the root.
const EVERY: Duration = Duration::from_millis(100);

/// Copies registrations until it is dropped.
pub struct CopiedRegistrations(JoinHandle<()>);

impl Milo {
    /// Keeps our webhook registrations in a project the same as at the root, with the Service that they name.
    ///
    /// # Errors
    ///
    /// When there is no API server of this project.
    pub fn copy_registrations(&self, project: &str) -> anyhow::Result<CopiedRegistrations> {
        let (root, project) = (self.root().client(), self.project(project)?.client());
        Ok(CopiedRegistrations(tokio::spawn(async move {
            let mut copied = Vec::new();
            loop {
                // An error is not permanent: an API server may not be ready, or an object may not exist yet.
                if let Err(error) = copy(&root, &project, &mut copied).await {
                    eprintln!("the registrations of the root are not copied: {error:#}");
                }
                sleep(EVERY).await;
            }
        })))
    }
}

impl Drop for CopiedRegistrations {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Copies the objects that differ from `copied`.
async fn copy(root: &Client, project: &Client, copied: &mut Vec<Value>) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let (namespace, name) = SERVICE;
    if let Some(service) = get(root, "", "Service", Some(namespace), name).await? {
        found.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        );
        found.push(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": service.data.get("spec"),
        }));
    }
    let group = "admissionregistration.k8s.io";
    for (kind, name) in REGISTRATIONS {
        if let Some(registration) = get(root, group, kind, None, name).await? {
            found.push(json!({
                "apiVersion": format!("{group}/v1"),
                "kind": kind,
                "metadata": {"name": name},
                "webhooks": registration.data.get("webhooks"),
            }));
        }
    }
    for object in &found {
        if !copied.contains(object) {
            apply(project, object).await?;
        }
    }
    *copied = found;
    Ok(())
}

async fn get(
    root: &Client,
    group: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<Option<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(root.clone(), namespace, &resource),
        None => Api::all_with(root.clone(), &resource),
    };
    api.get_opt(name).await.with_context(|| name.to_owned())
}
