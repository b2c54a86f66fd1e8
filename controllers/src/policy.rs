//! Creates and deletes PropagationPolicies on the hub (docs/concepts/karmada-behaviour.md).

pub(crate) mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::karmada::{PropagationPolicy, ResourceBinding};
use api::{HubNamespace, WorkloadDeployment, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::Outcome;
use serde_json::json;

use crate::hub::HubCaches;
use crate::hub::upstream::{self, Upstream};
use crate::hub_in_use::HubInUse;
use crate::objects::{describe, is_terminating, label};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::error::FirstError;
use crate::runtime::hub_proof::{require_answering_hub, require_own_hub};
use crate::runtime::keys::HubKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{Desired, Observed, Unneeded, is_still_unneeded, plan};
pub(crate) use plan::{kinds, serves};

/// How long to wait before checking again a policy that must not be deleted yet. No watch may report the change.
const HELD: Duration = Duration::from_secs(10);

pub(crate) struct PolicyController {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) hub_in_use: HubInUse,
    pub(crate) writer: Writer,
}

impl Controller for PolicyController {
    const NAME: &'static str = "policy";
    type Key = HubKey;

    /// Reconciles all policies of one hub namespace.
    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: HubKey,
    ) -> Result<Outcome, ReconcileError> {
        let hub_namespace = &key.namespace;
        let Some(namespace) = self.hub.namespaces.get("", hub_namespace.as_str())? else {
            self.hub.policy_refusals.set(hub_namespace, BTreeMap::new());
            return Ok(Outcome::Gone);
        };
        if label(namespace.as_ref(), labels::UPSTREAM_CLUSTER_NAME).is_none() {
            // The federator did not create this namespace.
            return Ok(Outcome::Gone);
        }
        if is_terminating(namespace.as_ref()) {
            return Ok(Outcome::Settled);
        }
        if key.project != upstream::project(namespace.meta()) {
            // The labels now identify another project. The hub namespace has another key with that project.
            return Ok(Outcome::Gone);
        }
        let upstream = Upstream::of(namespace.meta())
            .map_err(ReconcileError::identity(describe(namespace.as_ref())))?;
        let (projects, of) = (&self.projects, &upstream.project);
        let project = projects.get_unless_gone(of, &namespace).await?;
        let plan = plan(&self.observe(hub_namespace, &upstream, project.as_deref()));
        if !plan.apply.is_empty() || !plan.delete.is_empty() {
            require_own_hub(&self.hub, &namespace, project.as_deref())?;
            self.hub_in_use
                .verdict()
                .require_own(|| describe(namespace.as_ref()))?;
        }
        // A failure for one city must not block another city, unless the hub does not answer or has asked to wait.
        let mut errors = FirstError::default();
        // Running objects of a deleted project keep their policies. No new policies are created for them.
        if project.is_some() {
            let mut refusals = BTreeMap::new();
            for desired in &plan.apply {
                if errors.must_wait() {
                    break;
                }
                let applied = self.apply(context, hub_namespace, desired).await;
                if let Some(refusal) = applied
                    .as_ref()
                    .err()
                    .and_then(ReconcileError::lasting_refusal)
                {
                    refusals.insert(desired.city.clone(), refusal);
                }
                errors.note(applied);
            }
            // If the hub has not answered for all cities, the former refusals of the others stay.
            match errors.must_wait() {
                true => self.hub.policy_refusals.extend(hub_namespace, refusals),
                false => self.hub.policy_refusals.set(hub_namespace, refusals),
            }
        }
        let mut holds = plan.holds;
        for unneeded in &plan.delete {
            if errors.must_wait() {
                break;
            }
            let policy_locks = &self.hub.policy_locks;
            let of_city = (hub_namespace.clone(), unneeded.city.clone());
            // This lock is held until the policy is deleted.
            let Some(_lock) = policy_locks.for_a_deletion(of_city) else {
                holds = true;
                continue;
            };
            let project = projects.get_unless_gone(of, &namespace).await;
            let Some(project) = errors.note(project) else {
                continue;
            };
            let observed = self.observe(hub_namespace, &upstream, project.as_deref());
            let deleted = self
                .delete(context, hub_namespace, &observed, unneeded)
                .await;
            holds |= matches!(deleted, Ok(false));
            errors.note(deleted);
        }
        errors.result()?;
        Ok(if holds {
            Outcome::Again(HELD)
        } else {
            Outcome::Settled
        })
    }
}

