//! Finds the ConfigMaps and Secrets that a template uses, and how it uses them.

use std::collections::BTreeMap;
use std::fmt;

use crate::core_v1::{KeySelector, KeyToPath, OptionalReference};
use crate::instance::InstanceSpec;

/// A kind that a template can refer to. The order is that of the annotation of expected data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SourceKind {
    /// Returns the kind in `Kind/name`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// Returns whether a value that is used as a variable can be anything but text.
    pub const fn values_are_bytes(self) -> bool {
        matches!(self, Self::Secret)
    }
}

/// A ConfigMap or a Secret in the namespace of an object. Displayed as `Kind/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The kind of the object.
    pub kind: SourceKind,
    /// The name of the object.
    pub name: String,
}

impl Source {
    /// Returns the source of this kind and name.
    pub fn new(kind: SourceKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }

    /// Reads `Kind/name`. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kinds = [SourceKind::ConfigMap, SourceKind::Secret];
        let kind = kinds.into_iter().find(|it| it.as_str() == kind)?;
        (!name.is_empty() && !name.contains('/')).then(|| Self::new(kind, name))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.name)
    }
}

/// How a template uses one key of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// Whether the key must be there.
    pub is_required: bool,
    /// Whether the value is an environment variable, so it must be text.
    pub is_text: bool,
}

/// How a template uses a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Whether the source may be missing: every use says so.
    pub is_optional: bool,
    /// The keys that the template names.
    pub keys: BTreeMap<String, KeyUse>,
    /// Whether all keys are environment variables, so all values must be text.
    pub all_text: bool,
}

/// The sources of a template, in the order of the annotation.
pub type References = BTreeMap<Source, Use>;

/// Returns the ConfigMaps and Secrets that an Instance with this spec uses. An empty name is no reference.
pub fn references(spec: &InstanceSpec) -> References {
    let mut found = Collector::default();
    if let Some(sandbox) = &spec.runtime.sandbox {
        for container in &sandbox.containers {
            for variable in &container.env {
                let Some(from) = &variable.value_from else {
                    continue;
                };
                found.variable(SourceKind::ConfigMap, from.config_map_key_ref.as_ref());
                found.variable(SourceKind::Secret, from.secret_key_ref.as_ref());
            }
            for all in &container.env_from {
                // Kubernetes refuses an entry with both sources.
                match (&all.config_map_ref, &all.secret_ref) {
                    (Some(it), None) => found.variables(SourceKind::ConfigMap, it),
                    (None, Some(it)) => found.variables(SourceKind::Secret, it),
                    _ => {}
                }
            }
        }
        for secret in &sandbox.image_pull_secrets {
            found.note(SourceKind::Secret, &secret.name, false);
        }
    }
    for volume in &spec.volumes {
        if let Some(it) = &volume.config_map {
            let is_optional = it.optional.unwrap_or_default();
            found.volume(SourceKind::ConfigMap, &it.name, is_optional, &it.items);
        }
        if let Some(it) = &volume.secret {
            let name = it.secret_name.as_deref().unwrap_or_default();
            let is_optional = it.optional.unwrap_or_default();
            found.volume(SourceKind::Secret, name, is_optional, &it.items);
        }
    }
    found.0
}

#[derive(Default)]
struct Collector(References);

impl Collector {
    /// Notes one use of a source.
    fn note(&mut self, kind: SourceKind, name: &str, is_optional: bool) -> Option<&mut Use> {
        if name.is_empty() {
            return None;
        }
        let found = self.0.entry(Source::new(kind, name));
        let found = found.or_insert_with(|| Use {
            is_optional: true,
            keys: BTreeMap::new(),
            all_text: false,
        });
        found.is_optional &= is_optional;
        Some(found)
    }

    fn variable(&mut self, kind: SourceKind, selector: Option<&KeySelector>) {
        let Some(KeySelector {
            key,
            name,
            optional,
            ..
        }) = selector
        else {
            return;
        };
        let is_optional = optional.unwrap_or_default();
        if let Some(found) = self.note(kind, name, is_optional) {
            let key = found.keys.entry(key.clone()).or_default();
            key.is_required |= !is_optional;
            key.is_text = true;
        }
    }

