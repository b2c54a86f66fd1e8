//! WorkloadDeployment: one placement of a Workload in one city, on every plane. See docs/concepts/api.md.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowed::REPLICAS_MAX;
use crate::condition::Condition;
use crate::instance::LocationReference;
use crate::instance_template::InstanceTemplateSpec;
use crate::unknown_fields::UnknownFields;
use crate::workload::{HorizontalScaleSettings, ORDERED_READY};
use crate::{annotations, labels};

/// Condition: an instance is ready, or none is desired.
pub const AVAILABLE: &str = "Available";
/// Condition: no instance waits for quota.
pub const REPLICAS_READY: &str = "ReplicasReady";
/// Condition that exists only while it is False. A cell of the deployment cannot be reached, has not applied the
/// deployment or has not reported a status. Or the deployment has no cell.
pub const CELLS_REPORTING: &str = "CellsReporting";

/// Condition that exists only while the deployment has autoscaling settings: an autoscaler decides the number of
/// instances.
pub const AUTOSCALING_READY: &str = "AutoscalingReady";

/// Condition that exists only while the cell has rules: the cell applies them to the template of the Instances.
pub const RULES_APPLIED: &str = "RulesApplied";

/// Condition of a deployment that the project deletes. It is False while cells have Instances of it, or may have some. It
/// is never True.
pub const INSTANCES_ENDED: &str = "InstancesEnded";

pub use crate::reasons::workload_deployment::{
    CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELL_UNREACHABLE, NO_MATCHING_CELL,
};

/// Desired state of a WorkloadDeployment.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "WorkloadDeployment",
    plural = "workloaddeployments",
    namespaced,
    status = "WorkloadDeploymentStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    doc = "WorkloadDeployment is the Schema for the workloaddeployments API",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].reason"
    ),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.readyReplicas"),
    printcolumn(
        name = "Desired",
        type_ = "string",
        json_path = ".status.desiredReplicas"
    ),
    printcolumn(
        name = "Up-to-date",
        type_ = "string",
        json_path = ".status.updatedReplicas"
    ),
    printcolumn(
        name = "Location Namespace",
        type_ = "string",
        json_path = ".status.location.namespace",
        priority = 1
    ),
    printcolumn(
        name = "Location Name",
        type_ = "string",
        json_path = ".status.location.name",
        priority = 1
    )
)]
pub struct WorkloadDeploymentSpec {
    /// Code of the city that the instances run in.
    pub city_code: String,
    /// Name of the placement of the Workload.
    pub placement_name: String,
    /// The number of instances. If set, it replaces `scaleSettings.minReplicas`. The scale subresource writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Scale of the deployment.
    pub scale_settings: HorizontalScaleSettings,
    /// Settings of the instances.
    pub template: InstanceTemplateSpec,
    /// The Workload that the deployment belongs to.
    pub workload_ref: WorkloadReference,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

impl WorkloadDeploymentSpec {
    /// Returns the desired number of instances, which is never negative.
    pub fn desired_replicas(&self) -> i32 {
        self.replicas
            .unwrap_or(self.scale_settings.min_replicas)
            .max(0)
    }

    /// Returns the same spec with zero instances and without autoscaling.
    #[must_use]
    pub fn without_instances(&self) -> Self {
        Self {
            replicas: self.replicas.map(|_| 0),
            scale_settings: HorizontalScaleSettings {
                max_replicas: None,
                metrics: Vec::new(),
                min_replicas: 0,
                ..self.scale_settings.clone()
            },
            ..self.clone()
        }
    }
}

impl WorkloadDeployment {
    /// Returns the label selector of the Instances of this object on its plane. An Instance carries the UID of the
    /// WorkloadDeployment of its own plane, so the selector is never copied between planes.
    pub fn instance_selector(&self) -> Option<String> {
        let uid = self.metadata.uid.as_deref()?;
        Some(format!("{}={uid}", labels::WORKLOAD_DEPLOYMENT_UID))
    }

    /// Returns whether the service is suspended in the project of this object.
    pub fn is_suspended(&self) -> bool {
        self.annotation(annotations::SUSPENDED) == Some("true")
    }

    /// Returns since when its Instances have to end, because the project deletes the WorkloadDeployment.
    pub fn ending_since(&self) -> Option<Timestamp> {
        self.annotation(annotations::ENDING)?.parse().ok()
    }

    /// Returns whether its Instances have to end.
    pub fn is_ending(&self) -> bool {
        self.ending_since().is_some()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref();
        annotations?.get(key).map(String::as_str)
    }

    /// Returns whether its Instances are rolled out: the policy is supported, the number is not too large, and the rules
    /// of the cell can be read.
    pub fn is_rolled_out(&self) -> bool {
        let spec = &self.spec;
        spec.scale_settings.instance_management_policy == ORDERED_READY
            && spec.desired_replicas() <= REPLICAS_MAX
            && !matches!(self.cell_rules(), Some(Err(_)))
    }

    /// Returns whether the Instances are to be replaced when a ConfigMap or Secret of the template changes.
    pub fn rolls_on_data_change(&self) -> bool {
        let metadata = self.spec.template.metadata.as_ref();
        let rolls = metadata.and_then(|it| it.annotations.get(annotations::ROLL_ON_DATA_CHANGE));
        rolls.is_some_and(|rolls| rolls == "true")
    }
}

/// Refers to a Workload of the same project and namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Name of the Workload.
    pub name: String,
    /// UID of the Workload.
    pub uid: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Observed state of a WorkloadDeployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDeploymentStatus {
    /// Last report of each cell. Only on the hub, while the deployment has several cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cells: Vec<CellStatus>,
    /// Known conditions: Available, `ReplicasReady`, and `CellsReporting` while it is False.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Instances that run the current template and are programmed.
    pub current_replicas: i32,
    /// The desired number of instances.
    pub desired_replicas: i32,
    /// Location that the deployment was assigned to before federation. No longer written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationReference>,
    /// The generation of this plane's object that all cells have acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Instances that are ready.
    pub ready_replicas: i32,
    /// Instances that exist.
    pub replicas: i32,
    /// Name of the cell whose last report this status is, while the deployment has one cell. Only on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporting_cell: Option<String>,
    /// Label selector of the instances on this plane, for autoscalers. On the hub, the selector that all cells report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Whether the cell has suspended the instances. On the hub, whether all cells have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// Instances of the current template, ready or not. Former versions do not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
}

/// Last report of one cell.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellStatus {
    /// Share of the cell at the last time when all cells had acted on their shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_replicas: Option<i32>,
    /// Conditions that the cell reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Instances that run the current template and are programmed.
    pub current_replicas: i32,
    /// The desired number of instances.
    pub desired_replicas: i32,
    /// Name of the cell.
    pub name: String,
    /// Instances that are ready.
    pub ready_replicas: i32,
    /// Instances that exist.
    pub replicas: i32,
    /// Generation of the hub object that the cell last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_template_generation: Option<i64>,
    /// Total number of instances that `assignedReplicas` is a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_replicas: Option<i32>,
    /// Instances of the current template, ready or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
}
