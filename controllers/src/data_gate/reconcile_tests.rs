//! Tests of the data gate, with an in-memory API server of a cell.

use api::instance::REFERENCED_DATA_GATE;
use api::{WorkloadDeployment, annotations, labels};
use apiserver::Verb;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::cell::rules::with_rules;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, context, object_key, settle, take_writes,
};
use crate::fixtures::{deployment, instance, object};
use crate::objects::controller_reference;
use crate::template::template_hash;

/// Returns a WorkloadDeployment that uses the Secret `token`, and its Instance with the gate.
fn gated() -> Vec<Value> {
    let mut owner = json!(deployment(HUB_NAMESPACE, "web", "DFW", 1));
    let list = json!(["Secret/token"]).to_string();
    let versions = json!({"template": "t", "sources": {"Secret/token": "u/7"}}).to_string();
    owner["metadata"]["annotations"] = json!({
        annotations::UPSTREAM_GENERATION: "1",
        annotations::EXPECTED_REFERENCED_DATA: list,
        annotations::REFERENCED_DATA_VERSIONS: versions,
    });
    let all = json!([{"secretRef": {"name": "token"}}]);
    owner["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    let typed: WorkloadDeployment = object(owner.clone());
    let mut own = json!(instance(HUB_NAMESPACE, "web-0"));
    own["metadata"]["ownerReferences"] = json!([controller_reference(&typed)]);
    own["spec"] = owner["spec"]["template"]["spec"].clone();
    own["spec"]["controller"] = json!({
        "templateHash": template_hash(&typed),
        "schedulingGates": [{"name": REFERENCED_DATA_GATE}],
    });
    vec![owner, own]
}

fn companion(version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": HUB_NAMESPACE, "name": "token",
            "labels": {labels::REFERENCED_DATA: "true"},
            "annotations": {annotations::SOURCE_VERSION: version},
        },
    })
}

fn is_closed(planes: &CellPlanes) -> bool {
    let instance: Instance = planes.cell.get(HUB_NAMESPACE, "web-0").unwrap();
    REFERENCED_DATA.is_closed(&instance)
}

/// Looks again a second later. Returns the writes.
async fn look(planes: &CellPlanes, controller: &DataGateController) -> Vec<String> {
    sleep(plan::SOON).await;
    let key = object_key("web-0");
    controller.reconcile(&context(), key).await.unwrap();
    settle().await;
    take_writes(&planes.servers())
}

#[tokio::test(start_paused = true)]
async fn the_condition_and_then_the_gate_follow_the_companion() {
    const STATUS: &str = "patch instances/status ns-1/web-0";
    let planes = CellPlanes::start(gated(), Vec::new()).await;
    // The answers about companions count for a moment of the clock of tests, which does not move.
    let controller = || DataGateController::new(Arc::clone(&planes.caches), true, &planes.metrics);
    assert_eq!(look(&planes, &controller()).await, [STATUS]);
    assert_eq!(look(&planes, &controller()).await, [""; 0]);
    planes.cell.put(companion("u/6"));
    assert_eq!(look(&planes, &controller()).await, [""; 0]);
    assert!(is_closed(&planes));
    planes.cell.put(companion("u/7"));
    let opened = look(&planes, &controller()).await;
    assert_eq!(opened, [STATUS, "patch instances ns-1/web-0"]);
    assert!(!is_closed(&planes));
    // A machine that runs has its data.
    planes
        .cell
        .remove::<k8s_openapi::api::core::v1::Secret>(HUB_NAMESPACE, "token");
    assert_eq!(look(&planes, &controller()).await, [""; 0]);
}

/// The Instance was made with the rules of the cell, so its hash is that of the changed template.
#[tokio::test(start_paused = true)]
async fn an_instance_that_was_made_with_rules_is_of_the_template() {
    let [mut owner, mut own] = <[Value; 2]>::try_from(gated()).unwrap();
    let rules = r#"{"labels":[{"key":"site","value":"far"}]}"#;
    owner["metadata"]["annotations"][annotations::CELL_RULES] = json!(rules);
    let with = with_rules(Arc::new(object(owner.clone())));
    let hash = &mut own["spec"]["controller"]["templateHash"];
    assert_ne!(*hash, json!(template_hash(&with)));
    *hash = json!(template_hash(&with));
    let planes = CellPlanes::start(vec![owner, own, companion("u/7")], Vec::new()).await;
    let controller = DataGateController::new(Arc::clone(&planes.caches), true, &planes.metrics);
    look(&planes, &controller).await;
    assert!(!is_closed(&planes));
}

#[tokio::test(start_paused = true)]
async fn companions_are_neither_listed_nor_watched() {
    let planes = CellPlanes::start(gated(), Vec::new()).await;
    let controller = DataGateController::new(Arc::clone(&planes.caches), true, &planes.metrics);
    let before = [Verb::List, Verb::Watch].map(|verb| planes.cell.count_requests(verb));
    let again = controller.reconcile(&context(), object_key("web-0")).await;
    assert!(matches!(again, Ok(Outcome::Again(plan::SOON))), "{again:?}");
    assert_eq!(planes.cell.count_requests(Verb::Get), 1);
    let after = [Verb::List, Verb::Watch].map(|verb| planes.cell.count_requests(verb));
    assert_eq!(before, after);
}
