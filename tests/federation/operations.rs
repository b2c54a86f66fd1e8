//! Tests of the interpreter operations. A real Karmada must call each operation, and the result must have an effect.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use api::{Instance, WorkloadDeployment, annotations, labels};
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::fixture::{
    DFW, ORD, Space, WITHIN, create, deployment, dynamic, instance, is_ready, is_settled, patch,
    policies, policy, template,
};

/// The operations that Karmada must call. InterpretComponent is not registered with Karmada
/// (docs/concepts/interpreter.md).
const CALLED: [&str; 7] = [
    "InterpretReplica",
    "ReviseReplica",
    "Retain",
    "AggregateStatus",
    "InterpretDependency",
    "InterpretStatus",
    "InterpretHealth",
];

/// Returns the number of successful interpreter calls, by operation.
async fn calls(federation: &Federation, kind: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let metrics = federation.management()?.lock().await.metrics().await?;
    let counters = metrics.lines().filter_map(|line| {
        let labels = line.strip_prefix("compute_federation_interpreter_requests_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let operation = labels.strip_prefix("operation=\"")?.split_once('"')?.0;
        let counts =
            labels.contains(&format!("kind=\"{kind}\"")) && labels.contains("outcome=\"success\"");
        counts
            .then(|| Some((operation.to_owned(), count.parse().ok()?)))
            .flatten()
    });
    Ok(counters.collect())
}

/// Waits until each operation has been called since `before`.
async fn until_called(
    federation: &Federation,
    kind: &str,
    before: &BTreeMap<String, u64>,
) -> anyhow::Result<()> {
    wait::eventually("each operation is called", WITHIN, || async {
        let now = calls(federation, kind).await?;
        for operation in CALLED {
            ensure!(
                now.get(operation) > before.get(operation),
                "{operation} is not called: {now:?}"
            );
        }
        ensure!(
            !now.contains_key("InterpretComponent"),
            "InterpretComponent is called: {now:?}"
        );
        Ok(())
    })
    .await
}

fn with_settings(object: &mut Value, template: &str) {
    let env =
        json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]);
    let containers = object
        .pointer_mut(&format!("{template}/runtime/sandbox/containers/0"))
        .expect("a container");
    containers["env"] = env;
}

/// Returns a companion, as `companion` writes it.
fn settings() -> Value {
    let labels = json!({labels::REFERENCED_DATA: "true"});
    json!({"metadata": {"name": "settings", "labels": labels}, "data": {"a": "1"}})
}

pub(crate) async fn of_a_workload_deployment(federation: &Federation) -> anyhow::Result<()> {
    let before = calls(federation, "WorkloadDeployment").await?;
    let space = Space::on_hub_alone(federation, "operations").await?;
    let hub = federation.hub().client();
    let weight = |cell: &str, weight: u32| json!({"targetCluster": {"clusterNames": [cell]}, "weight": weight});
    let divided = json!({
        "clusterAffinity": {"clusterNames": [DFW, ORD]},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [weight(DFW, 1), weight(ORD, 2)]},
        },
    });
    create::<DynamicObject>(&policies(&space), policy("WorkloadDeployment", &divided)).await?;
    create::<ConfigMap>(&space.on_hub(), settings()).await?;
    let mut object = deployment("divided", "DFW");
    object["spec"]["scaleSettings"]["minReplicas"] = json!(3);
    with_settings(&mut object, "/spec/template/spec");
    // No project determines the data of the template.
    let listed = json!(["ConfigMap/settings"]).to_string();
    object["metadata"]["annotations"] = json!({annotations::EXPECTED_REFERENCED_DATA: listed});
    create::<WorkloadDeployment>(&space.on_hub(), object).await?;

    // InterpretReplica: the binding has the number of replicas and the requirements of each replica.
    let bindings = dynamic(
        hub.clone(),
        &space.hub_name,
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
    );
    let binding = "divided-workloaddeployment";
    let interpreted = |binding: &DynamicObject| binding.data["spec"]["replicas"] == 3;
    let bound = wait::until(&bindings, binding, "interpreted", WITHIN, interpreted).await?;
    let requirements = &bound.data["spec"]["replicaRequirements"]["resourceRequest"];
    assert_eq!(*requirements, json!({"cpu": "1", "memory": "2Gi"}));

    // ReviseReplica: each cell has its share. AggregateStatus: the hub has the sum, and its status lists both cells.
    for (cell, share) in [(DFW, 1), (ORD, 2)] {
        let settled = |deployment: &WorkloadDeployment| is_settled(deployment, share);
        let deployment =
            wait::until(&space.in_cell(cell), "divided", "settled", WITHIN, settled).await?;
        assert_eq!(deployment.spec.scale_settings.min_replicas, share);
    }
    let settled = |deployment: &WorkloadDeployment| is_settled(deployment, 3);
    let copy = wait::until(&space.on_hub(), "divided", "settled", WITHIN, settled).await?;
    let cells: Vec<_> = copy
        .status
        .unwrap()
        .cells
        .into_iter()
        .map(|cell| (cell.name, cell.replicas))
        .collect();
    assert_eq!(cells, [(DFW.to_owned(), 1), (ORD.to_owned(), 2)]);

    // InterpretStatus: the Work has the share. InterpretHealth: the binding has the health.
    let healthy = |binding: &DynamicObject| {
        let items = binding.data["status"]["aggregatedStatus"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        items.len() == 2
            && items.iter().all(|item| {
                item["health"] == "Healthy" && item["status"]["assignedReplicas"].is_i64()
            })
    };
    wait::until(&bindings, binding, "healthy", WITHIN, healthy).await?;

    // InterpretDependency: the objects that the template uses are in the deployment's cell.
    for cell in [DFW, ORD] {
        wait::until(
            &space.in_cell::<ConfigMap>(cell),
            "settings",
            "there",
            WITHIN,
            |_| true,
        )
        .await?;
    }

    // Retain: an autoscaler has set the number of replicas in the cell. This number survives a new template.
    let in_dfw: Api<WorkloadDeployment> = space.in_cell(DFW);
    patch(&in_dfw, "divided", json!({"spec": {"replicas": 2}})).await?;
    let mut containers = template()["spec"]["runtime"]["sandbox"]["containers"].clone();
    containers[0]["image"] = json!("app:2");
    let change = json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}});
    patch::<WorkloadDeployment>(&space.on_hub(), "divided", change).await?;
    let updated = |deployment: &WorkloadDeployment| {
        let sandbox = deployment
            .spec
            .template
            .spec
            .runtime
            .sandbox
            .clone()
            .unwrap_or_default();
        sandbox.containers[0].image == "app:2"
    };
    let deployment = wait::until(&in_dfw, "divided", "updated", WITHIN, updated).await?;
    assert_eq!(
        (
            deployment.spec.replicas,
            deployment.spec.scale_settings.min_replicas
        ),
        (Some(2), 1)
    );

    until_called(federation, "WorkloadDeployment", &before).await
}

