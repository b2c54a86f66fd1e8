//! The cause that holds an Instance back before the infrastructure provider may start it.

use api::condition::{Condition, ConditionStatus};
use api::reasons::{
    instance as reason, network_ready as network, quota_granted, referenced_data as data,
};
use api::{Instance, condition};

use crate::gate::{Gate, NETWORK, QUOTA, REFERENCED_DATA};

/// A cause, in words that `Ready` of the Instance and `Available` of its WorkloadDeployment show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocker<'i> {
    /// How much the cause says: the highest one is shown. One that passes by itself is below one that someone has to
    /// end.
    pub(crate) rank: u8,
    pub(crate) reason: &'i str,
    pub(crate) message: &'i str,
    /// The text after the name of the Instance in a message, for example `has no network`.
    pub(crate) lacks: &'static str,
}

/// The message of a suspension.
pub(crate) const SUSPENSION: &str = "the service is suspended in the project";

/// Returns the cause that says most, if the Instance is held back and the cause is known. Among causes of one rank, the
/// one of the first gate counts.
pub(crate) fn blocker(instance: &Instance) -> Option<Blocker<'_>> {
    let causes = [
        suspension_cause(instance),
        gate_cause(&NETWORK, "has no network", instance),
        quota_cause(instance),
        gate_cause(&REFERENCED_DATA, "has no data", instance),
    ];
    let causes = causes.into_iter().flatten();
    causes.reduce(|first, other| match other.rank > first.rank {
        true => other,
        false => first,
    })
}

/// A suspended Instance does not run, whatever else it has or lacks.
fn suspension_cause(instance: &Instance) -> Option<Blocker<'_>> {
    instance.is_suspended().then_some(Blocker {
        rank: rank(reason::SUSPENDED),
        reason: reason::SUSPENDED,
        message: SUSPENSION,
        lacks: "is suspended",
    })
}

/// An Instance that runs keeps running while its networks fail or its data are gone, so only a closed gate counts.
fn gate_cause<'i>(gate: &Gate, lacks: &'static str, instance: &'i Instance) -> Option<Blocker<'i>> {
    let stored = gate.stored(instance);
    let failed = stored.filter(|it| !it.is_true() && gate.is_closed(instance))?;
    Some(Blocker {
        rank: rank(&failed.reason),
        reason: &failed.reason,
        message: &failed.message,
        lacks,
    })
}

fn quota_cause(instance: &Instance) -> Option<Blocker<'_>> {
    let denied = denied_quota(instance).map(|it| (it, rank(reason::PENDING_QUOTA)));
    let (cause, rank) = denied.or_else(|| Some((undecided_quota(instance)?, UNDECIDED)))?;
    Some(Blocker {
        rank,
        reason: reason::PENDING_QUOTA,
        message: &cause.message,
        lacks: "has no quota",
    })
}

/// Returns the condition `QuotaGranted` if it is False.
pub(crate) fn denied_quota(instance: &Instance) -> Option<&Condition> {
    let status = instance.status.as_ref()?;
    condition::find(&status.conditions, QUOTA.condition).filter(|granted| granted.is_false())
}

/// Returns the condition `QuotaGranted` if the Instance waits for a decision that may never come. A new claim is decided
/// soon, so it does not count.
pub(crate) fn undecided_quota(instance: &Instance) -> Option<&Condition> {
    let stored = QUOTA.stored(instance).filter(|_| QUOTA.is_closed(instance));
    stored.filter(|granted| {
        granted.status == ConditionStatus::Unknown && granted.reason == quota_granted::NO_BUDGET
    })
}

/// The rank of quota that is not decided. It is below that of quota that is denied.
const UNDECIDED: u8 = 2;

