//! Tests of updates. If an object already has a mistake, this mistake must not block changes of other fields.

use anyhow::{Context, ensure};
use api::Workload;
use harness::milo::MiloUser;
use harness::wait;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::platform::{NAMESPACE, Platform, workload};
use crate::fixture::{WITHIN, create};
use crate::static_rules::{apply_definition, without_rules};

/// Uses a separate project. The project has a Workload that was created before the registration of admission, and
/// before the CRD had rules.
pub(crate) async fn earlier_mistakes_do_not_block_updates(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "legacy";
    let project = platform.add_project_in_dfw(name).await?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(project.client());
    webhooks
        .delete("compute-validating", &DeleteParams::default())
        .await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(project.client());
    let definition = definitions.get("workloads.compute.datumapis.com").await?;
    let former = serde_json::from_value(without_rules(&definition)?)?;
    apply_definition(&definitions, &former).await?;
    let administrator = platform
        .milo
        .client(&MiloUser::administrator(), Some(name))
        .await?;
    let workloads: Api<Workload> = Api::namespaced(administrator, NAMESPACE);
    let mut legacy = workload("legacy", "Not_A_Label", &["GONE", "DFW"]);
    legacy["metadata"]["finalizers"] = json!(["example.com/waits"]);
    legacy["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(5000);
    legacy["spec"]["template"]["spec"]["runtime"]["resources"]["instanceType"] = json!("old/type");
    wait::eventually("a Workload with mistakes is accepted", WITHIN, || async {
        create(&workloads, legacy.clone()).await
    })
    .await?;
    apply_definition(&definitions, &definition).await?;
    let port = platform.replica(0)?.webhook_port();
    platform
        .milo
        .register_admission_with(&project, port)
        .await?;
    let another = workload("another", "default", &["GONE"]);
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
    let container = |image: &str, attachments: Value| {
        let containers = json!([{"name": "web", "image": image, "volumeAttachments": attachments}]);
        json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}})
    };
    patch(container("nginx:2", json!([]))).await?;
    // The CRD accepts this mistake.
    let error = patch(container("nginx:2", json!([{"name": "other"}])))
        .await
        .err()
        .context("a new mistake is accepted")?;
    let line =
        "spec.template.spec.runtime.sandbox.containers[0].volumeAttachments[0].name: Not found";
    ensure!(error.to_string().contains(line), "{error}");
    ensure!(
        !error.to_string().contains("GONE"),
        "an old one is in the way: {error}"
    );

    // A deletionTimestamp in the request does not exempt an object from validation.
    let mut forged = workload("forged", "default", &["GONE"]);
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
    ensure!(error.contains("GONE"), "{error}");

    // The deletion must work for every object, and must not need a webhook.
    workloads.delete("legacy", &DeleteParams::default()).await?;
    let terminating = workloads.get("legacy").await?;
    ensure!(
        terminating.metadata.deletion_timestamp.is_some(),
        "{terminating:?}"
    );
    let mut worse = serde_json::to_value(&terminating)?;
    let container = &mut worse["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
    container["volumeAttachments"] = json!([{"name": "other"}]);
    worse["metadata"]["finalizers"] = json!(["example.com/waits"]);
    let worse: Workload = serde_json::from_value(worse)?;
    workloads
        .replace("legacy", &kube::api::PostParams::default(), &worse)
        .await?;
    patch(json!({"metadata": {"finalizers": null}})).await?;
    wait::gone(&workloads, &worse.name_any(), WITHIN).await
}
