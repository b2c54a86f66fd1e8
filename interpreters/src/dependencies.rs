//! The ConfigMaps and Secrets that an object depends on. The template of the object uses some dependencies. An
//! annotation of the object lists other dependencies. All dependencies are in the namespace of the object. The list is
//! sorted and has no duplicates. See docs/concepts/interpreter.md.

use std::collections::BTreeSet;

use crate::instance_spec::InstanceSpecView;
use crate::review::Dependency;

const CONFIG_MAP: &str = "ConfigMap";
const SECRET: &str = "Secret";

/// Returns the dependencies of an object. The inputs are its instance spec and the value of its annotation
/// `compute.datumapis.com/expected-referenced-data`.
pub(crate) fn of_instance_spec<'s>(
    namespace: &str,
    spec: &'s InstanceSpecView<'_>,
    expected_referenced_data: &'s str,
) -> Vec<Dependency> {
    let (mut config_maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |config_map: &'s str, secret: &'s str| {
        for (names, name) in [(&mut config_maps, config_map), (&mut secrets, secret)] {
            if !name.is_empty() {
                names.insert(name);
            }
        }
    };
    for volume in &spec.volumes {
        add(&volume.config_map.name, &volume.secret.secret_name);
    }
    if let Some(sandbox) = &spec.runtime.sandbox {
        let containers = sandbox.containers.iter();
        for variable in containers.flat_map(|container| &container.env) {
            let from = &variable.value_from;
            add(&from.config_map_key_ref.name, &from.secret_key_ref.name);
        }
        for secret in &sandbox.image_pull_secrets {
            add("", &secret.name);
        }
    }
    for (kind, name) in tokens(expected_referenced_data) {
        match kind {
            CONFIG_MAP => add(name, ""),
            _ => add("", name),
        }
    }
    let of_kind = |kind, names: BTreeSet<&'s str>| {
        names.into_iter().map(move |name| Dependency {
            api_version: "v1",
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    };
    of_kind(CONFIG_MAP, config_maps)
        .chain(of_kind(SECRET, secrets))
        .collect()
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
        of_instance_spec("ns-1", &spec, annotation)
            .into_iter()
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
}
