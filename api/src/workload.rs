//! Workload: the object that a customer writes, in a project. See docs/concepts/api.md.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::gateway::GatewayStatus;
use crate::instance_template::InstanceTemplateSpec;
use crate::quantity::Quantity;
use crate::unknown_fields::UnknownFields;

/// Condition of a Workload and of each of its placements: at least one part of it is available.
pub const AVAILABLE: &str = "Available";

/// Condition of a Workload: each kind that the controllers need can be listed in the project. The condition exists only
/// while it is False.
pub const KINDS_LISTED: &str = "KindsListed";

/// The only instance management policy.
pub const ORDERED_READY: &str = "OrderedReady";

/// Desired state of a Workload.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "Workload",
    plural = "workloads",
    namespaced,
    status = "WorkloadStatus",
    derive = "PartialEq",
    doc = "Workload is the Schema for the workloads API",
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
    printcolumn(
        name = "Deployments",
        type_ = "string",
        json_path = ".status.deployments"
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
        json_path = ".status.currentReplicas"
    )
)]
pub struct WorkloadSpec {
    /// Placements of instances, by city.
    #[schemars(length(min = 1))]
    pub placements: Vec<WorkloadPlacement>,
    /// Settings of the instances that the placements create.
    pub template: InstanceTemplateSpec,
}

/// A group of cities with the same scale settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPlacement {
    /// Codes of the cities. Each city gets a deployment.
    pub city_codes: Vec<String>,
    /// Name of the placement.
    pub name: String,
    /// Scale of the deployment in each city.
    pub scale_settings: HorizontalScaleSettings,
}

/// Horizontal scale of a deployment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HorizontalScaleSettings {
    /// How instances are created and replaced.
    #[schemars(extend("default" = "OrderedReady"))]
    pub instance_management_policy: String,
    /// The maximum number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Metrics for scaling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
    /// The minimum number of replicas.
    pub min_replicas: i32,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

impl HorizontalScaleSettings {
    /// Returns whether an autoscaler decides the number of replicas.
    pub fn is_autoscaled(&self) -> bool {
        self.max_replicas.is_some() && !self.metrics.is_empty()
    }
}

impl Default for HorizontalScaleSettings {
    fn default() -> Self {
        Self {
            instance_management_policy: ORDERED_READY.to_owned(),
            max_replicas: None,
            metrics: Vec::new(),
            min_replicas: 0,
            others: UnknownFields::default(),
        }
    }
}

/// A metric for scaling.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// A resource known to Kubernetes, such as cpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricSource>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A resource and its target.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetricSource {
    /// Name of the resource.
    pub name: String,
    /// Target of the resource.
    pub target: MetricTarget,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Target of a metric. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// Average over all instances, in percent of what they request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    /// Average over all instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// Value of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Observed state of a Workload. The counters are sums over its placements.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// Known conditions: Available. KindsListed exists only while it is False.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Instances that run the current template.
    pub current_replicas: i32,
    /// The number of deployments that currently exist.
    pub deployments: i32,
    /// The desired number of instances.
    pub desired_replicas: i32,
    /// Status of the gateway of the Workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayStatus>,
    /// Status of each placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<WorkloadPlacementStatus>,
    /// Instances that are ready.
    pub ready_replicas: i32,
    /// Instances that exist.
    pub replicas: i32,
}

/// Observed state of one placement. The counters are sums over its deployments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPlacementStatus {
    /// Known condition: Available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Instances that run the current template.
    pub current_replicas: i32,
    /// The desired number of instances.
    pub desired_replicas: i32,
    /// Name of the placement.
    pub name: String,
    /// Instances that are ready.
    pub ready_replicas: i32,
    /// Instances that exist.
    pub replicas: i32,
}
