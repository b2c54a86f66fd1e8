//! Copies WorkloadDeployments to the hub, and their status back to the project (docs/concepts/flow.md).

mod cell_items;
mod copy;
mod orphans;
pub(crate) mod other_hub;
mod override_failures;
mod plan;
mod reapply;
#[cfg(test)]
mod reconcile_tests;
mod record;
mod refusal;
pub(crate) mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::reasons::workload_deployment::HUB_CONTRADICTED;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, INSTANCES_ENDED};
use api::{
    CityCode, DEFAULT_NAMESPACE, HubNamespace, WorkloadDeployment, WorkloadDeploymentStatus,
    condition, finalizers,
};
use futures::future::{OptionFuture, join};
use kube::ResourceExt;
use multicluster::Outcome;
use serde_json::json;
use tracing::warn;

use crate::cell_rules::{POLICY, stamps_of};
use crate::hub::HubCaches;
use crate::hub::cells::CopyCells;
use crate::hub::identity::HubIdentity;
use crate::hub_in_use::{HubInUse, HubVerdict, hub_not_known};
use crate::objects::{Namespace, describe, has_finalizer, is_terminating};
use crate::policy::serves;
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::error::FirstError;
use crate::runtime::events::EventPublisher;
use crate::runtime::hub_proof::{read_from_hub, require_answering_hub};
use crate::runtime::keys::ProjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};
use copy::{CachedCopy, cached_copy, compare_copy, copy_body, delete_copy};
use orphans::OrphanSweeper;
use other_hub::HeldByHub;
use plan::status::{refused, shown_refusal};
use plan::{DesiredNamespace, Hold, Observed, Plan, hub_namespace, plan};
use reapply::Reapplier;
pub(crate) use reapply::stale_cells::StaleCells;
use record::{record, report_invalid_record, require_confirmed_record};
use refusal::{policy_check, refusal_of, sooner};

/// The parts of a copy that only the federator writes.
const OWN: [&str; 6] = [
    "/spec",
    "/metadata/annotations/compute.datumapis.com~1ending",
    "/metadata/annotations/compute.datumapis.com~1expected-referenced-data",
    "/metadata/annotations/compute.datumapis.com~1referenced-data-error",
    "/metadata/annotations/compute.datumapis.com~1referenced-data-versions",
    "/metadata/annotations/compute.datumapis.com~1suspended",
];

pub(crate) struct Federator {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) hub_in_use: HubInUse,
    pub(crate) stale_cells: Arc<StaleCells>,
    pub(crate) held_by_hub: HeldByHub,
    pub(crate) writer: Writer,
    pub(crate) publisher: EventPublisher,
}

/// The state of the hub that a plan was made from.
struct OnHub<'a> {
    hub: &'a HubIdentity,
    namespace: &'a HubNamespace,
    has_namespace: bool,
    copy: Option<&'a WorkloadDeployment>,
    /// The message of the API server if the hub refuses the policy of the city.
    policy_refusal: Option<&'a str>,
}

impl Controller for Federator {
    const NAME: &'static str = "federator";
    type Key = ProjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ProjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let deployment = project.deployments.get(&key.namespace, &key.name)?;
        let Some(deployment) = deployment else {
            project.require(&project.deployments)?;
            self.stale_cells.forget(&key);
            self.held_by_hub.release(&key);
            self.orphans(&project).sweep(context, &key, None).await?;
            return Ok(Outcome::Gone);
        };
        // The finalization needs no Namespace (I-9).
        if !is_terminating(deployment.as_ref()) {
            project.require(&project.namespaces)?;
            if !has_finalizer(deployment.as_ref(), finalizers::FEDERATOR) {
                project.require_no_hub_namespace(&key.namespace)?;
            }
        }
        let namespace = project.namespaces.metadata_of("", &key.namespace);
        let derived = plan::derived(&deployment, namespace.as_ref())?;
        let own = match hub_namespace(&deployment, derived.as_ref()) {
            Err(invalid @ ReconcileError::Identity { .. }) => {
                let reported =
                    report_invalid_record(&self.writer, context, &project, &deployment, &invalid)
                        .await;
                return Err(reported.err().unwrap_or(invalid));
            }
            own => own?,
        };
        let federated = match &own {
            Some(own) => {
                self.federate(context, &project, &key, &deployment, own, derived.as_ref())
                    .await
            }
            None => Ok(Outcome::Settled),
        };
        // The hub may still have the copy from an earlier Namespace of the same name.
        let orphans = self
            .orphans(&project)
            .sweep(context, &key, own.as_ref())
            .await;
        let mut errors = FirstError::default();
        let outcome = errors.note(federated);
        errors.note(orphans);
        errors.result()?;
        Ok(outcome.unwrap_or(Outcome::Settled))
    }
}

