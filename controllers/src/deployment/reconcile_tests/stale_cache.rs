//! Tests of caches that are behind the API server of the cell.

use super::*;

/// Returns the deployment and its Instances, at rest.
async fn start_ready(replicas: i32) -> (CellPlanes, DeploymentController) {
    let (planes, controller) = start().await;
    change(&planes, |deployment| {
        deployment["spec"]["scaleSettings"]["minReplicas"] = json!(replicas);
    });
    settle().await;
    for ordinal in 0..replicas {
        converge(&controller, || object_key("web"), &planes.servers()).await;
        let name = format!("web-{ordinal}");
        let ready = |instance: &mut Value| {
            instance["status"] = running();
        };
        planes.cell.modify::<Instance>(HUB_NAMESPACE, &name, ready);
        settle().await;
    }
    converge(&controller, || object_key("web"), &planes.servers()).await;
    (planes, controller)
}

fn change(planes: &CellPlanes, change: impl Fn(&mut Value)) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
}

fn set_image(deployment: &mut Value, image: &str) {
    deployment["spec"]["template"] = objects::template(image);
}

fn shrink(deployment: &mut Value) {
    deployment["spec"]["scaleSettings"]["minReplicas"] = json!(1);
}

/// Reconciles before the watch can report the last changes. Returns the writes and the error.
async fn reconcile_stale(
    planes: &CellPlanes,
    controller: &DeploymentController,
) -> (Vec<String>, Option<ReconcileError>) {
    let context = crate::fixtures::servers::context();
    let reconciled = controller.reconcile(&context, object_key("web")).await;
    let writes = take_writes(&planes.servers());
    settle().await;
    (writes, reconciled.err())
}

fn deletions(writes: &[String]) -> usize {
    let deletions = writes.iter().filter(|write| write.starts_with("delete"));
    deletions.count()
}

/// Reconciles before the watch can report the last changes. Checks how many Instances are deleted, and whether the
/// reconciliation succeeds.
async fn assert_deletes(
    planes: &CellPlanes,
    controller: &DeploymentController,
    expected: (usize, bool),
) {
    let (writes, error) = reconcile_stale(planes, controller).await;
    let found = (deletions(&writes), error.is_none());
    assert_eq!(found, expected, "{writes:?}");
}

/// I-22: the template that decides is that of the API server, and not an older one in a cache.
#[tokio::test(start_paused = true)]
async fn instances_are_deleted_only_for_the_current_deployment() {
    let stale: [fn(&mut Value); 2] = [|it| set_image(it, "app:0"), shrink];
    for stale in stale {
        let (planes, controller) = start_ready(2).await;
        let live = json!(deployment(&planes).unwrap());
        change(&planes, stale);
        settle().await;
        // The cell has the former spec again. The cache does not have it yet.
        change(&planes, |it| it["spec"] = live["spec"].clone());
        assert_deletes(&planes, &controller, (0, true)).await;
        change(&planes, stale);
        settle().await;
        // An answer that is not known deletes nothing.
        planes.cell.fail(Fault::refuse(503).on(&[Verb::List]));
        assert_deletes(&planes, &controller, (0, false)).await;
        planes.cell.heal();
        let (writes, _) = reconcile_stale(&planes, &controller).await;
        assert_eq!(writes[0], "delete instances ns-1/web-1");
    }
}

