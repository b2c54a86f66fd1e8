mod cells;
mod cells_below;
mod ending;
mod holds;
mod lifecycle;
mod rules;
mod silence;
mod statuses;

use std::collections::BTreeMap;

use api::karmada::ResourceBinding;
use kube::Resource;
use serde_json::json;

use super::*;
use crate::fixtures::{deployment, now, object, terminating};
use crate::hub::cells::CellState;

const HUB_NAMESPACE: &str = "ns-uid-1";
const CLUSTER_UID: &str = "uid-of-default";

/// The only Cluster that is labelled as a lower hub.
const LOWER_HUB: &str = "dfw";

const HUB_UID: &str = "uid-of-the-hub";

fn hub_identity() -> HubIdentity {
    HubIdentity::of(Some(&object(json!({"uid": HUB_UID}))))
}

fn project() -> ProjectName {
    ProjectName::new("single").unwrap()
}

/// Returns a WorkloadDeployment of a project, with a record of its hub namespace and with a finalizer.
fn recorded(city: &str) -> WorkloadDeployment {
    let mut deployment = deployment("default", "web-us-dfw", city, 2);
    deployment.meta_mut().finalizers = Some(vec![finalizers::FEDERATOR.into()]);
    deployment.meta_mut().annotations = Some(BTreeMap::from([
        (
            annotations::FEDERATION_NAMESPACE.into(),
            HUB_NAMESPACE.into(),
        ),
        (annotations::HUB_UID.into(), HUB_UID.into()),
    ]));
    deployment
}

fn namespace(uid: &str) -> Namespace {
    object(json!({"metadata": {"name": "default", "uid": uid}}))
}

fn labelled(project: &str, namespace: &str) -> StringMap {
    StringMap::from([
        (labels::UPSTREAM_CLUSTER_NAME.into(), project.into()),
        (labels::UPSTREAM_NAMESPACE.into(), namespace.into()),
    ])
}

/// The objects on the hub: the namespace, the copy, and the existence of a policy.
struct HubFixture {
    namespace: Option<Namespace>,
    copy: Option<Arc<WorkloadDeployment>>,
    policy_exists: bool,
}

const NOTHING: HubFixture = HubFixture {
    namespace: None,
    copy: None,
    policy_exists: false,
};

/// Returns a hub that has all objects of the WorkloadDeployment.
fn complete(deployment: &WorkloadDeployment) -> HubFixture {
    let mut copy = deployment.clone();
    copy.meta_mut().generation = Some(7);
    copy.meta_mut().labels = Some(BTreeMap::from([
        (labels::CITY_CODE.into(), deployment.spec.city_code.clone()),
        (labels::UPSTREAM_NAMESPACE.into(), "default".into()),
        (labels::SOURCE_CLUSTER.into(), "someone else's".into()),
    ]));
    let mut hub_namespace = namespace("hub");
    hub_namespace.meta_mut().labels = Some(labelled("cluster-single", "default"));
    hub_namespace.meta_mut().annotations = Some(BTreeMap::from([
        (annotations::UPSTREAM_CLUSTER_UID.into(), CLUSTER_UID.into()),
        (annotations::HUB_UID.into(), HUB_UID.into()),
    ]));
    HubFixture {
        namespace: Some(hub_namespace),
        copy: Some(Arc::new(copy)),
        policy_exists: true,
    }
}

fn plan_for(deployment: &WorkloadDeployment, hub: &HubFixture) -> Plan {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    plan_in(&own, Some(&own), deployment, hub)
}

/// Returns the facts about cells that can all be reached, and know no rules. One of them is a lower hub.
fn reachable_cells(binding: Option<&ResourceBinding>) -> CopyCells<'_> {
    CopyCells {
        binding,
        state: &|_| CellState::Reachable,
        is_lower_hub: &|cluster| cluster == LOWER_HUB,
        silent: &|_| Vec::new(),
        rules_stamp: &|_| None,
    }
}

