//! Tests of cells with other CRDs, or without some of them.

use super::*;

/// The CRD of Instances in the cell is older. What it prunes from the interfaces holds nothing back.
#[tokio::test(start_paused = true)]
async fn a_cell_that_prunes_a_part_of_the_interfaces_opens_the_gate() {
    let system = System::with_claims("DFW").await;
    system.writes().await;
    system.planes.cell.amend::<Instance>(|instance| {
        let interfaces = instance.pointer_mut("/status/networkInterfaces");
        for interface in interfaces
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            interface
                .as_object_mut()
                .unwrap()
                .remove("networkInterfaceRef");
        }
    });
    system.prepare().await;
    let (outcome, writes) = system.reconcile().await;
    assert_eq!(outcome, Outcome::Settled);
    assert_eq!(writes, [STATUS, INSTANCE, HOLDER]);
    assert_eq!(system.gates(), [QUOTA_GATE]);
    // One more write is needed to see that it changes nothing.
    let (outcome, writes) = system.reconcile().await;
    assert_eq!(
        (outcome, writes.as_slice()),
        (Outcome::Settled, &[STATUS.to_owned()][..])
    );
    for _ in 0..3 {
        assert_eq!(system.reconcile().await, (Outcome::Settled, Vec::new()));
    }
}

/// Without ServingLocations, no new Instance gets a network. One that runs needs no location any more.
#[tokio::test(start_paused = true)]
async fn an_instance_that_runs_needs_no_serving_locations() {
    let refuse = |cell: &ApiServer| cell.stop_serving::<ServingLocation>();
    let system = System::start_with(Networking::InterfaceClaims, Vec::new(), refuse).await;
    assert_eq!(system.writes().await, [STATUS]);
    assert_eq!(system.reason().unwrap(), reason::KIND_NOT_SERVED);
    assert_eq!(system.gates(), [NETWORK_GATE, QUOTA_GATE]);
    system
        .modify(|instance| {
            instance["spec"]["location"] = json!({"name": "dfw", "namespace": ""});
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            let ready = json!([
                objects::condition(NETWORK_READY, "True"),
                objects::condition("Running", "True"),
            ]);
            instance["status"]["conditions"] = ready;
        })
        .await;
    // Its claim is made again if it was deleted by hand.
    let writes = system.writes().await;
    assert_eq!(writes[0], CREATE, "{writes:?}");
    system.prepare().await;
    assert_eq!(system.writes().await, [STATUS, HOLDER]);
    assert_eq!(system.reason().unwrap(), reason::NETWORK_AVAILABLE);
    let interfaces = system.instance().status.unwrap().network_interfaces;
    assert_eq!(interfaces.len(), 1);
    assert_eq!(system.writes().await, [""; 0]);
}

/// An Instance that the Go manager has started has no location.
#[tokio::test(start_paused = true)]
async fn without_serving_locations_the_holder_is_reported_nevertheless() {
    let in_cell = vec![serving("dfw", "DFW")];
    let system = System::start(Networking::InterfaceClaims, in_cell).await;
    system.writes().await;
    system.prepare().await;
    system.planes.cell.stop_serving::<ServingLocation>();
    system
        .modify(|instance| {
            instance["spec"]["location"] = Value::Null;
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            let ready = json!([objects::condition(NETWORK_READY, "True")]);
            instance["status"]["conditions"] = ready;
        })
        .await;
    take_writes(&system.planes.servers());
    // The watch is tried again, and refused.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(
        system
            .planes
            .caches
            .networks
            .serving_locations
            .refusal()
            .is_some()
    );
    assert_eq!(system.writes().await, [HOLDER]);
}
