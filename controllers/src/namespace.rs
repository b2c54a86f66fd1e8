//! Deletes hub namespaces. The federator creates them. The name of a hub namespace contains the UID of the project's
//! Namespace. The hub namespace is deleted when this Namespace is proved to be gone and the hub namespace is empty
//! (docs/concepts/ownership.md). Running objects of a deleted project stay, because no API server can confirm that they
//! are unneeded.

mod kept_namespaces;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;

use api::karmada::{PropagationPolicy, ResourceBinding};
use api::{HubNamespace, Instance, WorkloadDeployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use multicluster::{Cache, Outcome};

use crate::hub::HubCaches;
use crate::hub::identity::HubIdentity;
use crate::hub::upstream::{self, Upstream};
use crate::hub::upstream_namespace::{Proof, UpstreamNamespace, answered, seen};
use crate::hub_in_use::HubInUse;
use crate::objects::{Namespace, describe, is_terminating, recorded_hub_namespace};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::hub_proof::{require_answering_hub, require_own_hub};
use crate::runtime::keys::HubKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Object, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use kept_namespaces::KeptNamespaces;
use plan::{KeepReason, Left, Observed, Plan, needs_proof, plan};

/// The objects that Kubernetes creates in every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
const SERVICE_ACCOUNT: &str = "default";

pub(crate) struct NamespaceController {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    hub_in_use: HubInUse,
    writer: Writer,
    kept: KeptNamespaces,
}

impl Controller for NamespaceController {
    const NAME: &'static str = "namespace";
    type Key = HubKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: HubKey,
    ) -> Result<Outcome, ReconcileError> {
        let name = &key.namespace;
        let hub = self.hub.identity()?;
        let cached = self.hub.namespaces.get("", name.as_str())?;
        // A namespace without identity is reported by `hub::unidentified`. If the labels changed, the hub namespace
        // also has a key with the new project.
        let ours = cached.filter(|namespace| key.project == upstream::project(namespace.meta()));
        let Some((namespace, upstream)) = ours.and_then(|namespace| {
            let upstream = Upstream::of(namespace.meta()).ok()?;
            Some((namespace, upstream))
        }) else {
            self.kept.settle(name);
            return Ok(Outcome::Gone);
        };
        let of = &upstream.project;
        let project = self.projects.get_unless_gone(of, &namespace).await?;
        let project = project.as_deref();
        let (seen_upstream, recorded) = match project {
            Some(project) => {
                project.require(&project.namespaces)?;
                project.require(&project.deployments)?;
                let cached = project.namespaces.metadata_of("", &upstream.namespace);
                let recorded = is_recorded(project, &upstream, name);
                (seen(name, cached.as_ref()), recorded)
            }
            None => (UpstreamNamespace::Absent(Proof::NoProject), false),
        };
        if seen_upstream == UpstreamNamespace::There {
            // This is the common case. The contents of the hub namespace need not be listed.
            self.kept.settle(name);
            return Ok(Outcome::Settled);
        }
        let mut observed = Observed {
            namespace: name,
            upstream: seen_upstream,
            recorded,
            left: self.left_in_caches(name),
            terminating: is_terminating(namespace.as_ref()),
        };
        if needs_proof(&observed)
            && let Proving::Refused(problem) =
                self.prove(&hub, project, &upstream, &mut observed).await?
        {
            return Ok(Outcome::Again(self.kept.note(name, &problem)));
        }
        match plan(&observed) {
            Plan::Delete(Proof::NoProject)
                if self
                    .projects
                    .get_unless_gone(of, &namespace)
                    .await?
                    .is_some() =>
            {
                // The project exists again. When it is served, all its hub namespaces are requeued.
                Ok(Outcome::Gone)
            }
            Plan::Delete(proof) => {
                require_own_hub(&self.hub, &namespace, project)?;
                self.hub_in_use
                    .verdict()
                    .require_own(|| describe(namespace.as_ref()))?;
                tracing::info!(
                    namespace = %name, project = %upstream.project, upstream = upstream.namespace, ?proof,
                    "deleting a hub namespace: the project's Namespace is gone and nothing is left on the hub"
                );
                let namespaces = Collection::of_plane(&self.hub.client, Some(&self.hub.namespaces));
                self.writer
                    .delete_unchanged(context, &namespaces, namespace.as_ref())
                    .await?;
                self.kept.settle(name);
                Ok(Outcome::Settled)
            }
            Plan::Keep(KeepReason::NotEmpty(what)) => {
                Ok(Outcome::Again(self.kept.note(name, &what)))
            }
            Plan::Keep(_) => {
                self.kept.settle(name);
                Ok(Outcome::Settled)
            }
            Plan::Prove => {
                let problem = "the project did not answer which Namespace it has";
                Ok(Outcome::Again(self.kept.note(name, problem)))
            }
        }
    }
}

/// The result of the requests to the project and the hub.
enum Proving {
    /// All answers are in the observations.
    Done,
    /// The API server of the project refuses to answer. The text is the reason.
    Refused(String),
}