/// Plans for a WorkloadDeployment. `hub_namespace` is the recorded hub namespace. `derived` is the hub namespace that
/// follows from its Namespace.
fn plan_in(
    recorded: &HubNamespace,
    derived: Option<&HubNamespace>,
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
) -> Plan {
    let cells = reachable_cells(None);
    plan_knowing(cells, recorded, derived, deployment, hub)
}

/// Plans in the same way as [`plan_in`], with observations of cells.
fn plan_knowing(
    cells: CopyCells<'_>,
    recorded: &HubNamespace,
    derived: Option<&HubNamespace>,
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
) -> Plan {
    plan_told(
        KnownLack::default(),
        cells,
        recorded,
        derived,
        deployment,
        hub,
    )
}

/// Plans in the same way as [`plan_knowing`], with what is known about cells that lack the copy.
fn plan_told(
    lack: KnownLack,
    cells: CopyCells<'_>,
    recorded: &HubNamespace,
    derived: Option<&HubNamespace>,
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
) -> Plan {
    plan(&Observed {
        project: &project(),
        deployment,
        hub_namespace: recorded,
        derived,
        cluster_uid: Some(CLUSTER_UID),
        root_uid: None,
        hub: &hub_identity(),
        other_hub: None,
        neighbour: None,
        namespace: hub.namespace.as_ref(),
        copy: hub.copy.as_ref(),
        policy_exists: hub.policy_exists,
        lack,
        cells,
        now: now(),
    })
}

/// Plans for a WorkloadDeployment on an empty hub. `neighbour` is the reason to wait for another WorkloadDeployment.
fn plan_beside(
    neighbour: Option<&str>,
    hub: &HubIdentity,
    deployment: &WorkloadDeployment,
) -> Plan {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    plan(&Observed {
        project: &project(),
        deployment,
        hub_namespace: &own,
        derived: Some(&own),
        cluster_uid: None,
        root_uid: None,
        hub,
        other_hub: None,
        neighbour: neighbour.map(str::to_owned),
        namespace: None,
        copy: None,
        policy_exists: false,
        lack: KnownLack::default(),
        cells: reachable_cells(None),
        now: now(),
    })
}

/// I-9: a recorded hub namespace needs no other object.
#[test]
fn the_hub_namespace_is_the_recorded_one_and_else_that_of_the_namespace() {
    let of = |deployment: &WorkloadDeployment, namespace: Option<&Namespace>| {
        let derived = derived(deployment, namespace.map(Resource::meta)).unwrap();
        hub_namespace(deployment, derived.as_ref()).map(|name| name.map(|name| name.to_string()))
    };
    let expected = Some(HUB_NAMESPACE.to_owned());
    let new = deployment("default", "web-us-dfw", "DFW", 2);
    let (own, other) = (namespace("uid-1"), namespace("uid-2"));
    assert_eq!(of(&new, Some(&own)).unwrap(), expected);
    assert!(matches!(of(&new, None), Err(ReconcileError::NotYet { .. })));
    assert_eq!(of(&recorded("DFW"), None).unwrap(), expected);
    // Finalization depends only on the object itself (I-9).
    let going = terminating(recorded("DFW"));
    assert_eq!(of(&going, Some(&other)).unwrap(), expected);
    // A WorkloadDeployment of the Go manager has no record.
    let mut of_the_baseline = going;
    of_the_baseline.meta_mut().annotations = None;
    assert_eq!(of(&of_the_baseline, Some(&own)).unwrap(), expected);
    of_the_baseline.meta_mut().finalizers = None;
    assert_eq!(of(&of_the_baseline, None).unwrap(), None);
}

