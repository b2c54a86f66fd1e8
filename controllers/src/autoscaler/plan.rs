//! Decides how the HorizontalPodAutoscaler of a WorkloadDeployment and `spec.replicas` must look.
//!
//! `spec.replicas` belongs to one writer: to Karmada if the hub's object sets it, else to the autoscaler. The existence
//! of our HorizontalPodAutoscaler records that it belongs to the autoscaler. So it is created before `spec.replicas` is
//! initialised, and deleted after `spec.replicas` is removed. An autoscaler does nothing while `spec.replicas` is
//! absent.
//!
//! Karmada can write a removed number back, because it retains fields from an observation that may be old. Such a number
//! is removed once more. If it comes back, then an OverridePolicy has set it.

use api::annotations::CLEARED_REPLICAS;
use api::karmada::FIELD_MANAGER_PREFIX;
use api::{ReplicasField, WorkloadDeployment};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::settings::{Settings, settings};
use crate::objects::{contains, controller_reference, controller_uid, is_terminating};

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// The HorizontalPodAutoscaler with the name of the WorkloadDeployment. It may belong to another controller.
    pub(super) autoscaler: Option<&'a HorizontalPodAutoscaler>,
    /// Whether another HorizontalPodAutoscaler scales the WorkloadDeployment.
    pub(super) has_other_autoscaler: bool,
    /// The writer of `spec.replicas`. `None` if the API server has not been asked.
    pub(super) replicas_from: Option<ReplicasFrom>,
}

/// The writer of `spec.replicas` in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReplicasFrom {
    /// Karmada: the number is the share of the cell.
    Hub,
    /// Karmada, although the hub's object sets no number.
    Retained,
    /// An autoscaler, or a user through `scale`.
    Cell,
}

/// One step towards the wanted state. Its event triggers the next reconciliation.
#[derive(Debug, PartialEq)]
pub(super) enum AutoscalerStep {
    /// Read the WorkloadDeployment from the API server, because caches do not keep the writers of fields.
    AskWhoSetReplicas,
    /// Create the HorizontalPodAutoscaler, or give it this spec.
    Ensure(Box<HorizontalPodAutoscalerSpec>),
    /// Initialise `spec.replicas`.
    SetReplicas(i32),
    /// Remove the number that the autoscaler has written, so that the minimum counts again.
    ClearReplicas,
    /// Remove a number that Karmada has written back, and record it.
    ClearRetained(i32),
    /// Delete our HorizontalPodAutoscaler.
    Delete,
}

/// Returns the next step, if there is one.
pub(super) fn plan(observed: &Observed<'_>) -> Option<AutoscalerStep> {
    let Observed {
        deployment,
        autoscaler,
        has_other_autoscaler,
        replicas_from,
    } = *observed;
    // Garbage collection deletes the HorizontalPodAutoscaler with its owner.
    if is_terminating(deployment) || autoscaler.is_some_and(|it| !is_own(deployment, it)) {
        return None;
    }
    let own = autoscaler.filter(|autoscaler| !is_terminating(*autoscaler));
    if autoscaler.is_some() && own.is_none() {
        return None;
    }
    let settings = settings(deployment);
    // With settings, an autoscaler corrects the number.
    let may_be_retained =
        settings == Settings::Off && !has_other_autoscaler && may_be_retained(deployment);
    let wanted = match settings {
        Settings::Off => None,
        Settings::On(spec) => Some(spec),
        // The former autoscaler goes on until the settings are corrected.
        Settings::Invalid(_) => own.map(|own| Box::new(own.spec.clone())),
    };
    let replicas = deployment.spec.replicas;
    let must_ask = match (own, replicas) {
        (_, None) => false,
        (None, Some(_)) => wanted.is_some() || may_be_retained,
        (Some(own), Some(replicas)) => wanted.is_none() || desired(own) != Some(replicas),
    };
    let replicas_from = match (must_ask, replicas_from) {
        (true, None) => return Some(AutoscalerStep::AskWhoSetReplicas),
        (must_ask, replicas_from) => replicas_from.filter(|_| must_ask),
    };
    let is_assigned = matches!(
        replicas_from,
        Some(ReplicasFrom::Hub | ReplicasFrom::Retained)
    );
    match (wanted.filter(|_| !is_assigned), own) {
        (Some(spec), None) => Some(AutoscalerStep::Ensure(spec)),
        (Some(spec), Some(own)) if !contains(&json!(own.spec), &json!(spec)) => {
            Some(AutoscalerStep::Ensure(spec))
        }
        (Some(spec), Some(_)) if replicas.is_none() => {
            spec.min_replicas.map(AutoscalerStep::SetReplicas)
        }
        (None, None) if may_be_retained && replicas_from == Some(ReplicasFrom::Retained) => {
            replicas.map(AutoscalerStep::ClearRetained)
        }
        (Some(_), Some(_)) | (None, None) => None,
        (None, Some(_)) if replicas.is_some() && !is_assigned => {
            Some(AutoscalerStep::ClearReplicas)
        }
        (None, Some(_)) => Some(AutoscalerStep::Delete),
    }
}