impl PolicyController {
    /// Returns the observations from caches. A deleted project has no WorkloadDeployments.
    fn observe(
        &self,
        namespace: &HubNamespace,
        upstream: &Upstream,
        project: Option<&ProjectCaches>,
    ) -> Observed {
        let hub = &self.hub;
        let policies = hub.policies.readable(namespace.as_str());
        let is_read =
            |policy: &ObjectMeta| policies.iter().any(|read| read.meta().uid == policy.uid);
        let mut unreadable = hub.policies.metadata(namespace.as_str());
        unreadable.retain(|policy| !is_read(policy));
        let is_current = project
            .is_none_or(|project| project.deployments.sync_state().borrow().is_current())
            && hub.deployments.sync_state().borrow().is_current()
            && hub.bindings.sync_state().borrow().is_current();
        let mut observed = Observed::new(namespace, policies, unreadable, is_current);
        // The index groups WorkloadDeployments by the fields that decide about policies. One object of each group
        // suffices.
        if let Some(project) = project {
            let prefix = kinds::of_namespace(&upstream.namespace);
            project.for_policies.visit_values(&prefix, |_, deployment| {
                match deployment {
                    Some(deployment) => observed.add_upstream(deployment),
                    // An undecodable WorkloadDeployment must not prevent policies for the others.
                    None => observed.is_complete = false,
                }
            });
        }
        let prefix = kinds::of_namespace(namespace.as_str());
        hub.copies_for_policies
            .visit_values(&prefix, |copy, _| observed.add_copy(copy));
        hub.bindings_for_policies
            .visit_values(&prefix, |binding, _| observed.add_claim(binding));
        observed
    }

    fn policies<'c>(&'c self, namespace: &HubNamespace) -> Collection<'c, PropagationPolicy> {
        let hub = &self.hub;
        Collection::new(&hub.client, namespace.as_str(), Some(&hub.policies))
    }

    async fn apply(
        &self,
        context: &ReconcileContext,
        namespace: &HubNamespace,
        desired: &Desired,
    ) -> Result<(), ReconcileError> {
        let body = json!({
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": desired.name, "namespace": namespace.as_str(), "labels": desired.labels},
            "spec": desired.spec,
        });
        let own = ["/spec/resourceSelectors", "/spec/placement"];
        let as_wanted = |written: &PropagationPolicy| written.spec == desired.spec;
        let (policies, existing) = (self.policies(namespace), desired.existing.as_deref());
        self.writer
            .ensure(context, &policies, existing, &body, &own, as_wanted)
            .await
            .map(drop)
    }

    /// Deletes a policy unless an object uses it or may use it. Returns whether the policy was deleted. The lock of the
    /// city was taken before the observation, so no copy has been created since.
    async fn delete(
        &self,
        context: &ReconcileContext,
        namespace: &HubNamespace,
        observed: &Observed,
        unneeded: &Unneeded,
    ) -> Result<bool, ReconcileError> {
        let hub = self.hub.identity()?;
        if !is_still_unneeded(observed, unneeded) || self.is_used(namespace, unneeded).await? {
            return Ok(false);
        }
        // The address of the hub may lead to another hub, where nothing uses the policy. One of the two answers is that
        // of the hub in use.
        let policy = unneeded.policy.as_ref();
        let what = || format!("every object with {}", describe(policy));
        require_answering_hub(&self.hub.client, &hub, what).await?;
        if self.is_used(namespace, unneeded).await? {
            return Ok(false);
        }
        let policies = self.policies(namespace);
        self.writer.delete(context, &policies, policy).await?;
        Ok(true)
    }

    /// Asks the hub's API server whether the policy binds an object. A cache may not contain the object yet. If an
    /// object is deleted together with its policy, Karmada can miss the deletion of the object (I-17).
    async fn is_used(
        &self,
        namespace: &HubNamespace,
        unneeded: &Unneeded,
    ) -> Result<bool, ReconcileError> {
        let (client, namespace) = (&self.hub.client, namespace.as_str());
        let copies = Collection::<WorkloadDeployment>::new(client, namespace, None);
        let bindings = Collection::<ResourceBinding>::new(client, namespace, None);
        let city = unneeded.city.as_str();
        if !unneeded.is_surplus && copies.has_any(labels::CITY_CODE, city).await? {
            return Ok(true);
        }
        let claim = labels::POLICY_PERMANENT_ID;
        let Some(id) = label(unneeded.policy.as_ref(), claim) else {
            return Ok(false);
        };
        Ok(copies.has_any(claim, id).await? || bindings.has_any(claim, id).await?)
    }
}
