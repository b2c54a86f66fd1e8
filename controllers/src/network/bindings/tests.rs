//! Tables of the bindings and SubnetClaims of WorkloadDeployments.

use api::instance::NETWORK_GATE;
use api::networking::NetworkBindingSpec;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, instance, object, shared};
use crate::names;

const LABEL: &str = "app.kubernetes.io/managed-by";

fn location() -> Value {
    json!({"name": "dfw", "namespace": "default"})
}

fn elsewhere() -> Value {
    json!({"name": "ord", "namespace": "default"})
}

fn interfaces(networks: &[&str]) -> Value {
    let interface = |name: &&str| json!({"network": {"name": name, "namespace": "elsewhere"}});
    networks.iter().map(interface).collect()
}

/// Returns an Instance of `web` on these networks. It waits for them unless it has a location.
fn instance_on(name: &str, networks: &[&str], location: Option<Value>) -> Value {
    let mut instance = json!(instance("ns-1", name));
    instance["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": "web", "uid": "web-uid",
        "controller": true,
    }]);
    instance["spec"]["networkInterfaces"] = interfaces(networks);
    match location {
        Some(location) => instance["spec"]["location"] = location,
        None => {
            let gates = json!([{"name": NETWORK_GATE}]);
            instance["spec"]["controller"] = json!({"templateHash": "h", "schedulingGates": gates});
        }
    }
    instance
}

/// The objects in the namespace.
#[derive(Default)]
struct System {
    /// The networks of the template.
    networks: Vec<&'static str>,
    /// The location of new Instances, if it is not the usual one.
    elsewhere: bool,
    /// The other Instances.
    instances: Vec<Value>,
    bindings: Vec<Value>,
    undecodable_bindings: Vec<Arc<InvalidObject>>,
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

    /// Plans for a new Instance of the template.
    fn planned(&self) -> Networks {
        self.planned_for(&instance_on("web-9", &self.networks, None))
    }

    fn planned_for(&self, instance: &Value) -> Networks {
        let instance: Instance = object(instance.clone());
        let own = instance.spec.location.clone();
        let all = [self.instances.clone(), vec![json!(instance)]].concat();
        let all = shared(all.into_iter().map(object));
        self.observe(Some(&all), |observed| {
            let location = own.map_or_else(|| observed.location.clone(), Ok);
            networks(observed, &instance, &location)
        })
    }

    /// Returns what is taken back when an Instance has ended.
    fn leftovers(&self) -> Vec<ObjectStep> {
        let all = shared(self.instances.iter().cloned().map(object));
        self.observe(Some(&all), leftovers)
    }

