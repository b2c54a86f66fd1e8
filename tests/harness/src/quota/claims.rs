//! The controller that writes the condition `Granted` of ResourceClaims.

use anyhow::Context;
use api::Condition;
use api::condition::{self, ConditionStatus};
use futures::future::try_join_all;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use multicluster::clock;
use serde_json::{Value, json};

use super::kinds::{
    API_VERSION, GRANTED, PENDING_EVALUATION, QUOTA_AVAILABLE, QUOTA_EXCEEDED, QuotaClaim,
    QuotaDecision,
};

/// Field manager of the controller.
const MANAGER: &str = "resource-claim-controller";
/// Message of a denied claim.
const DENIED: &str = "Insufficient quota resources. Contact your account administrator to review quota limits and usage.";

/// Writes the condition of all claims whose decisions it does not show yet.
pub(super) async fn reconcile(client: Client) -> anyhow::Result<()> {
    let claims: Api<QuotaClaim> = Api::all(client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    try_join_all(claims.iter().map(|claim| show(&client, claim)))
        .await
        .map(drop)
}

async fn show(client: &Client, claim: &QuotaClaim) -> anyhow::Result<()> {
    let decided = decided(claim);
    if claim.granted().is_some_and(|shown| same(shown, &decided)) {
        return Ok(());
    }
    let mut conditions = claim.status.clone().unwrap_or_default().conditions;
    condition::set(&mut conditions, decided);
    let status = json!({
        "observedGeneration": claim.metadata.generation,
        "conditions": conditions,
    });
    apply_status(client, claim, MANAGER, &status).await
}

fn same(shown: &Condition, decided: &Condition) -> bool {
    let parts = |condition: &Condition| {
        let Condition {
            status,
            reason,
            message,
            observed_generation,
            ..
        } = condition.clone();
        (status, reason, message, observed_generation)
    };
    parts(shown) == parts(decided)
}

/// Returns the condition that follows from the decisions about the requests.
fn decided(claim: &QuotaClaim) -> Condition {
    let requests = &claim.spec.requests;
    let count = |decision| {
        let decisions = requests
            .iter()
            .filter_map(|request| claim.allocation(&request.resource_type));
        decisions
            .filter(|allocation| allocation.status == decision)
            .count()
    };
    let (granted, denied) = (count(QuotaDecision::Granted), count(QuotaDecision::Denied));
    let pending = requests.len() - granted - denied;
    let (status, reason, message) = match (denied, pending) {
        (0, 0) => (
            ConditionStatus::True,
            QUOTA_AVAILABLE,
            format!("All {granted} resource requests have been granted"),
        ),
        (0, _) => (
            ConditionStatus::False,
            PENDING_EVALUATION,
            format!("Awaiting capacity evaluation: {granted} granted, {pending} pending"),
        ),
        _ => (ConditionStatus::False, QUOTA_EXCEEDED, DENIED.to_owned()),
    };
    Condition::new(GRANTED, status, reason, message, clock::now())
        .observed(claim.metadata.generation)
}

/// Applies a part of the status of a claim as this field manager. Nothing is written if the claim is gone.
pub(super) async fn apply_status(
    client: &Client,
    claim: &QuotaClaim,
    manager: &str,
    status: &Value,
) -> anyhow::Result<()> {
    let (name, namespace) = (claim.name_any(), claim.namespace().unwrap_or_default());
    let applied = json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        // The decision about a claim must not reach a later claim of the same name.
        "metadata": {"name": name, "namespace": namespace, "uid": claim.uid()},
        "status": status,
    });
    let claims: Api<QuotaClaim> = Api::namespaced(client.clone(), &namespace);
    let params = PatchParams::apply(manager).force();
    match claims
        .patch_status(&name, &params, &Patch::Apply(&applied))
        .await
    {
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(()),
        answer => answer
            .map(drop)
            .with_context(|| format!("apply the status of ResourceClaim {namespace}/{name}")),
    }
}
