//! Decides which changes lead to an event for customers. There is none while the service is suspended, except about the
//! suspension itself.

use api::condition::{self, Condition};
use api::instance::READY;
use api::reasons::{instance as of_ready, lifecycle as reason};
use api::workload_deployment::AVAILABLE;
use api::{Instance, WorkloadDeployment};
use kube::runtime::events::EventType;

/// An event about the life of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LifeEvent {
    pub(super) type_: EventType,
    pub(super) reason: &'static str,
    pub(super) note: String,
}

/// The phase of an Instance, according to its condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not run yet, or nothing is known.
    Waiting,
    Available,
    /// The infrastructure provider reports that it cannot run it.
    Problem(&'static str),
    Stopping,
    Suspended,
}

/// The problems that infrastructure providers report.
const PROBLEMS: [&str; 4] = [
    reason::IMAGE_UNAVAILABLE,
    reason::CONFIGURATION_ERROR,
    reason::INSTANCE_CRASHING,
    reason::FAILED,
];
/// The reasons of an Instance whose process ends.
const STOPS: [&str; 2] = [reason::STOPPING, "Stopped"];

fn ready(instance: &Instance) -> Option<&Condition> {
    condition::find(&instance.status.as_ref()?.conditions, READY)
}

/// Returns the phase, and the message of the condition.
fn phase(instance: &Instance) -> (Phase, &str) {
    let Some(ready) = ready(instance) else {
        return (Phase::Waiting, "");
    };
    let mut problems = PROBLEMS.into_iter();
    let phase = match ready.reason.as_str() {
        _ if ready.is_true() => Phase::Available,
        of_ready::SUSPENDED => Phase::Suspended,
        stops if STOPS.contains(&stops) => Phase::Stopping,
        other => problems
            .find(|problem| *problem == other)
            .map_or(Phase::Waiting, Phase::Problem),
    };
    (phase, &ready.message)
}

/// Returns the event about a new status of an Instance.
pub(super) fn of_instance(former: &Instance, written: &Instance) -> Option<LifeEvent> {
    let ((before, _), (after, message)) = (phase(former), phase(written));
    if before == after || written.is_suspended() {
        return None;
    }
    let (type_, reason) = match after {
        Phase::Available => (EventType::Normal, reason::AVAILABLE),
        Phase::Problem(problem) => (EventType::Warning, problem),
        Phase::Stopping => (EventType::Normal, reason::STOPPING),
        // A machine without quota keeps running.
        Phase::Waiting if before == Phase::Available && !lacks_quota(written) => {
            (EventType::Warning, reason::FAILED)
        }
        Phase::Waiting | Phase::Suspended => return None,
    };
    Some(LifeEvent {
        type_,
        reason,
        note: message.to_owned(),
    })
}

fn lacks_quota(instance: &Instance) -> bool {
    ready(instance).is_some_and(|ready| ready.reason == of_ready::PENDING_QUOTA)
}

/// Returns the event about the deletion of an Instance.
pub(super) fn of_deletion(instance: &Instance) -> Option<LifeEvent> {
    (!instance.is_suspended()).then(|| LifeEvent {
        type_: EventType::Normal,
        reason: reason::TERMINATING,
        note: "the instance is being deleted".to_owned(),
    })
}

/// Returns the event about a new status of a WorkloadDeployment.
pub(super) fn of_deployment(
    former: &WorkloadDeployment,
    written: &WorkloadDeployment,
) -> Option<LifeEvent> {
    let (before, after) = (former.status.as_ref(), written.status.as_ref()?);
    let was_suspended = before.and_then(|before| before.suspended) == Some(true);
    let is_suspended = after.suspended == Some(true);
    let (reason, note) = match (was_suspended, is_suspended) {
        (false, true) => (
            reason::PROJECT_PAUSED,
            "the service is suspended in the project".to_owned(),
        ),
        (true, false) => (
            reason::PROJECT_RESUMED,
            "the service is no longer suspended in the project".to_owned(),
        ),
        (true, true) => return None,
        (false, false) if written.is_suspended() => return None,
        (false, false) => {
            let (from, to) = (before?.desired_replicas, after.desired_replicas);
            if from == to {
                return None;
            }
            (
                reason::SCALED,
                format!("scaled from {from} to {to} instances"),
            )
        }
    };
    Some(LifeEvent {
        type_: EventType::Normal,
        reason,
        note,
    })
}

