//! Tests of the condition of a LowerHub.

use std::time::Duration;

use api::condition::ConditionStatus::{False, True};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use multicluster::heartbeat::BEAT_INTERVAL;

use super::*;

const BEAT: &str = "2026-11-21T09:30:00.5Z";
const NOW: &str = "2026-11-21T09:45:00Z";

fn heartbeat(time: &str, age: Duration, has_arrived: bool) -> LastHeartbeat {
    LastHeartbeat {
        time: time.parse().unwrap(),
        age,
        has_arrived,
    }
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Returns the status of a condition and the time of its transition.
fn shown(condition: Option<Condition>) -> Option<(ConditionStatus, String)> {
    condition.map(|it| (it.status, it.last_transition_time.0.to_string()))
}

#[test]
fn a_process_is_silent_when_no_heartbeat_has_arrived_for_the_grace() {
    let early = GRACE.saturating_sub(Duration::from_millis(1));
    let at_beat = || Some((False, "2026-11-21T09:30:00Z".to_owned()));
    let at_now = || Some((True, NOW.to_owned()));
    let arrived = reporting(heartbeat(BEAT, early, true), None, now());
    let silent = reporting(heartbeat(BEAT, GRACE, true), None, now());
    let earlier: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    let of_earlier = |former: &Option<Condition>| {
        former.clone().map(|mut former| {
            former.last_transition_time.0 = earlier;
            former
        })
    };
    let (reported, was_silent) = (of_earlier(&arrived), of_earlier(&silent));
    let cases = [
        ("arrives", heartbeat(BEAT, early, true), None, at_now()),
        (
            "arrives again",
            heartbeat(BEAT, early, true),
            reported.clone(),
            Some((True, earlier.to_string())),
        ),
        (
            "ends the silence",
            heartbeat(BEAT, early, true),
            was_silent.clone(),
            at_now(),
        ),
        (
            "stops",
            heartbeat(BEAT, GRACE, true),
            reported.clone(),
            at_beat(),
        ),
        (
            "is found, unknown",
            heartbeat(BEAT, early, false),
            None,
            None,
        ),
        (
            "is found, silent",
            heartbeat(BEAT, early, false),
            silent.clone(),
            at_beat(),
        ),
        (
            "is found, reported",
            heartbeat(BEAT, early, false),
            reported,
            Some((True, earlier.to_string())),
        ),
        (
            "is found and old",
            heartbeat(BEAT, GRACE, false),
            None,
            at_beat(),
        ),
        (
            "of a clock that is ahead",
            heartbeat("2027-01-01T00:00:00Z", GRACE, true),
            None,
            Some((False, NOW.to_owned())),
        ),
    ];
    for (name, heartbeat, former, expected) in cases {
        let wanted = reporting(heartbeat, former.as_ref(), now());
        assert_eq!(shown(wanted.clone()), expected, "{name}");
        // The answer to the answer is the same, also later, so nothing is written at rest.
        let later = now() + BEAT_INTERVAL;
        assert_eq!(
            reporting(heartbeat, wanted.as_ref(), later),
            wanted,
            "{name}"
        );
    }
    let message = silent.unwrap().message;
    assert!(message.contains("since 2026-11-21T09:30:00Z:"), "{message}");
}

/// A former version has never sent a heartbeat. Otherwise the Lease was deleted, or was made anew.
#[test]
fn a_lost_lease_does_not_end_a_silence() {
    assert_eq!(without_heartbeat(None, true, now()), None);
    let early = Duration::ZERO;
    let arrived = reporting(heartbeat(BEAT, early, true), None, now());
    let lost = without_heartbeat(arrived.as_ref(), true, now());
    assert_eq!(shown(lost.clone()), Some((False, NOW.to_owned())));
    let later = now() + BEAT_INTERVAL;
    assert_eq!(without_heartbeat(lost.as_ref(), true, later), lost);
    let silent = reporting(heartbeat(BEAT, GRACE, true), None, now());
    assert_eq!(without_heartbeat(silent.as_ref(), true, later), silent);
    let again = reporting(heartbeat(NOW, early, true), lost.as_ref(), later);
    assert_eq!(shown(again), Some((True, later.to_string())));
}

#[test]
fn a_lower_hub_that_never_gets_a_list_has_a_silent_process() {
    let created = |before: Duration| ObjectMeta {
        creation_timestamp: Some(Time(now() - before)),
        ..ObjectMeta::default()
    };
    let early = GRACE.saturating_sub(Duration::from_secs(1));
    assert_eq!(unreported(&created(early), now()), None);
    let silent = unreported(&created(GRACE), now()).unwrap();
    assert_eq!(silent.reason, PROCESS_SILENT);
    assert_eq!(silent.last_transition_time.0, now() - GRACE);
    // A process of a former version reports, and sends no heartbeat.
    assert_eq!(without_heartbeat(Some(&silent), true, now()), None);
    let stays = without_heartbeat(Some(&silent), false, now());
    assert_eq!(stays, Some(silent));
}
