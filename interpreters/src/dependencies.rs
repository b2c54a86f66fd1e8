//! The ConfigMaps and Secrets that an object depends on. The template of the object uses some dependencies. An
//! annotation of the object lists other dependencies. All dependencies are in the namespace of the object. The list is
//! sorted and has no duplicates. See docs/concepts/interpreter.md.

use std::borrow::Cow;

use crate::error::InterpretError;
use crate::instance_spec::{InstanceSpecView, References};
use crate::review::Dependencies;

const CONFIG_MAP: &str = "ConfigMap";
const SECRET: &str = "Secret";
/// Longest name of a namespace, in bytes (a DNS label). The answer repeats the namespace for each dependency.
const NAMESPACE_MAX: usize = 63;

/// Returns the dependencies of an object. The inputs are its instance spec and the value of its annotation
/// `compute.datumapis.com/expected-referenced-data`.
pub(crate) fn of_instance_spec<'a>(
    namespace: Cow<'a, str>,
    spec: InstanceSpecView<'a>,
    expected_referenced_data: &str,
) -> Result<Dependencies<'a>, InterpretError> {
    if namespace.len() > NAMESPACE_MAX {
        let problem = format_args!("is longer than {NAMESPACE_MAX} bytes");
        return Err(InterpretError::new("metadata.namespace", problem));
    }
    let mut references = spec.volumes;
    if let Some(sandbox) = spec.runtime.sandbox {
        references.append(sandbox.containers.variables);
        references.append(sandbox.image_pull_secrets);
    }
    let References {
        mut config_maps,
        mut secrets,
    } = references;
    for (kind, name) in tokens(expected_referenced_data) {
        let names = match kind {
            CONFIG_MAP => &mut config_maps,
            _ => &mut secrets,
        };
        if !name.is_empty() {
            names.push(name.to_owned().into());
        }
    }
    for names in [&mut config_maps, &mut secrets] {
        names.sort_unstable();
        names.dedup();
        names.shrink_to_fit();
    }
    Ok(Dependencies {
        namespace,
        config_maps,
        secrets,
    })
}

/// Returns the quoted `Kind/name` tokens in the annotation. Tokens of other kinds are skipped. The Lua customization
/// that this crate replaces did the same.
fn tokens(annotation: &str) -> impl Iterator<Item = (&'static str, &str)> {
    annotation
        .split('"')
        .skip(1)
        .step_by(2)
        .filter_map(|token| {
            let (kind, name) = token.split_once('/')?;
            let kind = [CONFIG_MAP, SECRET]
                .into_iter()
                .find(|supported| *supported == kind)?;
            (!name.contains('/')).then_some((kind, name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(spec: &str, annotation: &str) -> Vec<String> {
        let spec: InstanceSpecView<'_> = serde_json::from_str(spec).unwrap();
        let dependencies = of_instance_spec("ns-1".into(), spec, annotation).unwrap();
        dependencies
            .iter()
            .map(|d| format!("{} {} {}/{}", d.api_version, d.kind, d.namespace, d.name))
            .collect()
    }

    #[test]
    fn dependencies_of_the_template_are_unique_and_sorted() {
        let spec = r#"{
            "volumes":[{"name":"a","secret":{"secretName":"s1"}},{"name":"b","configMap":{"name":"c2"}},{"name":"c","disk":{}}],
            "runtime":{"sandbox":{
                "imagePullSecrets":[{"name":"pull"}],
                "containers":[{"env":[
                    {"name":"A","valueFrom":{"configMapKeyRef":{"name":"c1","key":"k"}}},
                    {"name":"B","valueFrom":{"secretKeyRef":{"name":"s1","key":"k"}}},
                    {"name":"C","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},
                    {"name":"D","value":"x"}]}]}}}"#;
        assert_eq!(
            names(spec, ""),
            [
                "v1 ConfigMap ns-1/c1",
                "v1 ConfigMap ns-1/c2",
                "v1 Secret ns-1/pull",
                "v1 Secret ns-1/s1"
            ]
        );
    }

    #[test]
    fn the_annotation_adds_only_config_maps_and_secrets() {
        assert_eq!(
            names(
                "{}",
                r#"["ConfigMap/b","Secret/a","ConfigMap/b","Pod/x","ConfigMap","Secret/","Secret/a/b"]"#
            ),
            ["v1 ConfigMap ns-1/b", "v1 Secret ns-1/a"]
        );
        assert!(names("{}", "not json").is_empty());
    }

    #[test]
    fn a_namespace_that_cannot_exist_is_an_error() {
        let of = |length: usize| {
            let spec = InstanceSpecView::default();
            of_instance_spec("n".repeat(length).into(), spec, "").map(|found| found.iter().count())
        };
        assert_eq!(of(63), Ok(0));
        let error = of(64).unwrap_err().to_string();
        assert_eq!(error, "metadata.namespace: is longer than 63 bytes");
    }
}