    fn variables(&mut self, kind: SourceKind, all: &OptionalReference) {
        let is_optional = all.optional.unwrap_or_default();
        if let Some(found) = self.note(kind, &all.name, is_optional) {
            found.all_text = true;
        }
    }

    fn volume(&mut self, kind: SourceKind, name: &str, is_optional: bool, items: &[KeyToPath]) {
        if let Some(found) = self.note(kind, name, is_optional) {
            for item in items {
                let key = found.keys.entry(item.key.clone()).or_default();
                key.is_required |= !is_optional;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(sandbox: &Value, volumes: &Value) -> References {
        let spec = json!({
            "networkInterfaces": [],
            "runtime": {"resources": {"instanceType": "t"}, "sandbox": sandbox},
            "volumes": volumes,
        });
        references(&serde_json::from_value(spec).unwrap())
    }

    fn container(fields: &Value) -> Value {
        let mut container = json!({"name": "c", "image": "i"});
        let fields = fields.as_object().unwrap().clone();
        container.as_object_mut().unwrap().extend(fields);
        json!({"containers": [container]})
    }

    #[test]
    fn every_place_of_a_template_is_read() {
        let mut sandbox = container(&json!({
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k", "optional": true}}},
                {"name": "C", "value": "v"},
            ],
            "envFrom": [
                {"configMapRef": {"name": "c2", "optional": true}},
                {"secretRef": {"name": "s2"}},
                {"configMapRef": {"name": "c9"}, "secretRef": {"name": "s9"}},
                {"configMapRef": {"name": ""}},
            ],
        }));
        sandbox["imagePullSecrets"] = json!([{"name": "s3"}]);
        let volumes = json!([
            {"name": "a", "configMap": {"name": "c3", "items": [{"key": "x", "path": "x"}]}},
            {"name": "b", "secret": {"secretName": "s4", "optional": true}},
        ]);
        let found = of(&sandbox, &volumes);
        let shown: Vec<_> = found
            .iter()
            .map(|(source, it)| format!("{source} {} {}", it.is_optional, it.all_text))
            .collect();
        let expected = [
            "ConfigMap/c1 false false",
            "ConfigMap/c2 true true",
            "ConfigMap/c3 false false",
            "Secret/s1 true false",
            "Secret/s2 false true",
            "Secret/s3 false false",
            "Secret/s4 true false",
        ];
        assert_eq!(shown, expected);
        let key = |source: &str, key: &str| found[&Source::parse(source).unwrap()].keys[key];
        let uses = |is_required, is_text| KeyUse {
            is_required,
            is_text,
        };
        assert_eq!(key("ConfigMap/c1", "k"), uses(true, true));
        assert_eq!(key("Secret/s1", "k"), uses(false, true));
        assert_eq!(key("ConfigMap/c3", "x"), uses(true, false));
    }

    #[test]
    fn a_source_is_optional_if_every_use_is() {
        let env = |optional: [bool; 2]| {
            let env = optional.map(|it| {
                let key = json!({"name": "c", "key": "k", "optional": it});
                json!({"name": format!("V{it}"), "valueFrom": {"configMapKeyRef": key}})
            });
            let found = of(&container(&json!({"env": env})), &json!([]));
            let found = &found[&Source::new(SourceKind::ConfigMap, "c")];
            (found.is_optional, found.keys["k"].is_required)
        };
        assert_eq!(env([true, true]), (true, false));
        assert_eq!(env([true, false]), (false, true));
    }

    #[test]
    fn a_source_is_read_from_its_text() {
        for text in ["ConfigMap/a", "Secret/b.c"] {
            assert_eq!(Source::parse(text).unwrap().to_string(), text);
        }
        for text in ["Pod/a", "ConfigMap", "Secret/", "Secret/a/b", ""] {
            assert_eq!(Source::parse(text), None, "{text}");
        }
    }
}
