//! Index values that are built from the fields that decide about policies. Thousands of objects have the same value, so
//! only one object per value is read.

use api::WorkloadDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::observed::{self, claimed_for};
use crate::objects::{is_terminating, recorded_hub_namespace};

/// Returns the common prefix of all values of a namespace.
pub(crate) fn of_namespace(namespace: &str) -> String {
    format!("{namespace}/")
}

fn value(metadata: &ObjectMeta, fields: &impl std::fmt::Debug) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    vec![format!("{}{fields:?}", of_namespace(namespace))]
}

/// Returns the value of a project's WorkloadDeployment. It contains all fields that [`Observed::add_upstream`] reads.
///
/// [`Observed::add_upstream`]: super::Observed::add_upstream
pub(crate) fn of_upstream(deployment: &WorkloadDeployment) -> Vec<String> {
    let recorded = recorded_hub_namespace(deployment.meta());
    let city = &deployment.spec.city_code;
    value(
        deployment.meta(),
        &(recorded, is_terminating(deployment), city),
    )
}

/// Returns the value of a project's WorkloadDeployment that cannot be decoded.
pub(crate) fn of_unreadable_upstream(deployment: &ObjectMeta) -> Vec<String> {
    value(deployment, &"unreadable")
}

/// Returns the value of a copy on the hub. It contains all fields that [`Observed::add_copy`] reads.
///
/// [`Observed::add_copy`]: super::Observed::add_copy
pub(crate) fn of_copy(copy: &ObjectMeta) -> Vec<String> {
    value(copy, &observed::of_copy(copy))
}

/// Returns the value of a binding. It contains all fields that [`Observed::add_claim`] reads.
///
/// [`Observed::add_claim`]: super::Observed::add_claim
pub(crate) fn of_binding(binding: &ObjectMeta) -> Vec<String> {
    value(binding, &claimed_for(binding))
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{deployment, object};

    #[test]
    fn index_values_differ_in_the_fields_that_matter_to_policies() {
        let deployment = deployment("default", "web-us-dfw", "DFW", 1);
        let with = |path: &str, field: &str, value: Value| {
            let mut body = json!(deployment);
            body.pointer_mut(path).unwrap()[field] = value;
            of_upstream(&object(body))
        };
        let plain = of_upstream(&deployment);
        let record = json!({annotations::FEDERATION_NAMESPACE: "ns-1"});
        assert_ne!(with("/metadata", "annotations", record), plain);
        let time = json!("2026-01-01T00:00:00Z");
        assert_ne!(with("/metadata", "deletionTimestamp", time), plain);
        assert_ne!(with("/spec", "cityCode", json!("LHR")), plain);
        assert_ne!(with("/metadata", "namespace", json!("other")), plain);
        assert_eq!(with("/metadata", "name", json!("other")), plain);
        assert_ne!(of_unreadable_upstream(deployment.meta()), plain);
    }

    #[test]
    fn index_values_have_the_prefix_of_their_namespace() {
        let copy: ObjectMeta = object(json!({"namespace": "ns-1", "name": "a"}));
        for values in [of_copy(&copy), of_binding(&copy)] {
            assert_eq!(values.len(), 1);
            assert!(values[0].starts_with(&of_namespace("ns-1")));
            assert!(!values[0].starts_with(&of_namespace("ns-")));
        }
    }
}
