//! Tests of the deployment controller, with an in-memory API server of a cell.

mod data;
mod lifecycle;
mod replacement_quota;
mod rules;
mod stale_cache;
mod suspension;

use api::annotations;
use api::instance::QUOTA_GATE;
use apiserver::{Fault, Verb, objects};

use super::*;
use crate::cell::networks::Networking;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, converge, copy, object_key, reconcile, settle, take_writes,
};

async fn start() -> (CellPlanes, DeploymentController) {
    start_with(&[]).await
}

async fn start_with(gates: &[Gate]) -> (CellPlanes, DeploymentController) {
    let planes = CellPlanes::start(vec![copy("web")], Vec::new()).await;
    let controller = DeploymentController {
        gates: gates.to_vec(),
        quota: ReplacementQuota::new(Arc::clone(&planes.caches), None),
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(DeploymentController::NAME, &planes.metrics),
        companions: CellCompanions::default(),
        absent: AbsentInstances::new(|_| {}),
        lifecycle: planes.lifecycle.clone(),
    };
    (planes, controller)
}

/// Starts with a terminating deployment that has its Instance.
async fn start_terminating() -> (CellPlanes, DeploymentController) {
    let (planes, controller) = start().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            deployment["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
        });
    settle().await;
    (planes, controller)
}

/// Returns the status of an Instance that runs.
fn running() -> Value {
    let conditions = ["Programmed", "Running"].map(|type_| objects::condition(type_, "True"));
    json!({"conditions": conditions})
}

fn deployment(planes: &CellPlanes) -> Option<WorkloadDeployment> {
    planes.cell.get(HUB_NAMESPACE, "web")
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_created_with_the_finalizer_of_the_writeback() {
    let (planes, controller) = start().await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(
        writes.contains(&"create instances ns-1/web-0".to_owned()),
        "{writes:?}"
    );
    assert!(
        writes.contains(&"apply workloaddeployments/status ns-1/web".to_owned()),
        "{writes:?}"
    );
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    assert_eq!(instance.finalizers(), [finalizers::INSTANCE_CONTROLLER]);
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// The first ordinal after the wanted number is looked for each time, and the others once.
#[tokio::test(start_paused = true)]
async fn copies_of_absent_instances_are_looked_for_while_an_instance_is_not_ready() {
    let (planes, mut controller) = start().await;
    let (sender, looked_for) = std::sync::mpsc::channel();
    controller.absent = AbsentInstances::new(move |absent| {
        sender.send(absent.name.clone().unwrap()).unwrap();
    });
    let names = || looked_for.try_iter().collect::<Vec<_>>().join(" ");
    let scale = async |replicas: i32| {
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |web| {
                web["spec"]["scaleSettings"]["minReplicas"] = json!(replicas);
            });
        settle().await;
    };
    let pass = async || {
        reconcile(&controller, object_key("web"))
            .await
            .unwrap()
            .unwrap();
    };
    pass().await;
    assert_eq!(names(), "web-0 web-1 web-2 web-3 web-4");
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    assert!(instance.status.is_none(), "it is not ready");
    names();
    pass().await;
    assert_eq!(names(), "web-1");
    scale(3).await;
    pass().await;
    assert_eq!(names(), "web-3 web-5 web-6");
    scale(900).await;
    pass().await;
    let missing = "web-7 web-8 web-9 web-10";
    assert_eq!(
        names(),
        format!("{missing} web-900 web-901 web-902 web-903")
    );
    // Another WorkloadDeployment of the same name.
    planes
        .cell
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
    settle().await;
    pass().await;
    planes.cell.put(copy("web"));
    settle().await;
    pass().await;
    assert_eq!(names(), "web-1 web-2 web-3 web-4");
}

/// I-8: the hub may still have copies of Instances that were replaced while it did not answer.
#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_while_the_hub_may_have_outdated_copies() {
    let (planes, controller) = start_terminating().await;
    let record = |names: &str| {
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |web| {
                let record = json!({annotations::OUTDATED_COPIES: names});
                web["metadata"]["annotations"] = record;
            });
    };
    record(r#"["web-0"]"#);
    planes.cell.remove::<Instance>(HUB_NAMESPACE, "web-0");
    settle().await;
    let error = reconcile(&controller, object_key("web")).await.unwrap();
    let error = error.expect_err("the hub may have copies");
    let waits = matches!(error, ReconcileError::NotYet { .. });
    assert!(waits && deployment(&planes).is_some(), "{error}");
    record("[]");
    settle().await;
    let result = reconcile(&controller, object_key("web")).await.unwrap();
    result.unwrap();
    assert!(deployment(&planes).is_none());
}

