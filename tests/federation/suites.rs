//! The seven end-to-end suites of the Go manager, in the later version of these suites.

use api::condition;
use api::karmada::PropagationPolicy;
use api::{Instance, WorkloadDeployment, labels};
use harness::{Federation, wait};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{DFW, ORD, Space, WITHIN, create, deployment, instance, is_ready, is_settled};

/// I-18: a policy selects only deployments. Karmada propagates their dependencies with them.
pub(crate) async fn workload_deployment_federation(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "federation").await?;
    create::<WorkloadDeployment>(&space.in_project(), deployment("test-federation-wd", "DFW"))
        .await?;

    let copies: Api<WorkloadDeployment> = space.on_hub();
    let labelled = |copy: &WorkloadDeployment| {
        copy.labels()
            .get(labels::CITY_CODE)
            .is_some_and(|city| city == "DFW")
    };
    wait::until(&copies, "test-federation-wd", "labelled", WITHIN, labelled).await?;

    let policies: Api<PropagationPolicy> = space.on_hub();
    let policy = wait::until(&policies, "city-dfw", "there", WITHIN, |_| true).await?;
    let city = json!({"matchLabels": {labels::CITY_CODE: "DFW"}});
    assert_eq!(
        json!(policy.spec),
        json!({
            "placement": {
                "clusterAffinity": {"labelSelector": city},
                "clusterTolerations": [
                    {"key": "cluster.karmada.io/not-ready", "operator": "Exists"},
                    {"key": "cluster.karmada.io/unreachable", "operator": "Exists"},
                ],
            },
            "propagateDeps": true,
            "resourceSelectors": [{
                "apiVersion": "compute.datumapis.com/v1alpha",
                "kind": "WorkloadDeployment",
                "labelSelector": city,
                "namespace": space.hub_name,
            }],
        })
    );
    Ok(())
}

/// The policy of a city exists as long as the city has deployments.
pub(crate) async fn propagation_policy_lifecycle(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "policy").await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let (copies, policies) = (
        space.on_hub::<WorkloadDeployment>(),
        space.on_hub::<PropagationPolicy>(),
    );
    for name in ["wd-alpha", "wd-beta"] {
        create(&deployments, deployment(name, "DFW")).await?;
    }
    for name in ["wd-alpha", "wd-beta"] {
        wait::until(&copies, name, "there", WITHIN, |_| true).await?;
    }
    let policy = wait::until(&policies, "city-dfw", "there", WITHIN, |_| true).await?;

    deployments
        .delete("wd-alpha", &DeleteParams::default())
        .await?;
    wait::gone(&deployments, "wd-alpha", WITHIN).await?;
    wait::gone(
        &space.in_cell::<WorkloadDeployment>(DFW),
        "wd-alpha",
        WITHIN,
    )
    .await?;
    // A third deployment shows that all events of the deletion have been processed and that the policy still works.
    create(&deployments, deployment("wd-gamma", "DFW")).await?;
    wait::until(
        &space.in_cell::<WorkloadDeployment>(DFW),
        "wd-gamma",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;
    assert_eq!(
        policies.get("city-dfw").await?.uid(),
        policy.uid(),
        "the policy was recreated"
    );

    for name in ["wd-beta", "wd-gamma"] {
        deployments.delete(name, &DeleteParams::default()).await?;
    }
    wait::gone(&policies, "city-dfw", WITHIN).await
}

/// All objects on the hub are deleted with their root.
pub(crate) async fn deletion_cascade(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "cascade").await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let copies: Api<WorkloadDeployment> = space.on_hub();
    create(&deployments, deployment("test-cascade-wd", "DFW")).await?;
    wait::until(&copies, "test-cascade-wd", "there", WITHIN, |_| true).await?;
    deployments
        .delete("test-cascade-wd", &DeleteParams::default())
        .await?;
    wait::gone(&copies, "test-cascade-wd", WITHIN).await?;
    wait::gone(&deployments, "test-cascade-wd", WITHIN).await?;
    space.until_empty().await
}

