//! Checks that the controller reports Lua customizations that shadow the webhook.

use api::karmada::ResourceInterpreterCustomization;
use harness::former::{CUSTOMIZATION as NAME, customization};
use harness::{Federation, wait};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client};

use crate::fixture::{WITHIN, create};

/// Returns the API of customizations.
pub(crate) fn all(hub: Client) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ResourceInterpreterCustomization>(&());
    Api::all_with(hub, &resource)
}

/// Waits until the metric counts this many customizations that shadow the webhook.
pub(crate) async fn until_counted(federation: &Federation, count: u32) -> anyhow::Result<()> {
    let line = format!("compute_federation_shadowing_customizations {count}");
    wait::eventually(&line, WITHIN, || async {
        let metrics = federation.management()?.lock().await.metrics().await?;
        anyhow::ensure!(metrics.lines().any(|it| it == line));
        Ok(())
    })
    .await
}

pub(crate) async fn a_customization_that_shadows_the_webhook_is_reported(
    federation: &Federation,
) -> anyhow::Result<()> {
    let hub = federation.hub().client();
    let customizations = all(hub.clone());
    until_counted(federation, 0).await?;
    // A customization of a kind that the webhook does not interpret is ignored.
    create(&customizations, customization("workload", "Workload")?).await?;
    create(&customizations, customization(NAME, "WorkloadDeployment")?).await?;
    until_counted(federation, 1).await?;
    let events: Api<Event> = Api::namespaced(hub, "default");
    wait::eventually("an Event about the customization", WITHIN, || async {
        let events = events.list(&ListParams::default()).await?;
        let is_it = |event: &Event| {
            let regarding = event.regarding.as_ref();
            let name = regarding.and_then(|regarding| regarding.name.as_deref());
            event.reason.as_deref() == Some("ShadowsWebhook") && name == Some(NAME)
        };
        anyhow::ensure!(events.iter().any(is_it));
        Ok(())
    })
    .await?;
    for name in [NAME, "workload"] {
        customizations
            .delete(name, &DeleteParams::default())
            .await?;
    }
    until_counted(federation, 0).await
}