pub(crate) async fn of_an_instance(federation: &Federation) -> anyhow::Result<()> {
    let before = calls(federation, "Instance").await?;
    let space = Space::on_hub_alone(federation, "operations").await?;
    let hub = federation.hub().client();
    let to_dfw = json!({"clusterAffinity": {"clusterNames": [DFW]}});
    create::<DynamicObject>(&policies(&space), policy("Instance", &to_dfw)).await?;
    create::<ConfigMap>(&space.on_hub(), settings()).await?;
    let mut object = instance("alone-0", "alone");
    with_settings(&mut object, "/spec");
    create::<Instance>(&space.on_hub(), object).await?;

    // InterpretReplica and ReviseReplica. ReviseReplica does not change the object.
    let bindings = dynamic(
        hub,
        &space.hub_name,
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
    );
    let interpreted = |binding: &DynamicObject| {
        binding.data["spec"]["replicas"] == 1
            && binding.data["spec"]["clusters"] == json!([{"name": DFW, "replicas": 1}])
    };
    let bound = wait::until(
        &bindings,
        "alone-0-instance",
        "interpreted",
        WITHIN,
        interpreted,
    )
    .await?;
    assert_eq!(
        bound.data["spec"]["replicaRequirements"]["resourceRequest"]["cpu"],
        "1"
    );
    let in_cell: Api<Instance> = space.in_cell(DFW);
    wait::until(&in_cell, "alone-0", "there", WITHIN, |_| true).await?;

    // Retain: the cell has written `spec.controller`. This field survives a change on the hub, because the provider
    // needs the field.
    patch(
        &in_cell,
        "alone-0",
        json!({"spec": {"controller": {"templateHash": "of-the-cell"}}}),
    )
    .await?;
    let location = json!({"name": "dfw", "namespace": "default"});
    patch::<Instance>(
        &space.on_hub(),
        "alone-0",
        json!({"spec": {"location": location}}),
    )
    .await?;
    let updated = |instance: &Instance| instance.spec.location.is_some();
    let updated = wait::until(&in_cell, "alone-0", "updated", WITHIN, updated).await?;
    let controller = updated.spec.controller.context("spec.controller is lost")?;
    assert_eq!(controller.template_hash, "of-the-cell");

    // InterpretStatus and AggregateStatus: the hub has the cell's status. InterpretHealth: the binding has the health.
    wait::until(
        &space.on_hub::<Instance>(),
        "alone-0",
        "ready",
        WITHIN,
        is_ready,
    )
    .await?;
    let healthy = |binding: &DynamicObject| {
        binding.data["status"]["aggregatedStatus"][0]["health"] == "Healthy"
    };
    wait::until(&bindings, "alone-0-instance", "healthy", WITHIN, healthy).await?;

    // InterpretDependency: the dependencies of the object are in the cell.
    wait::until(
        &space.in_cell::<ConfigMap>(DFW),
        "settings",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;

    until_called(federation, "Instance", &before).await
}