pub(crate) async fn instance_writeback(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "writeback").await?;
    create::<WorkloadDeployment>(&space.in_project(), deployment("test-wd", "ORD")).await?;
    let owner = wait::until(
        &space.on_hub::<WorkloadDeployment>(),
        "test-wd",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;

    // Karmada copies the namespace to every cell. The test creates the Instance in a cell of another city.
    let instances: Api<Instance> = space.in_cell(DFW);
    let bare =
        || async { create(&instances, instance("test-writeback-instance", "test-wd")).await };
    let made = wait::eventually("the Instance is created in the cell", WITHIN, bare).await?;

    let copies: Api<Instance> = space.on_hub();
    let copy = wait::until(&copies, "test-writeback-instance", "there", WITHIN, |_| {
        true
    })
    .await?;
    let label = |key: &str| copy.labels().get(key).map(String::as_str);
    assert_eq!(label(labels::UPSTREAM_CLUSTER_NAME), Some("cluster-single"));
    assert_eq!(label(labels::UPSTREAM_NAMESPACE), Some(space.name.as_str()));
    assert_eq!(label(labels::SOURCE_CLUSTER), Some(DFW));
    assert_eq!(
        label(labels::WORKLOAD_DEPLOYMENT_UID),
        owner.uid().as_deref()
    );
    assert_eq!(copy.spec, made.spec);
    let owners: Vec<_> = copy
        .owner_references()
        .iter()
        .map(|owner| (owner.uid.clone(), owner.controller))
        .collect();
    assert_eq!(owners, [(owner.uid().unwrap(), Some(true))]);

    instances
        .delete("test-writeback-instance", &DeleteParams::default())
        .await?;
    wait::gone(&copies, "test-writeback-instance", WITHIN).await?;
    wait::gone(&instances, "test-writeback-instance", WITHIN).await
}

pub(crate) async fn instance_projection(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "projection").await?;
    let owner =
        create::<WorkloadDeployment>(&space.in_project(), deployment("test-projector-wd", "DFW"))
            .await?;
    wait::until(
        &space.on_hub::<WorkloadDeployment>(),
        "test-projector-wd",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;

    let mut copy = instance("test-projected-instance", "test-projector-wd");
    copy["metadata"]["labels"][labels::UPSTREAM_CLUSTER_NAME] = json!("cluster-single");
    copy["metadata"]["labels"][labels::UPSTREAM_NAMESPACE] = json!(space.name);
    let copies: Api<Instance> = space.on_hub();
    create(&copies, copy).await?;

    let projections: Api<Instance> = space.in_project();
    let projection = wait::until(
        &projections,
        "test-projected-instance",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;
    assert_eq!(
        projection.labels()[labels::UPSTREAM_CLUSTER_NAME],
        "cluster-single"
    );
    let owners: Vec<_> = projection
        .owner_references()
        .iter()
        .map(|owner| owner.uid.clone())
        .collect();
    assert_eq!(owners, [owner.uid().unwrap()]);

    copies
        .delete("test-projected-instance", &DeleteParams::default())
        .await?;
    wait::gone(&projections, "test-projected-instance", WITHIN).await
}

pub(crate) async fn full_federation(federation: &Federation) -> anyhow::Result<()> {
    all_the_way(federation, "DFW", DFW, ORD).await
}

pub(crate) async fn full_federation_ord(federation: &Federation) -> anyhow::Result<()> {
    all_the_way(federation, "ORD", ORD, DFW).await
}

async fn all_the_way(
    federation: &Federation,
    city: &str,
    cell: &str,
    other_cell: &str,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "full").await?;
    let name = "test-full-fed-wd";
    let first = "test-full-fed-wd-0";
    create::<WorkloadDeployment>(&space.in_project(), deployment(name, city)).await?;

    let settled = |deployment: &WorkloadDeployment| is_settled(deployment, 1);
    wait::until(&space.on_hub(), name, "settled", WITHIN, settled).await?;
    wait::until(&space.in_cell(cell), name, "settled", WITHIN, settled).await?;
    let upstream = wait::until(&space.in_project(), name, "settled", WITHIN, settled).await?;
    assert!(upstream.status.unwrap().cells.is_empty());
    assert!(
        space
            .in_cell::<WorkloadDeployment>(other_cell)
            .get_opt(name)
            .await?
            .is_none()
    );

    let instance = wait::until(&space.in_cell(cell), first, "ready", WITHIN, is_ready).await?;
    let copy = wait::until(&space.on_hub(), first, "ready", WITHIN, is_ready).await?;
    let projection = wait::until(&space.in_project(), first, "ready", WITHIN, is_ready).await?;
    let ready = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        condition::find(&status.conditions, "Ready")
            .map(|ready| (ready.status, ready.reason.clone()))
    };
    for mirrored in [&copy, &projection] {
        assert_eq!(
            mirrored.labels()[labels::UPSTREAM_CLUSTER_NAME],
            "cluster-single"
        );
        assert_eq!(ready(mirrored), ready(&instance));
        assert_eq!(mirrored.spec, instance.spec);
    }
    Ok(())
}
