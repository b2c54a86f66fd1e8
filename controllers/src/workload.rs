//! Creates the WorkloadDeployments of a Workload on the project plane (docs/concepts/flow.md).

mod ending;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::workload::{AVAILABLE, WorkloadStatus};
use api::{ProjectName, Workload, WorkloadDeployment, finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use multicluster::{Cache, Outcome};
use serde_json::{Value, json};
use thiserror::Error;

use crate::objects::{Network, StringMap, controller_reference, describe, is_terminating};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::error::FirstError;
use crate::runtime::events::EventPublisher;
use crate::runtime::keys::ProjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{Desired, Listed, Lookup, Observed, own_status, owner, plan, unlisted_status};

/// The parts of a WorkloadDeployment's spec that only the Workload controller writes. `replicas` is not one of them,
/// because an autoscaler writes it.
const OWN: [&str; 2] = ["/spec/scaleSettings", "/spec/template"];

pub(crate) struct WorkloadController {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) writer: Writer,
    pub(crate) publisher: EventPublisher,
}

impl Controller for WorkloadController {
    const NAME: &'static str = "workload";
    type Key = ProjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ProjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let workload = match project.workloads.get(&key.namespace, &key.name) {
            Ok(Some(workload)) => workload,
            Ok(None) => {
                project.require(&project.workloads)?;
                return Ok(Outcome::Gone);
            }
            Err(undecodable) => {
                let workload = Self::terminating(&project, &key).ok_or(undecodable)?;
                self.end(context, &project, &workload).await?;
                return Ok(Outcome::Settled);
            }
        };
        let unlisted = project.unlisted();
        if let Err(not_listed) = project.require(&project.deployments) {
            self.report_unlisted(context, &project, &workload, unlisted.as_deref())
                .await?;
            return Err(not_listed);
        }
        let of_workload = deployments_value(&workload.metadata);
        let (own, undecodable) = project.deployments_of.partitioned(&of_workload);
        // The name of an undecodable WorkloadDeployment is taken too.
        let is_taken =
            |name: &str| !matches!(project.deployments.get(&key.namespace, name), Ok(None));
        let cities = project.locations.cities();
        let offers = |city: &str| cities.as_ref().is_ok_and(|cities| cities.contains(city));
        let cities_unknown = cities.as_ref().err().map(ToString::to_string);
        let networks_unknown = listed(&key.project, &project.networks).err();
        let networks_unknown = networks_unknown.as_ref().map(ToString::to_string);
        let exists = |name: &str| !matches!(project.networks.get(&key.namespace, name), Ok(None));
        let observed = Observed {
            workload: &workload,
            own: &own,
            undecodable: &undecodable,
            is_taken: &is_taken,
            cities: lookup(cities_unknown.as_deref(), &offers),
            networks: lookup(networks_unknown.as_deref(), &exists),
            unlisted: unlisted.as_deref(),
            now: context.now(),
        };
        self.execute(context, &project, &observed).await?;
        Ok(Outcome::Settled)
    }
}