    fn observe<T>(
        &self,
        instances: Option<&[Arc<Instance>]>,
        then: impl FnOnce(Observed<'_>) -> T,
    ) -> T {
        let mut deployment = json!(deployment("ns-1", "web", "DFW", 1));
        deployment["spec"]["template"]["spec"]["networkInterfaces"] = interfaces(&self.networks);
        let location = match self.elsewhere {
            true => elsewhere(),
            false => location(),
        };
        then(Observed {
            deployment: &object(deployment),
            location: &Ok(object(location)),
            instances,
            bindings: &shared(self.bindings.iter().cloned().map(object)),
            undecodable_bindings: &self.undecodable_bindings,
            contexts: &shared(self.contexts.iter().cloned().map(object)),
            subnet_claims: &shared(self.claims.iter().cloned().map(object)),
            undecodable_claims: &[],
            subnets: &shared(self.subnets.iter().cloned().map(object)),
        })
    }

    /// Makes the networks of the template, and starts an Instance on them.
    fn running(networks: &[&'static str]) -> Self {
        let mut system = Self::with_networks(networks);
        system.settle();
        let running = instance_on("web-0", networks, Some(location()));
        system.instances.push(running);
        system
    }

    /// Takes all steps for a new Instance, and does the work of the network operator. Returns the names of the created
    /// objects.
    fn settle(&mut self) -> Vec<String> {
        self.settle_for(&instance_on("web-9", &self.networks, None))
    }

    fn settle_for(&mut self, instance: &Value) -> Vec<String> {
        let mut created = Vec::new();
        for _ in 0..20 {
            match self.planned_for(instance).step {
                Some(ObjectStep::CreateBinding(binding)) => {
                    created.push(format!("binding {}", binding.name_any()));
                    let NetworkBindingSpec { network, location } = &binding.spec;
                    let context = format!("{}-default-{}", network.name, location.name);
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

fn deleted(step: Option<&ObjectStep>) -> String {
    match step {
        Some(ObjectStep::DeleteBinding(binding)) => binding.name_any(),
        other => panic!("{other:?}"),
    }
}

fn hashed(index: usize, network: &str, location: &str) -> String {
    let readable = format!("web-net-{index}");
    let hash = names::hash(&[&readable, network, "default", location]);
    format!("{readable}-{hash}")
}

/// A network operator does not notice that the spec of a binding changes. A binding that cannot be deleted keeps nobody
/// from a network.
#[test]
fn a_binding_that_nobody_uses_is_deleted_last() {
    let deleted = |system: &System| deleted(system.planned().release.as_ref());
    let mut system = System::with_networks(&["a", "b"]);
    system.settle();
    system.networks = vec!["a"];
    assert_eq!(deleted(&system), "web-net-1");
    system.networks = vec!["a", "c"];
    let second = hashed(1, "c", "dfw");
    let created = [
        format!("binding {second}"),
        "claim c-default-dfw-0".to_owned(),
    ];
    assert_eq!(system.settle(), created);
    assert_eq!(system.planned().verdict, Verdict::Ready);
    assert_eq!(deleted(&system), "web-net-1");
    system.bindings[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(system.planned().verdict, Verdict::Ready);
    system.networks = vec!["a", "d"];
    assert!(system.waits());
    assert_eq!(deleted(&system), second);
}

/// I-32: a rollout replaces one Instance after the other.
#[test]
fn instances_of_two_templates_have_their_own_networks() {
    let mut system = System::running(&["a"]);
    system.networks = vec!["c"];
    // The Instance that runs, and one that waits since before the change.
    let former = instance_on("web-1", &["a"], None);
    for instance in [&system.instances[0], &former] {
        let networks = system.planned_for(instance);
        assert_eq!((networks.step, networks.release), (None, None));
        assert_eq!(networks.verdict, Verdict::Ready);
    }
    assert_eq!(system.leftovers(), []);
    // The name of the binding is in use.
    let second = hashed(0, "c", "dfw");
    let created = [
        format!("binding {second}"),
        "claim c-default-dfw-0".to_owned(),
    ];
    assert_eq!(system.settle(), created);
    let networks = system.planned();
    assert_eq!((networks.step, networks.release), (None, None));
    assert_eq!(networks.verdict, Verdict::Ready);
    // The last Instance of the former template ends.
    system.instances[0] = instance_on("web-0", &["c"], Some(location()));
    assert_eq!(deleted(system.planned().release.as_ref()), "web-net-0");
    assert_eq!(deleted(system.leftovers().first()), "web-net-0");
    system.bindings.remove(0);
    assert_eq!(system.settle(), [""; 0]);
}

#[test]
fn instances_in_two_locations_have_their_own_networks() {
    let mut system = System::running(&["a"]);
    system.elsewhere = true;
    let networks = system.planned_for(&system.instances[0]);
    assert_eq!(networks.step, None);
    assert_eq!(networks.verdict, Verdict::Ready);
    let second = hashed(0, "a", "ord");
    let created = [
        format!("binding {second}"),
        "claim a-default-ord-0".to_owned(),
    ];
    assert_eq!(system.settle(), created);
    assert_eq!(system.planned().verdict, Verdict::Ready);
    system.instances.clear();
    assert_eq!(deleted(system.leftovers().first()), "web-net-0");
}

/// The Instance was made while the strategy was `InterfaceClaims`.
#[test]
fn a_location_without_a_namespace_is_that_of_the_binding() {
    let mut system = System::running(&["a"]);
    system.networks = vec!["c"];
    system.settle();
    system.instances[0]["spec"]["location"]["namespace"] = json!("");
    assert_eq!(system.leftovers(), []);
    // A template can have such a location too.
    system.instances.clear();
    system.networks = vec!["a"];
    let leftovers = |place: Value| {
        system.observe(Some(&[]), |observed| {
            let mut deployment = json!(observed.deployment);
            deployment["spec"]["template"]["spec"]["location"] = place.clone();
            let deployment = &object(deployment);
            let observed = Observed {
                deployment,
                ..observed
            };
            leftovers(observed).first().map(|it| deleted(Some(it)))
        })
    };
    let second = hashed(0, "c", "dfw");
    assert_eq!(leftovers(json!({"name": "dfw"})), Some(second));
    assert_eq!(
        leftovers(json!({"name": "ord"})),
        Some("web-net-0".to_owned())
    );
}

/// Order matters: an interface of the new template does not get the binding of another one.
#[test]
fn a_template_can_exchange_its_networks() {
    let mut system = System::running(&["a", "b"]);
    system.networks = vec!["b", "a"];
    let created = [
        format!("binding {}", hashed(0, "b", "dfw")),
        format!("binding {}", hashed(1, "a", "dfw")),
    ];
    assert_eq!(system.settle(), created);
    assert_eq!(system.planned().verdict, Verdict::Ready);
    system.instances.clear();
    let steps = system.leftovers();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!(deleted(steps.first()), "web-net-0");
}

/// What is not known may use any binding.
#[test]
fn a_binding_stays_while_its_use_is_not_known() {
    let mut system = System::running(&["a"]);
    system.networks = vec!["c"];
    assert_eq!(system.observe(None, leftovers), []);
    // The Go manager does not set the location.
    let started = json!({"templateHash": "h"});
    system.instances[0]["spec"]["location"].take();
    system.instances[0]["spec"]["controller"] = started;
    assert_eq!(system.leftovers(), []);
    // An Instance that ends still uses it. One of another deployment does not.
    system.instances[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(system.leftovers(), []);
    let owner = &mut system.instances[0]["metadata"]["ownerReferences"][0];
    owner["uid"] = json!("another-uid");
    assert_eq!(deleted(system.leftovers().first()), "web-net-0");
}

/// The Go manager copies the namespace of the reference, and never changes or deletes a binding.
#[test]
fn a_binding_of_the_go_manager_stays_while_an_instance_may_use_it() {
    let binding = |name: &str, network: &str| {
        let network = json!({"name": network, "namespace": "default"});
        json!({
            "metadata": {"name": name, "namespace": "ns-1", "ownerReferences": [{
                "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": "web", "uid": "web-uid",
                "controller": true, "blockOwnerDeletion": true,
            }]},
            "spec": {"network": network, "location": location()},
            "status": ready(json!({"networkContextRef": {"namespace": "default", "name": "a-default-dfw"}})),
        })
    };
    let mut started = instance_on("web-0", &["a", "b"], Some(location()));
    started["spec"].as_object_mut().unwrap().remove("location");
    let mut system = System::with_networks(&["c"]);
    system.instances = vec![started];
    system.bindings = vec![
        binding("web-net-0", "a"),
        binding("web-net-1", "before-the-template-changed"),
        binding("web-net-2", "a"),
    ];
    let surplus = |system: &System| {
        let steps = system.leftovers();
        let names = steps.iter().map(|step| deleted(Some(step)));
        names.collect::<Vec<_>>()
    };
    assert_eq!(surplus(&system), ["web-net-2"]);
    system.instances.clear();
    let all = ["web-net-0", "web-net-1", "web-net-2"];
    assert_eq!(surplus(&system), all);
}

/// The names go on behind a binding that cannot be decoded.
#[test]
fn a_binding_behind_one_that_cannot_be_decoded_is_in_use() {
    let invalid = |name: &str| {
        Arc::new(InvalidObject {
            error: "its spec is a number".to_owned(),
            metadata: object(json!({"namespace": "ns-1", "name": name})),
        })
    };
    let mut system = System::running(&["a"]);
    system.bindings[0]["metadata"]["name"] = json!(hashed(0, "a", "dfw"));
    system.undecodable_bindings = vec![invalid("web-net-0")];
    assert_eq!(system.planned().verdict, Verdict::Ready);
    assert_eq!(system.leftovers(), []);
    system.bindings.clear();
    let networks = system.planned();
    assert_eq!((networks.step, networks.release), (None, None));
    let message = "NetworkBinding web-net-0 cannot be decoded: its spec is a number".to_owned();
    let reason = reason::NETWORK_UNREADABLE;
    assert_eq!(networks.verdict, Verdict::Unclear { reason, message });
}

/// A binding that ends keeps its name for a moment. It may keep it for as long as the Instances that use it run.
#[test]
fn a_name_is_awaited_only_if_it_becomes_free_soon() {
    for network in ["a", "c"] {
        let mut system = System::running(&["a"]);
        system.bindings[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        // Nobody else uses it.
        let running = system.instances.remove(0);
        let networks = system.planned_for(&running);
        assert!(matches!(networks.verdict, Verdict::Waiting(_)));
        assert_eq!(networks.step, None);
        system.networks = vec![network];
        assert!(system.waits());
        system.instances.push(running);
        let created = format!("binding {}", hashed(0, network, "dfw"));
        assert_eq!(system.settle()[0], created);
        assert_eq!(system.planned().verdict, Verdict::Ready);
    }
}

#[test]
fn a_binding_of_another_object_is_never_used() {
    let mut system = System::with_networks(&["a"]);
    system.settle();
    // It ends with the former deployment.
    system.bindings[0]["metadata"]["ownerReferences"][0]["uid"] = json!("former");
    assert!(system.waits());
    let created = format!("binding {}", hashed(0, "a", "dfw"));
    system.bindings[0]["metadata"]["ownerReferences"][0]["name"] = json!("other");
    assert_eq!(system.settle(), [created]);
    assert_eq!(system.planned().verdict, Verdict::Ready);
    assert_eq!(system.bindings.len(), 2);
}

/// I-32: nothing outlives its last owner, and a deployment owns what it uses.
#[test]
fn a_subnet_claim_that_is_not_used_any_more_is_released() {
    let mut system = System::running(&["a"]);
    system.networks = vec!["c"];
    system.settle();
    system.instances[0] = instance_on("web-0", &["c"], Some(location()));
    system.bindings.remove(0);
    let released = |system: &System| {
        let planned = system.planned();
        assert_eq!(planned.verdict, Verdict::Ready);
        assert_eq!(system.leftovers().first(), planned.release.as_ref());
        planned.release
    };
    let Some(ObjectStep::DeleteSubnetClaim(claim)) = released(&system) else {
        panic!("the claim stays");
    };
    assert_eq!(claim.name_any(), "a-default-dfw-0");
    // Another deployment uses it.
    let mut other = system.claims[0]["metadata"]["ownerReferences"][0].clone();
    other["uid"] = json!("other-uid");
    let owners = system.claims[0]["metadata"]["ownerReferences"].as_array_mut();
    owners.unwrap().push(other);
    let Some(ObjectStep::OwnSubnetClaim(claim, owners)) = released(&system) else {
        panic!("it is still an owner");
    };
    assert_eq!(claim.name_any(), "a-default-dfw-0");
    let uids: Vec<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, ["other-uid"]);
    // The claim of another program is left alone.
    system.claims[0]["metadata"]["labels"][LABEL] = json!("other");
    assert_eq!(released(&system), None);
}

/// The network operator says which NetworkContext, and so which claim, a network has.
#[test]
fn a_subnet_claim_stays_while_its_use_is_not_known() {
    let mut system = System::running(&["a"]);
    system.networks = vec!["c"];
    system.settle();
    assert_eq!(system.planned().release, None);
    let running = system.instances.remove(0);
    let former = system.bindings.remove(0);
    assert!(system.planned().release.is_some());
    // A network is not bound yet.
    let bound = system.bindings[0]["status"].take();
    assert_eq!(system.planned().release, None);
    system.bindings[0]["status"] = bound;
    // The binding of an Instance that runs was deleted by hand.
    system.instances.push(running);
    assert_eq!(system.planned().release, None);
    assert_eq!(system.leftovers(), []);
    system.bindings.push(former);
    assert_eq!(system.planned().release, None);
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
        is_certain: true,
        reason: reason::NO_MATCHING_LOCATION,
        message: "m".to_owned(),
    };
    let location = Err(problem.clone());
    let observed = Observed {
        deployment: &deployment("ns-1", "web", "DFW", 1),
        location: &location,
        instances: Some(&[]),
        bindings: &[],
        undecodable_bindings: &[],
        contexts: &[],
        subnet_claims: &[],
        undecodable_claims: &[],
        subnets: &[],
    };
    let networks = networks(observed, &instance("ns-1", "web-0"), &location);
    assert_eq!(networks.step, None);
    assert_eq!(networks.verdict, problem.into());
}
