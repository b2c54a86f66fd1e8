//! Tests of the double of Milo's quota system. Each assertion is a fact about Milo that compute-federation relies on.

#[path = "quota_double/admission.rs"]
mod admission;
#[path = "quota_double/decisions.rs"]
mod decisions;
#[path = "quota_double/order.rs"]
mod order;

use anyhow::{Context, ensure};
use api::milo::RESOURCE_MANAGER_GROUP;
use api::{Condition, DEFAULT_NAMESPACE};
use harness::quota::{
    self, API_VERSION, INSTANCES, MEMORY, QuotaBucketStatus, QuotaClaim, QuotaDelays,
    QuotaReference, QuotaSystem, VCPUS,
};
use harness::{Milo, wait};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::fixture::{WITHIN, create};

/// The projects of the shared Milo. Nothing but this test uses quota in them.
const PROJECT: &str = "a";
const OTHER: &str = "b";

/// Reason and message of the condition of a new claim, and of a denied one.
const PENDING: (&str, &str) = ("PendingEvaluation", "Awaiting capacity evaluation");
const DENIED: (&str, &str) = (
    "QuotaExceeded",
    "Insufficient quota resources. Contact your account administrator to review quota limits and usage.",
);

/// A quota system, and the claims of one of its projects.
struct Ledger {
    system: QuotaSystem,
    claims: Api<QuotaClaim>,
    project: &'static str,
}

impl Ledger {
    /// Creates a claim for these amounts.
    async fn claim(&self, name: &str, requests: &[(&str, i64)]) -> anyhow::Result<QuotaClaim> {
        create(&self.claims, claim(self.project, name, requests)).await
    }

    /// Waits until the condition `Granted` of a claim has this reason.
    async fn decided(&self, name: &str, reason: &str) -> anyhow::Result<QuotaClaim> {
        let decided = |claim: &QuotaClaim| claim.granted().is_some_and(|is| is.reason == reason);
        wait::until(&self.claims, name, reason, WITHIN, decided).await
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until the bucket of a resource type has this limit, this sum and this number of claims.
    async fn counted(
        &self,
        resource_type: &str,
        (limit, allocated, claims): (i64, i64, i32),
    ) -> anyhow::Result<QuotaBucketStatus> {
        let what = format!("{resource_type}: limit {limit}, allocated {allocated} to {claims}");
        wait::eventually(&what, WITHIN, || async {
            let bucket = self.system.bucket(self.project, resource_type).await?;
            let bucket = bucket.context("no bucket")?;
            let numbers = (bucket.limit, bucket.allocated, bucket.claim_count);
            ensure!(numbers == (limit, allocated, claims), "{bucket:?}");
            assert_eq!(bucket.available, (limit - allocated).max(0));
            Ok(bucket)
        })
        .await
    }
}

/// Returns a claim of a project, as a cell makes it.
fn claim(project: &str, name: &str, requests: &[(&str, i64)]) -> Value {
    let project = QuotaReference::project(project);
    let requests: Vec<_> = requests
        .iter()
        .map(|(resource_type, amount)| json!({"resourceType": resource_type, "amount": amount}))
        .collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"consumerRef": project, "resourceRef": project, "requests": requests},
    })
}

fn granted(claim: &QuotaClaim) -> &Condition {
    claim.granted().expect("every claim has the condition")
}

/// Returns the reason and the message of the condition.
fn told(claim: &QuotaClaim) -> (&str, &str) {
    let granted = granted(claim);
    (&granted.reason, &granted.message)
}

pub(crate) async fn behaves_as_milo(milo: &Milo) -> anyhow::Result<()> {
    let client = milo.project(PROJECT)?.client();
    let clients = [
        (PROJECT, client.clone()),
        (OTHER, milo.project(OTHER)?.client()),
    ];
    let ledger = Ledger {
        system: QuotaSystem::start(&clients, QuotaDelays::default()).await?,
        claims: Api::namespaced(client, DEFAULT_NAMESPACE),
        project: PROJECT,
    };
    ledger.system.pause().await;
    admission::a_new_claim_is_pending(&ledger).await?;
    admission::the_schema_refuses(&ledger).await?;
    admission::the_admission_refuses(&ledger).await?;
    order::nothing_is_decided_while_paused(&ledger).await?;
    ledger.system.resume().await;

    decisions::without_a_grant_a_claim_is_denied(&ledger).await?;
    decisions::a_claim_is_granted(&ledger).await?;
    decisions::a_denied_claim_keeps_its_granted_part(&ledger).await?;
    decisions::a_lower_limit_changes_no_decision(&ledger).await?;
    decisions::the_consumer_must_match_exactly(&ledger).await?;
    decisions::a_revoked_claim_is_denied(&ledger).await?;
    decisions::projects_are_separate(&ledger).await?;
    order::the_bucket_precedes_the_claim(&ledger).await?;
    order::nothing_is_written_at_rest(&ledger).await
}

pub(crate) async fn continues_after_outages(milo: &Milo) -> anyhow::Result<()> {
    order::continues_after_outages(milo).await
}

/// Milo refuses the claim of a cell unless Project may claim each resource type.
pub(crate) async fn a_claim_for_a_project_is_registered() -> anyhow::Result<()> {
    let registrations = quota::registrations()?;
    for resource_type in [INSTANCES, VCPUS, MEMORY] {
        let registration = registrations
            .iter()
            .find(|registration| registration.resource_type == resource_type)
            .with_context(|| format!("{resource_type} is not registered"))?;
        let of_project = |kind: &quota::QuotaKind| {
            kind.api_group == RESOURCE_MANAGER_GROUP && kind.kind == "Project"
        };
        ensure!(of_project(&registration.consumer_type), "{registration:?}");
        let mut claiming = registration.claiming_resources.iter();
        ensure!(claiming.any(of_project), "{registration:?}");
    }
    ensure!(registrations.len() == 3, "{registrations:?}");
    Ok(())
}
