//! Tests of the strategy `Bindings`.

use apiserver::Verb;

use super::*;

const BINDING: &str = "web-net-0";
const CONTEXT: &str = "default-default-dfw";
const CLAIM: &str = "default-default-dfw-0";

fn conditions() -> Value {
    json!([objects::condition("Ready", "True")])
}

impl System {
    async fn with_bindings(in_cell: Vec<Value>) -> Self {
        Self::start(Networking::Bindings, in_cell).await
    }

    /// Does the work of the network operator and the writes of the controller, until the gate is open.
    async fn connect(&self) {
        let put = |kind: &str, name: &str| {
            self.planes.cell.put(json!({
                "apiVersion": VERSION, "kind": kind, "metadata": {"name": name, "namespace": HUB_NAMESPACE},
                "spec": {}, "status": {"conditions": conditions()},
            }));
        };
        let cell = &self.planes.cell;
        let binding = format!("create networkbindings ns-1/{BINDING}");
        assert_eq!(self.writes().await, [binding.as_str(), INSTANCE]);
        put("NetworkContext", CONTEXT);
        cell.modify::<NetworkBinding>(HUB_NAMESPACE, BINDING, |binding| {
            let context = json!({"namespace": HUB_NAMESPACE, "name": CONTEXT});
            binding["status"] = json!({"networkContextRef": context, "conditions": conditions()});
        });
        settle().await;
        let claim = format!("create subnetclaims ns-1/{CLAIM}");
        assert_eq!(self.writes().await, [claim]);
        put("Subnet", CLAIM);
        cell.modify::<SubnetClaim>(HUB_NAMESPACE, CLAIM, |claim| {
            claim["status"] = json!({"subnetRef": {"name": CLAIM}, "conditions": conditions()});
        });
        settle().await;
        assert_eq!(self.writes().await, [STATUS, INSTANCE]);
        assert_eq!(self.gates(), [QUOTA_GATE]);
    }

    /// Creates another Instance of the deployment, as the deployment controller does.
    async fn add(&self, name: &str) {
        let mut instance = new_instance();
        instance["metadata"]["name"] = json!(name);
        instance["metadata"]["uid"] = json!(format!("{name}-uid"));
        self.planes.cell.put(instance);
        settle().await;
    }

    /// Changes the Location of the Instance.
    async fn relocate(&self, spec: &Value) {
        let mut location = location("DFW");
        location["spec"] = spec.clone();
        self.planes.cell.put(location);
        settle().await;
    }

