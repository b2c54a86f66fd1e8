//! Views of the fields of a WorkloadDeployment that the interpreter reads, borrowed from the request.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::annotations::AnnotationsView;
use crate::error::InterpretError;

const MIN_REPLICAS: &str = "spec.scaleSettings.minReplicas";

/// A view of a WorkloadDeployment. `S` is the type of the status, and `T` is the type of the template. The general way
/// decodes the status and the template only when the operation needs them. The fast way decodes only the parts that the
/// operation needs, and skips the other parts.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a, S: Deserialize<'de>, T: Deserialize<'de>"))]
pub(crate) struct DeploymentView<'a, S = &'a RawValue, T = &'a RawValue> {
    #[serde(default)]
    pub(crate) metadata: DeploymentMetadata<'a>,
    #[serde(default)]
    pub(crate) spec: DeploymentSpecView<T>,
    pub(crate) status: Option<S>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentMetadata<'a> {
    #[serde(borrow, default)]
    pub(super) annotations: AnnotationsView<'a>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: Option<&'a RawValue>,
    pub(super) generation: Option<i64>,
    #[serde(borrow)]
    pub(super) managed_fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentSpecView<T> {
    pub(super) replicas: Option<i32>,
    #[serde(default)]
    pub(super) scale_settings: ScaleSettingsView,
    pub(crate) template: Option<T>,
}

impl<T> Default for DeploymentSpecView<T> {
    fn default() -> Self {
        Self {
            replicas: None,
            scale_settings: ScaleSettingsView::default(),
            template: None,
        }
    }
}

/// A view of `InstanceTemplateSpec`. `S` is the view of the instance spec. Each operation has its own view.
#[derive(Default, Deserialize)]
pub(crate) struct InstanceTemplateView<S> {
    #[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
    pub(crate) spec: S,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScaleSettingsView {
    pub(super) max_replicas: Option<i32>,
    pub(super) min_replicas: Option<i32>,
}

impl<S, T> DeploymentView<'_, S, T> {
    /// Returns the desired number of instances: `spec.replicas` if set, else `spec.scaleSettings.minReplicas`.
    pub(super) fn desired_replicas(&self) -> Result<i32, InterpretError> {
        self.spec
            .replicas
            .or(self.spec.scale_settings.min_replicas)
            .map(|replicas| replicas.max(0))
            .ok_or_else(|| InterpretError::new(MIN_REPLICAS, "is missing, and so is spec.replicas"))
    }
}