impl NamespaceController {
    pub(crate) fn new(
        projects: Arc<SyncedProjects>,
        hub: Arc<HubCaches>,
        hub_in_use: HubInUse,
        writer: Writer,
    ) -> Self {
        Self {
            projects,
            hub,
            hub_in_use,
            writer,
            kept: KeptNamespaces::default(),
        }
    }

    /// Returns an object in the namespace according to the caches. The object may be undecodable.
    fn left_in_caches(&self, namespace: &HubNamespace) -> Left {
        let hub = &self.hub;
        let left = first_in(&hub.deployments, namespace)
            .or_else(|| first_in(&hub.instances, namespace))
            // The policy controller deletes our policies once no WorkloadDeployment needs them.
            .or_else(|| first_in(&hub.policies, namespace));
        left.map_or(Left::Unknown, Left::Something)
    }

    /// Reads the Namespace from the project, if the project exists. If the Namespace is gone, lists the remaining
    /// objects on the hub, which must be the hub `hub`.
    async fn prove(
        &self,
        hub: &HubIdentity,
        project: Option<&ProjectCaches>,
        upstream: &Upstream,
        observed: &mut Observed<'_>,
    ) -> Result<Proving, ReconcileError> {
        if let Some(project) = project {
            let namespaces = Collection::<Namespace>::of_plane(&project.client, None);
            let answer = match namespaces.read(&upstream.namespace).await {
                Ok(answer) => answer,
                Err(error) => return refused(error).map(Proving::Refused),
            };
            observed.upstream = answered(observed.namespace, answer.as_ref());
        }
        let is_absent = matches!(observed.upstream, UpstreamNamespace::Absent(_));
        if is_absent && observed.left == Left::Unknown {
            observed.left = self.left_on_hub(observed.namespace).await?;
            if observed.left == Left::Nothing {
                // The address of the hub may lead to another hub, which has nothing in the hub namespace. One of the two
                // answers is that of the hub in use.
                let what = || format!("the content of hub namespace {}", observed.namespace);
                require_answering_hub(&self.hub.client, hub, what).await?;
                observed.left = self.left_on_hub(observed.namespace).await?;
            }
        }
        Ok(Proving::Done)
    }

    /// Lists one object of each relevant kind on the hub. It lists the kinds last that are most likely to be created in
    /// the meantime.
    async fn left_on_hub(&self, namespace: &HubNamespace) -> Result<Left, ReconcileError> {
        let found = [
            self.first::<Instance>(namespace, None).await?,
            self.first::<ResourceBinding>(namespace, None).await?,
            self.first::<ConfigMap>(namespace, Some(ROOT_CA)).await?,
            self.first::<Secret>(namespace, None).await?,
            self.first::<ServiceAccount>(namespace, Some(SERVICE_ACCOUNT))
                .await?,
            self.first::<PropagationPolicy>(namespace, None).await?,
            self.first::<WorkloadDeployment>(namespace, None).await?,
        ];
        let found = found.into_iter().flatten().next();
        Ok(found.map_or(Left::Nothing, Left::Something))
    }

    /// Returns the first object of a kind, except the object with the name `but`. If it is unknown whether there is
    /// one, returns the reason.
    async fn first<K: Object<Scope = NamespaceResourceScope>>(
        &self,
        namespace: &HubNamespace,
        but: Option<&str>,
    ) -> Result<Option<String>, ReconcileError> {
        let objects = Collection::<K>::new(&self.hub.client, namespace.as_str(), None);
        match objects.first_but(but).await {
            Ok(first) => Ok(first),
            Err(error) => refused(error).map(Some),
        }
    }
}

/// Returns the message of the API server if it forbids or does not serve the request. Such an answer will not change
/// soon, so the namespace is kept. Returns any other error as an error, and the queue retries it.
fn refused(error: ReconcileError) -> Result<String, ReconcileError> {
    let is_refused = match &error {
        ReconcileError::NotServed { .. } => true,
        ReconcileError::Api { source, .. } => {
            matches!(source.as_ref(), kube::Error::Api(status) if matches!(status.code, 403 | 404))
        }
        _ => false,
    };
    is_refused.then(|| error.to_string()).ok_or(error)
}

fn first_in<K: Resource<DynamicType = ()>>(
    cache: &Cache<K>,
    namespace: &HubNamespace,
) -> Option<String> {
    let objects = cache.metadata(namespace.as_str());
    let name = objects.into_iter().next()?.name.unwrap_or_default();
    Some(format!("{} {name}", K::kind(&())))
}

/// Returns whether a WorkloadDeployment of the project's namespace has recorded the hub namespace. Such a
/// WorkloadDeployment needs the hub namespace, also for its finalization.
fn is_recorded(project: &ProjectCaches, upstream: &Upstream, namespace: &HubNamespace) -> bool {
    let deployments = project.deployments.metadata(&upstream.namespace);
    deployments
        .iter()
        .any(|deployment| recorded_hub_namespace(deployment) == Some(namespace.as_str()))
}
