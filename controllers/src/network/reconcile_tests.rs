//! Tests of the network controller, with an in-memory API server of a cell. The tests do the work of the network
//! operator.

mod bindings;
mod other_crds;

use std::time::Duration;

use api::condition::{self, ConditionStatus};
use api::instance::{NETWORK_GATE, NETWORK_READY, QUOTA_GATE};
use api::networking::{
    CITY_CODE, HOLDER_AVAILABLE, NetworkBinding, NetworkInterface, NetworkInterfaceClaim,
    ServingLocation, SubnetClaim,
};
use apiserver::{ApiServer, Fault, KindId, objects};

use super::*;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, context, copy, object_key, settle, take_writes, terminating_json,
};
use crate::fixtures::{instance, now};
use crate::objects::controller_reference;

const NAME: &str = "web-0";
const CLAIM: &str = "web-0-eth0";
const CREATE: &str = "create networkinterfaceclaims ns-1/web-0-eth0";
const STATUS: &str = "patch instances/status ns-1/web-0";
const INSTANCE: &str = "patch instances ns-1/web-0";
const HOLDER: &str = "patch networkinterfaces/status ns-1/nic-1";

const VERSION: &str = "networking.datumapis.com/v1alpha";

/// A cell with one Instance that waits for its networks and for quota.
struct System {
    planes: CellPlanes,
    controller: NetworkController,
}

/// Returns an Instance as the deployment controller creates it.
fn new_instance() -> Value {
    let mut instance = json!(instance(HUB_NAMESPACE, NAME));
    let deployment: WorkloadDeployment = serde_json::from_value(copy("web")).unwrap();
    instance["metadata"]["creationTimestamp"] = json!(now());
    instance["metadata"]["labels"] = json!({labels::INSTANCE_CITY_CODE: "DFW"});
    instance["metadata"]["ownerReferences"] = json!([controller_reference(&deployment)]);
    instance["spec"]["controller"] = json!({
        "templateHash": "h", "schedulingGates": [{"name": NETWORK_GATE}, {"name": QUOTA_GATE}],
    });
    instance
}

fn serving(name: &str, city: &str) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "ServingLocation", "metadata": {"name": name},
        "spec": {"topology": {CITY_CODE: city}},
    })
}

fn location(city: &str) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "Location", "metadata": {"name": "dfw", "namespace": "default"},
        "spec": {"topology": {CITY_CODE: city}},
    })
}

impl System {
    async fn start(strategy: Networking, in_cell: Vec<Value>) -> Self {
        Self::start_with(strategy, in_cell, |_| {}).await
    }

    async fn start_with(
        strategy: Networking,
        in_cell: Vec<Value>,
        change: impl FnOnce(&ApiServer),
    ) -> Self {
        let in_cell = [in_cell, vec![copy("web"), new_instance()]].concat();
        let planes = CellPlanes::start_with(strategy, in_cell, Vec::new(), change).await;
        let controller = NetworkController::new(Arc::clone(&planes.caches), &planes.metrics);
        Self { planes, controller }
    }

    /// Starts a cell that serves a location in this city.
    async fn with_claims(city: &str) -> Self {
        Self::start(Networking::InterfaceClaims, vec![serving("dfw", city)]).await
    }

    /// Reconciles the Instance and returns the writes.
    async fn writes(&self) -> Vec<String> {
        self.reconcile().await.1
    }

    async fn reconcile(&self) -> (Outcome, Vec<String>) {
        let context = context();
        let reconciled = self.controller.reconcile(&context, object_key(NAME));
        let outcome = reconciled.await.unwrap();
        settle().await;
        (outcome, take_writes(&self.planes.servers()))
    }

    fn instance(&self) -> Instance {
        self.planes.cell.get(HUB_NAMESPACE, NAME).unwrap()
    }

    fn gates(&self) -> Vec<String> {
        let controller = self.instance().spec.controller.unwrap();
        let gates = controller.scheduling_gates.into_iter();
        gates.map(|gate| gate.name).collect()
    }

    /// Returns the status, the reason and the message of the condition.
    fn condition(&self) -> Option<(ConditionStatus, String, String)> {
        let status = self.instance().status?;
        let ready = condition::find(&status.conditions, NETWORK_READY)?;
        Some((ready.status, ready.reason.clone(), ready.message.clone()))
    }

