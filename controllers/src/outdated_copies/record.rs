//! The record of outdated copies: an annotation on the cell's WorkloadDeployment with the names of its Instances.

use std::collections::BTreeSet;

use api::annotations::OUTDATED_COPIES;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::names::instance_ordinal;

/// Returns the names in the record of a WorkloadDeployment with this metadata. Only names of its own Instances count,
/// because the copies are deleted later.
pub(crate) fn recorded(deployment: &ObjectMeta) -> BTreeSet<String> {
    let annotations = deployment.annotations.as_ref();
    let record = annotations.and_then(|it| it.get(OUTDATED_COPIES));
    let names = record.and_then(|record| serde_json::from_str::<BTreeSet<String>>(record).ok());
    let name = deployment.name.as_deref().unwrap_or_default();
    let mut names = names.unwrap_or_default();
    names.retain(|instance| instance_ordinal(name, instance).is_some());
    names
}

/// Returns the metadata to write for a record of these names.
pub(crate) fn metadata(names: &BTreeSet<String>) -> Value {
    let record = (!names.is_empty()).then(|| json!(names).to_string());
    json!({"annotations": {OUTDATED_COPIES: record}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::object;

    #[test]
    fn only_names_of_own_instances_are_in_the_record() {
        for (record, expected) in [
            (json!("no list"), &[][..]),
            (json!("null"), &[]),
            (json!(r#"["web-0","web-12"]"#), &["web-0", "web-12"]),
            (
                json!(r#"["web","web-x","web--1","web-01","other-0","web-3"]"#),
                &["web-3"],
            ),
        ] {
            let web: ObjectMeta = object(json!({
                "name": "web", "annotations": {OUTDATED_COPIES: record},
            }));
            let names: Vec<_> = recorded(&web).into_iter().collect();
            assert_eq!(names, expected, "{record}");
        }
    }

    #[test]
    fn an_empty_record_is_no_annotation() {
        let name = BTreeSet::from(["web-0".to_owned()]);
        let written = |names| metadata(&names)["annotations"][OUTDATED_COPIES].clone();
        assert_eq!(written(name), json!(r#"["web-0"]"#));
        assert_eq!(written(BTreeSet::new()), Value::Null);
    }
}
