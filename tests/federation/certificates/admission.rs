//! Tests of the `caBundle` in the admission registrations. The API servers of projects trust this bundle. The manager
//! renews this bundle like the bundle on the hub.

use anyhow::ensure;
use api::Workload;
use api::networking::LocationBinding;
use harness::{Federation, wait};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::FLAGS;
use super::fixture::{self, CaCertificates, CertificateFixture};
use crate::fixture::{WITHIN, create};

/// Returns the API and the name of each admission registration in the project.
fn registrations(client: &Client) -> [(Api<DynamicObject>, &'static str); 2] {
    [
        ("MutatingWebhookConfiguration", "compute-mutating"),
        ("ValidatingWebhookConfiguration", "compute-validating"),
    ]
    .map(|(kind, name)| {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        (api, name)
    })
}

async fn until_bundles(client: &Client, expected: &CaCertificates) -> anyhow::Result<()> {
    wait::eventually("every registration has the bundle", WITHIN, || async {
        for (api, name) in registrations(client) {
            let found = fixture::bundle(&api.get(name).await?)?;
            ensure!(&found == expected, "{name} has {} authorities", found.len());
        }
        Ok(())
    })
    .await
}

/// Repeats the dry run of a Workload's creation until `enough` is cancelled. Returns the number of webhook calls.
async fn ask(client: Client, enough: CancellationToken) -> anyhow::Result<usize> {
    let api: Api<Workload> = Api::namespaced(client, "default");
    let workload = crate::admission::workload("asked", "default", &["DFW"]);
    let workload = serde_json::from_value(workload)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut calls = 0;
    while !enough.is_cancelled() {
        api.create(&dry_run, &workload).await?;
        calls += 1;
    }
    Ok(calls)
}

pub(crate) async fn an_authority_is_renewed_for_admission() -> anyhow::Result<()> {
    let federation: Federation = fixture::start("admission-authority", &FLAGS).await?;
    let client = federation.project().client();
    let binding = json!({
        "metadata": {"name": "dfw"},
        "spec": {"locationRef": {"name": "dfw"}, "topology": {"topology.datum.net/city-code": "DFW"}},
    });
    create::<LocationBinding>(&Api::all(client.clone()), binding).await?;
    federation.register_admission().await?;
    let fixture = CertificateFixture::new(&federation).await?;
    let enough = CancellationToken::new();
    let asks = tokio::spawn(ask(client.clone(), enough.clone()));

    let old = fixture.authority().await;
    until_bundles(&client, &old).await?;
    let old_leaf = fixture.served().await?;
    fixture.renew_authority().await?;
    let new = fixture.authority().await;
    let both: CaCertificates = old.union(&new).cloned().collect();
    until_bundles(&client, &both).await?;
    ensure!(
        fixture.served().await? == old_leaf,
        "the server presents a leaf whose CA callers cannot know yet"
    );
    fixture.until_served().await?;
    until_bundles(&client, &new).await?;
    fixture.until_bundle(&new).await?;

    enough.cancel();
    let calls = asks.await??;
    ensure!(calls > 10, "{calls} calls");
    eprintln!("a CA was renewed during {calls} requests of an API server; none failed");

    // Without registered webhooks, there are no callers. So a starting process does not wait until callers trust its
    // CA.
    let [(mutating, name), _] = registrations(&client);
    let nothing = Patch::Merge(json!({"webhooks": []}));
    mutating
        .patch(name, &PatchParams::default(), &nothing)
        .await?;
    fixture::restart(&federation, &[]).await?;
    federation.stop().await;
    Ok(())
}
