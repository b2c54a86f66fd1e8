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
use std::time::Duration;

use api::CellRule;
use api::karmada::policy::ClusterOverridePolicySpec;
use api::karmada::{Cluster, ClusterOverridePolicy};
use api::reasons::cell_rule as reason;
use kube::{Client, Resource};
use multicluster::Outcome;
use serde_json::json;

use crate::hub::HubCaches;
use crate::hub::identity::HubIdentity;
use crate::hub_in_use::HubInUse;
use crate::objects::describe_undecodable;
use crate::runtime::error::FirstError;
use crate::runtime::hub_proof::require_answering_hub;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::changed_statuses;
pub(crate) use plan::stamps_of;
pub use plan::{
    Problem, RulesOfCell, RulesOfCells, policy, rules_in_policy, rules_of_cells, too_large,
};

/// Name of the ClusterOverridePolicy.
pub const POLICY: &str = "compute-cell-rules";

/// How long to wait for caches. A watch that goes on after a failure does not wake this controller.
const NOT_CURRENT: Duration = Duration::from_secs(10);

pub(crate) struct CellRuleController {
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) hub_in_use: HubInUse,
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
        self.hub_in_use
            .verdict()
            .require_own(|| "CellRules".to_owned())?;
        let hub = &self.hub;
        let are_current = hub.cell_rules.sync_state().borrow().is_current()
            && hub.override_policies.sync_state().borrow().is_current();
        let Some(cells) = hub.cells.labels().filter(|_| are_current) else {
            return Ok(Outcome::Again(NOT_CURRENT));
        };
        let rules = hub.cell_rules.readable("");
        let of_cells = rules_of_cells(rules.iter().map(AsRef::as_ref), &cells);
        let (written, stop) = self.try_policy(context, &of_cells).await;
        if stop.is_none() && written.is_err() {
            // It is not known which rules the cells have.
            return written.map(|()| Outcome::Settled);
        }
        let mut errors = FirstError::default();
        errors.note(written);
        let stopped = |rule: &CellRule| {
            let Problem { reason, message } = stop.clone()?;
            let message = self.writer.shown_refusal(context, rule, "", message);
            Some(Problem { reason, message })
        };
        let statuses = changed_statuses(&rules, &of_cells, stopped, context.now());
        let to = Collection::of_plane(&hub.client, Some(&hub.cell_rules));
        for (rule, status) in statuses {
            if errors.must_wait() {
                break;
            }
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
    /// Makes the policy as these rules want it. If the former policy stays for longer, the result has the reason.
    async fn try_policy(
        &self,
        context: &ReconcileContext,
        rules: &RulesOfCells,
    ) -> (Result<(), ReconcileError>, Option<Problem>) {
        // A rule that cannot be decoded must not be left out.
        if let Some(error) = self.hub.cell_rules.list("").err() {
            let undecodable = self.hub.cell_rules.undecodable("");
            let invalid = undecodable.first();
            let why = invalid.map(|it| describe_undecodable::<CellRule>(it));
            let why = why.unwrap_or_else(|| error.to_string());
            let message = format!("the rules of all cells stay as they are: {why}");
            let reason = reason::UNDECODABLE;
            return (Err(error.into()), Some(Problem { reason, message }));
        }
        let refused = |message| Problem {
            reason: reason::POLICY_REFUSED,
            message,
        };
        let wanted = policy(rules);
        if let Some(message) = too_large(wanted.as_ref()) {
            return (Ok(()), Some(refused(message)));
        }
        let written = self.write_policy(context, wanted).await;
        let error = written.as_ref().err();
        let refusal = error.and_then(ReconcileError::lasting_refusal);
        (written, refusal.map(refused))
    }

    /// Makes the policy as wanted. Without one, deletes it.
    async fn write_policy(
        &self,
        context: &ReconcileContext,
        wanted: Option<ClusterOverridePolicySpec>,
    ) -> Result<(), ReconcileError> {
        let hub = &self.hub;
        let existing = hub.override_policies.get("", POLICY)?;
        if existing.as_ref().map(|it| &it.spec) == wanted.as_ref() {
            return Ok(());
        }
        let identity = hub.identity()?;
        require_wanted_by_hub(&hub.client, &identity, wanted.as_ref()).await?;
        match (wanted, existing) {
            (None, None) => Ok(()),
            (None, Some(existing)) => {
                let policies = Collection::of_plane(&hub.client, Some(&hub.override_policies));
                let existing = existing.as_ref();
                self.writer.delete(context, &policies, existing).await
            }
            (Some(wanted), existing) => self.apply(context, existing.as_deref(), &wanted).await,
        }
    }

    async fn apply(
        &self,
        context: &ReconcileContext,
        existing: Option<&ClusterOverridePolicy>,
        spec: &ClusterOverridePolicySpec,
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

/// Checks with the hub's API server that the rules and cells of the hub in use want this policy (I-12). The address of the
/// hub may lead to another hub, and each cache can have the objects of another one. A policy of other rules would replace
/// the Instances of all customers, also one that only has more rules. So each write is checked.
///
/// The objects are read before and after the hub is identified: one of the two answers is that of the hub in use.
async fn require_wanted_by_hub(
    hub: &Client,
    identity: &HubIdentity,
    wanted: Option<&ClusterOverridePolicySpec>,
) -> Result<(), ReconcileError> {
    require_wanted_by_answer(hub, wanted).await?;
    let what = || "CellRules and Clusters".to_owned();
    require_answering_hub(hub, identity, what).await?;
    require_wanted_by_answer(hub, wanted).await
}

async fn require_wanted_by_answer(
    hub: &Client,
    wanted: Option<&ClusterOverridePolicySpec>,
) -> Result<(), ReconcileError> {
    let rules = Collection::<CellRule>::of_plane(hub, None).all().await?;
    let cells = Collection::<Cluster>::of_plane(hub, None);
    let cells = cells.all_metadata().await?.into_iter();
    let cells = cells.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default()));
    let answered = policy(&rules_of_cells(&rules, &cells.collect()));
    match answered.as_ref() == wanted {
        true => Ok(()),
        false => Err(ReconcileError::NotYet {
            object: format!("ClusterOverridePolicy {POLICY}"),
            missing: "the watches to report the CellRules and Clusters that the hub has".to_owned(),
        }),
    }
}
