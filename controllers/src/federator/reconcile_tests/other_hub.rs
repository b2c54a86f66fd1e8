//! Tests of a hub that is not the recorded one.

use std::time::Duration;

use super::*;
use crate::fixtures::of_hub;

/// Returns the object with the record of another hub.
fn of_another_hub(object: Value) -> Value {
    of_hub(object, Some("another"))
}

/// Reconciles the WorkloadDeployment, and returns it. It must be held, and nothing may be written to the hub.
async fn held(planes: &FakePlanes, federator: &Federator) -> WorkloadDeployment {
    let error = reconcile(federator, project_key(NAME)).await.unwrap();
    let error = error.expect_err("held");
    let is_held = matches!(error, ReconcileError::Contradiction { .. });
    assert!(is_held, "{error}");
    let held = in_project(planes).expect("the finalizer stays");
    assert_eq!(available(&held).reason, HUB_CONTRADICTED);
    assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
    held
}

#[tokio::test(start_paused = true)]
async fn another_hub_proves_nothing_about_a_deployment() {
    let going = of_another_hub(terminating_json(recorded(NAME)));
    let live = of_another_hub(recorded(NAME));
    for deployment in [going, live] {
        let (planes, federator) = start(deployment, vec![policy()]).await;
        for _ in 0..2 {
            let deployment = held(&planes, &federator).await;
            assert_eq!(deployment.finalizers(), [finalizers::FEDERATOR]);
            assert!(available(&deployment).message.contains("another"));
        }
        // The condition is written once.
        assert_eq!(take_writes(&[&planes.project]).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_exchanged_behind_its_address_proves_nothing() {
    let going = terminating_json(recorded(NAME));
    let (planes, federator) = start(going, vec![hub_namespace(), policy()]).await;
    exchange_hub(&planes.hub);
    let error = federator.reconcile(&context(), project_key(NAME)).await;
    let error = error.map(drop).expect_err("held");
    assert!(
        matches!(error, ReconcileError::Contradiction { .. }),
        "{error}"
    );
    assert!(in_project(&planes).is_some());
}

/// The caches are those of the former hub, and the new one has the objects of an earlier time.
#[tokio::test(start_paused = true)]
async fn no_copy_is_created_on_a_hub_that_was_exchanged_behind_its_address() {
    let new = || json!(deployment("default", NAME, "DFW", 1));
    for (deployment, on_hub) in [
        (new(), vec![hub_namespace(), policy()]),
        (new(), Vec::new()),
        (recorded(NAME), vec![hub_namespace(), policy()]),
    ] {
        let had_namespace = !on_hub.is_empty();
        let (planes, federator) = start(deployment, on_hub).await;
        exchange_hub(&planes.hub);
        let error = federator.reconcile(&context(), project_key(NAME)).await;
        let error = error.map(drop).expect_err("held");
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held, "{error}");
        assert!(super::on_hub(&planes).is_none());
        let namespace = planes.hub.get::<Namespace>("", HUB_NAMESPACE);
        assert_eq!(namespace.is_some(), had_namespace);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_without_a_record_is_adopted_by_the_hub_that_has_its_namespace() {
    let unrecorded = of_hub(recorded(NAME), None);
    let on_hub = vec![hub_namespace(), policy(), copy(NAME)];
    let (planes, federator) = start(unrecorded.clone(), on_hub).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let adopted = in_project(&planes).unwrap();
    assert_eq!(adopted.annotations()[annotations::HUB_UID], HUB_UID);
    let namespace = planes.hub.get::<Namespace>("", HUB_NAMESPACE).unwrap();
    assert_eq!(namespace.annotations()[annotations::HUB_UID], HUB_UID);
    // A hub without the namespace may be another hub.
    for deployment in [unrecorded.clone(), terminating_json(unrecorded)] {
        let (planes, federator) = start(deployment, vec![policy()]).await;
        held(&planes, &federator).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_waits_while_another_of_its_project_is_on_another_hub() {
    let new = json!(deployment("default", NAME, "DFW", 1));
    let unrecorded = of_hub(recorded("old"), None);
    for neighbour in [of_another_hub(recorded("old")), unrecorded] {
        let (planes, federator) = start(new.clone(), Vec::new()).await;
        planes.project.put(neighbour);
        settle().await;
        assert_eq!(held(&planes, &federator).await.finalizers(), [""; 0]);
    }
}

/// The kubeconfig leads to the hub of another installation. The project has no record yet.
#[tokio::test(start_paused = true)]
async fn the_first_deployment_of_a_project_waits_on_a_hub_that_other_projects_do_not_record() {
    let new = || json!(deployment("default", NAME, "DFW", 1));
    let other = FakePlanes::start(vec![of_another_hub(recorded("old"))], Vec::new()).await;
    let (planes, federator) = start(new(), Vec::new()).await;
    planes.serve_also("other", &other);
    assert_eq!(held(&planes, &federator).await.finalizers(), [""; 0]);
    // WorkloadDeployments that are held do not count, however many they are.
    let more = [
        FakePlanes::start(vec![new()], Vec::new()).await,
        FakePlanes::start(vec![new()], Vec::new()).await,
    ];
    for (name, more) in ["more", "most"].iter().zip(&more) {
        planes.serve_also(name, more);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(held(&planes, &federator).await.finalizers(), [""; 0]);

    // It is not known yet what the other projects record.
    let name = hub_key().project.unwrap();
    let project = other.projects.get(&name).unwrap();
    other.projects.unregister(&name, &project, || ());
    let (planes, federator) = start(new(), Vec::new()).await;
    let federator = Federator {
        hub_in_use: other.hub_in_use.clone(),
        ..federator
    };
    let error = reconcile(&federator, project_key(NAME)).await.unwrap();
    let waits = matches!(error, Err(ReconcileError::NotYet { .. }));
    assert!(waits, "{error:?}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// I-12: the hub in use has an old copy, which is not a copy of the project any more.
#[tokio::test(start_paused = true)]
async fn another_hub_loses_no_copy() {
    let keep = async |planes: &FakePlanes, federator: &Federator| {
        let error = reconcile(federator, project_key("old")).await.unwrap();
        let error = error.expect_err("held");
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held, "{error}");
        assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
    };
    let on_hub = || vec![hub_namespace(), policy(), copy("old")];
    let (planes, federator) = start(of_another_hub(recorded(NAME)), on_hub()).await;
    keep(&planes, &federator).await;
    held(&planes, &federator).await;
    planes.project.put(recorded(NAME));
    planes.hub.put(of_another_hub(hub_namespace()));
    settle().await;
    keep(&planes, &federator).await;
    planes.hub.put(hub_namespace());
    settle().await;
    converge(&federator, || project_key("old"), &planes.servers()).await;
    let old = planes.hub.get::<WorkloadDeployment>(HUB_NAMESPACE, "old");
    assert!(old.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_replaces_another_takes_its_deployments() {
    let replaces = |planes: &FakePlanes| {
        planes
            .hub
            .modify::<Namespace>("", DEFAULT_NAMESPACE, |default| {
                default["metadata"]["annotations"] =
                    json!({annotations::REPLACES_HUBS: "older, another"});
            });
    };
    let (planes, federator) = start(of_another_hub(recorded(NAME)), Vec::new()).await;
    replaces(&planes);
    settle().await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let moved = in_project(&planes).unwrap();
    assert_eq!(moved.annotations()[annotations::HUB_UID], HUB_UID);
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_some());
    let going = of_another_hub(terminating_json(recorded(NAME)));
    let (planes, federator) = start(going, Vec::new()).await;
    replaces(&planes);
    settle().await;
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(in_project(&planes).is_none());
}
