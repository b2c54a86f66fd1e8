//! The template of Instances, in Workload and WorkloadDeployment. See docs/concepts/api.md.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::embedded_metadata::EmbeddedMetadata;
use crate::instance::InstanceSpec;
use crate::unknown_fields::UnknownFields;

/// Describes the instances that a deployment creates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTemplateSpec {
    /// Metadata of the instances created from this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<EmbeddedMetadata>,
    /// Desired state of an instance.
    pub spec: InstanceSpec,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}
