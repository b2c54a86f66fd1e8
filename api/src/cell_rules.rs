//! The rules of a cell: what the Instances of all customers must have there. See docs/operate/cell-rules.md.

mod checks;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowed::REPLICAS_MAX;
use crate::annotations::CELL_RULES;
use crate::condition::Condition;
use crate::core_v1::EnvVar;
use crate::decode::from_str;
use crate::instance_type;
use crate::runtime::InstanceRuntimeResources;
use crate::workload::HorizontalScaleSettings;
use crate::workload_deployment::WorkloadDeployment;

/// Condition of a [`CellRule`]: it counts for the cells that it selects.
pub const ACCEPTED: &str = "Accepted";

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
    /// Changes of the Instances in these cells.
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
    /// Limits of the number of Instances of a WorkloadDeployment in the cell.
    #[serde(default, skip_serializing_if = "ReplicasRule::is_empty")]
    pub replicas: ReplicasRule,
}

/// Limits the number of Instances. 0 stays 0. If the limits contradict each other, the maximum counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
    "message": "min must not be greater than max",
}]))]
pub struct ReplicasRule {
    /// The maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = REPLICAS_MAX))]
    pub max: Option<i32>,
    /// The minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = REPLICAS_MAX))]
    pub min: Option<i32>,
}

/// Sets a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRule {
    /// Key of the label. Labels of the platform (`datumapis.com`) are not allowed.
    #[schemars(
        length(max = 317),
        regex(pattern = checks::LABEL_KEY),
        extend("not" = {"pattern": checks::PLATFORM_KEY})
    )]
    pub key: String,
    /// Value of the label.
    #[schemars(length(max = 63), regex(pattern = checks::LABEL_VALUE))]
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
    /// The text that replaces the prefix.
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
    /// Instance type of the cell. The size stays that of `from`, if it is known.
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
            replicas,
        } = other;
        add(&mut self.env, env, |rule| &rule.name);
        add(&mut self.images, images, |rule| &rule.prefix);
        add(&mut self.instance_types, instance_types, |rule| &rule.from);
        add(&mut self.labels, labels, |rule| &rule.key);
        self.replicas.max = self.replicas.max.or(replicas.max);
        self.replicas.min = self.replicas.min.or(replicas.min);
    }

    /// Applies the rules to a WorkloadDeployment.
    pub fn apply(&self, deployment: &mut WorkloadDeployment) {
        let spec = &mut deployment.spec;
        self.replicas.apply(&mut spec.scale_settings);
        spec.replicas = spec.replicas.map(|replicas| self.replicas.of(replicas));
        let template = &mut deployment.spec.template;
        if !self.labels.is_empty() {
            let metadata = template.metadata.get_or_insert_default();
            let labels = self.labels.iter().cloned();
            metadata
                .labels
                .extend(labels.map(|LabelRule { key, value }| (key, value)));
        }
        let runtime = &mut template.spec.runtime;
        let mut types = self.instance_types.iter();
        if let Some(rule) = types.find(|rule| rule.from == runtime.resources.instance_type) {
            rule.apply(&mut runtime.resources);
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
            for rule in &self.env {
                rule.apply(&mut container.env);
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

impl ReplicasRule {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number within the limits.
    fn of(&self, replicas: i32) -> i32 {
        if replicas <= 0 {
            return replicas;
        }
        let at_least = self.min.map_or(replicas, |min| replicas.max(min));
        self.max.map_or(at_least, |max| at_least.min(max))
    }

    fn apply(&self, settings: &mut HorizontalScaleSettings) {
        settings.min_replicas = self.of(settings.min_replicas);
        settings.max_replicas = settings.max_replicas.map(|max| self.of(max));
    }
}

impl EnvRule {
    /// Sets the variable where it is, because later ones may refer to it. A new one is the last.
    fn apply(&self, env: &mut Vec<EnvVar>) {
        let Self { name, value } = self;
        let set = EnvVar {
            name: name.clone(),
            value: Some(value.clone()),
            ..EnvVar::default()
        };
        match env.iter().position(|variable| variable.name == *name) {
            Some(first) => {
                let mut position = 0..;
                // Of several variables of one name, the last would count.
                env.retain(|variable| position.next() == Some(first) || variable.name != *name);
                if let Some(variable) = env.get_mut(first) {
                    *variable = set;
                }
            }
            None => env.push(set),
        }
    }
}

impl InstanceTypeRule {
    /// Replaces the type. The size stays that of the customer's type, so the Instance takes the same quota.
    fn apply(&self, resources: &mut InstanceRuntimeResources) {
        let requests = &resources.requests;
        let is_sized = [instance_type::CPU, instance_type::MEMORY]
            .iter()
            .all(|name| requests.contains_key(*name));
        if !is_sized && let Some(size) = instance_type::size(&self.from) {
            let quantities = size.map(|(name, quantity)| (name.to_owned(), quantity.into()));
            resources.requests = quantities.into();
        }
        resources.instance_type.clone_from(&self.to);
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

    /// Returns the scale settings within the limits of this cell.
    pub fn scale_settings_in_cell(&self) -> HorizontalScaleSettings {
        let mut settings = self.spec.scale_settings.clone();
        if let Some(Ok(rules)) = self.cell_rules() {
            rules.replicas.apply(&mut settings);
        }
        settings
    }
}

#[cfg(test)]
mod tests;
