//! The objects that one reconciliation sees. A deletion is decided on objects of the API server, because the cache of a
//! process can be behind (docs/concepts/flow.md#rollout).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::workload_deployment::REPLICAS_READY;
use api::{Instance, WorkloadDeployment, condition, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use serde_json::json;

pub(super) use super::plan::QuotaAnswers;
use super::plan::{
    DataVersions, Observed, Plan, RolloutStep, data_to_roll, plan, quota_key, spec_of_template,
};
use crate::autoscaler::AutoscalerView;
use crate::cell::rules::with_rules;
use crate::objects::contains;
use crate::quota::{Held, asked_again};
use crate::runtime::ReconcileError;
use crate::runtime::write::{Collection, Writer};
use crate::template::template_hash;

/// The WorkloadDeployment and the Instances of its namespace. They are the objects of the caches, except those that were
/// read from the API server. The template of the WorkloadDeployment has the rules of the cell.
pub(super) struct View {
    pub(super) deployment: Arc<WorkloadDeployment>,
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) undecodable: Vec<Arc<InvalidObject>>,
    /// What is known about its autoscaler.
    pub(super) autoscaler: AutoscalerView,
    /// The answers about the quota of replacements.
    pub(super) quota: QuotaAnswers,
    /// The versions of ConfigMaps and Secrets in the cell, as [`Observed::data`].
    pub(super) data: Option<DataVersions>,
    pub(super) now: Timestamp,
}