/// Returns the rank of a reason.
fn rank(reason: &str) -> u8 {
    match reason {
        reason::PENDING_QUOTA => 3,
        data::AWAITING_PROPAGATION | data::RESOLVING => 4,
        data::NOT_FOUND
        | data::UNAUTHORIZED
        | data::TOO_LARGE
        | data::NAME_TOO_LONG
        | data::KEY_NOT_FOUND
        | data::VALUE_NOT_TEXT => 5,
        network::NETWORK_NOT_FOUND => 6,
        network::FAILED_TO_CREATE => 7,
        network::LOCATION_MISMATCH | network::AMBIGUOUS_LOCATION => 8,
        reason::SUSPENDED => 9,
        // The network is being made, or the cell does not serve what it needs yet.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use api::instance::{
        NETWORK_GATE, NETWORK_READY, QUOTA_GATE, QUOTA_GRANTED, REFERENCED_DATA_GATE,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{instance, object};

    fn condition(type_: &str, reason: &str) -> Value {
        json!({
            "type": type_, "status": "False", "reason": reason, "message": reason,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn with(network: Option<&str>, quota: Option<&str>, gates: &[&str]) -> Instance {
        let mut body = json!(instance("ns-1", "web-0"));
        let gates: Vec<_> = gates.iter().map(|name| json!({"name": name})).collect();
        body["spec"]["controller"] = json!({"templateHash": "h", "schedulingGates": gates});
        let conditions = [
            network.map(|it| condition(NETWORK_READY, it)),
            quota.map(|it| condition(QUOTA_GRANTED, it)),
        ];
        body["status"] =
            json!({"conditions": conditions.into_iter().flatten().collect::<Vec<_>>()});
        object(body)
    }

    #[test]
    fn the_cause_that_says_most_is_shown() {
        let exceeded = Some("QuotaExceeded");
        let quota = Some(reason::PENDING_QUOTA);
        for (network, denied, gates, expected) in [
            (None, None, &[NETWORK_GATE][..], None),
            (
                Some(network::PROVISIONING),
                None,
                &[NETWORK_GATE],
                Some(network::PROVISIONING),
            ),
            (
                Some(network::PROVISIONING),
                exceeded,
                &[NETWORK_GATE],
                quota,
            ),
            (
                Some(network::NO_MATCHING_LOCATION),
                exceeded,
                &[NETWORK_GATE],
                quota,
            ),
            (
                Some(network::NETWORK_NOT_FOUND),
                exceeded,
                &[NETWORK_GATE],
                Some(network::NETWORK_NOT_FOUND),
            ),
            (
                Some(network::FAILED_TO_CREATE),
                exceeded,
                &[NETWORK_GATE],
                Some(network::FAILED_TO_CREATE),
            ),
            (
                Some(network::LOCATION_MISMATCH),
                exceeded,
                &[NETWORK_GATE],
                Some(network::LOCATION_MISMATCH),
            ),
            // A machine that runs is not held back by its network, but it is without quota.
            (Some(network::FAILED_TO_CREATE), None, &[], None),
            (Some(network::FAILED_TO_CREATE), exceeded, &[], quota),
        ] {
            let instance = with(network, denied, gates);
            assert_eq!(
                blocker(&instance).map(|it| it.reason),
                expected,
                "{network:?} {denied:?} {gates:?}"
            );
        }
        let mut waiting = with(None, None, &[REFERENCED_DATA_GATE]);
        let missing = condition(REFERENCED_DATA.condition, data::AWAITING_PROPAGATION);
        let status = waiting.status.get_or_insert_default();
        status.conditions.push(object(missing));
        assert_eq!(blocker(&waiting).map(|it| it.lacks), Some("has no data"));
        let mut suspended = with(Some(network::LOCATION_MISMATCH), exceeded, &[NETWORK_GATE]);
        suspended.status.get_or_insert_default().suspended = Some(true);
        let shown = blocker(&suspended).map(|it| it.reason);
        assert_eq!(shown, Some(reason::SUSPENDED));
        // No decision about quota says less than a denial, and more than a network that is being made.
        for (reason, gates, expected) in [
            (
                quota_granted::PENDING_EVALUATION,
                &[NETWORK_GATE, QUOTA_GATE][..],
                network::PROVISIONING,
            ),
            (
                quota_granted::NO_BUDGET,
                &[NETWORK_GATE, QUOTA_GATE],
                reason::PENDING_QUOTA,
            ),
            (
                quota_granted::NO_BUDGET,
                &[NETWORK_GATE],
                network::PROVISIONING,
            ),
        ] {
            let mut undecided = with(Some(network::PROVISIONING), Some(reason), gates);
            let status = undecided.status.get_or_insert_default();
            status.conditions[1].status = ConditionStatus::Unknown;
            let shown = blocker(&undecided).map(|it| it.reason);
            assert_eq!(shown, Some(expected), "{reason} {gates:?}");
        }
        assert!(rank(network::PROVISIONING) < UNDECIDED && UNDECIDED < rank(reason::PENDING_QUOTA));
        // Nothing is known while an object cannot be decoded.
        let mut unclear = with(Some(network::LOCATION_UNREADABLE), None, &[NETWORK_GATE]);
        let status = unclear.status.get_or_insert_default();
        status.conditions[0].status = ConditionStatus::Unknown;
        let shown = blocker(&unclear).map(|it| it.reason);
        assert_eq!(shown, Some(network::LOCATION_UNREADABLE));
        let ranks = [
            network::PROVISIONING,
            reason::PENDING_QUOTA,
            data::AWAITING_PROPAGATION,
            data::NOT_FOUND,
            network::NETWORK_NOT_FOUND,
            network::FAILED_TO_CREATE,
            network::LOCATION_MISMATCH,
            reason::SUSPENDED,
        ];
        assert!(ranks.map(rank).is_sorted_by(|one, other| one < other));
    }
}
