//! Projects Instances of the hub into their project as read-only objects (docs/concepts/flow.md). The labels of the hub
//! namespace identify the project.

mod own_hub;
mod owner;
mod plan;
mod projection;
mod quarantine;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;
use std::time::Duration;

use api::{HubNamespace, Instance, WorkloadDeployment, labels};
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use serde_json::json;

use crate::hub::HubCaches;
use crate::hub::cells::CellState;
use crate::hub::upstream::Upstream;
use crate::objects::{Namespace, deployment_name, is_terminating, label};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::error::FirstError;
use crate::runtime::keys::InstanceKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Stored, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use owner::{confirm_owner, known_deployment};
use plan::verdict::{of_hub, without_deployment};
use plan::{Observed, plan};
use projection::projection_body;
pub(crate) use quarantine::{Quarantine, Quarantined};

pub(crate) struct Projector {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) writer: Writer,
    pub(crate) quarantine: Quarantine,
}

/// An Instance on the hub with correct labels, and its namespace.
struct Sound {
    namespace: Arc<Namespace>,
    instance: Arc<Instance>,
}

impl Controller for Projector {
    const NAME: &'static str = "projector";
    type Key = InstanceKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: InstanceKey,
    ) -> Result<Outcome, ReconcileError> {
        let InstanceKey {
            project,
            namespace,
            name,
        } = key;
        match project {
            Some(project) => {
                let upstream = Upstream { project, namespace };
                self.reconcile_projection(context, &upstream, &name).await
            }
            None => {
                self.reconcile_unidentified(context, &namespace, &name)
                    .await
            }
        }
    }
}

