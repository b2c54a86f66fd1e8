//! Generation of the CustomResourceDefinitions of the compute API from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};

use crate::{Instance, Workload, WorkloadDeployment};

/// A CRD and the name of the file that holds it.
pub struct CrdFile {
    /// File name without a directory: `<group>_<plural>.yaml`.
    pub name: String,
    /// The CRD as YAML.
    pub yaml: String,
}

/// The CRDs of Workload, WorkloadDeployment and Instance.
///
/// # Errors
///
/// When a definition cannot be serialized, which is a defect of the Rust types.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    [Workload::crd(), WorkloadDeployment::crd(), Instance::crd()]
        .into_iter()
        .map(|definition| {
            let mut value = serde_json::to_value(definition)?;
            adapt(&mut value);
            serde_json::from_value(value)
        })
        .collect()
}

/// The files below `deploy/base/crd`.
///
/// # Errors
///
/// When a definition cannot be serialized, which is a defect of the Rust types.
pub fn files() -> Result<Vec<CrdFile>, Box<dyn std::error::Error + Send + Sync>> {
    definitions()?
        .into_iter()
        .map(|definition| {
            let plural = definition.spec.names.plural.clone();
            let yaml = serde_saphyr::to_string(&definition)?;
            debug_assert_eq!(definition.name_any(), format!("{plural}.{}", crate::GROUP));
            Ok(CrdFile {
                name: format!("{}_{plural}.yaml", crate::GROUP),
                yaml: format!("---\n{yaml}"),
            })
        })
        .collect()
}

/// Brings the derived schema to the form that Kubernetes' own generator writes: an optional field is one that may be absent, not one that
/// may be null, a quantity says that it is an integer or a string,
/// and there are no titles. A property of such a name is an object, and stays.
fn adapt(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for keyword in ["nullable", "title"] {
                if fields.get(keyword).is_some_and(|value| !value.is_object()) {
                    fields.remove(keyword);
                }
            }
            if fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                fields.insert(
                    "anyOf".into(),
                    json!([{"type": "integer"}, {"type": "string"}]),
                );
            }
            fields.values_mut().for_each(adapt);
        }
        Value::Array(items) => items.iter_mut().for_each(adapt),
        _ => {}
    }
}
