//! Evaluates the expressions of the ResourceMetricsPolicy in the API server, as the message of an admission policy.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Instance, labels};
use harness::objects::apply;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::object;
use crate::fixture::{WITHIN, instance};

/// Every label of an Instance's metrics has its value.
pub(super) async fn labels_have_values(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    let policy = object(objects, "ResourceMetricsPolicy", "compute-metrics")?;
    let generators = policy["spec"]["generators"].as_array();
    let mut generators = generators.context("no generators")?.iter();
    let of_instances = generators.find(|it| it["resource"]["resource"] == "instances");
    let families = of_instances.context("no metrics of Instances")?["families"].as_array();
    let lines = families.context("no families")?.iter().map(line);
    let message = lines.collect::<anyhow::Result<Vec<_>>>()?.join(" + ' ' + ");
    let refusal = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "metrics"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["compute.datumapis.com"],
                "apiVersions": ["v1alpha"],
                "operations": ["UPDATE"],
                "resources": ["instances/status"],
            }]},
            "validations": [{"expression": "false", "messageExpression": message}],
        },
    });
    apply(client, &refusal).await?;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "metrics"},
        "spec": {"policyName": "metrics", "validationActions": ["Deny"]},
    });
    apply(client, &binding).await?;

    let mut created = instance("web-0", "web");
    created["metadata"]["namespace"] = "default".into();
    created["metadata"]["labels"] = json!({
        labels::WORKLOAD_UID: "uid-of-workload",
        labels::WORKLOAD_DEPLOYMENT_UID: "uid-of-deployment",
    });
    apply(client, &created).await?;
    let message = timeout(WITHIN, refused(client))
        .await
        .context("the API server does not evaluate the policy")?;
    for expected in [
        "name=web-0,namespace=default,uid=",
        "compute_datumapis_com_workload_uid=uid-of-workload",
        "compute_datumapis_com_workload_deployment_uid=uid-of-deployment",
        "condition=Ready,reason=Running,status=True: 1",
        "condition=Programmed,reason=Pending,status=False: 0",
        "network_ip=10.0.0.2,external_ip=: 1",
    ] {
        ensure!(message.contains(expected), "{expected}: {message}");
    }
    Ok(())
}

/// Writes the status of the Instance, without effect, until the policy refuses it. Returns the message.
async fn refused(client: &Client) -> String {
    let instances: Api<Instance> = Api::namespaced(client.clone(), "default");
    let condition = |name: &str, status: &str, reason: &str| json!({"type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {
        "conditions": [condition("Ready", "True", "Running"), condition("Programmed", "False", "Pending")],
        "networkInterfaces": [{"assignments": {"networkIP": "10.0.0.2"}}],
    }});
    let trial = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let status = Patch::Merge(status);
    loop {
        // A policy takes effect some time after it is created.
        if let Err(error) = instances.patch_status("web-0", &trial, &status).await {
            let error = error.to_string();
            if error.contains("ValidatingAdmissionPolicy") {
                return error;
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns an expression with the labels and the value of the samples of a family.
fn line(family: &Value) -> anyhow::Result<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
    let metric = &family["metrics"][0];
    let labels = metric["labels"].as_array().context("no labels")?.iter();
    let labels = labels.map(|label| {
        let (name, value) = (text(&label["name"])?, text(&label["value"])?);
        Ok(format!("'{name}=' + string({value})"))
    });
    let labels = labels
        .collect::<anyhow::Result<Vec<_>>>()?
        .join(" + ',' + ");
    let sample = format!("{labels} + ': ' + string({})", text(&metric["value"])?);
    Ok(match metric["forEach"].as_str() {
        Some(list) => format!("({list}).map(item, {sample}).join(';')"),
        None => sample,
    })
}