    fn reason(&self) -> Option<String> {
        self.condition().map(|(_, reason, _)| reason)
    }

    /// Sets the status of the claim. All these conditions are True.
    async fn decide(&self, conditions: &[&str]) {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|type_| objects::condition(type_, "True"))
            .collect();
        let status = json!({
            "networkInterfaceRef": {"name": "nic-1"}, "conditions": conditions,
            "addresses": [{"family": "IPv6", "address": "fd00::7/128", "primary": true}],
        });
        let cell = &self.planes.cell;
        cell.modify::<NetworkInterfaceClaim>(HUB_NAMESPACE, CLAIM, |it| it["status"] = status);
        settle().await;
    }

    async fn prepare(&self) {
        self.planes.cell.put(json!({
            "apiVersion": VERSION, "kind": "NetworkInterface",
            "metadata": {"name": "nic-1", "namespace": HUB_NAMESPACE, "uid": "nic-1"},
            "status": {"conditions": [objects::condition("Allocated", "True")]},
        }));
        self.decide(&["Bound", "Allocated", "Prepared"]).await;
    }

    /// Reconciles an Instance of this name and returns the writes.
    async fn writes_of(&self, name: &str) -> Vec<String> {
        let context = context();
        let reconciled = self.controller.reconcile(&context, object_key(name));
        reconciled.await.unwrap();
        settle().await;
        take_writes(&self.planes.servers())
    }

    /// Changes the Instance.
    async fn modify(&self, change: impl Fn(&mut Value)) {
        let cell = &self.planes.cell;
        cell.modify::<Instance>(HUB_NAMESPACE, NAME, change);
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_prepared_interface_costs_five_writes_and_then_none() {
    let system = System::with_claims("DFW").await;
    let (outcome, writes) = system.reconcile().await;
    assert_eq!(writes, [CREATE, INSTANCE]);
    assert_eq!(outcome, Outcome::Again(Duration::from_secs(2)));
    let location = system.instance().spec.location.unwrap();
    assert_eq!(location.name, "dfw");
    for not_enough in [&["Bound"][..], &["Bound", "Allocated", "Programmed"]] {
        system.decide(not_enough).await;
        assert_eq!(system.writes().await, [""; 0]);
    }
    system.prepare().await;
    assert_eq!(system.writes().await, [STATUS, INSTANCE, HOLDER]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
    assert_eq!(system.reason().unwrap(), reason::NETWORK_AVAILABLE);
    let instance = system.instance();
    let interfaces = json!(instance.status.unwrap().network_interfaces);
    let assignments = json!({"networkIP": "fd00::7"});
    assert_eq!(interfaces[0]["assignments"], assignments);
    assert_eq!(interfaces[0]["networkInterfaceRef"]["name"], "nic-1");
    for _ in 0..3 {
        let (outcome, writes) = system.reconcile().await;
        assert_eq!((outcome, writes), (Outcome::Settled, Vec::new()));
    }
}

/// I-30: the process may die between the two writes.
#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_stored_keeps_the_gate_closed() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    system.prepare().await;
    let cell = &system.planes.cell;
    cell.fail(Fault::refuse(500).on_writes().times(1));
    let context = context();
    let reconciled = system.controller.reconcile(&context, object_key(NAME));
    assert!(reconciled.await.is_err());
    assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
    take_writes(&system.planes.servers());
    assert_eq!(system.writes().await, [STATUS, INSTANCE, HOLDER]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
}

/// The spec changes after the condition was stored. The patch that opens the gate must fail then.
#[tokio::test(start_paused = true)]
async fn a_gate_of_a_changed_instance_stays_closed() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    let stored = system.instance();
    system
        .modify(|instance| instance["metadata"]["generation"] = json!(99))
        .await;
    let to = Collection::new(&system.planes.caches.client, HUB_NAMESPACE, None);
    let writer = &system.controller.writer;
    let opened = gate::NETWORK.open(writer, &context(), &to, &stored).await;
    assert!(opened.is_err());
    assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_the_gate_is_left_alone() {
    let system = System::with_claims("DFW").await;
    system
        .modify(|instance| instance["spec"]["controller"]["schedulingGates"] = json!([]))
        .await;
    take_writes(&system.planes.servers());
    assert_eq!(system.reconcile().await, (Outcome::Settled, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_cell_that_makes_no_networks_opens_gates_of_former_versions() {
    let system = System::start(Networking::Disabled, Vec::new()).await;
    assert_eq!(system.writes().await, [STATUS, INSTANCE]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
    assert_eq!(system.reason().unwrap(), reason::NETWORK_DISABLED);
    // The condition of an Instance that runs stays, whatever the cell made before.
    system
        .modify(|instance| {
            instance["status"]["conditions"][0]["reason"] = json!(reason::NETWORK_AVAILABLE);
        })
        .await;
    take_writes(&system.planes.servers());
    assert_eq!(system.writes().await, [""; 0]);
}

/// I-26: the cell does not choose one of several locations.
#[tokio::test(start_paused = true)]
async fn a_location_is_awaited_and_a_wrong_one_holds() {
    let system = System::start(Networking::InterfaceClaims, Vec::new()).await;
    let cell = &system.planes.cell;
    let holds = async |expected: &str| {
        settle().await;
        assert_eq!(system.writes().await, [STATUS], "{expected}");
        assert_eq!(system.reason().unwrap(), expected);
        assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
        assert_eq!(system.writes().await, [""; 0]);
    };
    holds(reason::NO_MATCHING_LOCATION).await;
    cell.put(serving("ord", "ORD"));
    holds(reason::LOCATION_MISMATCH).await;
    cell.put(serving("dfw", "DFW"));
    holds(reason::AMBIGUOUS_LOCATION).await;
    cell.remove::<ServingLocation>("", "ord");
    settle().await;
    assert_eq!(system.writes().await, [CREATE, INSTANCE, STATUS]);
    assert_eq!(system.reason().unwrap(), reason::PROVISIONING);
    system.prepare().await;
    assert_eq!(system.writes().await, [STATUS, INSTANCE, HOLDER]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
    // What runs is not touched by a location that is wrong later.
    cell.put(serving("ord", "ORD"));
    settle().await;
    assert_eq!(system.writes().await, [STATUS]);
    assert_eq!(cell.count(KindId::of::<NetworkInterfaceClaim>()), 1);
}

/// I-26: it may be a second one, so the gate stays closed.
#[tokio::test(start_paused = true)]
async fn a_serving_location_that_cannot_be_decoded_holds() {
    let mut unreadable = serving("ord", "ORD");
    unreadable["spec"]["topology"] = json!(7);
    let in_cell = vec![serving("dfw", "DFW"), unreadable];
    let system = System::start(Networking::InterfaceClaims, in_cell).await;
    assert_eq!(system.writes().await, [STATUS]);
    let (status, reason, message) = system.condition().unwrap();
    assert_eq!(status, ConditionStatus::Unknown);
    assert_eq!(reason, reason::LOCATION_UNREADABLE);
    let expected = "ServingLocation ord cannot be decoded: ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(system.planes.caches.location_of_new("DFW"), None);
    let cell = &system.planes.cell;
    cell.remove::<ServingLocation>("", "ord");
    settle().await;
    assert_eq!(system.writes().await, [CREATE, INSTANCE, STATUS]);
    assert!(system.planes.caches.location_of_new("DFW").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_said_once_and_used_when_it_is_there() {
    let stop = |cell: &ApiServer| cell.stop_serving::<NetworkInterfaceClaim>();
    let in_cell = vec![serving("dfw", "DFW")];
    let system = System::start_with(Networking::InterfaceClaims, in_cell, stop).await;
    assert_eq!(system.writes().await, [STATUS]);
    let (status, reason, message) = system.condition().unwrap();
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, reason::KIND_NOT_SERVED)
    );
    assert!(
        message.contains("networkinterfaceclaims.networking.datumapis.com"),
        "{message}"
    );
    assert_eq!(system.writes().await, [""; 0]);
    system.planes.cell.serve_again::<NetworkInterfaceClaim>();
    // The watch tries again after at most half a minute.
    tokio::time::sleep(Duration::from_mins(2)).await;
    let writes = system.writes().await;
    assert_eq!(writes[..2], [CREATE, INSTANCE], "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_by_hand_is_made_again() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    system.prepare().await;
    system.writes().await;
    let cell = &system.planes.cell;
    cell.remove::<NetworkInterfaceClaim>(HUB_NAMESPACE, CLAIM);
    settle().await;
    let writes = system.writes().await;
    assert_eq!(writes[0], CREATE, "{writes:?}");
    // The Instance runs on: only its condition says that the network is made again.
    assert_eq!(system.gates(), [QUOTA_GATE]);
    assert_eq!(system.reason().unwrap(), reason::PROVISIONING);
}

/// The API server would refuse another object of this name.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_has_its_name() {
    let context = "default-default-dfw";
    let bound = json!({
        "networkContextRef": {"namespace": HUB_NAMESPACE, "name": context},
        "conditions": [objects::condition("Ready", "True")],
    });
    let (claims, bindings) = (Networking::InterfaceClaims, Networking::Bindings);
    for (strategy, kind, name) in [
        (claims, "NetworkInterfaceClaim", CLAIM),
        (bindings, "NetworkBinding", "web-net-0"),
        (bindings, "SubnetClaim", "default-default-dfw-0"),
    ] {
        let named = |kind: &str, name: &str| {
            let metadata = json!({"name": name, "namespace": HUB_NAMESPACE});
            json!({"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": {}})
        };
        let mut invalid = named(kind, name);
        invalid["spec"] = json!(7);
        let system = System::start(
            strategy,
            vec![serving("dfw", "DFW"), location("DFW"), invalid],
        )
        .await;
        if kind == "SubnetClaim" {
            let mut made = named("NetworkContext", context);
            made["status"] = bound.clone();
            system.planes.cell.put(made);
            settle().await;
            system.writes().await;
            let cell = &system.planes.cell;
            let status = bound.clone();
            cell.modify::<NetworkBinding>(HUB_NAMESPACE, "web-net-0", |it| it["status"] = status);
            settle().await;
        }
        let writes = system.writes().await;
        assert!(
            !writes.iter().any(|it| it.starts_with("create ")),
            "{writes:?}"
        );
        let (status, reason, message) = system.condition().unwrap();
        assert_eq!(status, ConditionStatus::Unknown, "{kind}");
        assert_eq!(reason, reason::NETWORK_UNREADABLE);
        let expected = format!("{kind} {name} cannot be decoded: ");
        assert!(message.starts_with(&expected), "{message}");
        let again = Outcome::Again(Duration::from_mins(1));
        assert_eq!(system.reconcile().await, (again, Vec::new()), "{kind}");
        assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_says_why() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    let status = json!({"conditions": [
        objects::condition("Bound", "True"), objects::condition("Allocated", "False"),
    ]});
    let cell = &system.planes.cell;
    cell.modify::<NetworkInterfaceClaim>(HUB_NAMESPACE, CLAIM, |it| it["status"] = status);
    settle().await;
    assert_eq!(system.writes().await, [STATUS]);
    let (_, reason, message) = system.condition().unwrap();
    assert_eq!(reason, reason::FAILED_TO_CREATE);
    assert_eq!(message, "interface eth0: Because: It is so.");
}

/// What the API server of the cell refuses is shown once, and tried again.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_created_says_why() {
    let system = System::with_claims("DFW").await;
    let cell = &system.planes.cell;
    cell.fail(Fault::refuse(422).of::<NetworkInterfaceClaim>().on_writes());
    for expected in [&[CREATE, STATUS][..], &[CREATE]] {
        let context = context();
        let reconciled = system.controller.reconcile(&context, object_key(NAME));
        assert!(reconciled.await.is_err());
        settle().await;
        assert_eq!(take_writes(&system.planes.servers()), expected);
    }
    let (_, reason, message) = system.condition().unwrap();
    assert_eq!(reason, reason::FAILED_TO_CREATE);
    assert!(message.contains("not now"), "{message}");
    cell.heal();
    assert_eq!(system.writes().await, [CREATE, INSTANCE, STATUS]);
    assert_eq!(system.reason().unwrap(), reason::PROVISIONING);
}

/// The network operator sends no traffic to an Instance that ends.
#[tokio::test(start_paused = true)]
async fn the_interface_follows_its_holder() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    system.prepare().await;
    system.writes().await;
    let holder = || {
        let interface: NetworkInterface = system.planes.cell.get(HUB_NAMESPACE, "nic-1").unwrap();
        let conditions = interface.status.unwrap().conditions;
        assert!(condition::is_true(&conditions, "Allocated"));
        condition::find(&conditions, HOLDER_AVAILABLE)
            .unwrap()
            .clone()
    };
    assert_eq!(holder().reason, "HolderNotReported");
    system
        .modify(|instance| {
            let conditions = instance["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(objects::condition("Running", "True"));
        })
        .await;
    take_writes(&system.planes.servers());
    assert_eq!(system.writes().await, [HOLDER]);
    assert!(holder().is_true());
    let ending = terminating_json(json!(system.instance()));
    system.planes.cell.put(ending);
    settle().await;
    take_writes(&system.planes.servers());
    assert_eq!(system.writes().await, [HOLDER]);
    assert_eq!(holder().reason, "HolderTerminating");
    assert_eq!(system.writes().await, [""; 0]);
}

/// I-26, I-32: nothing is made in a location that is not that of the Instance.
#[tokio::test(start_paused = true)]
async fn an_instance_in_another_location_holds() {
    for (strategy, in_cell) in [
        (Networking::InterfaceClaims, serving("dfw", "DFW")),
        (Networking::Bindings, location("DFW")),
    ] {
        let system = System::start(strategy, vec![in_cell]).await;
        let place = json!({"name": "lost", "namespace": "default"});
        system
            .modify(|instance| instance["spec"]["location"] = place.clone())
            .await;
        take_writes(&system.planes.servers());
        assert_eq!(system.writes().await, [STATUS], "{strategy:?}");
        assert_eq!(system.reason().unwrap(), reason::LOCATION_MISMATCH);
        assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
        assert_eq!(system.writes().await, [""; 0], "{strategy:?}");
    }
}

/// The references of the two strategies differ: a ServingLocation has no namespace.
#[tokio::test(start_paused = true)]
async fn an_instance_of_the_other_strategy_is_in_the_location_of_this_name() {
    const BINDING: &str = "create networkbindings ns-1/web-net-0";
    let (claims, bindings) = (Networking::InterfaceClaims, Networking::Bindings);
    for (strategy, place, is_gated, expected) in [
        (bindings, ("", "dfw"), true, &[BINDING][..]),
        (bindings, ("", "dfw"), false, &[BINDING]),
        (bindings, ("", "lost"), true, &[STATUS]),
        (bindings, ("", "lost"), false, &[]),
        (claims, ("default", "dfw"), true, &[CREATE]),
        (claims, ("default", "dfw"), false, &[CREATE]),
        (claims, ("default", "lost"), true, &[STATUS]),
        (claims, ("default", "lost"), false, &[]),
    ] {
        let in_cell = vec![serving("dfw", "DFW"), location("DFW")];
        let system = System::start(strategy, in_cell).await;
        let (namespace, name) = place;
        system
            .modify(|instance| {
                instance["spec"]["location"] = json!({"namespace": namespace, "name": name});
                if !is_gated {
                    instance["spec"]["controller"]["schedulingGates"] = json!([]);
                    let ready = objects::condition(NETWORK_READY, "True");
                    instance["status"]["conditions"] = json!([ready]);
                }
            })
            .await;
        take_writes(&system.planes.servers());
        let case = format!("{strategy:?} {place:?} {is_gated}");
        let writes = system.writes().await;
        let made: Vec<_> = match is_gated || expected.is_empty() {
            true => writes.iter().map(String::as_str).collect(),
            // Its condition shows that they are not ready.
            false => writes
                .iter()
                .map(String::as_str)
                .filter(|it| *it != STATUS)
                .collect(),
        };
        assert_eq!(made, expected, "{case}");
        let reason = system.reason();
        let is_mismatch = reason.as_deref() == Some(reason::LOCATION_MISMATCH);
        assert_eq!(is_mismatch, expected == [STATUS], "{case}");
        let bindings = system
            .planes
            .caches
            .networks
            .bindings
            .readable(HUB_NAMESPACE);
        for binding in bindings {
            assert_eq!(binding.spec.location.namespace.as_deref(), Some("default"));
        }
        assert_eq!(system.writes().await, [""; 0], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_waits_is_in_the_metric() {
    let system = System::with_claims("DFW").await;
    let waits = || {
        let waiting = &system.controller.waiting;
        waiting.has_any(|key| *key == object_key(NAME))
    };
    system.writes().await;
    assert!(waits());
    system.prepare().await;
    system.writes().await;
    assert!(!waits());
    let ended = System::with_claims("DFW").await;
    ended.writes().await;
    ended.planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    ended.writes().await;
    assert!(!ended.controller.waiting.has_any(|_| true));
}