#[test]
fn the_namespace_is_recorded_before_anything_is_written_there() {
    let plan = plan_for(&deployment("default", "web-us-dfw", "DFW", 2), &NOTHING);
    assert!(plan.record);
    let DesiredNamespace {
        labels,
        annotations,
    } = plan.apply_namespace.unwrap();
    assert_eq!(labels[labels::UPSTREAM_CLUSTER_NAME], "cluster-single");
    assert_eq!(labels[labels::UPSTREAM_NAMESPACE], "default");
    assert_eq!(annotations[annotations::UPSTREAM_CLUSTER_UID], CLUSTER_UID);
    // The plan creates no copy, because the copy must wait for its policy.
    assert_eq!(plan.apply_copy, None);
    assert!(!plan_for(&recorded("DFW"), &NOTHING).record);
}

#[test]
fn plane_uids_are_written_if_proved_and_stay_if_unknown() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    // The plan must write the labels too. One write sets both the labels and the annotations.
    hub.namespace.as_mut().unwrap().meta_mut().labels = None;
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let desired = |derived, cluster_uid, root_uid| {
        let observed = Observed {
            project: &project(),
            deployment: &deployment,
            hub_namespace: &own,
            derived,
            cluster_uid,
            root_uid,
            hub: &hub_identity(),
            other_hub: None,
            neighbour: None,
            namespace: hub.namespace.as_ref(),
            copy: hub.copy.as_ref(),
            policy_exists: true,
            lack: KnownLack::default(),
            cells: reachable_cells(None),
            now: now(),
        };
        let annotations = plan(&observed).apply_namespace.unwrap().annotations;
        let of = |key: &str| annotations.get(key).cloned();
        (
            of(annotations::UPSTREAM_CLUSTER_UID),
            of(annotations::UPSTREAM_ROOT_UID),
        )
    };
    let some = |uid: &str| Some(uid.to_owned());
    let kept = (some(CLUSTER_UID), None);
    assert_eq!(desired(Some(&own), None, None), kept);
    assert_eq!(
        desired(Some(&own), Some("anew"), Some("root")),
        (some("anew"), some("root"))
    );
    // Without a derived namespace, the name of the hub namespace comes only from the record.
    assert_eq!(desired(None, Some("anew"), Some("root")), kept);
}

#[test]
fn the_copy_follows_its_policy() {
    let hub = HubFixture {
        policy_exists: true,
        ..NOTHING
    };
    let copy = plan_for(&recorded("DFW"), &hub).apply_copy.unwrap();
    assert_eq!(copy.labels[labels::CITY_CODE], "DFW");
    assert_eq!(copy.labels[labels::UPSTREAM_NAMESPACE], "default");
}

#[test]
fn what_is_there_is_left_alone() {
    let deployment = recorded("DFW");
    assert_eq!(
        plan_for(&deployment, &complete(&deployment)),
        Plan::default()
    );
}

#[test]
fn a_change_of_the_city_replaces_the_copy() {
    let hub = complete(&recorded("DFW"));
    let plan = plan_for(&recorded("ORD"), &hub);
    assert_eq!((plan.delete_copy, plan.apply_copy), (true, None));
    // The plan repairs a manual edit of the label or of the spec.
    for edit in [
        |copy: &mut WorkloadDeployment| copy.spec.city_code = "ORD".into(),
        |copy: &mut WorkloadDeployment| {
            copy.labels_mut()
                .insert(labels::CITY_CODE.into(), "ORD".into());
        },
    ] {
        let mut hub = complete(&recorded("DFW"));
        edit(Arc::make_mut(hub.copy.as_mut().unwrap()));
        let plan = plan_for(&recorded("DFW"), &hub);
        assert!(!plan.delete_copy && plan.apply_copy.is_some());
    }
}

