//! Tests of the controller of the rules of cells. The hub is an in-memory API server.

use std::collections::BTreeMap;

use api::DEFAULT_NAMESPACE;
use apiserver::{ApiServer, Fault, objects};
use serde_json::Value;

use super::triggers::all_rules;
use super::*;
use crate::fixtures::servers::{
    FakePlanes, HUB_UID, context, converge, exchange_hub, reconcile, recorded, settle, take_writes,
};
use crate::fixtures::{object, of_hub};
use crate::objects::{Namespace, StringMap};

fn cluster(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": tier}},
    })
}

fn rule(name: &str, site: &str) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "CellRule", "metadata": {"name": name},
        "spec": {"cells": {"matchLabels": {"tier": "far"}}, "rules": {"labels": [{"key": "site", "value": site}]}},
    })
}

async fn start(on_hub: Vec<Value>) -> (FakePlanes, CellRuleController) {
    let planes = FakePlanes::start(Vec::new(), on_hub).await;
    let controller = on(&planes);
    (planes, controller)
}

fn on(planes: &FakePlanes) -> CellRuleController {
    CellRuleController {
        hub: Arc::clone(&planes.hub_caches),
        hub_in_use: planes.hub_in_use.clone(),
        writer: planes.writer::<CellRuleController>(),
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_the_hub_of_another_installation() {
    let on_hub = vec![cluster("b", "far"), rule("far", "x")];
    let on_another = of_hub(recorded("web"), Some("another"));
    let planes = FakePlanes::start(vec![on_another], on_hub).await;
    let controller = on(&planes);
    let error = reconcile(&controller, all_rules()).await.unwrap();
    let is_held = matches!(error, Err(ReconcileError::Contradiction { .. }));
    assert!(is_held, "{error:?}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

async fn pass(planes: &FakePlanes, controller: &CellRuleController) -> Vec<String> {
    settle().await;
    converge(controller, all_rules, &planes.servers()).await
}

fn policy(hub: &ApiServer) -> Option<ClusterOverridePolicy> {
    hub.get("", POLICY)
}

const CREATE: &str = "create clusteroverridepolicies compute-cell-rules";
const STATUS: &str = "apply cellrules/status far";

#[tokio::test(start_paused = true)]
async fn the_policy_follows_the_rules_and_the_labels_of_the_cells() {
    let (planes, controller) = start(vec![cluster("a", "near"), cluster("b", "far")]).await;
    assert_eq!(pass(&planes, &controller).await, [""; 0]);
    planes.hub.put(rule("far", "x"));
    assert_eq!(pass(&planes, &controller).await, [CREATE, STATUS]);
    reconcile(&controller, all_rules()).await.unwrap().unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);

    planes.hub.put(cluster("a", "far"));
    pass(&planes, &controller).await;
    let names = |hub| {
        let rules = policy(hub).unwrap().spec.override_rules;
        rules[0].target_cluster.cluster_names.clone()
    };
    assert_eq!(names(&planes.hub), ["a", "b"]);
    let far: CellRule = planes.hub.get("", "far").unwrap();
    assert_eq!(far.status.unwrap().cells, 2);

    // Changes of others are undone.
    planes
        .hub
        .modify::<ClusterOverridePolicy>("", POLICY, |policy| {
            policy["spec"]["overrideRules"] = json!([]);
        });
    pass(&planes, &controller).await;
    assert_eq!(names(&planes.hub), ["a", "b"]);

    planes.hub.remove::<CellRule>("", "far");
    let writes = pass(&planes, &controller).await;
    assert_eq!(
        writes,
        ["delete clusteroverridepolicies compute-cell-rules"]
    );
    assert!(policy(&planes.hub).is_none());
}

/// I-12: the address leads to another hub, which has no rules, or others, or no cells. Only one watch has reported it.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_exchanged_behind_its_address_changes_no_rules() {
    let of_other_hub: [fn(&ApiServer); 4] = [
        |hub| hub.remove::<CellRule>("", "far"),
        |hub| {
            hub.remove::<CellRule>("", "far");
            hub.put(rule("other", "y"));
        },
        |hub| hub.put(rule("a", "y")),
        |hub| hub.remove::<Cluster>("", "b"),
    ];
    for change in of_other_hub {
        let (planes, controller) = start(vec![cluster("b", "far"), rule("far", "x")]).await;
        pass(&planes, &controller).await;
        let former = policy(&planes.hub).unwrap().spec;
        change(&planes.hub);
        settle().await;
        exchange_hub(&planes.hub);
        let error = reconcile(&controller, all_rules()).await.unwrap();
        let is_held = matches!(error, Err(ReconcileError::Contradiction { .. }));
        assert!(is_held, "{error:?}");
        assert_eq!(policy(&planes.hub).unwrap().spec, former);
    }
}

/// I-12: the address moves from one hub to the other between two requests. Only one of them has the rules.
#[tokio::test]
async fn rules_of_a_hub_to_which_the_address_moves_are_not_those_of_the_hub_in_use() {
    let hub = |uid: &str, rules: &[Value]| {
        let hub = ApiServer::new();
        hub.put(objects::namespace(DEFAULT_NAMESPACE, uid));
        hub.put(cluster("b", "far"));
        for rule in rules {
            hub.put(rule.clone());
        }
        hub
    };
    let rules = [rule("far", "x")];
    let labels = StringMap::from([("tier".to_owned(), "far".to_owned())]);
    let cells = BTreeMap::from([("b".to_owned(), labels)]);
    let decoded: CellRule = object(rules[0].clone());
    let wanted = super::policy(&rules_of_cells([&decoded], &cells));
    let own = objects::namespace(DEFAULT_NAMESPACE, HUB_UID);
    let identity = HubIdentity::of(Some(object::<Namespace>(own).meta()));
    let check = async |hubs: &[ApiServer]| {
        let client = ApiServer::client_in_turn(hubs);
        require_wanted_by_hub(&client, &identity, wanted.as_ref()).await
    };
    let (own, another) = (hub(HUB_UID, &[]), hub("another", &rules));
    for [first, second] in [[&own, &another], [&another, &own]] {
        for moves_at in 0..=6 {
            let of = |request| if request < moves_at { first } else { second };
            let hubs = [0, 1, 2, 3, 4, 5].map(|request| of(request).clone());
            assert!(check(&hubs).await.is_err(), "{moves_at}");
        }
    }
    assert!(check(&[hub(HUB_UID, &rules)]).await.is_ok());
}

/// The watch of the rules leads to another hub, and the requests lead to the hub in use.
#[tokio::test(start_paused = true)]
async fn rules_that_the_hub_does_not_confirm_change_nothing() {
    let (planes, controller) = start(vec![cluster("b", "far"), rule("far", "x")]).await;
    pass(&planes, &controller).await;
    planes.hub.remove::<CellRule>("", "far");
    settle().await;
    planes.hub.put(rule("far", "x"));
    let error = reconcile(&controller, all_rules()).await.unwrap();
    let is_held = matches!(error, Err(ReconcileError::NotYet { .. }));
    assert!(is_held, "{error:?}");
    assert!(policy(&planes.hub).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_decoded_changes_nothing() {
    let (planes, controller) = start(vec![cluster("b", "far"), rule("far", "x")]).await;
    pass(&planes, &controller).await;
    let former = policy(&planes.hub).unwrap().spec;
    let mut undecodable = rule("other", "y");
    undecodable["spec"]["rules"]["later"] = json!([]);
    planes.hub.put(undecodable);
    planes.hub.remove::<CellRule>("", "far");
    planes.hub.put(rule("new", "z"));
    settle().await;
    let error = reconcile(&controller, all_rules())
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("later"), "{error}");
    assert_eq!(policy(&planes.hub).unwrap().spec, former);
    let new: CellRule = planes.hub.get("", "new").unwrap();
    let status = new.status.unwrap();
    assert_eq!(
        (status.cells, &*status.conditions[0].reason),
        (0, "Undecodable")
    );
    let message = &status.conditions[0].message;
    assert!(message.contains("CellRule other"), "{message}");

    planes.hub.remove::<CellRule>("", "other");
    pass(&planes, &controller).await;
    let new: CellRule = planes.hub.get("", "new").unwrap();
    assert_eq!(new.status.unwrap().cells, 1);
}

/// A watch that goes on after a failure reports only what has changed since.
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_current_is_waited_for() {
    for code in [503, 403] {
        let (planes, controller) = start(vec![cluster("b", "far")]).await;
        let fault = Fault::refuse(code).of::<Cluster>();
        planes.hub.fail(fault);
        planes.hub.interrupt();
        settle().await;
        planes.hub.put(rule("far", "x"));
        settle().await;
        let outcome = controller.reconcile(&context(), all_rules()).await;
        assert_eq!(outcome.unwrap(), Outcome::Again(NOT_CURRENT), "{code}");
        assert!(policy(&planes.hub).is_none());
        planes.hub.heal();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(pass(&planes, &controller).await, [CREATE, STATUS], "{code}");
    }
}

/// It is not known whether the cells have the rules.
#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_while_the_policy_cannot_be_written() {
    let (planes, controller) = start(vec![cluster("b", "far"), rule("far", "x")]).await;
    for code in [409, 413, 500] {
        let fault = Fault::refuse(code)
            .of::<ClusterOverridePolicy>()
            .on_writes();
        planes.hub.fail(fault);
        reconcile(&controller, all_rules())
            .await
            .unwrap()
            .unwrap_err();
        let far: CellRule = planes.hub.get("", "far").unwrap();
        assert_eq!(far.status, None, "{code}");
        planes.hub.heal();
    }
    assert_eq!(pass(&planes, &controller).await.last().unwrap(), STATUS);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_the_policy_is_shown() {
    let (planes, controller) = start(vec![cluster("b", "far"), rule("far", "x")]).await;
    planes
        .hub
        .fail(Fault::refuse(422).of::<ClusterOverridePolicy>().on_writes());
    reconcile(&controller, all_rules())
        .await
        .unwrap()
        .unwrap_err();
    let far: CellRule = planes.hub.get("", "far").unwrap();
    let status = far.status.unwrap();
    assert_eq!(status.conditions[0].reason, "PolicyRefused");
}
