//! Tables of plans for Instances whose networks are in every state.

use api::condition;
use api::instance::{NETWORK_GATE, QUOTA_GATE};
use serde_json::json;

use super::*;
use crate::fixtures::{instance, now, object, terminating};

/// Returns an Instance of this age with these gates.
fn gated(gates: &[&str], age: i64) -> Instance {
    let gates: Vec<_> = gates.iter().map(|name| json!({"name": name})).collect();
    let mut body = json!(instance("ns-1", "web-0"));
    body["metadata"]["creationTimestamp"] = json!(now() - SignedDuration::from_secs(age));
    body["spec"]["controller"] = json!({"templateHash": "h", "schedulingGates": gates});
    object(body)
}

/// Returns the Instance with this condition, which is of this generation.
fn with_condition(instance: Instance, wanted: &Condition, generation: i64) -> Instance {
    let mut instance = instance;
    let status = instance.status.get_or_insert_default();
    let condition = wanted.clone().observed(Some(generation));
    condition::set(&mut status.conditions, condition);
    instance
}

fn ready() -> Condition {
    condition(Verdict::Ready, now()).unwrap()
}

fn networks(verdict: Verdict) -> Networks {
    Networks {
        verdict,
        ..Networks::default()
    }
}

fn blocked() -> Verdict {
    Verdict::Blocked {
        reason: reason::FAILED_TO_CREATE,
        message: "m".to_owned(),
    }
}

fn waiting() -> Verdict {
    Verdict::Waiting("m".to_owned())
}

/// What a plan does, for tables.
#[derive(Debug, PartialEq)]
enum Does {
    Nothing,
    LooksAgain,
    Writes(ConditionStatus, String),
    Opens,
}

