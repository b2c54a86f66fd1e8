//! Tables of the bindings and SubnetClaims of WorkloadDeployments.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, instance, object, shared};

const LABEL: &str = "app.kubernetes.io/managed-by";

fn location() -> Value {
    json!({"name": "dfw", "namespace": "default"})
}

/// The objects of the network operator in the namespace.
#[derive(Default)]
struct System {
    networks: Vec<&'static str>,
    bindings: Vec<Value>,
    contexts: Vec<Value>,
    claims: Vec<Value>,
    subnets: Vec<Value>,
}

impl System {
    fn with_networks(networks: &[&'static str]) -> Self {
        Self {
            networks: networks.to_vec(),
            ..Self::default()
        }
    }

    fn planned(&self) -> Networks {
        let mut deployment = json!(deployment("ns-1", "web", "DFW", 1));
        let interfaces: Vec<_> = self
            .networks
            .iter()
            .map(|name| json!({"network": {"name": name, "namespace": "elsewhere"}}))
            .collect();
        deployment["spec"]["template"]["spec"]["networkInterfaces"] = json!(interfaces);
        networks(&Observed {
            instance: &instance("ns-1", "web-0"),
            deployment: &object(deployment),
            location: Ok(object(location())),
            bindings: &shared(self.bindings.iter().cloned().map(object)),
            contexts: &shared(self.contexts.iter().cloned().map(object)),
            subnet_claims: &shared(self.claims.iter().cloned().map(object)),
            subnets: &shared(self.subnets.iter().cloned().map(object)),
        })
    }

    /// Takes all steps, and does the work of the network operator. Returns the names of the created objects.
    fn settle(&mut self) -> Vec<String> {
        let mut created = Vec::new();
        for _ in 0..20 {
            match self.planned().step {
                Some(ObjectStep::CreateBinding(binding)) => {
                    created.push(format!("binding {}", binding.name_any()));
                    let context = format!("{}-default-dfw", binding.spec.network.name);
                    let mut binding = json!(binding);
                    binding["status"] = ready(json!({
                        "networkContextRef": {"namespace": "ns-1", "name": context},
                    }));
                    self.bindings.push(binding);
                    self.contexts.push(named(&context, &ready(json!({}))));
                }
                Some(ObjectStep::CreateSubnetClaim(claim)) => {
                    let name = claim.name_any();
                    created.push(format!("claim {name}"));
                    let mut claim = json!(claim);
                    claim["status"] = ready(json!({"subnetRef": {"name": name}}));
                    self.claims.push(claim);
                    self.subnets.push(named(&name, &ready(json!({}))));
                }
                None => return created,
                other => panic!("{other:?}"),
            }
        }
        panic!("it does not settle: {created:?}");
    }

    fn waits(&self) -> bool {
        let networks = self.planned();
        networks.step.is_none() && matches!(networks.verdict, Verdict::Waiting(_))
    }
}

fn ready(mut status: Value) -> Value {
    status["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    status
}

fn named(name: &str, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns-1"}, "spec": {}, "status": status})
}

#[test]
fn each_interface_has_a_binding_and_each_network_a_subnet() {
    let mut system = System::with_networks(&["a", "b", "a"]);
    let created = [
        "binding web-net-0",
        "binding web-net-1",
        "binding web-net-2",
        "claim a-default-dfw-0",
        "claim b-default-dfw-0",
    ];
    assert_eq!(system.settle(), created);
    let networks = system.planned();
    assert_eq!(networks.verdict, Verdict::Ready);
    assert_eq!(json!(networks.location), location());
    let owner = |is_controller: bool| {
        let mut owner = json!({
            "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": "web", "uid": "web-uid",
        });
        if is_controller {
            owner["controller"] = json!(true);
        }
        json!([owner])
    };
    let binding = &system.bindings[1];
    assert_eq!(binding["metadata"]["ownerReferences"], owner(true));
    // The namespace of the reference is ignored: it could name the network of another project.
    let network = json!({"name": "b", "namespace": "ns-1"});
    assert_eq!(
        binding["spec"],
        json!({"network": network, "location": location()})
    );
    let claim = &system.claims[0];
    assert_eq!(claim["metadata"]["ownerReferences"], owner(false));
    assert_eq!(
        claim["spec"],
        json!({
            "subnetClass": "private", "networkContext": {"name": "a-default-dfw"}, "location": location(),
            "ipFamily": "IPv4",
        })
    );
}

/// Each object must be ready. One that is not is awaited.
#[test]
fn the_networks_are_ready_when_all_their_parts_are() {
    let pending = json!([{
        "type": "Ready", "status": "False", "reason": "Pending", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let parts: [fn(&mut System) -> &mut Value; 4] = [
        |it| &mut it.bindings[0],
        |it| &mut it.contexts[0],
        |it| &mut it.claims[0],
        |it| &mut it.subnets[0],
    ];
    for (index, part) in parts.into_iter().enumerate() {
        let mut system = System::with_networks(&["a"]);
        system.settle();
        part(&mut system)["status"]["conditions"] = pending.clone();
        assert!(system.waits(), "part {index}");
        part(&mut system)["status"] = json!({});
        assert!(system.waits(), "part {index} without a status");
    }
    let mut system = System::with_networks(&["a"]);
    system.settle();
    system.bindings[0]["status"]["networkContextRef"] = json!(null);
    assert!(system.waits());
    system.subnets.clear();
    assert!(system.waits());
}

#[test]
fn a_refused_network_says_so() {
    for (told, expected) in [
        ("NetworkFailedToCreate", Some(reason::FAILED_TO_CREATE)),
        ("NetworkNotFound", Some(reason::NETWORK_NOT_FOUND)),
        ("NetworkContextNotReady", None),
    ] {
        let mut system = System::with_networks(&["a"]);
        system.settle();
        system.bindings[0]["status"] = json!({"conditions": [{
            "type": "Ready", "status": "False", "reason": told, "message": "quota of the cloud",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        match (system.planned().verdict, expected) {
            (Verdict::Blocked { reason, message }, Some(expected)) => {
                assert_eq!(reason, expected);
                assert_eq!(message, "network a: quota of the cloud");
            }
            (Verdict::Waiting(_), None) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A network operator does not notice that the spec of a binding changes.
#[test]
fn a_binding_of_another_network_or_location_is_deleted_first() {
    let deleted = |system: &System| match system.planned().step {
        Some(ObjectStep::DeleteBinding(binding)) => binding.name_any(),
        other => panic!("{other:?}"),
    };
    let mut system = System::with_networks(&["a", "b"]);
    system.settle();
    system.networks = vec!["a", "c"];
    assert_eq!(deleted(&system), "web-net-1");
    system.networks = vec!["a"];
    assert_eq!(deleted(&system), "web-net-1");
    system.bindings[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(system.planned().verdict, Verdict::Ready);
    system.networks = vec!["a", "c"];
    assert!(system.waits());
    system.bindings[0]["spec"]["location"] = json!({"name": "ord", "namespace": "default"});
    assert_eq!(deleted(&system), "web-net-0");
}

#[test]
fn a_binding_of_another_deployment_is_never_used() {
    let mut system = System::with_networks(&["a"]);
    system.settle();
    system.bindings[0]["metadata"]["ownerReferences"][0]["uid"] = json!("former");
    assert!(system.waits());
}

/// I-32: the claim ends with the last deployment that uses it.
#[test]
fn a_subnet_claim_is_shared_and_owned_by_all_that_use_it() {
    let mut system = System::with_networks(&["a"]);
    system.settle();
    let owners = &mut system.claims[0]["metadata"]["ownerReferences"];
    owners[0]["name"] = json!("other");
    owners[0]["uid"] = json!("other-uid");
    let Some(ObjectStep::OwnSubnetClaim(_, owners)) = system.planned().step else {
        panic!("the claim ends with the other deployment");
    };
    let uids: Vec<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, ["other-uid", "web-uid"]);
    // The claim of another program is used as it is.
    system.claims[0]["metadata"]["labels"][LABEL] = json!("other");
    assert_eq!(system.planned().verdict, Verdict::Ready);
    // A claim of something else is not used.
    for (field, other) in [
        ("subnetClass", json!("public")),
        ("ipFamily", json!("IPv6")),
        ("location", json!({"name": "ord", "namespace": "default"})),
        ("networkContext", json!({"name": "b-default-dfw"})),
    ] {
        let mut system = System::with_networks(&["a"]);
        system.settle();
        system.claims[0]["spec"][field] = other;
        let created = system.settle();
        let hash = names::hash(&["a-default-dfw", "dfw"]);
        assert_eq!(
            created,
            [format!("claim a-default-dfw-0-{hash}")],
            "{field}"
        );
    }
    system.claims[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(system.waits());
}

#[test]
fn nothing_is_made_without_a_location() {
    let problem = LocationProblem {
        reason: reason::NO_MATCHING_LOCATION,
        message: "m".to_owned(),
    };
    let networks = networks(&Observed {
        instance: &instance("ns-1", "web-0"),
        deployment: &deployment("ns-1", "web", "DFW", 1),
        location: Err(problem.clone()),
        bindings: &[],
        contexts: &[],
        subnet_claims: &[],
        subnets: &[],
    });
    assert_eq!(networks.step, None);
    assert_eq!(networks.verdict, problem.into());
}