/// The quota controller removes the gate. A later apply of the deployment controller must not add it again, and must
/// not remove it either.
#[tokio::test(start_paused = true)]
async fn a_gate_is_set_at_the_creation_only() {
    let (planes, controller) = start_with(&[gate::QUOTA]).await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = || planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let gates = || {
        let controller = instance().spec.controller.unwrap();
        let gates = controller.scheduling_gates.into_iter();
        gates.map(|gate| gate.name).collect::<Vec<_>>()
    };
    let refresh = async || {
        planes
            .cell
            .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
                instance["metadata"]["labels"] = json!({});
            });
        settle().await;
        let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
        assert!(
            writes.contains(&"apply instances ns-1/web-0".to_owned()),
            "{writes:?}"
        );
    };
    let finalizers = [finalizers::INSTANCE_CONTROLLER, finalizers::QUOTA_CLAIM];
    assert_eq!(instance().finalizers(), finalizers);
    assert_eq!(gates(), [QUOTA_GATE]);
    for _ in 0..2 {
        refresh().await;
        assert_eq!(gates(), [QUOTA_GATE]);
    }
    let writer = Writer::new("quota", &planes.metrics);
    let to = Collection::new(&planes.caches.client, HUB_NAMESPACE, None);
    let context = crate::fixtures::servers::context();
    let item = ("/spec/controller/schedulingGates", 0, QUOTA_GATE);
    writer
        .remove_item(&context, &to, &instance(), item, &[])
        .await
        .unwrap();
    settle().await;
    assert_eq!(gates(), [""; 0]);
    for _ in 0..2 {
        refresh().await;
        assert_eq!(gates(), [""; 0]);
    }
}

/// The order of the gates is part of the contract with providers. A stamped location is no change of the template.
#[tokio::test(start_paused = true)]
async fn a_new_instance_has_its_gates_in_order_and_the_location_of_the_cell() {
    let serving = json!({
        "apiVersion": "networking.datumapis.com/v1alpha", "kind": "ServingLocation",
        "metadata": {"name": "dfw-a"}, "spec": {"topology": {api::labels::CITY_CODE: "DFW"}},
    });
    let in_cell = vec![copy("web"), serving];
    let planes =
        CellPlanes::start_with(Networking::InterfaceClaims, in_cell, Vec::new(), |_| {}).await;
    let controller = DeploymentController {
        gates: vec![gate::NETWORK, gate::QUOTA],
        quota: ReplacementQuota::new(Arc::clone(&planes.caches), None),
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(DeploymentController::NAME, &planes.metrics),
        companions: CellCompanions::default(),
        absent: AbsentInstances::new(|_| {}),
        lifecycle: planes.lifecycle.clone(),
    };
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = || planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let former = instance();
    assert_eq!(
        json!(former.spec.controller.as_ref().unwrap().scheduling_gates),
        json!([{"name": "Network"}, {"name": "Quota"}])
    );
    assert_eq!(former.spec.location.as_ref().unwrap().name, "dfw-a");
    add_default(&planes, |_| ()).await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let refreshed = instance();
    assert_eq!(refreshed.metadata.uid, former.metadata.uid);
    assert_eq!(refreshed.spec.location, former.spec.location);
    let hash = template_hash(&deployment(&planes).unwrap());
    assert_eq!(refreshed.spec.controller.unwrap().template_hash, hash);
}

#[tokio::test(start_paused = true)]
async fn a_refused_instance_is_an_error_that_the_status_shows() {
    for (fault, message) in [
        (Fault::refuse(422), "not now"),
        (Fault::webhook_down(), "failed calling webhook"),
    ] {
        let (planes, controller) = start().await;
        planes.cell.fail(fault.on(&[Verb::Create]));
        let error = reconcile(&controller, object_key("web"))
            .await
            .unwrap()
            .unwrap_err();
        assert!(error.lasting_refusal().is_some(), "{error}");
        let status = json!(deployment(&planes).unwrap().status).to_string();
        assert!(status.contains(message), "{status}");
    }
    let (planes, controller) = start().await;
    planes.cell.fail(Fault::hang().on_writes());
    assert!(reconcile(&controller, object_key("web")).await.is_none());
    assert!(
        planes
            .cell
            .get::<Instance>(HUB_NAMESPACE, "web-0")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_cell_lists_no_instance() {
    let (planes, controller) = start_terminating().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    assert!(instance.metadata.deletion_timestamp.is_some());
    assert!(deployment(&planes).is_some());
    planes.cell.remove::<Instance>(HUB_NAMESPACE, "web-0");
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
        Fault::cut_body(),
    ] {
        planes.cell.fail(fault.on(&[Verb::List]));
        reconcile(&controller, object_key("web"))
            .await
            .unwrap()
            .unwrap_err();
        assert!(deployment(&planes).is_some());
        planes.cell.heal();
    }
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert!(deployment(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_instance_has_the_fields_of_the_template_that_the_types_do_not_know() {
    let (planes, controller) = start().await;
    let template = objects::later_template();
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            deployment["spec"]["template"] = template.clone();
        });
    settle().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let mut spec = json!(instance.spec);
    spec.as_object_mut().unwrap().remove("controller");
    assert_eq!(spec, template["spec"]);
    assert_eq!(instance.labels()["tier"], "web");
}

/// Adds a default of a newer CRD to the template and to the Instance. `change` makes other changes of the Instance.
async fn add_default(planes: &CellPlanes, change: impl Fn(&mut Value)) {
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["spec"]["later"] = json!("default");
            change(instance);
        });
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            deployment["spec"]["template"]["spec"]["later"] = json!("default");
        });
    settle().await;
}

