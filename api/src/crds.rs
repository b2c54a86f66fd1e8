//! Generation of the CustomResourceDefinitions of the compute API from the Rust types.

mod workload_rules;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use thiserror::Error;

use crate::cell_rules::CellRule;
use crate::instance::Instance;
use crate::lower_hub::LowerHub;
use crate::workload::Workload;
use crate::workload_deployment::WorkloadDeployment;
use crate::workload_summary::WorkloadSummary;

/// A CRD cannot be written: a defect of the Rust types.
#[derive(Debug, Error)]
pub enum CrdError {
    /// The definition is not valid JSON of a CustomResourceDefinition.
    #[error("definition: {0}")]
    Definition(#[from] serde_json::Error),
    /// The definition cannot be written as YAML.
    #[error("YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// A rule has the path of a field that the schema does not have.
    #[error("rule of Workload: the schema has no field {0}")]
    NoField(&'static str),
}

/// A CRD and its file.
pub struct CrdFile {
    /// Path below `deploy/`: `<folder>/<group>_<plural>.yaml`.
    pub path: String,
    /// The CRD as YAML.
    pub yaml: String,
}

/// Returns the CRDs of Workload, WorkloadDeployment and Instance.
///
/// # Errors
///
/// A definition cannot be serialized, or the schema lacks the field of a rule. Both are defects of this crate.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let mut workload = adapted(&Workload::crd())?;
    workload_rules::add(&mut workload).map_err(CrdError::NoField)?;
    let others = [WorkloadDeployment::crd(), Instance::crd()];
    let others = others.iter().map(adapted);
    [Ok(workload)]
        .into_iter()
        .chain(others)
        .map(|value| Ok(serde_json::from_value(value?)?))
        .collect()
}

/// Returns the CRD that only projects have.
///
/// # Errors
///
/// A definition cannot be serialized: a defect of this crate.
pub fn project_definition() -> Result<CustomResourceDefinition, CrdError> {
    Ok(serde_json::from_value(adapted(&WorkloadSummary::crd())?)?)
}

/// Returns a definition as JSON, in the form of Kubernetes' own generator.
fn adapted(definition: &CustomResourceDefinition) -> Result<Value, CrdError> {
    let mut value = serde_json::to_value(definition)?;
    adapt(&mut value);
    Ok(value)
}

/// Returns the CRD files of `deploy/base/crd`.
///
/// # Errors
///
/// A definition cannot be serialized, or the schema lacks the field of a rule. Both are defects of this crate.
pub fn files() -> Result<Vec<CrdFile>, CrdError> {
    let definitions = definitions()?;
    definitions.iter().map(|it| file("base/crd", it)).collect()
}

/// Returns the files of the CRDs that only a hub has. Each has a folder of its own, because each is optional.
///
/// # Errors
///
/// A definition cannot be serialized: a defect of this crate.
pub fn hub_files() -> Result<Vec<CrdFile>, CrdError> {
    let crds = [
        ("base/cell-rules", CellRule::crd()),
        ("base/lower-hubs", LowerHub::crd()),
    ];
    crds.iter()
        .map(|(folder, crd)| file(folder, &serde_json::from_value(adapted(crd)?)?))
        .collect()
}

/// Returns the CRD file of `deploy/base/summaries`.
///
/// # Errors
///
/// A definition cannot be serialized: a defect of this crate.
pub fn project_file() -> Result<CrdFile, CrdError> {
    file("base/summaries", &project_definition()?)
}

fn file(folder: &str, definition: &CustomResourceDefinition) -> Result<CrdFile, CrdError> {
    let plural = &definition.spec.names.plural;
    let yaml = serde_saphyr::to_string(definition)?;
    debug_assert_eq!(definition.name_any(), format!("{plural}.{}", crate::GROUP));
    Ok(CrdFile {
        path: format!("{folder}/{}_{plural}.yaml", crate::GROUP),
        yaml: format!("---\n{yaml}"),
    })
}

/// Converts the derived schema to the form of Kubernetes' own generator. An optional field may be absent, but not null.
/// A quantity is an integer or a string. Titles are removed. A property that has the name of a removed keyword is kept,
/// because its value is an object.
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
