//! Tests of all controllers together with a cell that makes networks. The test does the work of the network operator.

use api::networking::{CITY_CODE, HOLDER_AVAILABLE, NetworkInterface, NetworkInterfaceClaim};
use api::reasons::network_ready::NO_MATCHING_LOCATION;

use super::*;

impl System {
    /// Prepares the interface of an Instance, and waits until its gate is open.
    async fn connect(&self, ordinal: i32) {
        let name = format!("{WEB}-{ordinal}-eth0");
        let claimed = |it: &Self| {
            let claim = it.cell.get::<NetworkInterfaceClaim>(HUB_NAMESPACE, &name);
            claim.is_some()
        };
        self.until("there is a claim", claimed).await;
        // The condition shows that the network is being made.
        sleep(Duration::from_secs(30)).await;
        self.cell.put(json!({
            "apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkInterface",
            "metadata": {"name": name, "namespace": HUB_NAMESPACE, "uid": name},
        }));
        let conditions = ["Bound", "Allocated", "Prepared"];
        let conditions = conditions.map(|type_| objects::condition(type_, "True"));
        let status = json!({"networkInterfaceRef": {"name": name}, "conditions": conditions});
        self.cell
            .modify::<NetworkInterfaceClaim>(HUB_NAMESPACE, &name, |it| it["status"] = status);
        let begin = Instant::now();
        let is_open = |it: &Self| {
            let name = format!("{WEB}-{ordinal}");
            let instance = it.cell.get::<Instance>(HUB_NAMESPACE, &name);
            let controller = instance.and_then(|it| it.spec.controller);
            controller.is_some_and(|it| it.scheduling_gates.is_empty())
        };
        self.until("the gate is open", is_open).await;
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

/// I-3: a cell that makes networks writes nothing either. A location that appears later is used at once.
#[tokio::test(start_paused = true)]
async fn a_cell_with_networks_opens_gates_at_once_and_then_makes_no_write_for_hours() {
    clock();
    let system = System::start_cell(false, Networking::InterfaceClaims);
    system.may_write.cancel();
    system.project.put(object(workload()));
    system.propagate().await;
    let held = |it: &System| {
        let instance = it.cell.get::<Instance>(HUB_NAMESPACE, &format!("{WEB}-0"));
        json!(instance).to_string().contains(NO_MATCHING_LOCATION)
    };
    system.until("held", held).await;
    system.cell.put(json!({
        "apiVersion": "networking.datumapis.com/v1alpha", "kind": "ServingLocation",
        "metadata": {"name": "dfw"}, "spec": {"topology": {CITY_CODE: "DFW"}},
    }));
    for ordinal in 0..2 {
        system.connect(ordinal).await;
        system.provide_again(ordinal).await;
    }
    system.report(2).await;
    system.until_available(2).await;
    sleep(Duration::from_mins(1)).await;
    system.writes();

    sleep(HOURS).await;
    assert_eq!(system.writes(), [""; 0]);

    // The location of the second Instance was known when it was made, so it needed no write.
    for ordinal in 0..2 {
        let name = format!("{WEB}-{ordinal}");
        let instance: Instance = system.cell.get(HUB_NAMESPACE, &name).unwrap();
        assert_eq!(instance.spec.location.unwrap().name, "dfw");
        let interface: NetworkInterface = system
            .cell
            .get(HUB_NAMESPACE, &format!("{name}-eth0"))
            .unwrap();
        let conditions = interface.status.unwrap().conditions;
        assert!(condition::is_true(&conditions, HOLDER_AVAILABLE));
    }
}
