//! Tests of a cache of the project that is behind the project's API server.

use super::*;

/// Returns the WorkloadDeployment at this generation with this number of replicas.
fn at(mut object: Value, generation: i64, replicas: i32) -> Value {
    object["metadata"]["generation"] = json!(generation);
    object["spec"]["scaleSettings"]["minReplicas"] = json!(replicas);
    object
}

/// Returns a copy that was written from this generation of the project's WorkloadDeployment.
fn copy_of(generation: i64, replicas: i32) -> Value {
    let mut copy = at(copy(NAME), 3, replicas);
    copy["metadata"]["labels"][api::labels::UPSTREAM_NAMESPACE] = json!("default");
    copy["metadata"]["annotations"] = json!({
        annotations::UPSTREAM_GENERATION: generation.to_string(),
        annotations::UPSTREAM_UID: recorded(NAME)["metadata"]["uid"],
    });
    copy
}

/// Starts with a complete hub, a WorkloadDeployment and a copy. Returns after everything but the copy is settled.
async fn start_with(in_project: Value, copy: Option<Value>) -> (FakePlanes, Federator) {
    let (planes, federator) = start(in_project, vec![hub_namespace()]).await;
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    let _ = reconcile(&federator, project_key(NAME)).await;
    planes.hub.remove::<WorkloadDeployment>(HUB_NAMESPACE, NAME);
    if let Some(copy) = copy {
        planes.hub.put(copy);
    }
    settle().await;
    take_writes(&planes.servers());
    (planes, federator)
}

/// Reconciles before the watch can report the last changes.
async fn reconcile_stale(federator: &Federator) -> Result<(), ReconcileError> {
    let reconciled = federator.reconcile(&context(), project_key(NAME)).await;
    settle().await;
    reconciled.map(drop)
}

fn replicas_on_hub(planes: &FakePlanes) -> i32 {
    on_hub(planes).unwrap().spec.scale_settings.min_replicas
}

fn change(planes: &FakePlanes, generation: i64, replicas: i32) {
    let change = |object: &mut Value| *object = at(object.take(), generation, replicas);
    planes
        .project
        .modify::<WorkloadDeployment>("default", NAME, change);
}

fn assert_waits(result: Result<(), ReconcileError>) {
    let error = result.expect_err("the cache is stale");
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
}

/// I-23: the copy follows the state of the project, and not an older state in a cache.
#[tokio::test(start_paused = true)]
async fn an_older_generation_is_never_written_to_the_hub() {
    // The former leader has written generation 7. The cache of this process still has generation 5.
    let (planes, federator) = start_with(at(recorded(NAME), 5, 9), Some(copy_of(7, 3))).await;
    change(&planes, 7, 3);
    assert_waits(reconcile_stale(&federator).await);
    assert_eq!(
        (replicas_on_hub(&planes), take_writes(&[&planes.hub]).len()),
        (3, 0)
    );
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
}

/// I-23: generations of two WorkloadDeployments of the same name cannot be compared.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_was_made_again_is_not_rolled_back() {
    let image = |mut object: Value, image: &str| {
        object["spec"]["template"] = objects::later_template();
        object["spec"]["template"]["spec"]["image"] = json!(image);
        object
    };
    let mut of_an_older_version = copy_of(1, 3);
    let annotations = of_an_older_version["metadata"]["annotations"].as_object_mut();
    annotations.unwrap().remove(annotations::UPSTREAM_UID);
    let mut of_this_version = copy_of(1, 3);
    of_this_version["metadata"]["annotations"][annotations::UPSTREAM_UID] = json!("again");
    for copy in [of_this_version, of_an_older_version] {
        // The cache of this process has the former WorkloadDeployment. The former leader has written the new one.
        let former = image(at(recorded(NAME), 1, 3), "old");
        let copy = image(copy, "new");
        let (planes, federator) = start_with(former, Some(copy.clone())).await;
        let mut again = image(at(recorded(NAME), 1, 3), "new");
        again["metadata"]["uid"] = json!("again");
        planes.project.put(again);
        assert_waits(reconcile_stale(&federator).await);
        assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        let stored = on_hub(&planes).unwrap();
        assert_eq!(json!(stored.spec.template), copy["spec"]["template"]);
        assert_eq!(stored.annotations()[annotations::UPSTREAM_GENERATION], "1");
    }
}

