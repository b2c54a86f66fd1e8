//! The lifecycle of PropagationPolicies on the hub (compute.md 2.2).

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::karmada::PropagationPolicy;
use api::{CityCode, HubNamespace, annotations, labels};
use kube::{Resource, ResourceExt};
use planes::Outcome;
use serde_json::json;

use crate::ReconcileError;
use crate::keys::HubKey;
use crate::objects::{describe, is_terminating, label};
use crate::upstream::{self, Upstream};
use crate::watched::{Hub, Projects};
use crate::wiring::Controller;
use crate::write::{Collection, Writer};
pub(crate) use plan::is_managed;
use plan::{Observed, Plan, plan, selected_city};

/// Whether the policy carries deployments of this city to the cells of this city.
pub(crate) fn selects_city(policy: &PropagationPolicy, city: &str) -> bool {
    selected_city(policy) == Some(city)
}

pub(crate) struct PolicyController {
    pub(crate) projects: Arc<Projects>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) writer: Writer,
}

impl Controller for PolicyController {
    const NAME: &'static str = "policy";
    type Key = HubKey;

    /// Reconciles all policies of one hub namespace.
    async fn reconcile(&self, key: HubKey) -> Result<Outcome, ReconcileError> {
        let hub_namespace = &key.namespace;
        let Some(namespace) = self.hub.namespaces.get("", hub_namespace.as_str())? else {
            return Ok(Outcome::Gone);
        };
        if label(namespace.as_ref(), labels::UPSTREAM_CLUSTER_NAME).is_none() {
            // Not one of the federator's namespaces.
            return Ok(Outcome::Gone);
        }
        if is_terminating(namespace.as_ref()) {
            return Ok(Outcome::Settled);
        }
        if key.project != upstream::project(namespace.meta()) {
            // The labels said something else, or another project has named it. Whoever they name now has a key.
            return Ok(Outcome::Gone);
        }
        let upstream = Upstream::of(namespace.meta())
            .map_err(ReconcileError::identity(describe(namespace.as_ref())))?;
        let plan = plan(&Observed {
            namespace: hub_namespace,
            needed: &self.needed(hub_namespace, &upstream)?,
            policies: &self.hub.policies.list(hub_namespace.as_str())?,
        });
        self.execute(hub_namespace, plan).await?;
        Ok(Outcome::Settled)
    }
}

impl PolicyController {
    /// The cities of the deployments that are on the hub, also of those that are going, and of those that the project
    /// wants there.
    fn needed(
        &self,
        namespace: &HubNamespace,
        upstream: &Upstream,
    ) -> Result<BTreeSet<CityCode>, ReconcileError> {
        let copies = self.hub.deployments.list(namespace.as_str())?;
        let on_hub = copies
            .iter()
            .filter_map(|copy| label(copy.as_ref(), labels::CITY_CODE));
        let project = self.projects.get(&upstream.project)?;
        let deployments = project.deployments.list(&upstream.namespace)?;
        let wanted = deployments
            .iter()
            .filter(|deployment| !is_terminating(deployment.as_ref()))
            .filter(|deployment| {
                let recorded = deployment
                    .annotations()
                    .get(annotations::FEDERATION_NAMESPACE);
                recorded.map(String::as_str) == Some(namespace.as_str())
            })
            .map(|deployment| deployment.spec.city_code.as_str());
        // The federator reports a code that is no valid one; no label has it.
        Ok(on_hub
            .chain(wanted)
            .filter_map(|city| CityCode::new(city).ok())
            .collect())
    }

    async fn execute(&self, namespace: &HubNamespace, plan: Plan) -> Result<(), ReconcileError> {
        let policies = Collection::new(
            &self.hub.client,
            namespace.as_str(),
            Some(&self.hub.policies),
        );
        for desired in &plan.apply {
            let body = json!({
                "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "PropagationPolicy",
                "metadata": {"name": desired.name, "namespace": namespace.as_str(), "labels": desired.labels},
                "spec": desired.spec,
            });
            let own = ["/spec/resourceSelectors", "/spec/placement"];
            let as_wanted = |written: &PropagationPolicy| written.spec == desired.spec;
            self.writer
                .ensure(
                    &policies,
                    desired.existing.as_deref(),
                    &body,
                    &own,
                    as_wanted,
                )
                .await?;
        }
        for policy in &plan.delete {
            self.writer.delete(&policies, policy.as_ref()).await?;
        }
        Ok(())
    }
}
