//! A switch that makes an API server refuse writes.

use anyhow::ensure;
use harness::objects::apply;
use harness::wait;
use kube::Client;
use serde_json::{Value, json};

use crate::fixture::WITHIN;

/// Makes an API server refuse some writes in a namespace.
pub(crate) struct RefusedUpdates {
    client: Client,
    name: String,
}

impl RefusedUpdates {
    /// Refuses these operations on `group/resource` in a namespace, with this message, unless they satisfy the CEL
    /// expression. `update` tries such an update. Waits until the API server refuses it.
    pub(crate) async fn begin<T, F>(
        client: Client,
        namespace: &str,
        operations: &[&str],
        (group, resource): (&str, &str),
        (expression, message): (&str, &str),
        update: impl Fn() -> F,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let refused = Self {
            client,
            name: namespace.to_owned(),
        };
        let rule = json!({
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": operations,
            "resources": [resource],
        });
        let of_namespace = format!("request.namespace == '{namespace}'");
        let spec = json!({
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "namespace", "expression": of_namespace}],
            "validations": [{"expression": expression, "message": message}],
        });
        refused.apply("ValidatingAdmissionPolicy", &spec).await?;
        refused.act("Deny").await?;
        wait::eventually("the API server refuses", WITHIN, || async {
            match update().await {
                Err(kube::Error::Api(error)) if error.message.contains(message) => Ok(()),
                Err(error) => Err(error.into()),
                Ok(_) => {
                    ensure!(false, "the update is not refused");
                    Ok(())
                }
            }
        })
        .await?;
        Ok(refused)
    }

    /// Stops refusing.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.act("Audit").await
    }

    async fn act(&self, action: &str) -> anyhow::Result<()> {
        let spec = json!({"policyName": self.name, "validationActions": [action]});
        self.apply("ValidatingAdmissionPolicyBinding", &spec).await
    }

    async fn apply(&self, kind: &str, spec: &Value) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self.name},
            "spec": spec,
        });
        apply(&self.client, &object).await.map(drop)
    }
}
