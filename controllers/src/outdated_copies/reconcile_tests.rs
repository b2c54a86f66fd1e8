//! Tests of the controller of outdated copies, with in-memory API servers.

use api::annotations::{CELL_RULES, OUTDATED_COPIES};
use apiserver::{Fault, Verb, objects};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::fixtures::instance;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, context, copy, object_key, settle, take_writes,
};
use crate::objects::controller_reference;

/// Starts with terminating Instances that their WorkloadDeployment replaces.
async fn start(count: i32) -> (CellPlanes, OutdatedCopies) {
    let mut deployment = copy("web");
    deployment["metadata"]["finalizers"] = json!([finalizers::WORKLOAD_CONTROLLER]);
    deployment["spec"]["scaleSettings"]["minReplicas"] = json!(count);
    let planes = CellPlanes::start(vec![deployment], Vec::new()).await;
    planes.hub.put(objects::namespace("default", "hub"));
    let owner: WorkloadDeployment = planes.cell.get(HUB_NAMESPACE, "web").unwrap();
    for ordinal in 0..count {
        let mut instance = json!(instance(HUB_NAMESPACE, &format!("web-{ordinal}")));
        instance["metadata"]["ownerReferences"] = json!([controller_reference(&owner)]);
        instance["metadata"]["finalizers"] = json!([finalizers::INSTANCE_CONTROLLER]);
        instance["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        planes.cell.put(instance);
    }
    settle().await;
    take_writes(&planes.servers());
    let controller = OutdatedCopies::new(Arc::clone(&planes.caches), &planes.metrics);
    (planes, controller)
}

fn is_there(planes: &CellPlanes, name: &str) -> bool {
    planes.cell.get::<Instance>(HUB_NAMESPACE, name).is_some()
}

fn record(planes: &CellPlanes) -> Vec<String> {
    let deployment: WorkloadDeployment = planes.cell.get(HUB_NAMESPACE, "web").unwrap();
    record::recorded(&deployment.metadata).into_iter().collect()
}

async fn pass(controller: &OutdatedCopies, name: &str) -> Result<Outcome, ReconcileError> {
    // The last answer of the hub no longer counts.
    sleep(CURRENT).await;
    let result = controller.reconcile(&context(), object_key(name)).await;
    settle().await;
    result
}

/// I-8: the record of the copy is stored before the finalizer is removed.
#[tokio::test(start_paused = true)]
async fn a_replaced_instance_does_not_wait_for_a_hub_that_does_not_answer() {
    for fault in [Fault::disconnect(), Fault::refuse(503)] {
        let (planes, controller) = start(1).await;
        planes.hub.fail(fault);
        // Without the record, the finalizer stays.
        let refused = Fault::refuse(500).on_writes();
        planes.cell.fail(refused.of::<WorkloadDeployment>());
        pass(&controller, "web-0").await.unwrap_err();
        assert!(is_there(&planes, "web-0"));
        planes.cell.heal();
        take_writes(&planes.servers());
        pass(&controller, "web-0").await.unwrap();
        let writes = [
            "patch workloaddeployments ns-1/web",
            "patch instances ns-1/web-0",
        ];
        assert_eq!(take_writes(&planes.servers()), writes);
        assert!(!is_there(&planes, "web-0"));
        assert_eq!(record(&planes), ["web-0"]);
        let outcome = pass(&controller, "web-0").await.unwrap();
        assert_eq!(outcome, Outcome::Gone);
    }
}

/// The write-back decides what an answer means.
#[tokio::test(start_paused = true)]
async fn an_instance_waits_for_a_hub_that_answers() {
    let (planes, controller) = start(1).await;
    for fault in [
        None,
        Some(Fault::refuse(403)),
        Some(Fault::answer(404, "404 page not found\n")),
    ] {
        planes.hub.heal();
        if let Some(fault) = fault {
            planes.hub.fail(fault);
        }
        let outcome = pass(&controller, "web-0").await.unwrap();
        assert_eq!(outcome, Outcome::Again(PATIENCE));
    }
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    assert!(is_there(&planes, "web-0"));
}

/// The number of Instances is that of the rules of the cell.
#[tokio::test(start_paused = true)]
async fn the_rules_of_the_cell_decide_whether_an_instance_is_replaced() {
    for (wanted, rules, is_replaced) in [
        (1, r#"{"replicas":{"min":2}}"#, true),
        (2, r#"{"replicas":{"max":1}}"#, false),
    ] {
        let (planes, controller) = start(2).await;
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |web| {
                web["spec"]["scaleSettings"]["minReplicas"] = json!(wanted);
                web["metadata"]["annotations"][CELL_RULES] = json!(rules);
            });
        settle().await;
        planes.hub.fail(Fault::disconnect());
        pass(&controller, "web-1").await.unwrap();
        assert_eq!(is_there(&planes, "web-1"), !is_replaced, "{rules}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_nothing_replaces_waits_for_the_hub() {
    type Change = fn(&mut Value);
    let changes: [Change; 2] = [
        |web| web["spec"]["scaleSettings"]["minReplicas"] = json!(0),
        |web| web["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z"),
    ];
    for change in changes {
        let (planes, controller) = start(1).await;
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
        settle().await;
        planes.hub.fail(Fault::disconnect());
        let outcome = pass(&controller, "web-0").await.unwrap();
        assert_eq!(outcome, Outcome::Again(PATIENCE));
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
        assert!(is_there(&planes, "web-0"));
    }
}

/// The write-back has removed the name, and the cache does not know.
#[tokio::test(start_paused = true)]
async fn a_record_that_only_the_cache_has_releases_nothing() {
    let (planes, controller) = start(1).await;
    let write = |record: &str| {
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |web| {
                web["metadata"]["annotations"] = json!({OUTDATED_COPIES: record});
            });
    };
    write(r#"["web-0"]"#);
    settle().await;
    planes
        .cell
        .fail(Fault::hang().on(&[Verb::List, Verb::Watch]));
    planes.cell.interrupt();
    write("[]");
    settle().await;
    planes.hub.fail(Fault::disconnect());
    pass(&controller, "web-0").await.unwrap_err();
    assert!(is_there(&planes, "web-0"));
    assert_eq!(record(&planes), [""; 0]);
}

/// All write to one record.
#[tokio::test(start_paused = true)]
async fn instances_that_are_replaced_at_once_are_all_recorded() {
    let (planes, controller) = start(4).await;
    planes.hub.fail(Fault::disconnect());
    sleep(CURRENT).await;
    let context = context();
    let one = |ordinal| controller.reconcile(&context, object_key(&format!("web-{ordinal}")));
    let (a, b, c, d) = tokio::join!(one(0), one(1), one(2), one(3));
    for result in [a, b, c, d] {
        result.unwrap();
    }
    settle().await;
    assert_eq!(record(&planes), ["web-0", "web-1", "web-2", "web-3"]);
    assert!((0..4).all(|ordinal| !is_there(&planes, &format!("web-{ordinal}"))));
}
