//! Tests of the write-back controller, with in-memory API servers.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{annotations, labels};
use apiserver::{ApiServer, Fault, KindId, Verb, objects};
use tokio::time::sleep;

use super::*;
use crate::fixtures::instance;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, converge, copy, object_key, reconcile, settle, take_writes,
};
use crate::instance::ReadinessController;
use crate::names;

mod copy_names;
mod other_crds;
mod outdated;
mod refusals;
mod undecodable;

const NAME: &str = "web-0";

async fn start() -> (CellPlanes, InstanceWriteback) {
    let mut instance = json!(instance(HUB_NAMESPACE, NAME));
    let mut linking: StringMap = labels::INSTANCE_LINKING
        .map(|key| (key.to_owned(), "x".to_owned()))
        .into();
    linking.insert(
        labels::WORKLOAD_DEPLOYMENT_NAME.to_owned(),
        "web".to_owned(),
    );
    instance["metadata"]["labels"] = json!(linking);
    instance["metadata"]["finalizers"] = json!([finalizers::INSTANCE_CONTROLLER]);
    let planes = CellPlanes::start(vec![instance], vec![copy("web")]).await;
    let readiness = ReadinessController {
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(ReadinessController::NAME, &planes.metrics),
        lifecycle: planes.lifecycle.clone(),
    };
    converge(&readiness, || object_key(NAME), &planes.servers()).await;
    let writeback = InstanceWriteback::new(Arc::clone(&planes.caches), &planes.metrics);
    (planes, writeback)
}

/// Starts with a terminating Instance that has a copy on the hub.
async fn start_terminating() -> (CellPlanes, InstanceWriteback) {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        });
    settle().await;
    (planes, writeback)
}

fn in_cell(planes: &CellPlanes) -> Option<Instance> {
    planes.cell.get(HUB_NAMESPACE, NAME)
}

fn on_hub(planes: &CellPlanes) -> Option<Instance> {
    planes.hub.get(HUB_NAMESPACE, NAME)
}

/// I-10: the hub's WorkloadDeployment owns the copy.
#[tokio::test(start_paused = true)]
async fn a_copy_is_written_with_its_status_and_then_left_alone() {
    let (planes, writeback) = start().await;
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let expected = [
        "create instances ns-1/web-0",
        "apply instances/status ns-1/web-0",
    ];
    assert_eq!(writes, expected);
    let copy = on_hub(&planes).unwrap();
    assert_eq!(copy.labels()[labels::SOURCE_CLUSTER], "dfw1");
    assert_eq!(copy.metadata.owner_references.unwrap()[0].uid, "web-copy");
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_hangs_or_answers_for_another_changes_nothing() {
    let (planes, writeback) = start().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
        Fault::refuse(403).on_writes(),
        Fault::disconnect(),
    ] {
        planes.hub.fail(fault);
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(on_hub(&planes).is_none());
        planes.hub.heal();
    }
    planes.hub.fail(Fault::hang());
    assert!(reconcile(&writeback, object_key(NAME)).await.is_none());
    planes.hub.heal();
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_hub_has_deleted_the_copy() {
    let (planes, writeback) = start_terminating().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(404),
        Fault::refuse(503),
        Fault::disconnect(),
    ] {
        planes.hub.fail(fault);
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(on_hub(&planes).is_some() && in_cell(&planes).is_some());
        planes.hub.heal();
    }
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_none() && in_cell(&planes).is_none());
}

/// I-12: the address of the hub leads to another hub when the copy is read first.
#[tokio::test(start_paused = true)]
async fn one_answer_does_not_prove_that_a_copy_is_gone() {
    let (planes, writeback) = start_terminating().await;
    planes.hub.fail(Fault::absent::<Instance>(NAME).times(1));
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.unwrap();
    assert!(on_hub(&planes).is_none() && in_cell(&planes).is_none());
}

