use serde_json::{Value, json};

use super::{Refusals, check, lines_since, sandbox, set};
use crate::admission::access_review::UsedKind;
use crate::admission::external_facts::{Refusal, UsedObject};
use crate::admission::workload_view::WorkloadSpecView;

const INTERFACES: &str = "/template/spec/networkInterfaces";

#[test]
fn network_interfaces() {
    check(
        sandbox,
        &[
            (
                INTERFACES,
                json!([]),
                &["spec.template.spec.networkInterfaces: Required value: at least one"],
            ),
            (
                INTERFACES,
                json!([{"network": {"name": "a"}}, {"network": {"name": "Not_A_Label"}}]),
                &[
                    "spec.template.spec.networkInterfaces[1].network.name: Invalid value: \"Not_A_Label\": a lowercase RFC \
                     1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
                     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ],
            ),
        ],
    );
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn interfaces(names: &[&str]) -> Value {
    let mut interfaces = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut interface = json!({"network": {"name": format!("n{index}")}});
        if !name.is_empty() {
            interface["name"] = json!(name);
        }
        interfaces.push(interface);
    }
    json!(interfaces)
}

fn with_interfaces(names: &[&str]) -> Value {
    let mut workload = sandbox();
    set(&mut workload, INTERFACES, interfaces(names));
    workload
}

/// An interface without a name is called `eth` and its index.
#[test]
fn names_of_interfaces_are_unique_labels() {
    let duplicate = |index, name| {
        let field = format!("spec.template.spec.networkInterfaces[{index}].name");
        format!("{field}: Duplicate value: \"{name}\"")
    };
    let invalid = |name| {
        let field = "spec.template.spec.networkInterfaces[0].name";
        format!("{field}: Invalid value: \"{name}\": {LABEL}")
    };
    for (names, expected) in [
        (&["", "", ""][..], vec![]),
        (&["wan", "", "eth0"], vec![]),
        (&["eth2", "", "lan"], vec![]),
        (&["eth1", ""], vec![duplicate(1, "eth1")]),
        (&["", "eth0"], vec![duplicate(1, "eth0")]),
        (&["", "eth00"], vec![]),
        (&["a", "a", "a"], vec![duplicate(1, "a"), duplicate(2, "a")]),
        (&["Eth0", ""], vec![invalid("Eth0")]),
        (&["eth0.1", ""], vec![invalid("eth0.1")]),
    ] {
        let workload = with_interfaces(names);
        let lines = lines_since(None, &workload, Refusals::new());
        assert_eq!(lines, expected, "{names:?}");
    }
}

#[test]
fn earlier_mistakes_in_names_of_interfaces_do_not_block_updates() {
    for names in [&["eth1", ""][..], &["", "eth0"], &["a", "a"], &["Eth0", ""]] {
        let former = with_interfaces(names);
        let mut changed = former.clone();
        set(
            &mut changed,
            "/placements/0/scaleSettings/minReplicas",
            json!(2),
        );
        let lines = lines_since(Some(&former), &changed, Refusals::new());
        assert_eq!(lines, [""; 0], "{names:?}");
    }
    let interfaces = |second: &str| {
        let mut workload = sandbox();
        let interfaces = json!([
            {"name": "Eth0", "network": {"name": "n0"}},
            {"name": "a", "network": {"name": "n1"}},
            {"name": "a", "network": {"name": second}},
        ]);
        set(&mut workload, INTERFACES, interfaces);
        workload
    };
    let mut changed = interfaces("n3");
    changed["template"]["spec"]["networkInterfaces"][0]["network"]["name"] = json!("n4");
    let lines = lines_since(Some(&interfaces("n2")), &changed, Refusals::new());
    assert_eq!(lines, [""; 0]);
    let mut changed = interfaces("n2");
    changed["template"]["spec"]["networkInterfaces"][1]["network"]["name"] = json!("n5");
    let lines = lines_since(Some(&interfaces("n2")), &changed, Refusals::new());
    assert_eq!(lines, [""; 0]);
    let (former, changed) = (with_interfaces(&["a", "a"]), with_interfaces(&["b", "b"]));
    assert_eq!(
        lines_since(Some(&former), &changed, Refusals::new()).len(),
        1
    );
}

#[test]
fn a_refused_network_is_an_error_of_its_interface() {
    let mut workload = sandbox();
    let interfaces = json!([
        {"network": {"name": "allowed"}},
        {"network": {"name": "denied"}},
        {"network": {"name": "unknown"}},
        {"network": {"name": "denied"}},
    ]);
    set(&mut workload, INTERFACES, interfaces);
    let network = |name| UsedObject {
        kind: UsedKind::Network,
        name,
    };
    let refusals = Refusals::from([
        (network("denied"), Refusal::Denied("no right".into())),
        (network("unknown"), Refusal::NotReviewed("no answer".into())),
    ]);
    assert_eq!(
        lines_since(None, &workload, refusals),
        [
            "spec.template.spec.networkInterfaces[1].network: Forbidden: no right",
            "spec.template.spec.networkInterfaces[2].network: Internal error: no answer",
            "spec.template.spec.networkInterfaces[3].network: Forbidden: no right",
        ]
    );
}

#[test]
fn each_new_network_is_reviewed_once() {
    let workload = |networks: &[&str]| -> Value {
        let interfaces = networks
            .iter()
            .map(|name| json!({"network": {"name": name}}));
        json!({"template": {"spec": {"networkInterfaces": interfaces.collect::<Vec<_>>()}}})
    };
    let new = |former: Option<&[&str]>, networks: &[&str]| -> Vec<String> {
        let (text, former) = (
            workload(networks).to_string(),
            former.map(|former| workload(former).to_string()),
        );
        let spec: WorkloadSpecView<'_> = serde_json::from_str(&text).unwrap();
        let former: Option<WorkloadSpecView<'_>> = former
            .as_deref()
            .map(|text| serde_json::from_str(text).unwrap());
        let new = crate::admission::rules::newly_used(&spec, former.as_ref());
        new.into_iter().map(|it| it.name.to_owned()).collect()
    };
    assert_eq!(new(None, &["b", "a", "b", "Not_A_Label", ""]), ["b", "a"]);
    assert_eq!(new(Some(&["a", "c"]), &["b", "a"]), ["b"]);
}
