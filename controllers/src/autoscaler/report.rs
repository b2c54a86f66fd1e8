//! The condition `AutoscalingReady` of a WorkloadDeployment in its cell.

use std::sync::Arc;

use api::WorkloadDeployment;
use api::condition::{self, Condition, ConditionStatus};
use api::reasons::workload_deployment as reason;
use api::workload_deployment::AUTOSCALING_READY;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};

use super::plan::is_own;
use super::settings::{Settings, settings};

/// What is known about the autoscaler of a WorkloadDeployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutoscalerView {
    /// The HorizontalPodAutoscaler with the name of the WorkloadDeployment.
    pub(crate) autoscaler: Option<Arc<HorizontalPodAutoscaler>>,
    /// Why the HorizontalPodAutoscalers of the cell are not known. An API server that cannot be reached for a while is
    /// no reason.
    pub(crate) problem: Option<String>,
}

/// Returns the condition. Returns `None` if the WorkloadDeployment has no autoscaling settings.
///
/// The message of a HorizontalPodAutoscaler can change with each measurement. The former message stays while the status
/// and the reason stay, so that a measurement alone causes no write.
pub(crate) fn autoscaling_ready(
    deployment: &WorkloadDeployment,
    view: &AutoscalerView,
    now: Timestamp,
) -> Option<Condition> {
    let (status, reason, message) = match settings(deployment) {
        Settings::Off => return None,
        Settings::Invalid(problem) => failed(problem),
        Settings::On(_) => state(deployment, view),
    };
    let mut condition = Condition::new(AUTOSCALING_READY, status, reason.as_str(), message, now);
    let former = deployment.status.as_ref();
    let former = former.and_then(|it| condition::find(&it.conditions, AUTOSCALING_READY));
    let is_measured = ![
        reason::AUTOSCALER_RECONCILE_FAILED,
        reason::AUTOSCALER_READY,
        reason::AWAITING_AUTOSCALER,
    ]
    .contains(&condition.reason.as_str());
    if let Some(former) = former
        && (former.status, &former.reason) == (condition.status, &condition.reason)
        && is_measured
    {
        condition.message.clone_from(&former.message);
    }
    Some(condition)
}

/// The status, the reason and the message of the condition.
type State = (ConditionStatus, String, String);

fn failed(problem: String) -> State {
    let reason = reason::AUTOSCALER_RECONCILE_FAILED.to_owned();
    (ConditionStatus::False, reason, problem)
}

fn waiting(message: &str) -> State {
    let reason = reason::AWAITING_AUTOSCALER.to_owned();
    (ConditionStatus::Unknown, reason, message.to_owned())
}

fn state(deployment: &WorkloadDeployment, view: &AutoscalerView) -> State {
    if let Some(problem) = &view.problem {
        return failed(problem.clone());
    }
    let Some(autoscaler) = &view.autoscaler else {
        return waiting(match deployment.spec.replicas {
            None => "the HorizontalPodAutoscaler does not exist yet",
            Some(_) => {
                "there is no HorizontalPodAutoscaler; the cell makes none while the hub sets \
                 spec.replicas"
            }
        });
    };
    if !is_own(deployment, autoscaler) {
        return failed(
            "a HorizontalPodAutoscaler of this name belongs to another controller; delete it or rename it".to_owned(),
        );
    }
    let conditions = autoscaler.status.as_ref();
    let conditions = conditions.and_then(|status| status.conditions.as_deref());
    let find = |type_: &str| {
        let mut conditions = conditions.unwrap_or_default().iter();
        conditions.find(|condition| condition.type_ == type_)
    };
    let refusing = |type_: &str| find(type_).filter(|condition| condition.status == "False");
    let refused = |condition: &HorizontalPodAutoscalerCondition| {
        let reason = condition.reason.clone().unwrap_or_default();
        let message = condition.message.clone().unwrap_or_default();
        (ConditionStatus::False, reason, message)
    };
    if let Some(condition) = refusing("AbleToScale").or_else(|| refusing("ScalingActive")) {
        return refused(condition);
    }
    match find("ScalingActive") {
        Some(active) if active.status == "True" => (
            ConditionStatus::True,
            reason::AUTOSCALER_READY.to_owned(),
            "the autoscaler decides the number of instances".to_owned(),
        ),
        _ => waiting("the HorizontalPodAutoscaler has not been evaluated yet"),
    }
}

#[cfg(test)]
mod tests;