impl Projector {
    /// Puts an Instance into quarantine because its hub namespace has no identity. When the namespace gets an identity,
    /// the Instance gets another key, and a reconciliation of that key handles it.
    async fn reconcile_unidentified(
        &self,
        context: &ReconcileContext,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, ReconcileError> {
        let known = self.hub.namespaces.get("", namespace)?;
        let instance = self.hub.instances.get(namespace, name)?;
        let (Some(namespace), Some(instance)) = (known, instance) else {
            return Ok(Outcome::Gone);
        };
        if Upstream::of(namespace.meta()).is_ok() {
            return Ok(Outcome::Gone);
        }
        self.is_sound(context, None, &namespace, &instance).await?;
        Ok(Outcome::Settled)
    }

    async fn reconcile_projection(
        &self,
        context: &ReconcileContext,
        upstream: &Upstream,
        name: &str,
    ) -> Result<Outcome, ReconcileError> {
        let on_hub = self.sound(context, upstream, name).await;
        let project = match self.served(upstream) {
            Ok(project) => project,
            // The quarantine does not depend on the project.
            Err(not_served) => {
                let failed = on_hub.into_iter().find_map(|(_, sound)| sound.err());
                return Err(failed.unwrap_or(not_served));
            }
        };
        let namespace = project.namespaces.metadata_of("", &upstream.namespace);
        let hub_namespace = namespace
            .map(|it| HubNamespace::of_project_namespace(&it.uid.unwrap_or_default()))
            .transpose()
            .map_err(ReconcileError::identity(format!("Namespace {upstream}")))?;
        let (mut found, mut rest) = (None, None);
        let mut errors = FirstError::default();
        for (name, sound) in on_hub {
            // Several hub namespaces can have the same labels. The right hub namespace is the one whose name contains
            // the UID of the project's Namespace. A problem in another one does not stop the projection.
            let is_its = hub_namespace
                .as_ref()
                .is_some_and(|its| its.as_str() == name);
            let sound = match sound {
                Err(error) if is_its => return Err(error),
                sound => errors.note(sound),
            };
            let Some(sound) = sound else { continue };
            let deployment = match deployment_name(sound.instance.meta()) {
                Some(name) if is_its => known_deployment(&project, &upstream.namespace, name),
                _ => None,
            };
            let own = is_its.then_some(upstream);
            let wait = self
                .miss(context, &project, own, &sound, deployment.as_deref())
                .await;
            let wait = match wait {
                Err(error) if is_its => return Err(error),
                wait => errors.note(wait).flatten(),
            };
            rest = rest.into_iter().chain(wait).min();
            if is_its {
                found = Some((sound.instance, deployment));
            }
        }
        // Without the Namespace, there is nothing to do. When the Namespace appears, its event triggers this
        // reconciliation.
        let settled = match &hub_namespace {
            Some(hub_namespace) => {
                let (instance, deployment) = found.unzip();
                let deployment = deployment.flatten();
                let mut projection = project.instances.get(&upstream.namespace, name)?;
                if let (Some(projection), Some(instance)) = (&mut projection, &instance)
                    && self
                        .writer
                        .has_additions_to(context, projection.as_ref(), &instance.spec)
                {
                    Arc::make_mut(projection).spec = instance.spec.clone();
                }
                let observed = Observed {
                    upstream,
                    hub_namespace,
                    instance: instance.as_ref(),
                    deployment: deployment.as_ref(),
                    projection: projection.as_ref(),
                    cell: self.cell_of(instance.as_ref().or(projection.as_ref())),
                    now: context.now(),
                };
                self.project(context, &project, name, &observed).await?
            }
            None if self.is_nowhere(&project, upstream, name) => Outcome::Gone,
            None => Outcome::Settled,
        };
        errors.result()?;
        Ok(rest.map_or(settled, Outcome::Again))
    }

    /// Returns the caches of a project, if the kinds that a projection needs have been listed.
    fn served(&self, upstream: &Upstream) -> Result<Arc<ProjectCaches>, ReconcileError> {
        let project = self.projects.get(&upstream.project)?;
        project.require(&project.namespaces)?;
        project.require(&project.deployments)?;
        project.require(&project.instances)?;
        if (self.hub.namespaces_for.get(&upstream.to_string())).is_empty() {
            project.require_no_hub_namespace(&upstream.namespace)?;
        }
        Ok(project)
    }

    /// Returns whether neither the hub nor the project has an Instance of this name.
    fn is_nowhere(&self, project: &ProjectCaches, upstream: &Upstream, name: &str) -> bool {
        let namespaces = self.hub.namespaces_for.get(&upstream.to_string());
        let is_absent =
            |namespace: String| matches!(self.hub.instances.get(&namespace, name), Ok(None));
        let projection = project.instances.get(&upstream.namespace, name);
        matches!(projection, Ok(None)) && namespaces.iter().all(|it| is_absent(it.name_any()))
    }

    /// Returns the Instances of this name on the hub whose labels are correct, with the names of their hub namespaces.
    /// Puts the other Instances into quarantine. An Instance that cannot be used is an error of its namespace only.
    async fn sound(
        &self,
        context: &ReconcileContext,
        upstream: &Upstream,
        name: &str,
    ) -> Vec<(String, Result<Sound, ReconcileError>)> {
        let project = self.projects.get(&upstream.project).ok();
        let project = project.as_deref();
        let mut on_hub = Vec::new();
        for namespace in self.hub.namespaces_for.get(&upstream.to_string()) {
            let own_name = namespace.name_any();
            let sound = self.sound_in(context, project, namespace, name).await;
            on_hub.extend(sound.transpose().map(|sound| (own_name, sound)));
        }
        on_hub
    }

    /// Returns the Instance of this name in this hub namespace if its labels are correct.
    async fn sound_in(
        &self,
        context: &ReconcileContext,
        project: Option<&ProjectCaches>,
        namespace: Arc<Namespace>,
        name: &str,
    ) -> Result<Option<Sound>, ReconcileError> {
        let Some(instance) = self.hub.instances.get(&namespace.name_any(), name)? else {
            return Ok(None);
        };
        let is_sound = self
            .is_sound(context, project, &namespace, &instance)
            .await?;
        Ok(is_sound.then_some(Sound {
            namespace,
            instance,
        }))
    }

    /// Returns whether the labels of the Instance are correct. Returns false for a terminating Instance, because it is
    /// not projected any more.
    async fn is_sound(
        &self,
        context: &ReconcileContext,
        project: Option<&ProjectCaches>,
        namespace: &Namespace,
        instance: &Instance,
    ) -> Result<bool, ReconcileError> {
        if is_terminating(instance) {
            self.quarantine.forget(instance);
            return Ok(false);
        }
        match of_hub(namespace.meta(), instance.meta()) {
            Some(verdict) => {
                let own_hub = || self.require_own_hub(project, namespace, instance, None);
                self.quarantine
                    .hold(context, instance, &verdict, own_hub)
                    .await?;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Returns how long an Instance without a WorkloadDeployment may still wait. After that time, puts the Instance
    /// into quarantine. `upstream` is the namespace that may have the WorkloadDeployment. An Instance in another hub
    /// namespace has none.
    async fn miss(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        upstream: Option<&Upstream>,
        sound: &Sound,
        deployment: Option<&WorkloadDeployment>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Sound {
            namespace,
            instance,
        } = sound;
        let own_hub = || self.require_own_hub(Some(project), namespace, instance, deployment);
        if deployment.is_some() {
            self.quarantine.release(context, instance, own_hub).await?;
            self.quarantine.forget(instance);
            return Ok(None);
        }
        let now = context.now();
        let since = self.quarantine.missed(instance, now);
        if self.quarantine.forget_if_gone(instance) {
            return Ok(None);
        }
        match without_deployment(namespace.meta(), instance.meta(), since, now) {
            Ok(verdict) => {
                if let Some((upstream, name)) = upstream.zip(deployment_name(instance.meta())) {
                    confirm_owner(project, upstream, name, None).await?;
                }
                self.quarantine
                    .hold(context, instance, &verdict, own_hub)
                    .await?;
                Ok(None)
            }
            Err(rest) => {
                self.quarantine.release(context, instance, own_hub).await?;
                Ok(Some(rest))
            }
        }
    }

    /// Returns the state of the cell of an Instance on the hub, or of a projection. An Instance of the Go manager does
    /// not name its cell.
    fn cell_of(&self, instance: Option<&Arc<Instance>>) -> CellState {
        let cell = instance.and_then(|instance| label(instance.as_ref(), labels::SOURCE_CLUSTER));
        cell.map_or(CellState::Reachable, |cell| {
            self.hub.cells.shown_state(cell)
        })
    }

    async fn project(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        name: &str,
        observed: &Observed<'_>,
    ) -> Result<Outcome, ReconcileError> {
        let namespace = observed.hub_namespace;
        if observed.instance.is_none() {
            if self.hub.instances.get(namespace.as_str(), name)?.is_some() {
                // The Instance is terminating or in quarantine, perhaps because its namespace belongs to another
                // project.
                return Ok(Outcome::Settled);
            }
            if observed.projection.is_none() {
                return Ok(Outcome::Gone);
            }
        }
        let mut plan = plan(observed);
        if plan == plan::Plan::default() {
            return Ok(Outcome::Settled);
        }
        let hub = self.own_hub(project, name, observed)?;
        if let (Some(_), Some(owner)) = (&plan.apply, observed.deployment) {
            confirm_owner(project, observed.upstream, &owner.name_any(), Some(owner)).await?;
        }
        let mut proof = Ok(());
        if plan.delete {
            proof = self.prove_gone(project, &hub, name, observed).await;
            match &proof {
                Ok(()) => plan.status = None,
                Err(_) => plan.delete = false,
            }
        }
        self.execute(context, project, name, observed, plan).await?;
        proof?;
        Ok(Outcome::Settled)
    }

    async fn execute(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        name: &str,
        observed: &Observed<'_>,
        plan: plan::Plan,
    ) -> Result<(), ReconcileError> {
        let namespace = &observed.upstream.namespace;
        let instances = Collection::new(&project.client, namespace, Some(&project.instances));
        let projection = observed.projection.map(AsRef::as_ref);
        if let (Some(desired), Some(instance), Some(deployment)) =
            (plan.apply, observed.instance, observed.deployment)
        {
            let body = projection_body(namespace, name, instance, deployment, &desired);
            let compare = |it: &Instance| Stored::compare(&it.spec, &instance.spec);
            let ensured = self
                .writer
                .ensure(context, &instances, projection, &body, &["/spec"], compare)
                .await;
            // If the API server does not store the whole spec, the status must still be current.
            let in_step = ensured.is_ok();
            let (written, unkept) = match ensured {
                Ok(written) => (Some(written), Ok(())),
                Err(error @ ReconcileError::DoesNotStay { .. }) => {
                    (projection.cloned(), Err(error))
                }
                Err(error) => return Err(error),
            };
            if let Some(written) = written
                && let Some(status) = plan::status(observed, &written, in_step)
            {
                self.writer
                    .apply_status(context, &instances, &written, json!(status))
                    .await?;
            }
            return unkept;
        }
        let Some(projection) = projection else {
            return Ok(());
        };
        if let Some(status) = plan.status {
            self.writer
                .apply_status(context, &instances, projection, json!(status))
                .await?;
        }
        if plan.delete {
            self.writer.delete(context, &instances, projection).await?;
        }
        Ok(())
    }
}
