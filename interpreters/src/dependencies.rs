//! The ConfigMaps and Secrets that an object depends on. The template of the object uses some dependencies. An
//! annotation of the object lists other dependencies. All dependencies are in the namespace of the object. The list is
//! sorted and has no duplicates. See docs/concepts/interpreter.md.

use std::borrow::Cow;

use api::decode::for_each;
use serde::{Deserialize, Deserializer};

use crate::error::InterpretError;
use crate::review::Dependencies;

const CONFIG_MAP: &str = "ConfigMap";
const SECRET: &str = "Secret";
/// Longest name of a namespace, in bytes (a DNS label). The answer repeats the namespace for each dependency.
const NAMESPACE_MAX: usize = 63;

/// The parts of an instance spec that refer to ConfigMaps and Secrets. A hostile spec can have a million empty elements
/// in a list, so each list keeps only the names.
#[derive(Default, Deserialize)]
pub(crate) struct SpecWithReferences<'a> {
    #[serde(borrow, default)]
    runtime: RuntimeReferences<'a>,
    #[serde(borrow, default, deserialize_with = "volumes")]
    volumes: References<'a>,
}

#[derive(Default, Deserialize)]
struct RuntimeReferences<'a> {
    #[serde(borrow)]
    sandbox: Option<SandboxReferences<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SandboxReferences<'a> {
    #[serde(borrow, default, deserialize_with = "containers")]
    containers: References<'a>,
    #[serde(borrow, default, deserialize_with = "pull_secrets")]
    image_pull_secrets: References<'a>,
}

/// The names of ConfigMaps and Secrets. A name can be in a list several times.
#[derive(Default)]
struct References<'a> {
    config_maps: Vec<Cow<'a, str>>,
    secrets: Vec<Cow<'a, str>>,
}

impl<'a> References<'a> {
    /// Adds two names. An empty name means that there is no reference.
    fn add(&mut self, config_map: Cow<'a, str>, secret: Cow<'a, str>) {
        for (names, name) in [
            (&mut self.config_maps, config_map),
            (&mut self.secrets, secret),
        ] {
            if !name.is_empty() {
                names.push(name);
            }
        }
    }

    fn append(&mut self, other: Self) {
        append(&mut self.config_maps, other.config_maps);
        append(&mut self.secrets, other.secrets);
    }
}

fn append<T>(list: &mut Vec<T>, mut other: Vec<T>) {
    if list.is_empty() {
        *list = other;
    } else {
        list.append(&mut other);
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerReferences<'a> {
    #[serde(borrow, default, deserialize_with = "variables")]
    env: References<'a>,
    #[serde(borrow, default, deserialize_with = "sets_of_variables")]
    env_from: References<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVarView<'a> {
    #[serde(borrow, default)]
    value_from: EnvVarSourceView<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVarSourceView<'a> {
    #[serde(borrow, default)]
    config_map_key_ref: NameRef<'a>,
    #[serde(borrow, default)]
    secret_key_ref: NameRef<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvFromView<'a> {
    #[serde(borrow, default)]
    config_map_ref: NameRef<'a>,
    #[serde(borrow, default)]
    secret_ref: NameRef<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeView<'a> {
    #[serde(borrow, default)]
    config_map: NameRef<'a>,
    #[serde(borrow, default)]
    secret: SecretVolumeView<'a>,
}

/// A reference by name. An empty name means that there is no reference.
#[derive(Default, Deserialize)]
struct NameRef<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretVolumeView<'a> {
    #[serde(borrow, default)]
    secret_name: Cow<'a, str>,
}

/// Reads a list, and calls `add` with each element.
fn references<'de: 'a, 'a, T: Deserialize<'de>, D: Deserializer<'de>>(
    list: D,
    add: impl Fn(&mut References<'a>, T),
) -> Result<References<'a>, D::Error> {
    let mut references = References::default();
    for_each(list, |element| add(&mut references, element))?;
    Ok(references)
}