/// I-22: the API server adds the default of a newer CRD to the objects that it stores.
#[tokio::test(start_paused = true)]
async fn a_new_default_changes_the_hash_and_keeps_the_instance() {
    let (planes, controller) = start().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = || planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let former = instance();
    add_default(&planes, |_| ()).await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(
        !writes.iter().any(|it| it.starts_with("delete")),
        "{writes:?}"
    );
    assert_eq!(instance().metadata.uid, former.metadata.uid);
    let hash = |instance: Instance| instance.spec.controller.unwrap().template_hash;
    let expected = template_hash(&deployment(&planes).unwrap());
    assert_ne!(hash(former), expected);
    assert_eq!(hash(instance()), expected);
    assert_eq!(json!(instance().spec)["later"], "default");
}

/// I-22: a label of another writer is not a change of the template.
#[tokio::test(start_paused = true)]
async fn a_new_default_keeps_an_instance_that_others_have_labelled() {
    let (planes, controller) = start().await;
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap();
    let field_manager = "compute-federation-deployment";
    let log = planes.cell.log();
    let mut creations = log.iter().filter(|it| it.verb == Verb::Create);
    let query = creations.next().unwrap().uri.query().unwrap_or_default();
    assert!(
        query.contains(&format!("fieldManager={field_manager}")),
        "{query}"
    );
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = || planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let former = instance();
    add_default(&planes, |instance| {
        instance["metadata"]["labels"]["rack"] = json!("r7");
        instance["metadata"]["annotations"]["provider.example/vm"] = json!("vm-1");
        instance["metadata"]["managedFields"] = json!([{
            "manager": field_manager, "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {}}},
        }]);
    })
    .await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert_eq!(instance().metadata.uid, former.metadata.uid, "{writes:?}");
    assert_eq!(instance().labels()["rack"], "r7");
    let hash = instance().spec.controller.unwrap().template_hash;
    assert_eq!(hash, template_hash(&deployment(&planes).unwrap()));
}

/// Returns an Instance that cannot be decoded.
fn undecodable(name: &str, controller_uid: &str) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "namespace": HUB_NAMESPACE, "name": name,
            "ownerReferences": [{
                "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "controller": true,
                "name": "any", "uid": controller_uid,
            }],
        },
        "spec": {"runtime": 7},
    })
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_instance_costs_itself_only() {
    for (name, owner, expected) in [
        ("other-0", "other", vec!["web-0", "web-1"]),
        ("web-0", "web-copy", vec!["web-1"]),
    ] {
        let (planes, controller) = start().await;
        planes.cell.put(undecodable(name, owner));
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
                deployment["spec"]["replicas"] = json!(2);
            });
        settle().await;
        for ready in &expected {
            converge(&controller, || object_key("web"), &planes.servers()).await;
            planes
                .cell
                .modify::<Instance>(HUB_NAMESPACE, ready, |instance| {
                    instance["status"] = running();
                });
            settle().await;
        }
        converge(&controller, || object_key("web"), &planes.servers()).await;
        let status = deployment(&planes).unwrap().status.unwrap();
        assert_eq!(status.replicas, 2, "{name}");
        let ready = i32::try_from(expected.len()).unwrap();
        assert_eq!(status.ready_replicas, ready, "{name}");
        let says_so = json!(status)
            .to_string()
            .contains("web-0 cannot be decoded");
        assert_eq!(says_so, name == "web-0");
    }
}

/// A WorkloadDeployment that cannot be decoded must not keep its Instances running after its deletion.
#[tokio::test(start_paused = true)]
async fn an_undecodable_deployment_ends_with_its_instances() {
    let (planes, controller) = start().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(
        planes
            .cell
            .get::<Instance>(HUB_NAMESPACE, "web-0")
            .is_some()
    );
    let spoil = |terminating: bool| {
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
                deployment["spec"]["template"] = json!(7);
                if terminating {
                    deployment["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
                }
            });
    };
    spoil(false);
    settle().await;
    take_writes(&planes.servers());
    let reconciled = reconcile(&controller, object_key("web")).await.unwrap();
    assert!(reconciled.is_err());
    assert_eq!(take_writes(&planes.servers()), [""; 0]);

    spoil(true);
    settle().await;
    let reconciled = reconcile(&controller, object_key("web")).await.unwrap();
    let error = reconciled.unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    let writes = take_writes(&planes.servers());
    assert_eq!(writes, ["delete instances ns-1/web-0"]);
    planes.cell.remove::<Instance>(HUB_NAMESPACE, "web-0");
    settle().await;
    let reconciled = reconcile(&controller, object_key("web")).await.unwrap();
    reconciled.unwrap();
    let writes = take_writes(&planes.servers());
    assert_eq!(writes, ["patch workloaddeployments ns-1/web"]);
}