/// Returns whether `spec.replicas` is set although the hub's object does not set it, and this number was not removed
/// before.
pub(super) fn may_be_retained(deployment: &WorkloadDeployment) -> bool {
    let Some(replicas) = deployment.spec.replicas else {
        return false;
    };
    let cleared = deployment.annotations().get(CLEARED_REPLICAS);
    let assigned = deployment.assigned_replicas();
    assigned.is_some_and(|assigned| assigned.field == ReplicasField::MinReplicas)
        && cleared.is_none_or(|cleared| *cleared != replicas.to_string())
}

/// Returns whether a HorizontalPodAutoscaler with another name scales the WorkloadDeployment.
pub(super) fn scales(deployment: &WorkloadDeployment, other: &HorizontalPodAutoscaler) -> bool {
    let target = &other.spec.scale_target_ref;
    let (name, kind) = (deployment.name_any(), WorkloadDeployment::kind(&()));
    target.kind == kind && target.name == name && other.name_any() != name
}

/// Returns whether the HorizontalPodAutoscaler belongs to this WorkloadDeployment.
pub(super) fn is_own(
    deployment: &WorkloadDeployment,
    autoscaler: &HorizontalPodAutoscaler,
) -> bool {
    controller_uid(autoscaler).is_some()
        && controller_uid(autoscaler) == deployment.metadata.uid.as_deref()
}

/// Returns the number that the autoscaler wants.
fn desired(autoscaler: &HorizontalPodAutoscaler) -> Option<i32> {
    let status = autoscaler.status.as_ref()?;
    Some(status.desired_replicas)
}

/// Returns who set `spec.replicas`. `current` must be an object from the API server, because caches do not keep the
/// writers of fields. Karmada sends the number of an autoscaler back unchanged, and a field that an update does not
/// change keeps its writer.
pub(super) fn replicas_from(current: &WorkloadDeployment) -> ReplicasFrom {
    let owns_replicas = |entry: &ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    };
    let is_by_karmada = current.managed_fields().iter().any(|entry| {
        let manager = entry.manager.as_deref().unwrap_or_default();
        manager.starts_with(FIELD_MANAGER_PREFIX)
            && entry.subresource.is_none()
            && owns_replicas(entry)
    });
    match is_by_karmada {
        true if may_be_retained(current) => ReplicasFrom::Retained,
        true => ReplicasFrom::Hub,
        false => ReplicasFrom::Cell,
    }
}

/// Returns the HorizontalPodAutoscaler of a WorkloadDeployment.
pub(super) fn body(deployment: &WorkloadDeployment, spec: &HorizontalPodAutoscalerSpec) -> Value {
    json!({
        "apiVersion": HorizontalPodAutoscaler::api_version(&()),
        "kind": HorizontalPodAutoscaler::kind(&()),
        "metadata": {
            "name": deployment.name_any(),
            "namespace": deployment.namespace(),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests;