/// I-12: the kubeconfig of the cell leads to another hub.
#[tokio::test(start_paused = true)]
async fn another_hub_does_not_prove_that_a_copy_is_gone() {
    let (planes, writeback) = start_terminating().await;
    let recorded = |uid: &str| {
        planes
            .cell
            .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
                namespace["metadata"]["annotations"] = json!({annotations::HUB_UID: uid});
            });
    };
    let held = async || {
        let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
        let error = error.expect_err("held");
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held && in_cell(&planes).is_some(), "{error}");
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
    };
    take_writes(&planes.servers());
    planes.hub.put(objects::namespace("default", "another"));
    recorded("own");
    // The other hub can have an old copy of the same name.
    held().await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    held().await;
    // The right hub, or a hub that replaces it.
    let replaces = json!({annotations::REPLACES_HUBS: "own"});
    planes.hub.modify::<Namespace>("", "default", |default| {
        default["metadata"]["annotations"] = replaces;
    });
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(in_cell(&planes).is_none());
}

/// A copy of the Go manager does not name its cell. Nothing else would delete it after its Instance.
#[tokio::test(start_paused = true)]
async fn deletion_deletes_the_copy_unless_another_cell_wrote_it() {
    for (cell, is_deleted) in [
        (Some("dfw1"), true),
        (Some("ord1"), false),
        (Some(""), true),
        (None, true),
    ] {
        let (planes, writeback) = start_terminating().await;
        planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
            let label = cell.map(|cell| (labels::SOURCE_CLUSTER, cell));
            copy["metadata"]["labels"] = json!(label.into_iter().collect::<BTreeMap<_, _>>());
        });
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(on_hub(&planes).is_none(), is_deleted, "{cell:?}");
        assert!(in_cell(&planes).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_deletes_a_copy_with_a_derived_name() {
    for own in [json!({}), json!({labels::SOURCE_CLUSTER: "dfw1"})] {
        let (planes, writeback) = start_terminating().await;
        let derived = names::copy_name(NAME, "dfw1");
        for (name, labels) in [
            (NAME, json!({labels::SOURCE_CLUSTER: "dfw2"})),
            (&derived, own),
        ] {
            let mut copy = json!(instance(HUB_NAMESPACE, name));
            copy["metadata"]["labels"] = labels;
            planes.hub.put(copy);
        }
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(copies(&planes), [(NAME.to_owned(), "dfw2".to_owned())]);
        assert!(in_cell(&planes).is_none());
    }
}

/// Another cell of the city adopts a copy of the Go manager while this cell deletes its Instance of the same name.
#[tokio::test(start_paused = true)]
async fn deletion_keeps_a_copy_that_another_cell_has_just_adopted() {
    let (planes, writeback) = start_terminating().await;
    let label = |cell: &str| {
        planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: cell});
        });
    };
    label("");
    let wait = Duration::from_secs(2);
    planes.hub.fail(Fault::delay(wait).on(&[Verb::Delete]));
    let adopt = async {
        sleep(wait / 2).await;
        label("dfw2");
    };
    let (deleted, ()) = tokio::join!(reconcile(&writeback, object_key(NAME)), adopt);
    deleted.unwrap().unwrap_err();
    assert!(in_cell(&planes).is_some());
    planes.hub.heal();
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_some() && in_cell(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_namespaces_a_copy_is_deleted() {
    let (planes, writeback) = start_terminating().await;
    let fault = Fault::refuse(403).on(&[Verb::Get]);
    planes.cell.fail(fault.of::<Namespace>());
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_none() && in_cell(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_left_is_deleted_only_when_the_cell_says_that_its_instance_is_gone() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
        Fault::disconnect(),
    ] {
        planes.cell.fail(fault.on(&[Verb::Get]));
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(on_hub(&planes).is_some());
        planes.cell.heal();
    }
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_none());
}

