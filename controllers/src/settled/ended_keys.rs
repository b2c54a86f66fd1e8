//! Tests that the keys of deleted objects leave the queues of a cell. The test does the work of Karmada, of the
//! provider, of the network operator and of the quota system.

use api::karmada::PropagationPolicy;
use api::networking::{CITY_CODE, NetworkInterfaceClaim};
use api::quota::ResourceClaim;
use apiserver::KindId;
use kube::Api;
use kube::api::DeleteParams;
use tokio::runtime::Handle;

use super::*;
use crate::objects::controller_reference;

impl System {
    /// Grants the quota of an Instance and prepares its interface, until its gates are open.
    async fn open_gates(&self, ordinal: i32) {
        let name = format!("{WEB}-{ordinal}");
        let quota = format!("instance-dfw1-{name}");
        let interface = format!("{name}-eth0");
        let is_claimed = |it: &Self| {
            let claim = it
                .cell
                .get::<NetworkInterfaceClaim>(HUB_NAMESPACE, &interface);
            claim.is_some() && it.project.get::<ResourceClaim>("default", &quota).is_some()
        };
        self.until("there are claims", is_claimed).await;
        let conditions = |types: &[&str]| {
            types
                .iter()
                .map(|it| objects::condition(it, "True"))
                .collect::<Vec<_>>()
        };
        self.project
            .modify::<ResourceClaim>("default", &quota, |claim| {
                claim["status"] = json!({"conditions": conditions(&["Granted"])});
            });
        let claim = self
            .cell
            .get::<NetworkInterfaceClaim>(HUB_NAMESPACE, &interface);
        // The interface ends with the claim.
        self.cell.put(json!({
            "apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkInterface",
            "metadata": {
                "name": interface, "namespace": HUB_NAMESPACE,
                "ownerReferences": [controller_reference(&claim.unwrap())],
            },
        }));
        self.cell
            .modify::<NetworkInterfaceClaim>(HUB_NAMESPACE, &interface, |claim| {
                claim["status"] = json!({
                    "networkInterfaceRef": {"name": interface},
                    "conditions": conditions(&["Bound", "Allocated", "Prepared"]),
                });
            });
        let is_open = |it: &Self| {
            let instance = it.cell.get::<Instance>(HUB_NAMESPACE, &name);
            let controller = instance.and_then(|it| it.spec.controller);
            controller.is_some_and(|it| it.scheduling_gates.is_empty())
        };
        self.until("the gates are open", is_open).await;
    }

    /// Deletes the Workload, and the WorkloadDeployment of the cell as Karmada does, until nothing is left.
    async fn delete_workload(&self) {
        let options = DeleteParams::default();
        let workloads: Api<Workload> = Api::namespaced(self.project.client(), "default");
        workloads.delete("web", &options).await.unwrap();
        let kind = KindId::of::<WorkloadDeployment>();
        self.until("the hub has no copy", |it| it.hub.count(kind) == 0)
            .await;
        let deployments: Api<WorkloadDeployment> =
            Api::namespaced(self.cell.client(), HUB_NAMESPACE);
        deployments.delete(WEB, &options).await.unwrap();
        let is_empty = |it: &Self| {
            [
                it.project.count(KindId::of::<Workload>()),
                it.project.count(KindId::of::<Instance>()),
                it.project.count(KindId::of::<ResourceClaim>()),
                it.hub.count(KindId::of::<Instance>()),
                it.hub.count(KindId::of::<PropagationPolicy>()),
                it.cell.count(kind),
                it.cell.count(KindId::of::<Instance>()),
                it.cell.count(KindId::of::<NetworkInterfaceClaim>()),
            ] == [0; 8]
        };
        self.until("nothing is left", is_empty).await;
    }

    /// Returns the number of keys of each controller, and the number of tasks of the process.
    fn sizes(&self) -> ([i64; CONTROLLERS.len()], usize) {
        let keys = CONTROLLERS.map(|controller| self.metrics.queued_keys(controller));
        (keys, Handle::current().metrics().num_alive_tasks())
    }
}

#[tokio::test(start_paused = true)]
async fn keys_of_deleted_objects_leave_the_queues_of_a_cell() {
    clock();
    let system = System::start_cell(true, Networking::InterfaceClaims);
    system.may_write.cancel();
    system.cell.put(json!({
        "apiVersion": "networking.datumapis.com/v1alpha", "kind": "ServingLocation",
        "metadata": {"name": "dfw"}, "spec": {"topology": {CITY_CODE: "DFW"}},
    }));
    for (kind, name) in [("ConfigMap", "settings"), ("Secret", "keys")] {
        system.project.put(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"namespace": "default", "name": name}, "data": {"key": "YQ=="},
        }));
    }
    let mut first = None;
    for round in 0..20 {
        let mut workload = workload();
        workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
            json!([{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]);
        system.project.put(object(workload));
        system.propagate().await;
        for ordinal in 0..2 {
            system.open_gates(ordinal).await;
            system.provide_again(ordinal).await;
        }
        system.report(2).await;
        system.until_available(2).await;
        system.delete_workload().await;
        if round == 0 {
            // The hub namespace stays for the Namespace of the project.
            sleep(Duration::from_mins(20)).await;
            first = Some(system.sizes());
        }
    }
    // A key whose last event was lost leaves with the resync.
    sleep(Duration::from_mins(20)).await;
    let (keys, tasks) = system.sizes();
    for (controller, keys) in CONTROLLERS.into_iter().zip(keys) {
        let stays = ["policy", "namespace"].contains(&controller);
        assert!(keys == 0 || stays && keys == 1, "{controller}: {keys}");
    }
    assert_eq!(Some((keys, tasks)), first);
}