    /// Creates a second Location in the city.
    async fn locate_again(&self) {
        let mut second = location("DFW");
        second["metadata"]["name"] = json!("second");
        self.planes.cell.put(second);
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn bindings_are_made_once_and_open_the_gate_when_all_parts_are_ready() {
    let system = System::with_bindings(vec![location("DFW")]).await;
    system.connect().await;
    let location = system.instance().spec.location.unwrap();
    assert_eq!(location.namespace.as_deref(), Some("default"));
    assert_eq!(system.reconcile().await, (Outcome::Settled, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn bindings_wait_for_a_location_of_the_city() {
    let system = System::with_bindings(vec![location("ORD")]).await;
    assert_eq!(system.writes().await, [STATUS]);
    assert_eq!(system.reason().unwrap(), reason::NO_MATCHING_LOCATION);
    system.planes.cell.put(location("DFW"));
    settle().await;
    let writes = system.writes().await;
    assert_eq!(writes[0], "create networkbindings ns-1/web-net-0");
}

/// I-32: new Instances go elsewhere, and the ones that run keep what they use.
#[tokio::test(start_paused = true)]
async fn an_instance_that_runs_keeps_its_network_when_its_location_is_lost() {
    let system = System::with_bindings(vec![location("DFW")]).await;
    system.connect().await;
    system.locate_again().await;
    system
        .relocate(&json!({"topology": {CITY_CODE: "ORD"}}))
        .await;
    assert_eq!(system.writes().await, [""; 0]);
    system.add("web-1").await;
    let parts = [BINDING, "default", "default", "second"];
    let second = format!("{BINDING}-{}", crate::names::hash(&parts));
    let created = format!("create networkbindings ns-1/{second}");
    let stamped = "patch instances ns-1/web-1";
    assert_eq!(system.writes_of("web-1").await, [&*created, stamped]);
    assert_eq!(system.writes().await, [""; 0]);
    // With the last Instance in the location, its binding ends. Which claim the other one needs is not known yet.
    let cell = &system.planes.cell;
    cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    let deleted = format!("delete networkbindings ns-1/{BINDING}");
    assert_eq!(system.writes().await, [deleted]);
    cell.modify::<NetworkBinding>(HUB_NAMESPACE, &second, |binding| {
        let context = json!({"namespace": HUB_NAMESPACE, "name": "default-default-second"});
        binding["status"] = json!({"networkContextRef": context});
    });
    settle().await;
    let deleted = format!("delete subnetclaims ns-1/{CLAIM}");
    assert_eq!(system.writes_of("web-1").await, [deleted]);
    assert_eq!(system.writes_of("web-1").await, [""; 0]);
}

/// A Location that cannot be decoded is not gone.
#[tokio::test(start_paused = true)]
async fn a_location_that_cannot_be_decoded_changes_nothing() {
    let system = System::with_bindings(vec![location("DFW")]).await;
    system.connect().await;
    system.locate_again().await;
    system.relocate(&json!({"topology": 7})).await;
    assert_eq!(system.writes().await, [""; 0]);
    system.add("web-1").await;
    assert_eq!(
        system.writes_of("web-1").await,
        ["patch instances/status ns-1/web-1"]
    );
    let instance: Instance = system.planes.cell.get(HUB_NAMESPACE, "web-1").unwrap();
    let conditions = instance.status.unwrap().conditions;
    let shown = condition::find(&conditions, NETWORK_READY).unwrap();
    assert_eq!(shown.status, ConditionStatus::Unknown);
    let message = "Location dfw cannot be decoded: ";
    assert!(shown.message.starts_with(message), "{}", shown.message);
    system.planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    assert_eq!(system.writes().await, [""; 0]);
}

/// The Go manager sets no location, and copies the namespace of the reference into the binding.
#[tokio::test(start_paused = true)]
async fn an_instance_of_the_go_manager_keeps_its_binding() {
    let system = System::with_bindings(vec![location("DFW")]).await;
    let mut binding = json!({
        "apiVersion": VERSION, "kind": "NetworkBinding",
        "metadata": {"name": BINDING, "namespace": HUB_NAMESPACE},
        "spec": {
            "network": {"name": "default", "namespace": "default"},
            "location": {"name": "dfw", "namespace": "default"},
        },
    });
    let owners = json!(system.instance().metadata.owner_references);
    binding["metadata"]["ownerReferences"] = owners;
    system.planes.cell.put(binding);
    system
        .modify(|instance| {
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            instance["status"]["conditions"] = json!([objects::condition(NETWORK_READY, "True")]);
        })
        .await;
    take_writes(&system.planes.servers());
    assert_eq!(system.writes().await, [""; 0]);
    system.add("web-1").await;
    let parts = [BINDING, "default", "default", "dfw"];
    let second = format!("{BINDING}-{}", crate::names::hash(&parts));
    let created = format!("create networkbindings ns-1/{second}");
    let stamped = "patch instances ns-1/web-1";
    assert_eq!(system.writes_of("web-1").await, [&*created, stamped]);
    assert_eq!(system.writes_of("web-1").await, [""; 0]);
}

/// Returns a binding of a deployment for an interface that it does not have.
fn surplus(deployment: &str) -> Value {
    let owner: WorkloadDeployment = serde_json::from_value(copy(deployment)).unwrap();
    json!({
        "apiVersion": VERSION, "kind": "NetworkBinding",
        "metadata": {
            "name": format!("{deployment}-net-7"), "namespace": HUB_NAMESPACE,
            "ownerReferences": [controller_reference(&owner)],
        },
        "spec": {
            "network": {"name": "former", "namespace": HUB_NAMESPACE},
            "location": {"name": "dfw", "namespace": "default"},
        },
    })
}

fn refused_deletion() -> Fault {
    let fault = Fault::refuse(403).of::<NetworkBinding>();
    fault.on(&[Verb::Delete])
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_cannot_be_deleted_blocks_no_network() {
    let system = System::with_bindings(vec![location("DFW"), surplus("web")]).await;
    system.planes.cell.fail(refused_deletion());
    for expected in [
        &["create networkbindings ns-1/web-net-0", INSTANCE][..],
        &[],
    ] {
        let context = context();
        let reconciled = system.controller.reconcile(&context, object_key(NAME));
        assert!(reconciled.await.is_err());
        settle().await;
        let writes = take_writes(&system.planes.servers());
        let expected = [expected, &["delete networkbindings ns-1/web-net-7"]].concat();
        assert_eq!(writes, expected);
    }
    // The networks are not refused.
    assert_eq!(system.condition(), None);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_cannot_be_deleted_keeps_no_other_one() {
    let in_cell = vec![location("DFW"), copy("api"), surplus("api"), surplus("web")];
    let system = System::with_bindings(in_cell).await;
    let cell = &system.planes.cell;
    cell.fail(refused_deletion().name("api-net-7"));
    cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    let context = context();
    let reconciled = system.controller.reconcile(&context, object_key(NAME));
    assert!(reconciled.await.is_err());
    settle().await;
    let deleted = ["api", "web"].map(|it| format!("delete networkbindings ns-1/{it}-net-7"));
    assert_eq!(take_writes(&system.planes.servers()), deleted);
}

#[tokio::test(start_paused = true)]
async fn leftovers_are_taken_back_when_their_kinds_are_listed() {
    let change = |cell: &ApiServer| {
        let fault = Fault::hang().of::<NetworkBinding>();
        cell.fail(fault.on(&[Verb::List]));
    };
    let in_cell = vec![location("DFW"), surplus("web")];
    let system = System::start_with(Networking::Bindings, in_cell, change).await;
    system.planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    let (outcome, writes) = system.reconcile().await;
    assert_eq!((outcome, writes), (Outcome::Again(UNLISTED), Vec::new()));
}

/// An Instance must not wait for a list that fails without a word.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_is_shown_after_a_while() {
    let change = |cell: &ApiServer| {
        let fault = Fault::refuse(503).of::<NetworkBinding>();
        cell.fail(fault.on(&[Verb::List]));
    };
    let system = System::start_with(Networking::Bindings, vec![location("DFW")], change).await;
    let (outcome, writes) = system.reconcile().await;
    let soon = Outcome::Again(Duration::from_secs(2));
    assert_eq!((outcome, writes), (soon, Vec::new()));
    let age = |instance: &mut Value| {
        let created = now() - jiff::SignedDuration::from_secs(2);
        instance["metadata"]["creationTimestamp"] = json!(created);
    };
    let cell = &system.planes.cell;
    cell.modify::<Instance>(HUB_NAMESPACE, NAME, age);
    settle().await;
    assert_eq!(system.writes().await, [STATUS]);
    assert_eq!(system.reason().as_deref(), Some("NetworkUnreadable"));
}
