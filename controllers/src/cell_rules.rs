//! Turns the CellRules of the hub into one ClusterOverridePolicy. It gives each cell its rules in an annotation of the
//! WorkloadDeployments there (docs/operate/cell-rules.md).
//!
//! The selectors of the rules are evaluated here, because Karmada does not evaluate an override again when the labels of
//! a Cluster change (docs/concepts/karmada-behaviour.md).

mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;

use api::CellRule;
use api::karmada::ClusterOverridePolicy;
use kube::Resource;
use multicluster::Outcome;
use serde_json::json;

use crate::hub::HubCaches;
use crate::runtime::error::FirstError;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
pub use plan::{Problem, RulesOfCell, RulesOfCells, rules_in_policy, rules_of_cells};
use plan::{changed_statuses, policy};

/// Name of the ClusterOverridePolicy.
pub const POLICY: &str = "compute-cell-rules";

pub(crate) struct CellRuleController {
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) writer: Writer,
}

impl Controller for CellRuleController {
    const NAME: &'static str = "cell-rules";
    type Key = ObjectKey;

    /// Reconciles all rules together.
    async fn reconcile(
        &self,
        context: &ReconcileContext,
        _: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let hub = &self.hub;
        let are_current = hub.cell_rules.sync_state().borrow().is_current()
            && hub.override_policies.sync_state().borrow().is_current();
        let Some(cells) = hub.cells.labels().filter(|_| are_current) else {
            // The first list wakes this controller.
            return Ok(Outcome::Settled);
        };
        // A rule that cannot be decoded must not be left out, so the former policy stays.
        let rules = hub.cell_rules.list("")?;
        let existing = hub.override_policies.get("", POLICY)?;
        let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells);
        let mut errors = FirstError::default();
        errors.note(match (policy(&of_cells), existing) {
            (None, None) => Ok(()),
            (None, Some(existing)) => {
                let policies = Collection::of_plane(&hub.client, Some(&hub.override_policies));
                self.writer
                    .delete(context, &policies, existing.as_ref())
                    .await
            }
            (Some(policy), Some(existing)) if existing.spec == policy => Ok(()),
            (Some(policy), existing) => self.apply(context, existing.as_deref(), &policy).await,
        });
        let refusal = errors.lasting_refusal();
        let refusal = refusal.as_deref();
        let statuses = changed_statuses(&rules, &of_cells, refusal, context.now());
        let to = Collection::of_plane(&hub.client, Some(&hub.cell_rules));
        for (rule, status) in statuses {
            if errors.must_wait() {
                break;
            }
            let rule: &CellRule = rule;
            let written = self
                .writer
                .apply_status(context, &to, rule, json!(status))
                .await;
            errors.note(written);
        }
        errors.result()?;
        Ok(Outcome::Settled)
    }
}

impl CellRuleController {
    async fn apply(
        &self,
        context: &ReconcileContext,
        existing: Option<&ClusterOverridePolicy>,
        spec: &api::karmada::policy::ClusterOverridePolicySpec,
    ) -> Result<(), ReconcileError> {
        let body = json!({
            "apiVersion": ClusterOverridePolicy::api_version(&()),
            "kind": ClusterOverridePolicy::kind(&()),
            "metadata": {"name": POLICY},
            "spec": spec,
        });
        let own = ["/spec/overrideRules", "/spec/resourceSelectors"];
        let as_wanted = |written: &ClusterOverridePolicy| written.spec == *spec;
        let hub = &self.hub;
        let policies = Collection::of_plane(&hub.client, Some(&hub.override_policies));
        self.writer
            .ensure(context, &policies, existing, &body, &own, as_wanted)
            .await
            .map(drop)
    }
}