fn does(instance: &Instance, verdict: Verdict) -> Does {
    let Plan { step, look_again } = plan(instance, networks(verdict), now());
    match (step, look_again) {
        (None, None) => Does::Nothing,
        (None, Some(_)) => Does::LooksAgain,
        (Some(NetworkStep::OpenGate), None) => Does::Opens,
        (
            Some(NetworkStep::WriteStatus {
                conditions: Some(conditions),
                interfaces: None,
            }),
            None,
        ) => {
            let written = condition::find(&conditions, NETWORK_READY).unwrap();
            assert_eq!(written.observed_generation, Some(2));
            Does::Writes(written.status, written.reason.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn writes(status: ConditionStatus, reason: &str) -> Does {
    Does::Writes(status, reason.to_owned())
}

/// I-30: a gate never opens for a condition that is not stored.
#[test]
fn a_network_gate_opens_after_its_condition_is_stored_for_this_generation() {
    let gated = || gated(&[NETWORK_GATE, QUOTA_GATE], 1);
    let becomes_ready = || writes(ConditionStatus::True, reason::NETWORK_AVAILABLE);
    let failed = condition(blocked(), now()).unwrap();
    for (name, instance, verdict, expected) in [
        ("no condition", gated(), Verdict::Ready, becomes_ready()),
        (
            "another condition",
            with_condition(gated(), &failed, 2),
            Verdict::Ready,
            becomes_ready(),
        ),
        (
            "a former generation",
            with_condition(gated(), &ready(), 1),
            Verdict::Ready,
            becomes_ready(),
        ),
        (
            "stored",
            with_condition(gated(), &ready(), 2),
            Verdict::Ready,
            Does::Opens,
        ),
        (
            "stored, and not true any more",
            with_condition(gated(), &ready(), 2),
            blocked(),
            writes(ConditionStatus::False, reason::FAILED_TO_CREATE),
        ),
        (
            "stored, and nothing is known",
            with_condition(gated(), &ready(), 2),
            Verdict::Unknown,
            Does::Nothing,
        ),
    ] {
        assert_eq!(does(&instance, verdict), expected, "{name}");
    }
}

#[test]
fn an_instance_without_a_gate_is_left_alone() {
    assert!(!is_managed(&gated(&[], 100)));
    assert!(!is_managed(&gated(&[QUOTA_GATE], 100)));
    assert!(is_managed(&gated(&[NETWORK_GATE], 100)));
    assert!(is_managed(&with_condition(gated(&[], 100), &ready(), 1)));
}

/// An opened gate changes the generation. The condition is not written again for that.
#[test]
fn an_instance_with_an_open_gate_is_settled() {
    let open = with_condition(gated(&[], 100), &ready(), 1);
    assert_eq!(does(&open, Verdict::Ready), Does::Nothing);
    let lost = writes(ConditionStatus::False, reason::FAILED_TO_CREATE);
    assert_eq!(does(&open, blocked()), lost);
}

#[test]
fn quick_networks_cost_no_write_and_slow_ones_are_shown() {
    let provisioning = || writes(ConditionStatus::False, reason::PROVISIONING);
    let unreadable = || writes(ConditionStatus::Unknown, reason::NETWORK_UNREADABLE);
    let unlisted = || Verdict::Unlisted("networkbindings".to_owned());
    let shown = condition(waiting(), now()).unwrap();
    let gated = |age| gated(&[NETWORK_GATE], age);
    for (name, instance, verdict, expected) in [
        ("new", gated(0), waiting(), Does::LooksAgain),
        ("old", gated(2), waiting(), provisioning()),
        (
            "shown",
            with_condition(gated(2), &shown, 2),
            waiting(),
            Does::Nothing,
        ),
        (
            "failed at once",
            gated(0),
            blocked(),
            writes(ConditionStatus::False, reason::FAILED_TO_CREATE),
        ),
        (
            "failed before",
            with_condition(gated(0), &condition(blocked(), now()).unwrap(), 2),
            waiting(),
            provisioning(),
        ),
        ("not known", gated(9), Verdict::Unknown, Does::Nothing),
        ("not listed", gated(0), unlisted(), Does::LooksAgain),
        ("not listed for long", gated(2), unlisted(), unreadable()),
        (
            "not listed, and shown",
            with_condition(gated(9), &condition(unlisted(), now()).unwrap(), 2),
            unlisted(),
            Does::Nothing,
        ),
        (
            "not listed by the next process",
            with_condition(gated(9), &condition(blocked(), now()).unwrap(), 2),
            unlisted(),
            Does::Nothing,
        ),
        (
            "disabled",
            gated(0),
            Verdict::Disabled,
            writes(ConditionStatus::True, reason::NETWORK_DISABLED),
        ),
    ] {
        assert_eq!(does(&instance, verdict), expected, "{name}");
    }
}

#[test]
fn a_location_is_stamped_before_the_condition_and_only_once() {
    let location = LocationReference {
        name: "dfw".to_owned(),
        ..LocationReference::default()
    };
    let planned = |instance: &Instance| {
        let networks = Networks {
            location: Some(location.clone()),
            ..networks(Verdict::Ready)
        };
        plan(instance, networks, now()).step
    };
    let mut instance = gated(&[NETWORK_GATE], 1);
    let stamp = NetworkStep::StampLocation(location.clone());
    assert_eq!(planned(&instance), Some(stamp));
    instance.spec.location = Some(location.clone());
    let status = planned(&instance);
    assert!(
        matches!(status, Some(NetworkStep::WriteStatus { .. })),
        "{status:?}"
    );
}

/// Nothing is made in a location that is not that of the Instance.
#[test]
fn an_instance_in_another_location_waits() {
    let place = |name: &str| LocationReference {
        name: name.to_owned(),
        ..LocationReference::default()
    };
    let planned = |instance: &Instance, step| {
        let networks = Networks {
            step,
            location: Some(place("dfw")),
            ..networks(Verdict::Ready)
        };
        plan(instance, networks, now()).step
    };
    let create: NetworkBinding = object(json!({
        "metadata": {"name": "b"},
        "spec": {"network": {"name": "a"}, "location": {"name": "dfw", "namespace": ""}},
    }));
    let step = ObjectStep::CreateBinding(Box::new(create));
    let mut closed = gated(&[NETWORK_GATE], 0);
    closed.spec.location = Some(place("ord"));
    for step in [None, Some(step.clone())] {
        let Some(NetworkStep::WriteStatus {
            conditions: Some(conditions),
            ..
        }) = planned(&closed, step)
        else {
            panic!("not shown");
        };
        let written = condition::find(&conditions, NETWORK_READY).unwrap();
        assert!(written.is_false());
        assert_eq!(written.reason, reason::LOCATION_MISMATCH);
    }
    // A machine that runs stays where it is, and keeps its networks.
    let mut open = with_condition(gated(&[], 0), &ready(), 1);
    open.spec.location = Some(place("ord"));
    assert_eq!(planned(&open, None), None);
    let step = Some(step);
    assert_eq!(planned(&open, step.clone()), step.map(NetworkStep::Object));
}

/// An object that cannot be decoded opens nothing, and changes no condition of a machine that runs.
#[test]
fn what_is_unclear_is_shown_only_while_the_gate_is_closed() {
    let unclear = || Verdict::Unclear {
        reason: reason::LOCATION_UNREADABLE,
        message: "m".to_owned(),
    };
    let shown = writes(ConditionStatus::Unknown, reason::LOCATION_UNREADABLE);
    let stored = with_condition(gated(&[NETWORK_GATE], 1), &ready(), 2);
    for closed in [gated(&[NETWORK_GATE], 0), stored] {
        assert_eq!(does(&closed, unclear()), shown);
    }
    let open = with_condition(gated(&[], 100), &ready(), 1);
    assert_eq!(does(&open, unclear()), Does::Nothing);
}

/// What is not needed any more is not urgent.
#[test]
fn a_release_comes_last() {
    let claim: SubnetClaim = object(json!({
        "metadata": {"name": "a-0"},
        "spec": {
            "subnetClass": "private", "networkContext": {"name": "a"}, "ipFamily": "IPv4",
            "location": {"name": "dfw"},
        },
    }));
    let release = ObjectStep::DeleteSubnetClaim(Arc::new(claim));
    let planned = |instance: &Instance, verdict| {
        let networks = Networks {
            release: Some(release.clone()),
            ..networks(verdict)
        };
        plan(instance, networks, now()).step
    };
    let released = Some(NetworkStep::Release(release.clone()));
    let mut gated = with_condition(gated(&[NETWORK_GATE], 0), &ready(), 2);
    assert_eq!(planned(&gated, Verdict::Ready), Some(NetworkStep::OpenGate));
    gated.status = None;
    assert_eq!(planned(&gated, waiting()), released);
    assert_eq!(planned(&terminating(gated.clone()), Verdict::Ready), None);
    gated.spec.controller = None;
    let open = with_condition(gated, &ready(), 1);
    assert_eq!(planned(&open, Verdict::Ready), released);
}

/// Returns the status of an interface with this address.
fn interfaces(address: &str) -> Vec<InstanceNetworkInterfaceStatus> {
    vec![object(
        json!({"name": "eth0", "assignments": {"networkIP": address}}),
    )]
}

#[test]
fn interfaces_are_written_with_the_condition_and_when_they_change_later() {
    let planned = |instance: &Instance, verdict, interfaces| {
        let networks = Networks {
            interfaces,
            ..networks(verdict)
        };
        plan(instance, networks, now()).step
    };
    let one = Some(interfaces("10.0.0.1"));
    let new = gated(&[NETWORK_GATE], 0);
    assert_eq!(planned(&new, waiting(), one.clone()), None);
    let Some(NetworkStep::WriteStatus {
        conditions: Some(conditions),
        interfaces: Some(written),
    }) = planned(&new, Verdict::Ready, one.clone())
    else {
        panic!("not one write");
    };
    let mut open = gated(&[], 0);
    let status = open.status.get_or_insert_default();
    (status.conditions, status.network_interfaces) = (conditions, written);
    assert_eq!(planned(&open, Verdict::Ready, one), None);
    let another = Some(interfaces("10.0.0.2"));
    assert_eq!(
        planned(&open, Verdict::Ready, another.clone()),
        Some(NetworkStep::WriteStatus {
            conditions: None,
            interfaces: another.clone(),
        })
    );
    assert_eq!(planned(&open, Verdict::Unknown, another), None);
    // The infrastructure provider reports the interfaces.
    assert_eq!(planned(&open, Verdict::Ready, None), None);
}

#[test]
fn the_holder_is_reported_last_and_while_the_instance_ends() {
    let interface = object(json!({"metadata": {"name": "nic-1"}}));
    let report = HolderReport {
        interface: Arc::new(interface),
        conditions: Vec::new(),
    };
    let planned = |instance: &Instance| {
        let networks = Networks {
            holder: Some(report.clone()),
            ..networks(Verdict::Ready)
        };
        plan(instance, networks, now()).step
    };
    let gated = with_condition(gated(&[NETWORK_GATE], 1), &ready(), 2);
    assert_eq!(planned(&gated), Some(NetworkStep::OpenGate));
    let ending = terminating(gated.clone());
    let reported = Some(NetworkStep::ReportHolder(report.clone()));
    assert_eq!(planned(&ending), reported);
    let mut open = gated;
    open.spec.controller = None;
    assert_eq!(planned(&open), reported);
}

#[test]
fn an_instance_waits_from_its_creation_until_its_networks_are_ready() {
    let age = |instance: &Instance| waiting_since(instance).map(|it| now().duration_since(it));
    let of = |seconds| Some(SignedDuration::from_secs(seconds));
    let waits = gated(&[NETWORK_GATE], 7);
    assert_eq!(age(&waits), of(7));
    let mut shown = condition(waiting(), now() - SignedDuration::from_secs(5)).unwrap();
    assert_eq!(age(&with_condition(waits.clone(), &shown, 2)), of(7));
    shown.status = ConditionStatus::Unknown;
    assert_eq!(age(&with_condition(waits.clone(), &shown, 2)), of(7));
    assert_eq!(age(&with_condition(waits.clone(), &ready(), 2)), None);
    assert_eq!(age(&terminating(waits)), None);
    assert_eq!(age(&gated(&[QUOTA_GATE], 7)), None);
    assert_eq!(age(&with_condition(gated(&[], 7), &shown, 1)), None);
}
