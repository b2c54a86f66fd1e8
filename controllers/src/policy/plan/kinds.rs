//! What makes a difference to policies, as values of indexes: of thousands of objects that say the same, one is looked at.

use api::WorkloadDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::observed::{self, claimed_for};
use crate::objects::{is_terminating, recorded_hub_namespace};

/// How all values of a namespace begin.
pub(crate) fn of_namespace(namespace: &str) -> String {
    format!("{namespace}/")
}

fn value(metadata: &ObjectMeta, said: &impl std::fmt::Debug) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    vec![format!("{}{said:?}", of_namespace(namespace))]
}

/// Of a deployment of a project: all that [`Observed::add_upstream`] looks at.
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

/// Of a deployment of a project that cannot be read.
pub(crate) fn of_unreadable_upstream(deployment: &ObjectMeta) -> Vec<String> {
    value(deployment, &"unreadable")
}

/// Of a copy on the hub: all that [`Observed::add_copy`] looks at.
///
/// [`Observed::add_copy`]: super::Observed::add_copy
pub(crate) fn of_copy(copy: &ObjectMeta) -> Vec<String> {
    value(copy, &observed::of_copy(copy))
}

/// Of a binding: all that [`Observed::add_claim`] looks at.
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
    fn what_differs_for_policies_has_another_value() {
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
    fn a_value_begins_as_those_of_its_namespace_do() {
        let copy: ObjectMeta = object(json!({"namespace": "ns-1", "name": "a"}));
        for values in [of_copy(&copy), of_binding(&copy)] {
            assert_eq!(values.len(), 1);
            assert!(values[0].starts_with(&of_namespace("ns-1")));
            assert!(!values[0].starts_with(&of_namespace("ns-")));
        }
    }
}