/// I-19: a change of an annotation does not change the generation.
#[tokio::test(start_paused = true)]
async fn an_older_mirrored_annotation_is_never_written_to_the_hub() {
    const DATA: &str = annotations::EXPECTED_REFERENCED_DATA;
    const SUSPENDED: &str = annotations::SUSPENDED;
    for (key, old, new) in [
        (DATA, None, Some(r#"["Secret/a"]"#)),
        (DATA, Some(r#"["Secret/a"]"#), Some("[]")),
        (DATA, Some(r#"["Secret/a"]"#), None),
        (SUSPENDED, None, Some("true")),
        (SUSPENDED, Some("true"), Some("false")),
        (SUSPENDED, Some("true"), None),
    ] {
        let with = |mut object: Value, value: Option<&str>| {
            let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.extend(value.map(|value| (key.to_owned(), json!(value))));
            object
        };
        let former = with(at(recorded(NAME), 1, 3), old);
        let copy = with(copy_of(1, 3), new);
        let (planes, federator) = start_with(former, Some(copy)).await;
        planes.project.put(with(at(recorded(NAME), 1, 3), new));
        assert_waits(reconcile_stale(&federator).await);
        let is_kept = || {
            let copy = on_hub(&planes).unwrap();
            let kept = copy.annotations().get(key);
            kept.map(String::as_str) == new
        };
        assert!(is_kept());
        assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
        converge(&federator, || project_key(NAME), &planes.servers()).await;
        assert!(is_kept());
    }
}

/// Neither cache has the generation that the former leader has written.
#[tokio::test(start_paused = true)]
async fn a_copy_that_the_cache_does_not_have_yet_is_not_changed() {
    let (planes, federator) = start_with(at(recorded(NAME), 4, 4), Some(copy_of(3, 3))).await;
    change(&planes, 7, 9);
    let current = |copy: &mut Value| {
        copy["metadata"]["annotations"][annotations::UPSTREAM_GENERATION] = json!("7");
        copy["spec"]["scaleSettings"]["minReplicas"] = json!(9);
    };
    planes
        .hub
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, NAME, current);
    let error = reconcile_stale(&federator).await.expect_err("stale caches");
    let ReconcileError::Api { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(&**source, kube::Error::Api(status) if status.is_conflict()),
        "{error}"
    );
    assert_eq!(replicas_on_hub(&planes), 9);
    take_writes(&[&planes.hub]);
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_restored_project_lowers_the_generation_of_the_copy() {
    let (planes, federator) = start_with(at(recorded(NAME), 5, 9), Some(copy_of(7, 3))).await;
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    let copy = on_hub(&planes).unwrap();
    assert_eq!(copy.spec.scale_settings.min_replicas, 9);
    assert_eq!(copy.annotations()[annotations::UPSTREAM_GENERATION], "5");
}

#[tokio::test(start_paused = true)]
async fn a_copy_shrinks_only_when_the_project_confirms_it() {
    // With the annotation, and without it as an older version wrote the copy.
    let mut unannotated = copy_of(5, 3);
    unannotated["metadata"]["annotations"] = json!({});
    for copy in [copy_of(5, 3), unannotated] {
        let (planes, federator) = start_with(at(recorded(NAME), 6, 1), Some(copy)).await;
        change(&planes, 7, 3);
        assert_waits(reconcile_stale(&federator).await);
        assert_eq!(replicas_on_hub(&planes), 3);
        for fault in [
            Fault::refuse(503),
            Fault::answer(404, ""),
            Fault::disconnect(),
        ] {
            change(&planes, 8, 1);
            settle().await;
            planes.project.fail(fault.on(&[Verb::List]));
            reconcile(&federator, project_key(NAME))
                .await
                .unwrap()
                .unwrap_err();
            assert_eq!(replicas_on_hub(&planes), 3);
            planes.project.heal();
        }
        reconcile(&federator, project_key(NAME))
            .await
            .unwrap()
            .unwrap();
        let copy = on_hub(&planes).unwrap();
        assert_eq!(copy.spec.scale_settings.min_replicas, 1);
        assert_eq!(copy.annotations()[annotations::UPSTREAM_GENERATION], "8");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_deleted_only_when_the_project_confirms_it() {
    let mut moved = at(recorded(NAME), 6, 3);
    moved["spec"]["cityCode"] = json!("ORD");
    for stale in [terminating_json(at(recorded(NAME), 6, 3)), moved] {
        let live = at(recorded(NAME), 5, 3);
        let (planes, federator) = start_with(live, Some(copy_of(5, 3))).await;
        planes.project.put(stale);
        settle().await;
        // The WorkloadDeployment was made again, or moved back.
        let mut again = at(recorded(NAME), 7, 3);
        again["metadata"]["uid"] = json!("again");
        planes.project.put(again);
        assert_waits(reconcile_stale(&federator).await);
        let copy = on_hub(&planes).unwrap();
        assert!(copy.metadata.deletion_timestamp.is_none());
        assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_copy_is_made_only_when_the_project_confirms_it() {
    // The former leader has deleted the copy, because the project has deleted the WorkloadDeployment.
    let (planes, federator) = start_with(at(recorded(NAME), 5, 3), None).await;
    planes.project.remove::<WorkloadDeployment>("default", NAME);
    assert_waits(reconcile_stale(&federator).await);
    assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_an_older_version_is_not_written_again() {
    let mut copy = copy_of(5, 3);
    copy["metadata"]["annotations"] = json!({});
    let (planes, federator) = start_with(at(recorded(NAME), 5, 3), Some(copy)).await;
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&[&planes.hub]), [""; 0]);
}