impl WorkloadController {
    async fn execute(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        observed: &Observed<'_>,
    ) -> Result<(), ReconcileError> {
        let mut workload = observed.workload;
        let (mut plan, report) = plan(observed);
        let namespace = workload.namespace().unwrap_or_default();
        let workloads = Collection::new(&project.client, &namespace, Some(&project.workloads));
        let deployments = Collection::new(&project.client, &namespace, Some(&project.deployments));
        let finalizer = finalizers::WORKLOAD_CONTROLLER;
        let held;
        if plan.add_finalizer {
            held = self
                .writer
                .add_finalizer(context, &workloads, workload, finalizer, &StringMap::new())
                .await?;
            workload = &held;
        }
        if plan.changes_deployments() && !plan.add_finalizer {
            // The cache of a process can be behind the project, and such a process can become the leader. The finalizer
            // is written only to the current version of the Workload.
            workloads.confirm(workload).await?;
        }
        let mut errors = FirstError::default();
        // A Workload can have hundreds of cities, so the writes can take minutes. Meanwhile the Workload can change.
        let may_go_on = |errors: &mut FirstError| {
            let is_current = is_current(project, workload);
            errors.note(is_current).is_some() && !errors.must_wait()
        };
        for deployment in &plan.delete {
            if !may_go_on(&mut errors) {
                return errors.result();
            }
            errors.note(
                self.writer
                    .delete(context, &deployments, deployment.as_ref())
                    .await,
            );
        }
        let invalid = Collection::new(&project.client, &namespace, None);
        for metadata in &plan.delete_undecodable {
            if !may_go_on(&mut errors) {
                return errors.result();
            }
            // A delete needs only the metadata.
            let deployment: PartialObjectMeta<WorkloadDeployment> =
                metadata.clone().into_response_partial();
            errors.note(self.writer.delete(context, &invalid, &deployment).await);
        }
        let mut refusals = StringMap::new();
        for desired in &plan.apply {
            if !may_go_on(&mut errors) {
                return errors.result();
            }
            let ensured = self.ensure(context, &deployments, workload, desired).await;
            if let Some(refusal) = ensured
                .as_ref()
                .err()
                .and_then(ReconcileError::lasting_refusal)
            {
                let placement = desired.placement.name.clone();
                let writer = &self.writer;
                let refusal = writer.shown_refusal(context, workload, &placement, refusal);
                refusals.insert(placement, refusal);
            }
            errors.note(ensured);
        }
        if let (Some(report), false) = (&report, refusals.is_empty()) {
            plan.status = report.changed_status(&refusals);
        }
        let is_withheld = Self::withhold_stale(project, observed, &mut plan.status);
        if let Some(status) = &plan.status {
            // Other controllers may own conditions in the same status.
            let patch = merge_patch(own_status(workload).as_ref(), status);
            let patched = self
                .writer
                .patch_status(context, &workloads, workload, patch);
            let patched = patched.await;
            if patched.is_ok() {
                let former = workload.status.as_ref();
                self.publisher.publish(
                    &project.locations,
                    Self::NAME,
                    workload,
                    &[AVAILABLE],
                    former.map_or(&[], |it| &it.conditions),
                    &status.conditions,
                );
            }
            errors.note(patched);
        }
        errors.result()?;
        if plan.remove_finalizer {
            self.release(context, &deployments, &workloads, workload)
                .await?;
        } else if is_withheld {
            return Err(ReconcileError::NotYet {
                object: describe(workload),
                missing: "the current WorkloadDeployments of its project, which cannot be watched"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Withholds a status whose sums could be older than the stored ones: the process may have become the leader while
    /// its cache of WorkloadDeployments was stale. Only the report about kinds that cannot be listed stays. Returns
    /// whether something is withheld.
    fn withhold_stale(
        project: &ProjectCaches,
        observed: &Observed<'_>,
        status: &mut Option<WorkloadStatus>,
    ) -> bool {
        if project.deployments.sync_state().borrow().is_current() {
            return false;
        }
        let listed = unlisted_status(observed.workload, observed.unlisted, observed.now);
        let is_withheld = *status != listed;
        *status = listed;
        is_withheld
    }

    /// Reports the kinds that cannot be listed. Everything else in the status stays, because without the
    /// WorkloadDeployments nothing else is known.
    async fn report_unlisted(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        workload: &Workload,
        unlisted: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let Some(status) = unlisted_status(workload, unlisted, context.now()) else {
            return Ok(());
        };
        let namespace = workload.namespace().unwrap_or_default();
        let workloads = Collection::new(&project.client, &namespace, Some(&project.workloads));
        let patch = merge_patch(own_status(workload).as_ref(), &status);
        let patched = self
            .writer
            .patch_status(context, &workloads, workload, patch);
        patched.await.map(drop)
    }

    async fn ensure(
        &self,
        context: &ReconcileContext,
        deployments: &Collection<'_, WorkloadDeployment>,
        workload: &Workload,
        desired: &Desired,
    ) -> Result<(), ReconcileError> {
        let as_wanted = |written: &WorkloadDeployment| desired.has_spec(workload, written);
        let body = body(workload, desired);
        let existing = desired.existing.as_deref();
        self.writer
            .ensure(context, deployments, existing, &body, &OWN, as_wanted)
            .await
            .map(drop)
    }
}

/// The reason why the Networks of a project are unknown. Users read it.
#[derive(Debug, Error)]
enum NetworksUnknown {
    #[error("Networks of project {project} cannot be listed: {problem}")]
    Failing {
        project: ProjectName,
        problem: String,
    },
    #[error("Networks of project {0} have not been listed yet")]
    NotListedYet(ProjectName),
}

/// Succeeds if the cache has all Networks of the project.
fn listed(project: &ProjectName, networks: &Cache<Network>) -> Result<(), NetworksUnknown> {
    let freshness = networks.sync_state();
    let freshness = freshness.borrow();
    match freshness.problem() {
        _ if freshness.is_current() => Ok(()),
        Some(problem) => Err(NetworksUnknown::Failing {
            project: project.clone(),
            problem: problem.to_owned(),
        }),
        None => Err(NetworksUnknown::NotListedYet(project.clone())),
    }
}

/// Returns the lookup, or the reason why it cannot be used. Users read the reason.
fn lookup<'a>(unknown: Option<&'a str>, lookup: Lookup<'a>) -> Listed<'a> {
    unknown.map_or(Ok(lookup), Err)
}

/// Returns the index values of a WorkloadDeployment. They contain its Workload, in the form of [`of`].
pub(crate) fn workload_of(deployment: &WorkloadDeployment) -> Vec<String> {
    let owner = Some(owner(deployment)).filter(|uid| !uid.is_empty());
    let of = owner.map(|uid| of(&deployment.metadata, uid));
    of.into_iter().collect()
}

/// Returns the index values of a WorkloadDeployment that cannot be decoded.
pub(crate) fn workload_of_undecodable(deployment: &ObjectMeta) -> Vec<String> {
    let owners = deployment.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true));
    let labels = deployment.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(labels::WORKLOAD_UID));
    let owner = owner.map(|owner| &owner.uid).or(label);
    let owner = owner.filter(|uid| !uid.is_empty());
    owner.map(|uid| of(deployment, uid)).into_iter().collect()
}

/// Returns the index value of the WorkloadDeployments of a Workload with this metadata.
pub(crate) fn deployments_value(workload: &ObjectMeta) -> String {
    of(workload, workload.uid.as_deref().unwrap_or_default())
}

/// Returns `namespace/value`. The namespace is that of the object.
fn of(object: &ObjectMeta, there: &str) -> String {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{there}")
}

/// Returns the index values of a Workload. They contain its Networks, in the form of [`network_key`]. A namespace in a
/// reference to a Network is ignored (docs/concepts/milo.md#locations-and-networks).
pub(crate) fn networks_of(workload: &Workload) -> Vec<String> {
    let interfaces = workload.spec.template.spec.network_interfaces.iter();
    let networks: BTreeSet<_> = interfaces
        .map(|interface| of(&workload.metadata, &interface.network.name))
        .collect();
    networks.into_iter().collect()
}

/// Returns the index value of a Network.
pub(crate) fn network_key(network: &ObjectMeta) -> String {
    of(network, network.name.as_deref().unwrap_or_default())
}

fn body(workload: &Workload, desired: &Desired) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {
            "name": desired.name,
            "namespace": workload.namespace(),
            "labels": desired.labels(workload),
            "ownerReferences": [controller_reference(workload)],
        },
        "spec": desired.spec(workload),
    })
}