/// A change in the cell, and the deletion that is expected after it.
type CellChange = (fn(&CellPlanes), Option<&'static str>);

/// I-22: never fewer than `minReplicas - 1` Instances are ready. Another Instance than the one to replace can be unready by
/// now.
#[tokio::test(start_paused = true)]
async fn a_ready_instance_is_replaced_only_if_the_others_are_ready_in_the_cell() {
    let changes: [CellChange; 3] = [
        (|_| {}, Some("delete instances ns-1/web-2")),
        (
            |planes| {
                planes
                    .cell
                    .modify::<Instance>(HUB_NAMESPACE, "web-0", |it| {
                        it["status"] = json!({});
                    });
            },
            // It is unready and has a former template.
            Some("delete instances ns-1/web-0"),
        ),
        (
            |planes| {
                planes
                    .cell
                    .modify::<Instance>(HUB_NAMESPACE, "web-1", |it| {
                        it["metadata"]["deletionTimestamp"] = json!(crate::fixtures::now());
                    });
            },
            None,
        ),
    ];
    for (change_in_cell, expected) in changes {
        let (planes, controller) = start_ready(3).await;
        change(&planes, |it| set_image(it, "app:0"));
        settle().await;
        // The cache does not have this yet.
        change_in_cell(&planes);
        let (writes, error) = reconcile_stale(&planes, &controller).await;
        assert!(error.is_none(), "{error:?}");
        let deleted = writes.iter().find(|write| write.starts_with("delete"));
        assert_eq!(deleted.map(String::as_str), expected);
    }
}

/// I-22: the CRD of Instances is older than that of WorkloadDeployments, so a new Instance would lack the same field.
#[tokio::test(start_paused = true)]
async fn a_default_that_instances_cannot_have_replaces_no_instance() {
    let (planes, controller) = start_ready(3).await;
    let names = ["web-0", "web-1", "web-2"];
    let instances = || names.map(|name| planes.cell.get::<Instance>(HUB_NAMESPACE, name).unwrap());
    let former = instances().map(|instance| instance.uid());
    planes.cell.amend::<Instance>(|instance| {
        instance["spec"].as_object_mut().unwrap().remove("later");
    });
    let set_default = |deployment: &mut Value| {
        deployment["spec"]["template"]["spec"]["later"] = json!("default");
    };
    // An answer that is not known replaces nothing.
    planes.cell.fail(Fault::refuse(503).on(&[Verb::DryRun]));
    change(&planes, set_default);
    settle().await;
    assert_deletes(&planes, &controller, (0, false)).await;
    planes.cell.heal();
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert_eq!(deletions(&writes), 0, "{writes:?}");
    let hash = template_hash(&deployment(&planes).unwrap());
    for (instance, former) in instances().iter().zip(former) {
        assert_eq!(instance.uid(), former);
        let controller = instance.spec.controller.as_ref().unwrap();
        assert_eq!(controller.template_hash, hash);
    }
    let status = deployment(&planes).unwrap().status.unwrap();
    let messages = json!(status.conditions).to_string();
    assert!(
        messages.contains("lacks parts of the template"),
        "{messages}"
    );
    let tried = planes.cell.count_requests(Verb::DryRun);
    reconcile_stale(&planes, &controller).await;
    assert_eq!(planes.cell.count_requests(Verb::DryRun), tried);
    // A new field that Instances can have replaces them.
    planes.cell.amend::<Instance>(|_| ());
    change(&planes, |deployment| {
        deployment["spec"]["template"]["spec"]["further"] = json!("value");
    });
    settle().await;
    let (writes, _) = reconcile_stale(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-2");
}

/// I-22: every request returns a new default at once. A cache gets it only with the next event or list of the object.
#[tokio::test(start_paused = true)]
async fn a_new_default_that_a_cache_lacks_replaces_no_instance() {
    fn default_instance(instance: &mut Value) {
        instance["spec"]["later"] = json!("default");
    }
    fn default_deployment(deployment: &mut Value) {
        deployment["spec"]["template"]["spec"]["later"] = json!("default");
    }
    for deployment_first in [true, false] {
        let (planes, controller) = start_ready(3).await;
        let names = ["web-0", "web-1", "web-2"];
        let instances =
            || names.map(|name| planes.cell.get::<Instance>(HUB_NAMESPACE, name).unwrap());
        let former = instances().map(|instance| instance.uid());
        let default_instances = || {
            for name in names {
                planes
                    .cell
                    .modify::<Instance>(HUB_NAMESPACE, name, default_instance);
            }
        };
        // The caches of the other kind do not have the default yet.
        match deployment_first {
            true => {
                change(&planes, default_deployment);
                settle().await;
                default_instances();
            }
            false => {
                default_instances();
                settle().await;
                change(&planes, default_deployment);
            }
        }
        assert_deletes(&planes, &controller, (0, true)).await;
        converge(&controller, || object_key("web"), &planes.servers()).await;
        let hash = template_hash(&deployment(&planes).unwrap());
        for (instance, former) in instances().iter().zip(former) {
            assert_eq!(instance.uid(), former);
            let controller = instance.spec.controller.as_ref().unwrap();
            assert_eq!(controller.template_hash, hash);
        }
        let reads = planes.cell.count_requests(Verb::List);
        reconcile_stale(&planes, &controller).await;
        assert_eq!(planes.cell.count_requests(Verb::List), reads);
    }
}

/// I-34: the project was restored while the deployment was ending, and the cache does not have this yet.
#[tokio::test(start_paused = true)]
async fn instances_end_only_if_the_deployment_still_ends() {
    let end = |it: &mut Value| {
        it["metadata"]["annotations"] = json!({annotations::ENDING: "2026-11-21T10:00:00Z"});
    };
    let (planes, controller) = start_ready(2).await;
    change(&planes, end);
    settle().await;
    change(&planes, |it| it["metadata"]["annotations"] = json!({}));
    assert_deletes(&planes, &controller, (0, true)).await;
    change(&planes, end);
    settle().await;
    // An answer that is not known deletes nothing.
    planes.cell.fail(Fault::refuse(403).on(&[Verb::List]));
    assert_deletes(&planes, &controller, (0, false)).await;
    planes.cell.heal();
    assert_deletes(&planes, &controller, (2, true)).await;
}
