//! What the API server does with a new claim.

use anyhow::{Context, ensure};
use harness::quota::{INSTANCES, MEMORY, QuotaClaim, VCPUS};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use super::{Ledger, PENDING, PROJECT, claim, granted, told};
use crate::fixture::patch_status;

/// A new claim has a status at once: not granted, with the reason of a pending claim and a time in 1970.
pub(super) async fn a_new_claim_is_pending(ledger: &Ledger) -> anyhow::Result<()> {
    let created = ledger.claim("new", &[(INSTANCES, 1)]).await?;
    for claim in [created, ledger.claims.get("new").await?] {
        assert_eq!(told(&claim), PENDING);
        assert!(granted(&claim).is_false());
        assert_eq!(
            granted(&claim).last_transition_time.0,
            Timestamp::UNIX_EPOCH
        );
        assert_eq!(claim.allocation(INSTANCES), None);
    }
    // A status that a client sends with the claim is ignored.
    let mut forged = claim(PROJECT, "forged", &[(INSTANCES, 1)]);
    forged["status"] = json!({"conditions": []});
    let forged = serde_json::from_value(forged)?;
    let created = dynamic(ledger)
        .create(&PostParams::default(), &forged)
        .await?;
    let forged: QuotaClaim = created.try_parse()?;
    assert_eq!(told(&forged), PENDING);
    ledger.delete("forged").await?;

    for (selector, found) in [
        ("spec.consumerRef.kind=Project,spec.consumerRef.name=a", 1),
        ("spec.resourceRef.apiGroup=resourcemanager.miloapis.com", 1),
        ("spec.resourceRef.kind=Project,spec.resourceRef.name=a", 1),
        ("spec.resourceRef.namespace=default", 0),
        ("spec.consumerRef.name=b", 0),
    ] {
        let params = ListParams::default().fields(selector);
        let listed = ledger.claims.list(&params).await?;
        assert_eq!(listed.items.len(), found, "{selector}");
    }
    ledger.delete("new").await
}

/// The schema refuses with 422, before the admission is asked.
pub(super) async fn the_schema_refuses(ledger: &Ledger) -> anyhow::Result<()> {
    let many: Vec<_> = (0..21).map(|n| format!("example.com/{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), 1)).collect();
    let mut nameless = claim(PROJECT, "refused", &[(INSTANCES, 1)]);
    nameless["spec"]["resourceRef"] = json!({"kind": "Project"});
    for (claim, error) in [
        (claim(PROJECT, "refused", &[]), "spec.requests"),
        (claim(PROJECT, "refused", &many), "spec.requests"),
        (
            claim(PROJECT, "refused", &[(INSTANCES, -1)]),
            "spec.requests[0].amount",
        ),
        (nameless, "spec.resourceRef.name"),
    ] {
        refused(ledger, claim, 422, error).await?;
    }
    ledger.claim("reasons", &[(INSTANCES, 1)]).await?;
    let condition = json!({
        "type": "Granted", "status": "False", "reason": "Whatever", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patched = patch_status(
        &ledger.claims,
        "reasons",
        json!({"conditions": [condition]}),
    )
    .await;
    is_refusal(patched, 422, "The reason of Granted must be QuotaAvailable")?;
    ledger.delete("reasons").await
}

/// The admission refuses with 403. The message names the rule.
pub(super) async fn the_admission_refuses(ledger: &Ledger) -> anyhow::Result<()> {
    let one = || claim(PROJECT, "refused", &[(INSTANCES, 1)]);
    let with = |pointer: &str, value: Value| {
        let mut claim = one();
        *claim.pointer_mut(pointer).expect("a field") = value;
        claim
    };
    let milo = "resourcemanager.miloapis.com";
    let workload = json!({"apiGroup": "compute.datumapis.com", "kind": "Workload", "name": "w"});
    let mut without_reference = one();
    without_reference["spec"]
        .as_object_mut()
        .expect("a map")
        .remove("resourceRef");
    for (claim, error) in [
        (
            claim(
                PROJECT,
                "refused",
                &[(INSTANCES, 1), ("example.com/gpus", 1)],
            ),
            "Resource type 'example.com/gpus' is not available for quota management",
        ),
        (
            claim(PROJECT, "refused", &[(INSTANCES, 1), (MEMORY, 0)]),
            "greater than 0",
        ),
        (
            claim(
                PROJECT,
                "refused",
                &[(VCPUS, 1), (INSTANCES, 1), (VCPUS, 1)],
            ),
            "only one request",
        ),
        (without_reference, "resourceRef must have a kind and a name"),
        (
            with("/spec/resourceRef/kind", json!("")),
            "resourceRef must have a kind and a name",
        ),
        (
            with("/spec/resourceRef/name", json!("")),
            "resourceRef must have a kind and a name",
        ),
        (
            with("/spec/consumerRef/kind", json!("Organization")),
            "resourcemanager.miloapis.com/Organization is not the kind of the consumer",
        ),
        (
            with("/spec/consumerRef/apiGroup", json!("example.com")),
            "example.com/Project is not the kind of the consumer",
        ),
        (
            with("/spec/resourceRef", workload),
            "compute.datumapis.com/workload may not claim",
        ),
        (
            with("/spec/resourceRef/apiGroup", json!("")),
            "/project may not claim",
        ),
    ] {
        refused(ledger, claim, 403, error).await?;
    }
    // The kind of the claimant is compared without its case. The deployed registrations also allow an Instance.
    let instance = json!({"apiGroup": "compute.datumapis.com", "kind": "Instance", "name": "i"});
    for claimant in [
        json!({"apiGroup": milo, "kind": "pROJECT", "name": "a"}),
        instance,
    ] {
        let accepted = with("/spec/resourceRef", claimant);
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        ledger
            .claims
            .create(&params, &serde_json::from_value(accepted)?)
            .await?;
    }

    let client = ledger.claims.clone().into_client();
    let nowhere: Api<QuotaClaim> = Api::namespaced(client, "nowhere");
    let created = nowhere
        .create(&PostParams::default(), &serde_json::from_value(one())?)
        .await;
    is_refusal(created, 404, "namespaces \"nowhere\" not found")
}

/// Returns the API of claims as they are sent. A typed claim would have no missing fields.
fn dynamic(ledger: &Ledger) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<QuotaClaim>(&());
    Api::default_namespaced_with(ledger.claims.clone().into_client(), &resource)
}

async fn refused(ledger: &Ledger, claim: Value, code: u16, error: &str) -> anyhow::Result<()> {
    let shown = claim.to_string();
    let claim = serde_json::from_value(claim)?;
    let created = dynamic(ledger).create(&PostParams::default(), &claim).await;
    is_refusal(created, code, error).context(shown)
}

fn is_refusal<K, E>(answer: Result<K, E>, code: u16, error: &str) -> anyhow::Result<()>
where
    E: Into<anyhow::Error>,
{
    let Err(answer) = answer.map_err(Into::into) else {
        anyhow::bail!("not refused with {code}")
    };
    match answer.downcast::<kube::Error>()? {
        kube::Error::Api(refusal) => ensure!(
            refusal.code == code && refusal.message.contains(error),
            "{code} {error:?} expected: {refusal:?}"
        ),
        other => return Err(other.into()),
    }
    Ok(())
}