/// Checks that the cache still has this version of the Workload. The status and the metadata do not count.
fn is_current(project: &ProjectCaches, workload: &Workload) -> Result<(), ReconcileError> {
    let (namespace, name) = (
        workload.namespace().unwrap_or_default(),
        workload.name_any(),
    );
    let cached = project.workloads.get(&namespace, &name)?;
    let version = |it: &Workload| (it.uid(), it.metadata.generation, is_terminating(it));
    match cached {
        Some(cached) if version(&cached) == version(workload) => Ok(()),
        _ => Err(ReconcileError::NotYet {
            object: describe(workload),
            missing: "its last change, which came during the writes".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{deployment, object, workload};

    #[test]
    fn an_undecodable_deployment_belongs_to_its_controller_or_else_its_label() {
        let of = |metadata: Value| workload_of_undecodable(&object(metadata));
        let labels = json!({"compute.datumapis.com/workload-uid": "labelled"});
        for (controller, expected) in [(true, "default/workload-uid"), (false, "default/labelled")]
        {
            let mut reference = json!(controller_reference(&workload(&[])));
            reference["controller"] = json!(controller);
            let metadata =
                json!({"namespace": "default", "labels": labels, "ownerReferences": [reference]});
            assert_eq!(of(metadata), [expected]);
        }
        assert_eq!(of(json!({})), [""; 0]);
    }

    #[test]
    fn no_deployment_is_found_without_a_uid() {
        let mut deployment = deployment("default", "web", "DFW", 1);
        assert_eq!(workload_of(&deployment), ["default/workload-uid"]);
        deployment.spec.workload_ref.uid = String::new();
        assert_eq!(workload_of(&deployment), [""; 0]);
    }

    #[test]
    fn a_workload_is_indexed_by_its_networks_in_its_own_namespace() {
        let mut workload = workload(&[]);
        let interfaces = &mut workload.spec.template.spec.network_interfaces;
        interfaces[0].network.namespace = Some("elsewhere".to_owned());
        interfaces.extend(interfaces.clone());
        let network = json!({"namespace": "default", "name": "default"});
        assert_eq!(networks_of(&workload), [network_key(&object(network))]);
    }
}
