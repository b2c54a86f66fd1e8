//! The rules of a cell: what the Instances of all customers must have there. See docs/operate/cell-rules.md.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::annotations::CELL_RULES;
use crate::condition::Condition;
use crate::core_v1::EnvVar;
use crate::decode::from_str;
use crate::workload_deployment::WorkloadDeployment;

/// Condition of a [`CellRule`]: it counts for the cells that it selects.
pub const ACCEPTED: &str = "Accepted";

/// Form of the key of a label.
const LABEL_KEY: &str =
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// Form of the value of a label.
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// Form of the keys that only the platform sets.
const PLATFORM_KEY: &str = r"^([-a-z0-9.]+\.)?datumapis\.com/";

/// Most rules in one list.
pub const RULES_MAX: u32 = 64;

/// A rule for the Instances of all customers in the selected cells. On the hub, cluster-scoped.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "CellRule",
    plural = "cellrules",
    status = "CellRuleStatus",
    derive = "PartialEq",
    doc = "CellRule changes the Instances of all customers in the cells that it selects.",
    printcolumn(name = "Cells", type_ = "integer", json_path = ".status.cells"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct CellRuleSpec {
    /// Selects cells by the labels of their Clusters. An empty selector selects all cells.
    pub cells: LabelSelector,
    /// What changes there.
    pub rules: CellRules,
}

/// Observed state of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellRuleStatus {
    /// The number of cells that have the rule.
    pub cells: i32,
    /// Known conditions: Accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the rule that the status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Changes of the template of Instances. They are the value of the annotation [`CELL_RULES`]. A field that is not known
/// is an error, because a rule must not be left out without a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CellRules {
    /// Environment variables of all containers of a sandbox. They replace variables of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = RULES_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvRule>,
    /// Other registries for images. The first rule that matches an image counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = RULES_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["prefix"])
    )]
    pub images: Vec<ImageRule>,
    /// Other instance types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = RULES_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["from"])
    )]
    pub instance_types: Vec<InstanceTypeRule>,
    /// Labels of the Instances. They replace labels of the same key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = RULES_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"])
    )]
    pub labels: Vec<LabelRule>,
}

/// Sets a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRule {
    /// Key of the label. Labels of the platform (`datumapis.com`) are not allowed.
    #[schemars(
        length(max = 317),
        regex(pattern = LABEL_KEY),
        extend("not" = {"pattern": PLATFORM_KEY})
    )]
    pub key: String,
    /// Value of the label.
    #[schemars(length(max = 63), regex(pattern = LABEL_VALUE))]
    pub value: String,
}

/// Sets an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvRule {
    /// Name of the variable.
    #[schemars(length(min = 1), regex(pattern = "^[^=]+$"))]
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// Replaces the beginning of images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRule {
    /// Beginning of the image as the customer has written it: a registry with whole path elements.
    #[schemars(length(min = 1))]
    pub prefix: String,
    /// What stands in its place.
    #[schemars(length(min = 1))]
    pub replacement: String,
}

/// Replaces an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceTypeRule {
    /// Instance type of the customer.
    #[schemars(length(min = 1))]
    pub from: String,
    /// Instance type of the cell.
    #[schemars(length(min = 1))]
    pub to: String,
}