/// I-12: the kubeconfig of the cell leads to another hub, which has an old copy.
#[tokio::test(start_paused = true)]
async fn another_hub_loses_no_copy_that_was_left() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes.hub.put(objects::namespace("default", "another"));
    let recorded = |uid: &str| {
        planes
            .cell
            .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
                namespace["metadata"]["annotations"] = json!({annotations::HUB_UID: uid});
            });
    };
    recorded("own");
    settle().await;
    let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
    let error = error.expect_err("held");
    let is_held = matches!(error, ReconcileError::Contradiction { .. });
    assert!(is_held && on_hub(&planes).is_some(), "{error}");
    recorded("another");
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_the_fields_that_the_types_do_not_know() {
    let (planes, writeback) = start().await;
    let mut spec = objects::later_template()["spec"].clone();
    spec["controller"] = json!({"templateHash": "v1-x", "later": 7});
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["spec"] = spec.clone();
        });
    settle().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(json!(on_hub(&planes).unwrap().spec), spec);
}

/// Returns the names of all copies on the hub and their cells.
fn copies(planes: &CellPlanes) -> Vec<(String, String)> {
    let kind = KindId::of::<Instance>();
    let copies = planes.hub.keys(kind).into_iter().map(|(_, name)| {
        let copy = planes.hub.get::<Instance>(HUB_NAMESPACE, &name).unwrap();
        (name, copy.labels()[labels::SOURCE_CLUSTER].clone())
    });
    copies.collect()
}

#[tokio::test(start_paused = true)]
async fn the_instances_of_two_cells_have_copies_with_names_that_stay() {
    let (planes, writeback) = start().await;
    let mut other = json!(instance(HUB_NAMESPACE, NAME));
    other["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: "dfw2"});
    planes.hub.put(other);
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let own = names::copy_name(NAME, "dfw1");
    let of = |name: &str, cell: &str| (name.to_owned(), cell.to_owned());
    assert_eq!(copies(&planes), [of(NAME, "dfw2"), of(&own, "dfw1")]);
    assert_eq!(
        in_cell(&planes).unwrap().annotations()[annotations::COPY_NAME],
        own
    );
    assert!(!json!(in_cell(&planes)).to_string().contains("CopiedToHub"));
    // The name stays although the readable copy no longer names its cell, and although the readable name becomes free.
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |readable| {
            readable["metadata"]["labels"] = json!({});
        });
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(writes, [""; 0]);
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(writes, [""; 0]);
    assert_eq!(copies(&planes), [of(&own, "dfw1")]);
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        });
    settle().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(copies(&planes), []);
    assert!(in_cell(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_copy_with_a_derived_name_that_was_left_is_deleted() {
    let (planes, writeback) = start().await;
    for (name, cell) in [
        (names::copy_name("web-1", "dfw1"), "dfw1"),
        (names::copy_name("web-1", "dfw2"), "dfw2"),
        (names::copy_name("web-2", "dfw1"), "dfw1"),
    ] {
        let mut copy = json!(instance(HUB_NAMESPACE, &name));
        copy["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: cell});
        planes.hub.put(copy);
    }
    reconcile(&writeback, object_key("web-1"))
        .await
        .unwrap()
        .unwrap();
    let left = (names::copy_name("web-1", "dfw2"), "dfw2".to_owned());
    assert_eq!(copies(&planes), [left]);
}

#[tokio::test(start_paused = true)]
async fn copies_that_were_left_are_found_beyond_a_short_gap() {
    let (planes, writeback) = start().await;
    for ordinal in [1, 3, 7, 12] {
        let mut copy = json!(instance(HUB_NAMESPACE, &format!("web-{ordinal}")));
        copy["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: "dfw1"});
        planes.hub.put(copy);
    }
    let names = || copies(&planes).into_iter().map(|(name, _)| name);
    for (key, left) in [
        ("web-2", vec!["web-1", "web-12", "web-3", "web-7"]),
        ("web-1", vec!["web-12"]),
    ] {
        reconcile(&writeback, object_key(key))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(names().collect::<Vec<_>>(), left, "{key}");
    }
    let requests = planes.hub.requests();
    reconcile(&writeback, object_key("web-2"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(planes.hub.requests(), requests + 2);
}
