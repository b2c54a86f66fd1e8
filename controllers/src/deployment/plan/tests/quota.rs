//! Tests of Instances whose quota is not decided.

use super::*;

#[test]
fn an_instance_whose_quota_nobody_decides_about_is_shown() {
    let two = deployment(2);
    let with = |name: &str, status: ConditionStatus, reason: &str| {
        let mut instance = made(&two, name, false);
        let gates = &mut instance.spec.controller.as_mut().unwrap().scheduling_gates;
        gates.push(fixtures::object(json!({"name": "Quota"})));
        let granted = condition::Condition {
            status,
            reason: reason.to_owned(),
            message: "told".to_owned(),
            ..condition("QuotaGranted", false, None)
        };
        let status = instance.status.as_mut().unwrap();
        status.conditions.push(granted);
        instance
    };
    let undecided = |reason| with("web-0", ConditionStatus::Unknown, reason);
    let failed = |reason| with("web-1", ConditionStatus::False, reason);
    let denied = || failed("QuotaExceeded");
    for (instances, reason, message) in [
        // A new claim is decided soon.
        (
            vec![undecided("PendingEvaluation")],
            "ReplicasAvailable",
            "no instance waits for quota",
        ),
        (
            vec![undecided("QuotaNoBudget")],
            "QuotaNoBudget",
            "1 instances have no quota; Instance web-0 has no quota: told",
        ),
        (
            vec![undecided("QuotaNoBudget"), denied()],
            "QuotaExceeded",
            "1 instances have no quota; Instance web-1 has no quota: told",
        ),
        // The quota system does not answer, or refuses the question. More quota would not help.
        (
            vec![failed("QuotaBackendUnavailable")],
            "QuotaBackendUnavailable",
            "1 instances have no quota; Instance web-1 has no quota: told",
        ),
        (
            vec![failed("QuotaProjectNotFound")],
            "QuotaMisconfigured",
            "1 instances have no quota; Instance web-1 has no quota: told",
        ),
    ] {
        let status = status(&two, instances);
        let shown = condition::find(&status.conditions, REPLICAS_READY).unwrap();
        assert_eq!(
            (shown.reason.as_str(), shown.message.as_str()),
            (reason, message)
        );
        assert_eq!(shown.is_true(), reason == "ReplicasAvailable");
    }
}
