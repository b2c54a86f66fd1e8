//! Tests of a change of the total. Karmada first sends the new template with the old shares
//! (docs/concepts/karmada-behaviour.md). These tests delay the new shares until the statuses of this first step have
//! reached the hub.

use api::WorkloadDeployment;
use harness::Federation;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::deployment_fixture::{DeploymentFixture, counters};
use super::refused_updates::RefusedUpdates;
use super::{DFW1, DFW2, divided_in_dfw, each, in_dfw};
use crate::fixture::dynamic;

/// The cells still have their old shares. The sum of the old shares is the new total.
pub(crate) async fn a_total_that_is_the_sum_of_the_former_shares(
    federation: &Federation,
) -> anyhow::Result<()> {
    let mut fixture = DeploymentFixture::create(federation, "sum", &in_dfw(), 1, &each(1)).await?;
    fixture.all_act().await?;
    let held = hold(federation, &fixture).await?;
    fixture.scale(2, &each(2)).await?;
    until_all_have_the_template(&fixture).await?;
    held.end().await?;
    fixture.all_act().await?;
    fixture.check().await
}

/// The cells still have their old shares. Each old share equals the new total.
pub(crate) async fn a_total_that_each_former_share_equals(
    federation: &Federation,
) -> anyhow::Result<()> {
    let placement = divided_in_dfw(1, 1);
    let mut fixture =
        DeploymentFixture::create(federation, "equal", &placement, 4, &each(2)).await?;
    fixture.all_act().await?;
    let held = hold(federation, &fixture).await?;
    fixture.scale(2, &each(1)).await?;
    until_all_have_the_template(&fixture).await?;
    held.end().await?;
    fixture.all_act().await?;
    fixture.check().await
}

/// One cell has its new share. This share is the new total. The other cell still has its old share of 0.
pub(crate) async fn scaled_to_zero_and_back(federation: &Federation) -> anyhow::Result<()> {
    let mut fixture =
        DeploymentFixture::create(federation, "nothing", &in_dfw(), 1, &each(1)).await?;
    fixture.all_act().await?;
    fixture.scale(0, &each(0)).await?;
    fixture.all_act().await?;
    let held = hold(federation, &fixture).await?;
    fixture.scale(1, &each(1)).await?;
    until_all_have_the_template(&fixture).await?;
    let suspended = |cells: Value| json!({"suspension": {"dispatchingOnClusters": cells}});
    fixture
        .set_policy(suspended(json!({"clusterNames": [DFW2]})))
        .await?;
    held.end().await?;
    fixture.until_assigned(DFW1).await?;
    fixture.act(DFW1, 1).await?;
    let known = |object: &WorkloadDeployment| counters(object) == [1; 4];
    fixture.until_hub("that of one cell", known).await?;
    fixture.set_policy(suspended(json!(null))).await?;
    fixture.all_act().await?;
    fixture.check().await
}

/// Prevents Karmada from changing the shares.
async fn hold(
    federation: &Federation,
    fixture: &DeploymentFixture,
) -> anyhow::Result<RefusedUpdates> {
    let (hub, namespace) = (federation.hub().client(), &fixture.namespace);
    let (group, version) = ("work.karmada.io", "v1alpha2");
    let bindings: Api<DynamicObject> =
        dynamic(hub.clone(), namespace, group, version, "ResourceBinding");
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let update = || async {
        let change = Patch::Merge(json!({"spec": {"clusters": null}}));
        let name = "web-workloaddeployment";
        bindings.patch(name, &params, &change).await
    };
    let same = "has(object.spec.clusters) && object.spec.clusters == oldObject.spec.clusters";
    RefusedUpdates::begin(
        hub,
        namespace,
        &["UPDATE"],
        (group, "resourcebindings"),
        (same, "held back by the test"),
        update,
    )
    .await
}

/// Waits until the hub has seen that every cell has the current template.
async fn until_all_have_the_template(fixture: &DeploymentFixture) -> anyhow::Result<()> {
    let known = |object: &WorkloadDeployment| {
        let cells = object.status.clone().unwrap_or_default().cells;
        let mut of_template = cells.iter().map(|cell| cell.resource_template_generation);
        cells.len() == 2 && of_template.all(|generation| generation == object.metadata.generation)
    };
    let what = "known to be everywhere";
    fixture.until_hub(what, known).await.map(drop)
}