impl CellRules {
    /// Reads the value of the annotation.
    ///
    /// # Errors
    ///
    /// A sentence that names the field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rules: Self = from_str(text).map_err(|error| error.to_string())?;
        match rules.problems().into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(rules),
        }
    }

    /// Returns a sentence for each value that is not allowed. Each begins with the field.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let fields = self
            .env
            .iter()
            .map(|rule| ("env[].name", &rule.name))
            .chain(self.labels.iter().map(|rule| ("labels[].key", &rule.key)))
            .chain(self.images.iter().flat_map(|rule| {
                [
                    ("images[].prefix", &rule.prefix),
                    ("images[].replacement", &rule.replacement),
                ]
            }))
            .chain(self.instance_types.iter().flat_map(|rule| {
                [
                    ("instanceTypes[].from", &rule.from),
                    ("instanceTypes[].to", &rule.to),
                ]
            }));
        for (field, _) in fields.filter(|(_, value)| value.is_empty()) {
            problems.push(format!("{field} is empty"));
        }
        let mut names = BTreeSet::new();
        for EnvRule { name, .. } in &self.env {
            if name.contains('=') {
                problems.push(format!("env[].name: {name:?} contains `=`"));
            }
            if !names.insert(name) {
                problems.push(format!("env[].name: {name:?} is there twice"));
            }
        }
        for LabelRule { key, .. } in &self.labels {
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            if domain == "datumapis.com" || domain.ends_with(".datumapis.com") {
                problems.push(format!("labels[].key: {key:?} belongs to the platform"));
            }
        }
        problems
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the rules of another list. Of rules for the same thing, those that are already there count.
    pub fn extend(&mut self, other: &Self) {
        let Self {
            env,
            images,
            instance_types,
            labels,
        } = other;
        add(&mut self.env, env, |rule| &rule.name);
        add(&mut self.images, images, |rule| &rule.prefix);
        add(&mut self.instance_types, instance_types, |rule| &rule.from);
        add(&mut self.labels, labels, |rule| &rule.key);
    }

    /// Applies the rules to the template of a WorkloadDeployment.
    pub fn apply(&self, deployment: &mut WorkloadDeployment) {
        let template = &mut deployment.spec.template;
        if !self.labels.is_empty() {
            let metadata = template.metadata.get_or_insert_default();
            let labels = self.labels.iter().cloned();
            metadata
                .labels
                .extend(labels.map(|LabelRule { key, value }| (key, value)));
        }
        let runtime = &mut template.spec.runtime;
        let instance_type = &mut runtime.resources.instance_type;
        let mut types = self.instance_types.iter();
        if let Some(rule) = types.find(|rule| rule.from == *instance_type) {
            instance_type.clone_from(&rule.to);
        }
        let containers = runtime.sandbox.iter_mut().flat_map(|it| &mut it.containers);
        for container in containers {
            let replaced = self
                .images
                .iter()
                .find_map(|rule| rule.of(&container.image));
            if let Some(image) = replaced {
                container.image = image;
            }
            for EnvRule { name, value } in &self.env {
                container.env.retain(|variable| variable.name != *name);
                container.env.push(EnvVar {
                    name: name.clone(),
                    value: Some(value.clone()),
                    ..EnvVar::default()
                });
            }
        }
    }
}

/// Adds the rules whose key is not there yet.
fn add<T: Clone>(rules: &mut Vec<T>, others: &[T], key: fn(&T) -> &str) {
    for other in others {
        if rules.iter().all(|rule| key(rule) != key(other)) {
            rules.push(other.clone());
        }
    }
}

impl ImageRule {
    /// Returns the image in its other place. Returns `None` if the rule does not match. `registry.example` does not match
    /// `registry.example.org/app`.
    fn of(&self, image: &str) -> Option<String> {
        let rest = image.strip_prefix(&self.prefix)?;
        let is_whole =
            self.prefix.ends_with('/') || rest.is_empty() || rest.starts_with(['/', ':', '@']);
        is_whole.then(|| format!("{}{rest}", self.replacement))
    }
}