impl Federator {
    fn orphans<'a>(&'a self, project: &'a ProjectCaches) -> OrphanSweeper<'a> {
        OrphanSweeper {
            hub: &self.hub,
            project,
            writer: &self.writer,
        }
    }

    /// Returns the stamps of the rules that the targets of a binding must have. Returns `None` if they are unknown.
    fn rules_stamps<'b>(
        &self,
        binding: Option<&'b ResourceBinding>,
    ) -> Option<BTreeMap<&'b str, Option<i64>>> {
        let policies = &self.hub.override_policies;
        if !policies.sync_state().borrow().is_current() {
            return None;
        }
        let policy = policies.get("", POLICY).ok()?;
        let targets = binding.into_iter().flat_map(|it| &it.spec.clusters);
        let targets = targets.map(|target| target.name.as_str());
        Some(stamps_of(policy.as_deref().map(|it| &it.spec), targets))
    }

    /// Returns why the hub in use is that of another installation, if it is. A WorkloadDeployment that ends may only be
    /// on the hub that it has recorded, so the records of others do not matter.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] for a new WorkloadDeployment while it is not known.
    fn other_hub(
        &self,
        deployment: &WorkloadDeployment,
        hub: &HubIdentity,
    ) -> Result<Option<String>, ReconcileError> {
        // Without an identity of the hub, everything is held.
        if is_terminating(deployment) || hub.uid().is_none() {
            return Ok(None);
        }
        let is_new = !has_finalizer(deployment, finalizers::FEDERATOR);
        match self.hub_in_use.verdict() {
            HubVerdict::Another(problem) => Ok(Some(problem)),
            HubVerdict::Unknown if is_new => Err(hub_not_known(describe(deployment))),
            HubVerdict::Own | HubVerdict::Unknown => Ok(None),
        }
    }

    async fn federate(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        key: &ProjectKey,
        deployment: &WorkloadDeployment,
        hub_namespace: &HubNamespace,
        derived: Option<&HubNamespace>,
    ) -> Result<Outcome, ReconcileError> {
        let CachedCopy { copy, is_decoded } =
            cached_copy(&self.writer, &self.hub, context, deployment, hub_namespace)?;
        let city = CityCode::new(deployment.spec.city_code.as_str()).ok();
        let is_to_be_made = copy.is_none() && !is_terminating(deployment);
        // While this lock is held, the policy of the city cannot be deleted.
        let _lock = match &city {
            Some(city) if is_to_be_made => {
                let policy_locks = &self.hub.policy_locks;
                let lock = policy_locks.for_a_use((hub_namespace.clone(), city.clone()));
                Some(lock.ok_or_else(|| ReconcileError::NotYet {
                    object: describe(deployment),
                    missing: format!("the deletion of a policy of city {city} to end"),
                })?)
            }
            _ => None,
        };
        let policy_exists = (city.as_ref()).is_some_and(|it| self.policy_exists(hub_namespace, it));
        // The reports about a copy that cannot be decoded are not used.
        let decoded = copy.as_deref().filter(|_| is_decoded);
        let binding = decoded.and_then(|copy| self.hub.cells.binding_of(copy));
        let cluster = project.namespaces.metadata_of("", DEFAULT_NAMESPACE);
        let cluster_uid = cluster.and_then(|cluster| cluster.uid);
        let root_uid = self.projects.root_uid();
        let hub = self.hub.identity()?;
        let namespace = self.hub.namespaces.get("", hub_namespace.as_str())?;
        require_confirmed_record(key, deployment, derived, namespace.as_deref())?;
        let stamps = self.rules_stamps(binding.as_deref());
        let other_hub = self.other_hub(deployment, &hub)?;
        let plan = plan(&Observed {
            project: &key.project,
            deployment,
            hub_namespace,
            derived,
            cluster_uid: cluster_uid.as_deref(),
            root_uid: root_uid.as_deref(),
            hub: &hub,
            other_hub,
            neighbour: match has_finalizer(deployment, finalizers::FEDERATOR) {
                true => None,
                false => other_hub::neighbour(project, &key.namespace, &hub, namespace.is_some()),
            },
            namespace: namespace.as_deref(),
            copy: copy.as_ref(),
            policy_exists,
            lack: self.stale_cells.override_failures.of(key),
            cells: CopyCells {
                binding: binding.as_deref(),
                state: &|cell| self.hub.cells.state(cell),
                is_lower_hub: &|cluster| self.hub.cells.is_lower_hub(cluster),
                silent: &|cluster| self.hub.cells.silent(cluster),
                rules_stamp: &|cell| stamps.as_ref()?.get(cell).copied().flatten(),
            },
            now: context.now(),
        });
        match &plan.hold {
            Some(hold) if hold.reason == HUB_CONTRADICTED => {
                self.held_by_hub.hold(key, &hold.problem);
            }
            _ => self.held_by_hub.release(key),
        }
        let (staleness, look_again) = (plan.staleness.clone(), plan.look_again);
        let city = city.filter(|_| !is_terminating(deployment));
        let is_policy_awaited = city.is_some() && !policy_exists;
        let policy_refusal =
            city.and_then(|city| self.hub.policy_refusals.get(hub_namespace, &city));
        let on_hub = OnHub {
            hub: &hub,
            namespace: hub_namespace,
            has_namespace: namespace.is_some(),
            copy: copy.as_deref(),
            policy_refusal: policy_refusal.as_deref(),
        };
        let executed = self
            .execute(context, project, deployment, &on_hub, plan)
            .await;
        // The re-application must happen even if a write failed, for example of the status.
        let reapplier = Reapplier {
            hub: &self.hub,
            stale_cells: &self.stale_cells,
            engagement: &project.engagement,
            writer: &self.writer,
        };
        let lacking = staleness.cells.clone();
        let outcome = reapplier
            .reapply(context, key, hub_namespace, staleness)
            .await;
        let failures = &self.stale_cells.override_failures;
        let (hub, now) = (&self.hub.client, context.now());
        let look = failures
            .look(hub, hub_namespace, key, copy.as_deref(), &lacking, now)
            .await;
        let mut errors = FirstError::default();
        errors.note(executed);
        let outcome = errors.note(outcome);
        errors.result()?;
        let outcome = outcome.unwrap_or(Outcome::Settled);
        let checks = [look, look_again].into_iter().flatten();
        let outcome = checks.fold(outcome, sooner);
        let is_refused = policy_refusal.is_some();
        Ok(policy_check(outcome, is_refused, is_policy_awaited))
    }

    fn policy_exists(&self, hub_namespace: &HubNamespace, city: &CityCode) -> bool {
        let policies = self.hub.policies.readable(hub_namespace.as_str());
        policies.iter().any(|policy| serves(policy, city))
    }

    async fn execute(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        mut deployment: &WorkloadDeployment,
        on_hub: &OnHub<'_>,
        plan: Plan,
    ) -> Result<(), ReconcileError> {
        let &OnHub {
            hub,
            namespace: hub_namespace,
            has_namespace,
            copy,
            policy_refusal,
        } = on_hub;
        let namespace = deployment.namespace().unwrap_or_default();
        let upstream = Collection::new(&project.client, &namespace, Some(&project.deployments));
        let downstream = Collection::new(
            &self.hub.client,
            hub_namespace.as_str(),
            Some(&self.hub.deployments),
        );
        let recorded;
        if plan.record {
            let writer = &self.writer;
            recorded = record(writer, context, &upstream, deployment, hub, hub_namespace).await?;
            deployment = &recorded;
        }
        let mut errors = FirstError::default();
        let mut refusal = policy_refusal.map(str::to_owned);
        // Whether the hub has what the plan applies.
        let mut is_applied = true;
        let mut copy_refusal = None;
        let (apply, wants_copy) = (plan.apply_copy.as_ref(), plan.apply_copy.is_some());
        let must_confirm = plan.delete_copy || apply.is_some_and(|it| it.needs_confirmation);
        let confirmed = upstream.confirm(deployment);
        let confirmed = OptionFuture::from(must_confirm.then_some(confirmed));
        // The cache can be that of another hub than the one that answers now, and a creation names no UID.
        let creates_namespace = plan.apply_namespace.is_some() && !has_namespace;
        let creates = creates_namespace || wants_copy && copy.is_none();
        let what = || format!("the copy of {}", describe(deployment));
        let proved = require_answering_hub(&self.hub.client, hub, what);
        let proved = OptionFuture::from(creates.then_some(proved));
        let (confirmed, proved) = join(confirmed, proved).await;
        let proofs = confirmed.unwrap_or(Ok(())).and(proved.unwrap_or(Ok(())));
        let may_change_hub = errors.note(proofs).is_some();
        is_applied &= may_change_hub;
        if let Some(desired) = plan.apply_namespace.filter(|_| may_change_hub) {
            let applied = self.apply_namespace(context, hub_namespace, &desired).await;
            refusal = refusal.or_else(|| refusal_of(&applied));
            is_applied &= errors.note(applied).is_some();
        }
        if let Some(desired) = plan.apply_copy.filter(|_| may_change_hub) {
            let body = copy_body(deployment, hub_namespace, copy, &desired);
            let compare = |it: &WorkloadDeployment| compare_copy(it, &desired);
            let ensured = self
                .writer
                .ensure(context, &downstream, copy, &body, &OWN, compare);
            let ensured = ensured.await.map(drop);
            copy_refusal = refusal_of(&ensured);
            refusal = refusal.or_else(|| copy_refusal.clone());
            is_applied &= errors.note(ensured).is_some();
        }
        // A copy that must be applied too is deleted only if the hub refuses it.
        let must_delete = plan.delete_copy && (!wants_copy || copy_refusal.is_some());
        let refusal = refusal.map(|it| self.writer.shown_refusal(context, deployment, "", it));
        // Another error, such as a timeout, does not end a refusal.
        let refusal = refusal.or_else(|| (!is_applied).then(|| shown_refusal(deployment))?);
        let status = match &refusal {
            Some(refusal) => {
                let (planned, now) = (plan.status, context.now());
                let status = refused(deployment, planned, refusal, copy.is_some(), now);
                Some(status).filter(|status| deployment.status.as_ref() != Some(status))
            }
            None => plan.status,
        };
        let mut is_told = true;
        if let Some(status) = &status {
            let shown = self.show(context, project, &upstream, deployment, status);
            let shown = shown.await;
            is_told = !matches!(&shown, Err(error) if error.lasting_refusal().is_none());
            errors.note(shown);
        }
        // The status is written first, because nothing is known of the cells after the deletion. A refused status does
        // not hold up the deletion: the log has the message.
        let may_delete = may_change_hub && (is_told || plan.may_remain.is_none());
        if let (true, Some(copy)) = (must_delete && may_delete, copy) {
            let deleted = delete_copy(&self.writer, &self.hub, context, &downstream, copy).await;
            if let (Ok(()), Some(cells)) = (&deleted, plan.may_remain) {
                let deployment = describe(deployment);
                warn!(
                    deployment,
                    cells, "the copy is deleted, and cells may still have its instances"
                );
            }
            errors.note(deleted);
        }
        errors.result()?;
        if let Some(Hold { problem, .. }) = plan.hold {
            let object = describe(deployment);
            return Err(ReconcileError::Contradiction { object, problem });
        }
        if plan.release {
            self.release(context, &upstream, hub_namespace, hub, deployment)
                .await?;
        }
        Ok(())
    }

    /// Writes the status of the project's WorkloadDeployment and publishes its transitions.
    async fn show(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        upstream: &Collection<'_, WorkloadDeployment>,
        deployment: &WorkloadDeployment,
        status: &WorkloadDeploymentStatus,
    ) -> Result<(), ReconcileError> {
        let former = deployment.status.as_ref();
        // Controllers of the project plane own conditions in the same status.
        let patch = merge_patch(former, status);
        self.writer
            .patch_status(context, upstream, deployment, patch)
            .await?;
        // The copy of a WorkloadDeployment that ends wants no instances, so `Available` says nothing new.
        let types: &[&str] = match condition::find(&status.conditions, INSTANCES_ENDED) {
            Some(_) => &[CELLS_REPORTING, INSTANCES_ENDED],
            None => &[AVAILABLE, CELLS_REPORTING],
        };
        self.publisher.publish(
            &project.locations,
            Self::NAME,
            deployment,
            types,
            former.map_or(&[], |it| &it.conditions),
            &status.conditions,
        );
        Ok(())
    }

    /// Creates or updates a hub namespace. No other controller creates hub namespaces, because cells trust the labels
    /// of hub namespaces for the identity of a project.
    async fn apply_namespace(
        &self,
        context: &ReconcileContext,
        name: &HubNamespace,
        desired: &DesiredNamespace,
    ) -> Result<(), ReconcileError> {
        let namespaces = Collection::of_plane(&self.hub.client, Some(&self.hub.namespaces));
        let existing = self.hub.namespaces.get("", name.as_str())?;
        let body = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name.as_str(), "labels": desired.labels, "annotations": desired.annotations},
        });
        let as_wanted = |written: &Namespace| desired.is(written);
        self.writer
            .ensure(
                context,
                &namespaces,
                existing.as_deref(),
                &body,
                &[],
                as_wanted,
            )
            .await
            .map(drop)
    }

    /// Removes the finalizer after the hub's API server has confirmed that the copy is gone. A missing entry in the
    /// cache is no proof, because the cache may not have the copy yet.
    async fn release(
        &self,
        context: &ReconcileContext,
        upstream: &Collection<'_, WorkloadDeployment>,
        hub_namespace: &HubNamespace,
        hub: &HubIdentity,
        deployment: &WorkloadDeployment,
    ) -> Result<(), ReconcileError> {
        let (namespace, name) = (hub_namespace.as_str(), deployment.name_any());
        let copy = read_from_hub::<WorkloadDeployment>(&self.hub.client, hub, namespace, &name);
        if copy.await?.is_some() {
            return Err(ReconcileError::NotYet {
                object: describe(deployment),
                missing: "its hub copy to be gone".to_owned(),
            });
        }
        self.writer
            .remove_finalizer(context, upstream, deployment, finalizers::FEDERATOR)
            .await
    }
}