/// I-19: an absent annotation is removed on the hub.
#[test]
fn only_mirrored_annotations_are_copied_also_their_absence() {
    const DATA: &[Option<&str>] = &[None, Some(""), Some("[]"), Some(r#"["Secret/s"]"#)];
    const SUSPENDED: &[Option<&str>] = &[None, Some("false"), Some("true")];
    let cases = [
        (annotations::EXPECTED_REFERENCED_DATA, DATA),
        (annotations::SUSPENDED, SUSPENDED),
    ];
    let annotated = |deployment: &WorkloadDeployment, key: &str, value: Option<&str>| {
        let mut deployment = deployment.clone();
        let annotations = deployment.annotations_mut();
        annotations.insert("example.com/note".into(), "the project's".into());
        match value {
            Some(value) => annotations.insert(key.into(), value.into()),
            None => annotations.remove(key),
        };
        deployment
    };
    let pairs = |values: &'static [Option<&str>]| {
        let of = |wanted| values.iter().map(move |there| (wanted, there));
        values.iter().flat_map(of)
    };
    let pairs = cases
        .into_iter()
        .flat_map(|(key, values)| pairs(values).map(move |pair| (key, pair)));
    for (key, (wanted, there)) in pairs {
        let deployment = annotated(&recorded("DFW"), key, *wanted);
        let mut hub = complete(&deployment);
        let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
        *copy = annotated(copy, key, *there);
        copy.annotations_mut()
            .insert("example.com/note".into(), "the hub's".into());
        let applied = plan_for(&deployment, &hub).apply_copy;
        let carried = [
            (annotations::UPSTREAM_GENERATION, "5".to_owned()),
            (annotations::UPSTREAM_UID, deployment.uid().unwrap()),
        ];
        let carried = carried.map(|(key, value)| Some((key.to_owned(), value)));
        let mirrored = wanted.map(|value| (key.to_owned(), value.to_owned()));
        let expected = carried.into_iter().chain([mirrored]);
        assert_eq!(
            applied.map(|copy| copy.annotations),
            (wanted != there).then(|| expected.flatten().collect()),
            "{key} {wanted:?} {there:?}"
        );
    }
}

/// I-33: the cell must not take data that are older than the template.
#[test]
fn versions_of_a_former_template_are_not_copied() {
    let key = annotations::REFERENCED_DATA_VERSIONS;
    let carries = |hash: &str| {
        let mut deployment = recorded("DFW");
        let versions = format!(r#"{{"template":"{hash}","sources":{{}}}}"#);
        deployment.annotations_mut().insert(key.into(), versions);
        let hub = complete(&recorded("DFW"));
        let applied = plan_for(&deployment, &hub).apply_copy;
        applied.is_some_and(|copy| copy.annotations.contains_key(key))
    };
    assert!(carries(&template_hash(&recorded("DFW"))));
    assert!(!carries("v1-former"));
}

#[test]
fn an_edited_copy_is_repaired_and_a_terminating_one_awaited() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).spec.replicas = Some(9);
    assert!(plan_for(&deployment, &hub).apply_copy.is_some());
    hub.copy = hub
        .copy
        .map(|copy| Arc::new(terminating(copy.as_ref().clone())));
    assert_eq!(plan_for(&deployment, &hub).apply_copy, None);
}

#[test]
fn deletion_removes_the_copy_then_the_finalizer_and_nothing_else() {
    let deployment = terminating(recorded("DFW"));
    let hub = complete(&deployment);
    let plan = plan_for(
        &deployment,
        &HubFixture {
            copy: Some(Arc::new(recorded("DFW"))),
            ..complete(&recorded("DFW"))
        },
    );
    assert_eq!(
        plan,
        Plan {
            delete_copy: true,
            ..Plan::default()
        }
    );
    // `complete` copies the deletion timestamp, so the copy is terminating already.
    assert_eq!(plan_for(&deployment, &hub), Plan::default());
    assert_eq!(
        plan_for(&deployment, &HubFixture { copy: None, ..hub }),
        Plan {
            release: true,
            ..Plan::default()
        }
    );
    let mut foreign = deployment;
    foreign.meta_mut().finalizers = Some(vec!["example.com/other".into()]);
    assert_eq!(plan_for(&foreign, &NOTHING), Plan::default());
}
