//! Tables of the claims of Instances.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{instance, now, object, shared};

/// Returns the Instance `web-0` with these interfaces.
fn holder(interfaces: Value) -> Instance {
    let mut body = json!(instance("ns-1", "web-0"));
    body["spec"]["networkInterfaces"] = interfaces;
    body["metadata"]["labels"] = json!({
        labels::WORKLOAD_NAME: "web", labels::PLACEMENT_NAME: "us", labels::INSTANCE_CITY_CODE: "DFW",
        labels::INSTANCE_INDEX: "0", "tier": "web",
    });
    object(body)
}

fn one_interface() -> Value {
    json!([{"network": {"name": "default", "namespace": "elsewhere"}}])
}

/// Returns a claim of this name for `eth0`. Its owner is an Instance with this name and UID.
fn claim_of(name: &str, (owner, uid): (&str, &str), conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status)| {
            json!({
                "type": type_, "status": status, "reason": "Because", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .collect();
    json!({
        "metadata": {"name": name, "namespace": "ns-1", "ownerReferences": [{
            "apiVersion": api::API_VERSION, "kind": "Instance", "name": owner, "uid": uid, "controller": true,
        }]},
        "spec": {"network": {"name": "default"}, "interfaceName": "eth0"},
        "status": {"conditions": conditions},
    })
}

const OWN: (&str, &str) = ("web-0", "web-0-uid");

fn location() -> LocationReference {
    LocationReference {
        name: "dfw".to_owned(),
        ..LocationReference::default()
    }
}

fn planned(instance: &Instance, claims: Vec<Value>) -> Networks {
    let claims = shared(claims.into_iter().map(object));
    networks(&Observed {
        instance,
        location: Ok(location()),
        claims: &claims,
        undecodable: &[],
        interfaces: &[],
        now: now(),
    })
}

fn created(networks: &Networks) -> Option<&NetworkInterfaceClaim> {
    match &networks.step {
        Some(ObjectStep::CreateInterfaceClaim(claim)) => Some(claim),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_says_what_the_interface_says_and_nothing_else() {
    let plain = planned(&holder(one_interface()), Vec::new());
    let mut claim = json!(created(&plain).unwrap());
    assert_eq!(
        claim["metadata"]["ownerReferences"].take(),
        json!([{
            "apiVersion": api::API_VERSION, "kind": "Instance", "name": "web-0", "uid": "web-0-uid",
            "controller": true,
        }])
    );
    assert_eq!(
        claim["metadata"]["labels"].take(),
        json!({
            labels::WORKLOAD_NAME: "web", labels::PLACEMENT_NAME: "us", labels::INSTANCE_CITY_CODE: "DFW",
            labels::INSTANCE_INDEX: "0",
        })
    );
    assert_eq!(claim["metadata"]["name"], "web-0-eth0");
    // The namespace of the reference is ignored: it could name the network of another project.
    assert_eq!(claim["metadata"]["namespace"], "ns-1");
    assert_eq!(
        claim["spec"],
        json!({"network": {"name": "default"}, "interfaceName": "eth0"})
    );
    let rich = json!([{
        "name": "wan", "network": {"name": "n"}, "ipFamilies": ["IPv4", "IPv6"], "reclaimPolicy": "Retain",
        "addresses": [{"class": "public"}],
    }]);
    let rich = planned(&holder(rich), Vec::new());
    assert_eq!(
        json!(created(&rich).unwrap().spec),
        json!({
            "network": {"name": "n"}, "interfaceName": "wan", "ipFamilies": ["IPv4", "IPv6"],
            "addresses": [{"class": "public"}], "reclaimPolicy": "Retain",
        })
    );
}

#[test]
fn each_interface_has_a_claim_of_its_own() {
    let interfaces = json!([
        {"network": {"name": "a"}}, {"network": {"name": "b"}}, {"name": "x", "network": {"name": "a"}},
    ]);
    let holder = holder(interfaces);
    let mut claims = Vec::new();
    for expected in ["web-0-eth0", "web-0-eth1", "web-0-x"] {
        let networks = planned(&holder, claims.clone());
        let claim = created(&networks).unwrap();
        assert_eq!(claim.name_any(), expected);
        claims.push(json!(claim));
    }
    assert_eq!(created(&planned(&holder, claims)), None);
}

/// An interface without a name is called `eth` and its index.
#[test]
fn two_interfaces_of_one_name_share_no_claim() {
    let interfaces = json!([
        {"name": "eth1", "network": {"name": "a"}}, {"network": {"name": "b"}},
    ]);
    let prepared = [
        ("Bound", "True"),
        ("Allocated", "True"),
        ("Prepared", "True"),
    ];
    let mut claim = claim_of("web-0-eth1", OWN, &prepared);
    claim["spec"]["interfaceName"] = json!("eth1");
    for claims in [vec![], vec![claim]] {
        let networks = planned(&holder(interfaces.clone()), claims);
        assert_eq!(networks.step, None);
        assert_eq!(networks.interfaces, None);
        let Verdict::Blocked { reason, message } = networks.verdict else {
            panic!("{:?}", networks.verdict);
        };
        assert_eq!(reason, reason::FAILED_TO_CREATE);
        let problem = "networkInterfaces[0] and networkInterfaces[1] are both called eth1";
        assert!(message.starts_with(problem), "{message}");
    }
}

/// The API server refuses other names for ever.
#[test]
fn a_claim_has_a_valid_name_whatever_the_interface_is_called() {
    let mut names = Vec::new();
    for interface in ["Eth0", "eth_0", "eth-0-", "ETH0"] {
        let interfaces = json!([{"name": interface, "network": {"name": "a"}}]);
        let networks = planned(&holder(interfaces), Vec::new());
        let claim = created(&networks).unwrap();
        assert_eq!(claim.spec.interface_name, interface);
        let name = claim.name_any();
        assert!(
            names::is_name_and_label(&name) && name.starts_with("web-0-eth"),
            "{name}"
        );
        assert!(!names.contains(&name), "{name}");
        names.push(name);
    }
}

/// I-32: only the owner tells whose claim it is.
#[test]
fn a_claim_of_another_instance_is_never_used() {
    let possible = names::derived_object_names("web-0-eth0", &["web-0", "eth0"]);
    let possible: Vec<_> = possible.take(3).collect();
    let hashed = possible[1].clone();
    assert_eq!(
        hashed,
        format!("web-0-eth0-{}", names::hash(&["web-0", "eth0"]))
    );
    let mut of_another_interface = claim_of("web-0-eth0", OWN, &[]);
    of_another_interface["spec"]["interfaceName"] = json!("eth9");
    let foreign = |name: &str| claim_of(name, ("web", "web-uid"), &[("Bound", "True")]);
    for (name, claims, expected) in [
        ("no claim", vec![], Some("web-0-eth0")),
        (
            "the name is taken",
            vec![foreign("web-0-eth0")],
            Some(hashed.as_str()),
        ),
        (
            "a former Instance",
            vec![claim_of("web-0-eth0", ("web-0", "former"), &[])],
            None,
        ),
        (
            "both names are taken",
            vec![foreign("web-0-eth0"), foreign(&hashed)],
            Some(possible[2].as_str()),
        ),
        (
            "an own one of another interface",
            vec![of_another_interface],
            Some(hashed.as_str()),
        ),
        (
            "an own one of another name",
            vec![claim_of("any", OWN, &[])],
            None,
        ),
    ] {
        let networks = planned(&holder(one_interface()), claims);
        let created = created(&networks).map(ResourceExt::name_any);
        assert_eq!(created.as_deref(), expected, "{name}");
        assert!(matches!(networks.verdict, Verdict::Waiting(_)), "{name}");
    }
}

#[test]
fn the_longest_names_have_a_claim() {
    let mut holder = holder(one_interface());
    holder.metadata.name = Some("a".repeat(253));
    let networks = planned(&holder, Vec::new());
    let name = created(&networks).unwrap().name_any();
    assert!(name.len() <= 253 && name.starts_with("aaa"), "{name}");
}

#[test]
fn the_gate_waits_for_bound_allocated_and_prepared_only() {
    let all = |status| {
        [
            ("Bound", status),
            ("Allocated", status),
            ("Prepared", status),
        ]
    };
    let but = |type_: &'static str, status| {
        all("True").map(|it| if it.0 == type_ { (type_, status) } else { it })
    };
    let waits = || None;
    let refused = || Some("interface eth0: Because: m");
    for (conditions, expected) in [
        (vec![], Ok(waits())),
        (all("Unknown").to_vec(), Ok(waits())),
        (but("Bound", "Unknown").to_vec(), Ok(waits())),
        (but("Allocated", "Unknown").to_vec(), Ok(waits())),
        (but("Prepared", "Unknown").to_vec(), Ok(waits())),
        (but("Bound", "False").to_vec(), Ok(refused())),
        (but("Prepared", "False").to_vec(), Ok(refused())),
        (all("True").to_vec(), Err(())),
        (
            [
                &all("True")[..],
                &[("Programmed", "False"), ("Ready", "False")],
            ]
            .concat(),
            Err(()),
        ),
    ] {
        let claim = claim_of("web-0-eth0", OWN, &conditions);
        let verdict = planned(&holder(one_interface()), vec![claim]).verdict;
        match expected {
            Err(()) => assert_eq!(verdict, Verdict::Ready, "{conditions:?}"),
            Ok(None) => assert!(matches!(verdict, Verdict::Waiting(_)), "{conditions:?}"),
            Ok(Some(message)) => assert_eq!(
                verdict,
                Verdict::Blocked {
                    reason: reason::FAILED_TO_CREATE,
                    message: message.to_owned(),
                },
                "{conditions:?}"
            ),
        }
    }
}

#[test]
fn every_interface_must_be_prepared() {
    let interfaces = json!([{"network": {"name": "a"}}, {"network": {"name": "b"}}]);
    let prepared = [
        ("Bound", "True"),
        ("Allocated", "True"),
        ("Prepared", "True"),
    ];
    let first = claim_of("web-0-eth0", OWN, &prepared);
    let mut second = claim_of("web-0-eth1", OWN, &[]);
    second["spec"]["interfaceName"] = json!("eth1");
    let verdict = |second: &Value| {
        planned(
            &holder(interfaces.clone()),
            vec![first.clone(), second.clone()],
        )
        .verdict
    };
    let Verdict::Waiting(message) = verdict(&second) else {
        panic!("the second interface is not prepared");
    };
    assert!(message.contains("eth1"), "{message}");
    second["status"] = claim_of("x", OWN, &prepared)["status"].clone();
    assert_eq!(verdict(&second), Verdict::Ready);
    second["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(matches!(verdict(&second), Verdict::Waiting(_)));
}

/// While the location is wrong, no claim is made.
#[test]
fn a_wrong_location_holds() {
    let mismatch = Verdict::Blocked {
        reason: reason::LOCATION_MISMATCH,
        message: "m".to_owned(),
    };
    let holder = holder(one_interface());
    let networks = networks(&Observed {
        instance: &holder,
        location: Err(mismatch.clone()),
        claims: &[],
        undecodable: &[],
        interfaces: &[],
        now: now(),
    });
    assert_eq!(networks.step, None);
    assert_eq!(networks.verdict, mismatch);
}
