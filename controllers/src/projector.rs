//! Hub Instance → read-only Instance in the project (compute.md 2.3).

mod plan;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use api::identity::IdentityError;
use api::{HubNamespace, Instance, WorkloadDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use planes::Outcome;
use serde_json::{Value, json};
use tracing::warn;

use crate::ReconcileError;
use crate::keys::ProjectKey;
use crate::objects::{deployment_name, owner_reference};
use crate::upstream::Upstream;
use crate::watched::{Hub, Project, Projects};
use crate::wiring::Controller;
use crate::write::{Collection, Writer};
use plan::{Desired, Observed, plan};

pub(crate) struct Projector {
    pub(crate) projects: Arc<Projects>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) writer: Writer,
}

/// The projection of a hub Instance with this metadata.
///
/// # Errors
///
/// When the Instance does not say whose it is; then it has none.
pub(crate) fn projection_of(instance: &ObjectMeta) -> Result<ProjectKey, IdentityError> {
    let Upstream { project, namespace } = Upstream::of(instance)?;
    let name = instance.name.as_deref().unwrap_or_default();
    Ok(ProjectKey::new(&project, &namespace, name))
}

/// Reports hub Instances that do not say whose they are, each once.
#[derive(Default)]
pub(crate) struct Unidentified(Mutex<HashSet<String>>);

impl Unidentified {
    pub(crate) fn report(&self, instance: &ObjectMeta, error: &IdentityError) {
        let uid = instance.uid.clone().unwrap_or_default();
        if self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid)
        {
            let (namespace, name) = (instance.namespace.as_deref(), instance.name.as_deref());
            warn!(namespace, name, %error, "hub Instance is not projected: it does not say whose it is");
        }
    }
}

impl Controller for Projector {
    const NAME: &'static str = "projector";
    type Key = ProjectKey;

    async fn reconcile(&self, key: ProjectKey) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let projection = project.instances.get(&key.namespace, &key.name)?;
        let Some(namespace) = project.namespaces.get("", &key.namespace)? else {
            return match projection {
                None => Ok(Outcome::Gone),
                Some(_) => Err(ReconcileError::NotYet {
                    object: format!("Instance {key:?}"),
                    missing: "its Namespace on the project plane".to_owned(),
                }),
            };
        };
        let hub_namespace =
            HubNamespace::of_project_namespace(&namespace.uid().unwrap_or_default()).map_err(
                ReconcileError::identity(format!("Namespace {}", key.namespace)),
            )?;
        let instance = self.hub.instances.get(hub_namespace.as_str(), &key.name)?;
        let deployment = match instance
            .as_ref()
            .and_then(|instance| deployment_name(instance.meta()))
        {
            Some(name) => project.deployments.get(&key.namespace, name)?,
            None => None,
        };
        let plan = plan(&Observed {
            project: &key.project,
            hub_namespace: &hub_namespace,
            instance: instance.as_ref(),
            deployment: deployment.as_ref(),
            projection: projection.as_ref(),
        });
        let gone = instance.is_none() && projection.is_none();
        if plan.delete {
            self.prove_gone(&hub_namespace, &key.name).await?;
        }
        self.execute(
            &project,
            &key,
            instance.as_ref(),
            deployment.as_ref(),
            projection.as_ref(),
            plan,
        )
        .await?;
        Ok(if gone {
            Outcome::Gone
        } else {
            Outcome::Settled
        })
    }
}

impl Projector {
    /// Asks the hub itself: a cache may not have heard of an Instance yet.
    async fn prove_gone(&self, namespace: &HubNamespace, name: &str) -> Result<(), ReconcileError> {
        let instances = Collection::<Instance>::new(&self.hub.client, namespace.as_str(), None);
        match instances.read(name).await? {
            None => Ok(()),
            Some(_) => Err(ReconcileError::NotYet {
                object: format!("Instance {namespace}/{name} of the hub"),
                missing: "the watch to tell of it".to_owned(),
            }),
        }
    }

    async fn execute(
        &self,
        project: &Project,
        key: &ProjectKey,
        instance: Option<&Arc<Instance>>,
        deployment: Option<&Arc<WorkloadDeployment>>,
        projection: Option<&Arc<Instance>>,
        plan: plan::Plan,
    ) -> Result<(), ReconcileError> {
        let instances = Collection::new(&project.client, &key.namespace, Some(&project.instances));
        if let (Some(desired), Some(instance), Some(deployment)) =
            (plan.apply, instance, deployment)
        {
            let body = body(key, instance, deployment, &desired);
            let as_wanted = |written: &Instance| written.spec == instance.spec;
            self.writer
                .ensure(
                    &instances,
                    projection.map(AsRef::as_ref),
                    &body,
                    &["/spec"],
                    as_wanted,
                )
                .await?;
        }
        let Some(projection) = projection else {
            return Ok(());
        };
        if let Some(status) = plan.status {
            self.writer
                .apply_status(&instances, projection.as_ref(), json!(status))
                .await?;
        }
        if plan.delete {
            self.writer.delete(&instances, projection.as_ref()).await?;
        }
        Ok(())
    }
}

fn body(
    key: &ProjectKey,
    instance: &Instance,
    deployment: &WorkloadDeployment,
    desired: &Desired,
) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": desired.labels,
            "annotations": desired.annotations,
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": instance.spec,
    })
}
