//! The controller that activates ResourceGrants.

use anyhow::Context;
use api::Condition;
use api::condition::{self, ConditionStatus};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use multicluster::clock;
use serde_json::json;

use super::kinds::{ACTIVE, API_VERSION, QuotaGrant};

/// Field manager of the controller.
const MANAGER: &str = "resource-grant-controller";

/// Returns whether a grant counts.
pub(super) fn is_active(grant: &QuotaGrant) -> bool {
    let status = grant.status.as_ref();
    status.is_some_and(|status| condition::is_true(&status.conditions, ACTIVE))
}

/// Activates all grants that are new or have changed.
pub(super) async fn reconcile(client: Client) -> anyhow::Result<()> {
    let grants: Api<QuotaGrant> = Api::all(client.clone());
    for grant in grants.list(&ListParams::default()).await?.items {
        let observed = grant
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        if is_active(&grant) && observed == grant.metadata.generation {
            continue;
        }
        activate(&client, &grant)
            .await
            .with_context(|| format!("activate ResourceGrant {}", grant.name_any()))?;
    }
    Ok(())
}

async fn activate(client: &Client, grant: &QuotaGrant) -> anyhow::Result<()> {
    let (name, namespace) = (grant.name_any(), grant.namespace().unwrap_or_default());
    let generation = grant.metadata.generation;
    let active = Condition::new(
        ACTIVE,
        ConditionStatus::True,
        "GrantActive",
        "ResourceGrant is active",
        clock::now(),
    );
    let mut conditions = grant.status.clone().unwrap_or_default().conditions;
    condition::set(&mut conditions, active.observed(generation));
    let applied = json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceGrant",
        "metadata": {"name": name, "namespace": namespace, "uid": grant.uid()},
        "status": {"observedGeneration": generation, "conditions": conditions},
    });
    let grants: Api<QuotaGrant> = Api::namespaced(client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER).force();
    grants
        .patch_status(&name, &params, &Patch::Apply(&applied))
        .await?;
    Ok(())
}