/// Returns the event about a suspension that the cell could not store. There is none if the former status shows it.
pub(super) fn of_refusal(
    former: &WorkloadDeployment,
    written: &WorkloadDeployment,
    refusal: &str,
) -> Option<LifeEvent> {
    let former = former.status.as_ref();
    let available = former.and_then(|status| condition::find(&status.conditions, AVAILABLE));
    let is_shown = available.is_some_and(|available| available.message.contains(refusal));
    (written.is_suspended() && !is_shown).then(|| LifeEvent {
        type_: EventType::Warning,
        reason: reason::PAUSE_FAILED,
        note: refusal.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use api::condition::ConditionStatus;
    use api::{InstanceStatus, WorkloadDeploymentStatus};

    use super::*;
    use crate::fixtures::{deployment, instance, now};

    fn with_ready(status: ConditionStatus, reason: &str) -> Instance {
        let mut instance = instance("ns-1", "web-0");
        instance.status = Some(InstanceStatus {
            conditions: vec![Condition::new(READY, status, reason, "why", now())],
            ..InstanceStatus::default()
        });
        instance
    }

    #[test]
    fn an_event_tells_each_new_phase_of_an_instance_once() {
        use ConditionStatus::{False, True, Unknown};
        const READY: (ConditionStatus, &str) = (True, "Running");
        let unready = |reason| (False, reason);
        for (former, written, expected) in [
            (
                (Unknown, "Pending"),
                unready("SchedulingGatesPresent"),
                None,
            ),
            (unready("PendingProgramming"), READY, Some("Available")),
            (READY, READY, None),
            (
                unready("Pending"),
                unready("ImageUnavailable"),
                Some("ImageUnavailable"),
            ),
            (
                unready("ImageUnavailable"),
                unready("ImageUnavailable"),
                None,
            ),
            (unready("ImageUnavailable"), unready("Pending"), None),
            (
                READY,
                unready("ConfigurationError"),
                Some("ConfigurationError"),
            ),
            (READY, unready("InstanceCrashing"), Some("InstanceCrashing")),
            (unready("Starting"), unready("Failed"), Some("Failed")),
            (READY, unready("Stopping"), Some("Stopping")),
            (unready("Stopping"), unready("Stopped"), None),
            (READY, unready("PendingProgramming"), Some("Failed")),
            (READY, unready("PendingQuota"), None),
            (READY, unready("Suspended"), None),
            (unready("Suspended"), unready("Starting"), None),
            (unready("Suspended"), READY, Some("Available")),
        ] {
            let [before, after] = [former, written].map(|(status, why)| with_ready(status, why));
            let event = of_instance(&before, &after);
            let told = event.as_ref().map(|event| event.reason);
            assert_eq!(told, expected, "{former:?} {written:?}");
            assert!(event.is_none_or(|event| event.note == "why"));
        }
        let (ready, new) = (with_ready(True, "Running"), instance("ns-1", "web-0"));
        assert_eq!(of_instance(&new, &ready).unwrap().reason, "Available");
        let mut suspended = with_ready(False, "InstanceCrashing");
        suspended.status.get_or_insert_default().suspended = Some(true);
        assert_eq!(of_instance(&ready, &suspended), None);
        assert_eq!(of_deletion(&suspended), None);
        assert_eq!(of_deletion(&ready).unwrap().reason, "Terminating");
    }

    fn with_status(desired: i32, suspended: bool) -> WorkloadDeployment {
        let mut deployment = deployment("ns-1", "web", "DFW", desired);
        deployment.status = Some(WorkloadDeploymentStatus {
            desired_replicas: desired,
            suspended: suspended.then_some(true),
            ..WorkloadDeploymentStatus::default()
        });
        deployment
    }

    #[test]
    fn an_event_tells_when_a_deployment_is_scaled_suspended_or_resumed() {
        for (former, written, expected) in [
            ((1, false), (1, false), None),
            ((1, false), (3, false), Some("Scaled")),
            ((3, true), (1, true), None),
            ((1, false), (1, true), Some("ProjectPaused")),
            ((1, true), (1, false), Some("ProjectResumed")),
        ] {
            let [before, after] =
                [former, written].map(|(desired, suspended)| with_status(desired, suspended));
            let told = of_deployment(&before, &after).map(|event| event.reason);
            assert_eq!(told, expected, "{former:?} {written:?}");
        }
        let new = deployment("ns-1", "web", "DFW", 1);
        let told = |written| of_deployment(&new, &written).map(|event| event.reason);
        assert_eq!(told(with_status(1, false)), None);
        assert_eq!(told(with_status(1, true)), Some("ProjectPaused"));
        // A CRD without the field drops it.
        let [before, mut after] = [1, 3].map(|desired| with_status(desired, false));
        after.metadata.annotations =
            Some([(api::annotations::SUSPENDED.to_owned(), "true".to_owned())].into());
        assert_eq!(of_deployment(&before, &after), None);
    }

    #[test]
    fn a_refused_suspension_is_told_until_the_status_shows_it() {
        let mut suspended = with_status(1, true);
        suspended.metadata.annotations =
            Some([(api::annotations::SUSPENDED.to_owned(), "true".to_owned())].into());
        let told = |former: &WorkloadDeployment, written: &WorkloadDeployment| {
            of_refusal(former, written, "no such field").map(|event| event.reason)
        };
        let resumed = with_status(1, false);
        assert_eq!(told(&resumed, &suspended), Some("PauseFailed"));
        assert_eq!(told(&suspended, &resumed), None);
        let mut shown = suspended.clone();
        let message = "suspended; no such field";
        let (status, reason) = (ConditionStatus::False, "Suspended");
        let available = Condition::new(AVAILABLE, status, reason, message, now());
        shown.status.get_or_insert_default().conditions = vec![available];
        assert_eq!(told(&shown, &suspended), None);
    }
}
