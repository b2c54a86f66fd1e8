//! Tests of replacements that need more quota than the Instance before them.

use api::condition::{self, Condition};
use api::workload_deployment::REPLICAS_READY;
use apiserver::ApiServer;

use super::*;
use crate::quota::{ConnectLedger, Ledgers};

const VCPUS: &str = "compute.datumapis.com/vcpus";

/// Returns a template whose Instances have this size.
fn template(cpu: &str) -> Value {
    let mut template = objects::template("app:1");
    template["spec"]["runtime"]["resources"]["requests"] = json!({"cpu": cpu, "memory": "1Gi"});
    template
}

fn set_left(project: &ApiServer, vcpus: i64) {
    project.put(json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "AllowanceBucket",
        "metadata": {"name": "vcpus", "namespace": "milo-system", "uid": "b"},
        "spec": {
            "consumerRef": {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "p"},
            "resourceType": VCPUS,
        },
        "status": {"available": vcpus, "limit": 0, "allocated": 0},
    }));
}

/// Starts a deployment with two ready Instances of one processor, in a cell that enforces quota.
async fn start_sized() -> (CellPlanes, ApiServer, DeploymentController) {
    let (planes, mut controller) = start_with(&[gate::QUOTA]).await;
    let project = ApiServer::new();
    let client = project.client();
    let connect: ConnectLedger = Box::new(move |_| Ok(client.clone()));
    let ledgers = Arc::new(Ledgers::new(connect, None));
    controller.quota = ReplacementQuota::new(Arc::clone(&planes.caches), Some(ledgers));
    change(&planes, |deployment| {
        deployment["spec"]["template"] = template("1");
        deployment["spec"]["scaleSettings"]["minReplicas"] = json!(2);
    });
    settle().await;
    for name in ["web-0", "web-1"] {
        converge(&controller, || object_key("web"), &planes.servers()).await;
        let ready = |instance: &mut Value| {
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            instance["status"] = running();
        };
        planes.cell.modify::<Instance>(HUB_NAMESPACE, name, ready);
        settle().await;
    }
    converge(&controller, || object_key("web"), &planes.servers()).await;
    (planes, project, controller)
}

fn change(planes: &CellPlanes, change: impl Fn(&mut Value)) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
}

/// Reconciles until nothing is written any more. Returns the writes, the outcome, and `ReplicasReady`.
async fn replicas_ready(
    planes: &CellPlanes,
    controller: &DeploymentController,
) -> (Vec<String>, Outcome, Condition) {
    settle().await;
    let writes = converge(controller, || object_key("web"), &planes.servers()).await;
    let context = crate::fixtures::servers::context();
    let outcome = controller.reconcile(&context, object_key("web")).await;
    let conditions = deployment(planes).unwrap().status.unwrap().conditions;
    let found = condition::find(&conditions, REPLICAS_READY).unwrap();
    (writes, outcome.unwrap(), found.clone())
}

#[tokio::test(start_paused = true)]
async fn an_instance_stays_until_its_larger_replacement_has_quota() {
    let (planes, project, controller) = start_sized().await;
    let delete = "delete instances ns-1/web-1".to_owned();
    set_left(&project, 499);
    change(&planes, |it| it["spec"]["template"] = template("1500m"));
    let (writes, outcome, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert_eq!(outcome, Outcome::Again(HELD));
    let reason = (shown.is_false(), shown.reason.as_str());
    assert_eq!(reason, (true, "QuotaExceeded"));
    assert_eq!(
        shown.message,
        format!(
            "Instance web-1 keeps its former template: the project has no quota for 500 more {VCPUS}"
        )
    );

    // A surplus Instance is deleted meanwhile.
    change(&planes, |it| {
        it["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    });
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], delete);
    assert!(shown.message.contains("Instance web-0 keeps"), "{shown:?}");

    // A project that does not answer replaces nothing either.
    project.fail(Fault::hang());
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert_eq!(shown.reason, "PendingQuota");
    project.heal();
    tokio::time::sleep(HELD).await;

    set_left(&project, 500);
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-0");
    assert!(!shown.message.contains("keeps"), "{shown:?}");
}

/// The quota of the former Instance is enough, or the project does not tell how much it has left.
#[tokio::test(start_paused = true)]
async fn other_replacements_do_not_wait() {
    for (cpu, code) in [("1", None), ("500m", None), ("2", Some(403))] {
        let (planes, project, controller) = start_sized().await;
        match code {
            Some(code) => project.fail(Fault::refuse(code)),
            None => set_left(&project, 0),
        }
        change(&planes, |it| {
            it["spec"]["template"] = template(cpu);
            it["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
                json!("app:2");
        });
        let (writes, _, _) = replicas_ready(&planes, &controller).await;
        assert_eq!(writes[0], "delete instances ns-1/web-1", "{cpu}");
    }
}