impl WorkloadDeployment {
    /// Returns the rules of this cell for the deployment. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// A sentence about why the annotation [`CELL_RULES`] is not valid.
    pub fn cell_rules(&self) -> Option<Result<CellRules, String>> {
        let annotations = self.metadata.annotations.as_ref()?;
        Some(CellRules::parse(annotations.get(CELL_RULES)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(runtime: &Value, labels: &Value) -> WorkloadDeployment {
        serde_json::from_value(json!({
            "apiVersion": crate::API_VERSION, "kind": "WorkloadDeployment", "metadata": {"name": "web"},
            "spec": {
                "cityCode": "DFW", "placementName": "near", "workloadRef": {"name": "web", "uid": "1"},
                "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 1},
                "template": {"metadata": {"labels": labels}, "spec": {"networkInterfaces": [], "runtime": runtime}},
            },
        }))
        .unwrap()
    }

    fn rules() -> CellRules {
        let rules = json!({
            "env": [{"name": "PROXY", "value": "p:1"}],
            "images": [
                {"prefix": "registry.example/team", "replacement": "mirror.local/t"},
                {"prefix": "registry.example", "replacement": "mirror.local"},
            ],
            "instanceTypes": [{"from": "a/small", "to": "a/tiny"}],
            "labels": [{"key": "site", "value": "far"}],
        });
        CellRules::parse(&rules.to_string()).unwrap()
    }

    #[test]
    fn rules_change_what_they_name_and_nothing_else() {
        let container =
            |image: &str, env: &Value| json!({"name": image, "image": image, "env": env});
        let runtime = json!({
            "resources": {"instanceType": "a/small"},
            "sandbox": {"containers": [
                container("registry.example/app:1", &json!([{"name": "PROXY", "value": "own"}, {"name": "A", "value": "1"}])),
                container("registry.example/team/app@sha256:1", &json!([])),
                container("registry.example.org/app", &json!([])),
                container("registry.example/teams", &json!([])),
            ]},
        });
        let mut changed = deployment(&runtime, &json!({"site": "x", "own": "y"}));
        rules().apply(&mut changed);
        let template = json!(changed.spec.template);
        assert_eq!(
            template["metadata"]["labels"],
            json!({"site": "far", "own": "y"})
        );
        let runtime = &template["spec"]["runtime"];
        assert_eq!(runtime["resources"]["instanceType"], "a/tiny");
        let images: Vec<_> = (0..4)
            .map(|it| &runtime["sandbox"]["containers"][it]["image"])
            .collect();
        assert_eq!(
            json!(images),
            json!([
                "mirror.local/app:1",
                "mirror.local/t/app@sha256:1",
                "registry.example.org/app",
                "mirror.local/teams"
            ])
        );
        assert_eq!(
            runtime["sandbox"]["containers"][0]["env"],
            json!([{"name": "A", "value": "1"}, {"name": "PROXY", "value": "p:1"}])
        );
        let once = changed.clone();
        rules().apply(&mut changed);
        assert_eq!(changed.spec.template.metadata, once.spec.template.metadata);
    }

    #[test]
    fn a_virtual_machine_has_no_containers() {
        let runtime = json!({
            "resources": {"instanceType": "a/other"},
            "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
        });
        let before = deployment(&runtime, &json!({"site": "far"}));
        let mut changed = before.clone();
        rules().apply(&mut changed);
        assert_eq!(changed, before);
    }

    #[test]
    fn an_error_names_the_field() {
        for (rules, expected) in [
            ("", "EOF"),
            ("[]", "invalid type: sequence"),
            (r#"{"later": 1}"#, "unknown field `later`"),
            (
                r#"{"images": [{"prefix": "a"}]}"#,
                "missing field `replacement`",
            ),
            (
                r#"{"images": [{"prefix": "", "replacement": "b"}]}"#,
                "images[].prefix is empty",
            ),
            (
                r#"{"instanceTypes": [{"from": "a", "to": ""}]}"#,
                "instanceTypes[].to is empty",
            ),
            (r#"{"env": [{"name": "a=b", "value": ""}]}"#, "env[].name"),
            (
                r#"{"env": [{"name": "a", "value": ""}, {"name": "a", "value": "1"}]}"#,
                "twice",
            ),
            (
                r#"{"labels": [{"key": "compute.datumapis.com/x", "value": ""}]}"#,
                "labels[].key: ",
            ),
        ] {
            let error = CellRules::parse(rules).unwrap_err();
            assert!(error.contains(expected), "{rules}: {error}");
        }
        assert!(CellRules::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn of_several_rules_for_the_same_thing_the_first_counts() {
        let mut all = rules();
        let more = json!({
            "env": [{"name": "PROXY", "value": "other"}, {"name": "B", "value": "2"}],
            "images": [{"prefix": "registry.example", "replacement": "x"}, {"prefix": "y", "replacement": "z"}],
            "instanceTypes": [{"from": "a/small", "to": "x"}],
            "labels": [{"key": "site", "value": "near"}, {"key": "b", "value": "2"}],
        });
        all.extend(&CellRules::parse(&more.to_string()).unwrap());
        assert_eq!(
            json!(all.env),
            json!([{"name": "PROXY", "value": "p:1"}, {"name": "B", "value": "2"}])
        );
        assert_eq!((all.images.len(), all.instance_types.len()), (3, 1));
        assert_eq!(
            json!(all.labels),
            json!([{"key": "site", "value": "far"}, {"key": "b", "value": "2"}])
        );
    }
}
