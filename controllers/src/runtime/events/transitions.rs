//! Decides which changes of conditions lead to an event.

use api::Condition;
use api::condition::ConditionStatus::True;
use api::condition::find;
use api::conditions::ON_THE_WAY;
use kube::runtime::events::EventType;

/// A change of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConditionTransition {
    pub(super) type_: EventType,
    pub(super) reason: String,
    pub(super) note: String,
}

/// Returns the transitions of these conditions. A transition is a change to True, away from True, or to a reason that
/// may need an action. A condition type that exists only while it is not True counts as True when it is absent.
pub(super) fn transitions(
    types: &[&str],
    former: &[Condition],
    current: &[Condition],
) -> Vec<ConditionTransition> {
    let transition = |type_: &&str| match (find(former, type_), find(current, type_)) {
        (Some(former), None) if is_alarming(former) => Some(ConditionTransition {
            type_: EventType::Normal,
            reason: (*type_).to_owned(),
            note: format!("{type_} is no longer {:?}", former.status),
        }),
        (_, None) => None,
        (former, Some(current)) => {
            let is_news = former.is_none_or(|former| {
                (former.status, &former.reason) != (current.status, &current.reason)
            });
            let was_true = former.is_some_and(|former| former.status == True);
            let is_warning = is_alarming(current) || (was_true && current.status != True);
            let is_reported = is_news && (is_warning || current.status == True);
            is_reported.then(|| ConditionTransition {
                type_: if is_warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: current.reason.clone(),
                note: format!("{type_} is {:?}: {}", current.status, current.message),
            })
        }
    };
    types.iter().filter_map(transition).collect()
}

fn is_alarming(condition: &Condition) -> bool {
    condition.status != True && !ON_THE_WAY.contains(&condition.reason.as_str())
}

#[cfg(test)]
mod tests {
    use api::condition::ConditionStatus::{False, Unknown};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn events_report_recovery_and_problems_that_need_action() {
        let at = Timestamp::UNIX_EPOCH;
        let of = |status, reason| Condition::new("Available", status, reason, "why", at);
        let (beginning, well) = (
            of(False, "ProvisioningInstances"),
            of(True, "StableInstanceFound"),
        );
        let (cut, gone) = (of(Unknown, "CellUnreachable"), of(False, "NetworkNotFound"));
        let (warning, normal) = (Some(EventType::Warning), Some(EventType::Normal));
        for (former, current, expected) in [
            (None, Some(&beginning), None),
            (Some(&beginning), Some(&well), normal),
            (None, Some(&well), normal),
            (Some(&well), Some(&well), None),
            (Some(&well), Some(&cut), warning),
            (Some(&cut), Some(&gone), warning),
            (Some(&cut), Some(&cut), None),
            (None, Some(&gone), warning),
            (Some(&cut), Some(&well), normal),
            // The object was ready before and is no longer ready.
            (Some(&well), Some(&beginning), warning),
            (Some(&gone), Some(&beginning), None),
            (Some(&cut), None, normal),
            (Some(&beginning), None, None),
            (None, None, None),
        ] {
            let [former, current] = [former, current].map(|it| it.cloned().into_iter());
            let (former, current): (Vec<_>, Vec<_>) = (former.collect(), current.collect());
            let transitions = transitions(&["Available"], &former, &current);
            let told = transitions.first().map(|transition| transition.type_);
            assert_eq!(told, expected, "{former:?} {current:?}");
        }
    }

    #[test]
    fn an_event_says_what_the_condition_says() {
        let at = Timestamp::UNIX_EPOCH;
        let conditions = [Condition::new(
            "Available",
            False,
            "NetworkNotFound",
            "no blue",
            at,
        )];
        let expected = ConditionTransition {
            type_: EventType::Warning,
            reason: "NetworkNotFound".to_owned(),
            note: "Available is False: no blue".to_owned(),
        };
        assert_eq!(transitions(&["Available"], &[], &conditions), [expected]);
        assert_eq!(transitions(&["Ready"], &[], &conditions), []);
    }
}