fn volumes<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    references(list, |references, volume: VolumeView<'a>| {
        references.add(volume.config_map.name, volume.secret.secret_name);
    })
}

fn containers<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    references(list, |references, container: ContainerReferences<'a>| {
        references.append(container.env);
        references.append(container.env_from);
    })
}

fn variables<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    references(list, |references, variable: EnvVarView<'a>| {
        let from = variable.value_from;
        references.add(from.config_map_key_ref.name, from.secret_key_ref.name);
    })
}

fn sets_of_variables<'de: 'a, 'a, D: Deserializer<'de>>(
    list: D,
) -> Result<References<'a>, D::Error> {
    references(list, |references, all: EnvFromView<'a>| {
        references.add(all.config_map_ref.name, all.secret_ref.name);
    })
}

fn pull_secrets<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<References<'a>, D::Error> {
    references(list, |references, secret: NameRef<'a>| {
        references.add(Cow::default(), secret.name);
    })
}

/// Returns the dependencies of an object. The inputs are its instance spec and the value of its annotation
/// `compute.datumapis.com/expected-referenced-data`.
pub(crate) fn of_instance_spec<'a>(
    namespace: Cow<'a, str>,
    spec: SpecWithReferences<'a>,
    expected_referenced_data: &str,
) -> Result<Dependencies<'a>, InterpretError> {
    // Each dependency repeats the namespace. A longer one, or one with escapes, would make the answer many times as
    // large as the request.
    let is_allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if namespace.len() > NAMESPACE_MAX || !namespace.bytes().all(is_allowed) {
        let problem =
            format_args!("must have at most {NAMESPACE_MAX} lower-case letters, digits and '-'");
        return Err(InterpretError::new("metadata.namespace", problem));
    }
    let mut references = spec.volumes;
    if let Some(sandbox) = spec.runtime.sandbox {
        references.append(sandbox.containers);
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
        names.push(name.to_owned().into());
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

/// Returns the quoted `Kind/name` tokens in the annotation. Tokens of other kinds and without a name are skipped. The Lua
/// customization that this crate replaces did the same.
pub(crate) fn tokens(annotation: &str) -> impl Iterator<Item = (&'static str, &str)> {
    annotation
        .split('"')
        .skip(1)
        .step_by(2)
        .filter_map(|token| {
            let (kind, name) = token.split_once('/')?;
            let kind = [CONFIG_MAP, SECRET]
                .into_iter()
                .find(|supported| *supported == kind)?;
            let is_name = !name.is_empty() && !name.contains('/');
            is_name.then_some((kind, name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(spec: &str, annotation: &str) -> Vec<String> {
        let spec: SpecWithReferences<'_> = serde_json::from_str(spec).unwrap();
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
                    {"name":"D","value":"x"}],
                    "envFrom":[{"configMapRef":{"name":"c3"}},{"prefix":"P_","secretRef":{"name":"s2"}}]}]}}}"#;
        assert_eq!(
            names(spec, ""),
            [
                "v1 ConfigMap ns-1/c1",
                "v1 ConfigMap ns-1/c2",
                "v1 ConfigMap ns-1/c3",
                "v1 Secret ns-1/pull",
                "v1 Secret ns-1/s1",
                "v1 Secret ns-1/s2"
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
        let of = |namespace: &str| {
            let spec = SpecWithReferences::default();
            of_instance_spec(namespace.into(), spec, "").map(|found| found.iter().count())
        };
        assert_eq!(of(&"n".repeat(63)), Ok(0));
        assert_eq!(of("ns-1"), Ok(0));
        for namespace in ["n".repeat(64), "\u{1}".repeat(63), "Ns".to_owned()] {
            let error = of(&namespace).unwrap_err().to_string();
            let expected =
                "metadata.namespace: must have at most 63 lower-case letters, digits and '-'";
            assert_eq!(error, expected);
        }
    }
}
