//! Installs the kinds and the admission of the quota system in a project.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;

use super::kinds::{API_VERSION, QuotaClaim, QuotaReference, SYSTEM_NAMESPACE};
use crate::federation::parts::crd_of_others;
use crate::objects::{apply, apply_all, apply_crds};
use crate::{checkout, wait};

/// The kinds that a project serves.
const CRDS: [&str; 3] = [
    "quota.miloapis.com_resourceclaims.yaml",
    "quota.miloapis.com_resourcegrants.yaml",
    "quota.miloapis.com_allowancebuckets.yaml",
];
/// The policy, from the top of the checkout.
const ADMISSION: &str = "tests/harness/quota/admission.yaml";
/// The registrations of our resource types, from the top of the checkout.
const REGISTRATIONS: &str = "deploy/components/quota/resource_registrations.yaml";
/// Time limit for an API server to enforce a new policy. It compiles the policy about a second after its creation. One
/// request may take 30 s to fail.
const ENFORCED: Duration = Duration::from_mins(1);
/// A resource type that is not registered.
const UNREGISTERED: &str = "harness.compute.datumapis.com/unregistered";

/// A registered resource type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRegistration {
    /// Resource type.
    pub resource_type: String,
    /// Kind of the consumers.
    pub consumer_type: QuotaKind,
    /// Kinds that a claim may be for.
    pub claiming_resources: Vec<QuotaKind>,
}

/// A kind in a registration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaKind {
    /// API group. Empty for the core group.
    #[serde(default)]
    pub api_group: String,
    /// Kind.
    pub kind: String,
}

/// Returns the registrations that `deploy` has for our resource types. The double enforces them.
///
/// # Errors
///
/// When the file cannot be read, or is not a list of ResourceRegistrations.
pub fn registrations() -> anyhow::Result<Vec<QuotaRegistration>> {
    #[derive(Deserialize)]
    struct Document {
        spec: QuotaRegistration,
    }
    let file = checkout::root().join(REGISTRATIONS);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(&text).with_context(|| file.display().to_string())?;
    Ok(documents
        .into_iter()
        .map(|document| document.spec)
        .collect())
}

/// Installs the kinds, the namespace of the system, and the admission. Waits until the admission is enforced.
pub(super) async fn install(client: &Client) -> anyhow::Result<()> {
    apply_crds(client, &CRDS.map(crd_of_others)).await?;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE},
    });
    apply(client, &namespace).await?;
    apply_all(client, &admission(&registrations()?)?).await?;
    enforced(client).await
}

/// Returns the policy for these registrations.
fn admission(registrations: &[QuotaRegistration]) -> anyhow::Result<String> {
    let file = checkout::root().join(ADMISSION);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let (mut consumers, mut claimants) = (BTreeMap::new(), BTreeMap::new());
    for registration in registrations {
        let QuotaKind { api_group, kind } = &registration.consumer_type;
        consumers.insert(&registration.resource_type, format!("{api_group}/{kind}"));
        let claiming: Vec<_> = registration
            .claiming_resources
            .iter()
            .map(|of| format!("{}/{}", of.api_group, of.kind.to_lowercase()))
            .collect();
        claimants.insert(&registration.resource_type, claiming);
    }
    // A literal map of CEL has the form of JSON.
    let text = text.replace("'{consumers}'", &format!("'{}'", json!(consumers)));
    Ok(text.replace("'{claimants}'", &format!("'{}'", json!(claimants))))
}

/// Waits until a claim for an unregistered resource type is refused.
async fn enforced(client: &Client) -> anyhow::Result<()> {
    let claims: Api<QuotaClaim> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let nobody = QuotaReference::project("nobody");
    let claim = serde_json::from_value(json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": "refused"},
        "spec": {
            "consumerRef": nobody,
            "resourceRef": nobody,
            "requests": [{"resourceType": UNREGISTERED, "amount": 1}],
        },
    }))?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually("the admission of claims is enforced", ENFORCED, || async {
        match claims.create(&params, &claim).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 403 => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => bail!("a claim for {UNREGISTERED} is not refused"),
        }
    })
    .await
}