impl View {
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            deployment: &self.deployment,
            instances: &self.instances,
            undecodable: &self.undecodable,
            autoscaler: &self.autoscaler,
            quota: &self.quota,
            data: self.data.as_ref(),
            now: self.now,
        }
    }

    /// Returns the ConfigMaps and Secrets of the template, and their versions, if an Instance has to be replaced for one
    /// of them.
    pub(super) fn data_to_roll(&self) -> DataVersions {
        data_to_roll(&self.observed())
    }

    /// Returns the Instances to replace whose replacements' quota has not been asked for.
    pub(super) fn unasked(&self) -> Vec<Arc<Instance>> {
        let hash = template_hash(&self.deployment);
        let replaced = self.plan().steps.into_iter().filter_map(|step| match step {
            RolloutStep::Replace(instance) => Some(instance),
            _ => None,
        });
        replaced
            .filter(|instance| !self.quota.contains_key(&quota_key(instance, &hash)))
            .collect()
    }

    /// Returns the Instance that is deleted next, if it is replaced.
    pub(super) fn next_replaced(&self) -> Option<Arc<Instance>> {
        match self.plan().steps.into_iter().next() {
            Some(RolloutStep::Replace(instance)) => Some(instance),
            _ => None,
        }
    }

    /// Records for each of these Instances why it must not be replaced, or that it may be.
    pub(super) fn note_quota(&mut self, instances: &[Arc<Instance>], held: Vec<Option<Held>>) {
        let hash = template_hash(&self.deployment);
        let keys = instances.iter().map(|instance| quota_key(instance, &hash));
        self.quota.extend(keys.zip(held));
    }

    /// Returns when to look again if nothing changes. No event tells that the quota of a replacement is there.
    pub(super) fn outcome(&self) -> Outcome {
        if self.quota.values().flatten().next().is_none() {
            return Outcome::Settled;
        }
        let former = self.deployment.status.as_ref();
        let former = former.and_then(|it| condition::find(&it.conditions, REPLICAS_READY));
        let since = former.filter(|it| it.is_false());
        let held = since.map_or(SignedDuration::ZERO, |since| {
            self.now.duration_since(since.last_transition_time.0)
        });
        Outcome::Again(asked_again(held))
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed())
    }

    async fn read_deployment(
        &mut self,
        deployments: &Collection<'_, WorkloadDeployment>,
    ) -> Result<(), ReconcileError> {
        let current = deployments.current(&self.deployment).await?;
        self.deployment = with_rules(Arc::new(current));
        Ok(())
    }

    /// Reads the WorkloadDeployment and the Instance from the API server if the next step of the rollout deletes this
    /// Instance, until the next step follows from such answers. Each Instance is read at most once. Without a deletion,
    /// no request is sent. Before an Instance is replaced, the others are listed: the API server can have fewer ready ones
    /// than the cache. If the WorkloadDeployment [ends](WorkloadDeployment::is_ending), only it is read.
    ///
    /// If an Instance to replace only lacks fields of the template, a dry run shows how the API server stores the
    /// template. A CRD of Instances that is older than that of WorkloadDeployments prunes these fields, and would prune
    /// them again.
    ///
    /// # Errors
    ///
    /// The errors of [`Collection::current`] and of [`Writer::try_spec`], but not a refused dry run. The next step is
    /// then not confirmed.
    pub(super) async fn confirm_deletion(
        &mut self,
        deployments: &Collection<'_, WorkloadDeployment>,
        instances: &Collection<'_, Instance>,
        writer: &Writer,
    ) -> Result<(), ReconcileError> {
        let (mut deployment_read, mut read) = (false, BTreeSet::new());
        let mut are_listed = false;
        if self.deployment.is_ending() && self.plan().deletes_without_steps() {
            self.read_deployment(deployments).await?;
            deployment_read = true;
        }
        loop {
            let step = self.plan().steps.into_iter().next();
            let (cached, is_replaced) = match step {
                Some(RolloutStep::Replace(cached)) => (cached, true),
                Some(RolloutStep::Delete(cached)) => (cached, false),
                _ => return Ok(()),
            };
            if !deployment_read {
                self.read_deployment(deployments).await?;
                deployment_read = true;
                continue;
            }
            // Another Instance may not be ready any more. Then this one must stay.
            if is_replaced && !are_listed {
                self.read_instances(instances).await?;
                are_listed = true;
                continue;
            }
            let name = cached.name_any();
            if !read.insert(name) {
                return Ok(());
            }
            let mut current = instances.current(&cached).await?;
            if is_replaced && self.would_stay(instances, writer, &current).await? {
                current.spec = spec_of_template(&self.deployment, &current);
            }
            for instance in &mut self.instances {
                if instance.metadata.name == current.metadata.name {
                    *instance = Arc::new(current.clone());
                }
            }
        }
    }

    /// Reads the Instances of the WorkloadDeployment that the cache does not have as the API server has them.
    async fn read_instances(
        &mut self,
        instances: &Collection<'_, Instance>,
    ) -> Result<(), ReconcileError> {
        let uid = self.deployment.uid().unwrap_or_default();
        let label = labels::WORKLOAD_DEPLOYMENT_UID;
        let listed = instances.labelled_metadata(label, &uid).await?;
        let is_gone = |cached: &Arc<Instance>| {
            cached.labels().get(label) == Some(&uid)
                && listed.iter().all(|it| it.uid() != cached.uid())
        };
        self.instances.retain(|cached| !is_gone(cached));
        for metadata in listed {
            let is_same = |cached: &ObjectMeta| {
                cached.uid == metadata.metadata.uid
                    && cached.resource_version == metadata.metadata.resource_version
            };
            let is_known = self.instances.iter().any(|it| is_same(it.meta()))
                || self
                    .undecodable
                    .iter()
                    .any(|it| it.metadata.name == metadata.metadata.name);
            if is_known {
                continue;
            }
            let name = metadata.name_any();
            self.instances.retain(|cached| cached.name_any() != name);
            if let Some(current) = instances.read(&name).await? {
                self.instances.push(Arc::new(current));
            }
        }
        Ok(())
    }

    /// Returns whether the Instance lacks fields of the template that the API server would prune again.
    async fn would_stay(
        &self,
        instances: &Collection<'_, Instance>,
        writer: &Writer,
        instance: &Instance,
    ) -> Result<bool, ReconcileError> {
        let wanted = spec_of_template(&self.deployment, instance);
        if wanted == instance.spec || !contains(&json!(wanted), &json!(instance.spec)) {
            return Ok(false);
        }
        match writer.try_spec(instances, instance, &wanted).await {
            Ok(stored) => Ok(stored.spec == instance.spec),
            Err(error) if error.refusal().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
