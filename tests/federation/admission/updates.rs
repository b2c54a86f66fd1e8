//! Tests of updates. If an object already has a mistake, this mistake must not block changes of other fields.

use anyhow::{Context, ensure};
use api::Workload;
use harness::milo::MiloUser;
use harness::wait;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::platform::{NAMESPACE, Platform, workload};
use crate::fixture::{WITHIN, create};

/// Uses a separate project. The project has a Workload that was created before the registration of admission.
pub(crate) async fn earlier_mistakes_do_not_block_updates(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "legacy";
    let project = platform.add_project_in_dfw(name).await?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(project.client());
    webhooks
        .delete("compute-validating", &DeleteParams::default())
        .await?;
    let operator = platform
        .milo
        .client(&MiloUser::operator(), Some(name))
        .await?;
    let workloads: Api<Workload> = Api::namespaced(operator, NAMESPACE);
    let mut legacy = workload("legacy", "Not_A_Label", &["GONE", "DFW"]);
    legacy["metadata"]["finalizers"] = json!(["example.com/waits"]);
    legacy["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(5000);
    legacy["spec"]["template"]["spec"]["runtime"]["resources"]["instanceType"] = json!("old/type");
    wait::eventually("a Workload with mistakes is accepted", WITHIN, || async {
        create(&workloads, legacy.clone()).await
    })
    .await?;
    let port = platform.replica(0)?.webhook_port();
    platform
        .milo
        .register_admission_with(&project, port)
        .await?;
    let another = workload("another", "Not_A_Label", &["GONE"]);
    let refused = create(&workloads, another).await;
    let error = refused
        .err()
        .context("an invalid Workload was accepted")?
        .to_string();
    ensure!(error.contains("is invalid"), "{error}");

    let patch = async |patch: Value| {
        let params = PatchParams::default();
        workloads
            .patch("legacy", &params, &Patch::Merge(&patch))
            .await
    };
    patch(json!({"metadata": {"labels": {"a": "b"}}})).await?;
    let container = |image: &str| {
        let containers = json!([{"name": "web", "image": image}]);
        json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}})
    };
    patch(container("nginx:2")).await?;
    let error = patch(container(""))
        .await
        .err()
        .context("a new mistake is accepted")?;
    let line = "spec.template.spec.runtime.sandbox.containers[0].image: Required value";
    ensure!(error.to_string().contains(line), "{error}");
    ensure!(
        !error.to_string().contains("GONE"),
        "an old one is in the way: {error}"
    );

    // A deletionTimestamp in the request does not exempt an object from validation.
    let mut forged = workload("forged", "Not_A_Label", &["GONE"]);
    forged["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    forged["metadata"]["finalizers"] = json!(["example.com/waits"]);
    let params = PatchParams::apply("forger");
    let refused = workloads
        .patch("forged", &params, &Patch::Apply(&forged))
        .await;
    let error = refused
        .err()
        .context("a forged deletionTimestamp is accepted")?
        .to_string();
    ensure!(error.contains("Not_A_Label"), "{error}");

    // The deletion must work for every object, and must not need a webhook.
    workloads.delete("legacy", &DeleteParams::default()).await?;
    let terminating = workloads.get("legacy").await?;
    ensure!(
        terminating.metadata.deletion_timestamp.is_some(),
        "{terminating:?}"
    );
    let mut worse = serde_json::to_value(&terminating)?;
    worse["spec"]["placements"][0]["name"] = json!("");
    worse["metadata"]["finalizers"] = json!(["example.com/waits"]);
    let worse: Workload = serde_json::from_value(worse)?;
    workloads
        .replace("legacy", &kube::api::PostParams::default(), &worse)
        .await?;
    patch(json!({"metadata": {"finalizers": null}})).await?;
    wait::gone(&workloads, &worse.name_any(), WITHIN).await
}
