//! Tests of repairs after manual changes, and of objects that the controllers must not change.

use api::instance::COPIED_TO_HUB;
use api::karmada::PropagationPolicy;
use api::{Instance, Workload, WorkloadDeployment, condition, labels};
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{DFW, Space, WITHIN, create, deployment, instance, is_settled, patch};

pub(crate) async fn a_hub_object_edited_by_hand(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "edited").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let wanted = space
        .in_project::<WorkloadDeployment>()
        .get("web-us-dfw")
        .await?
        .spec;
    let copies: Api<WorkloadDeployment> = space.on_hub();

    // The manual changes concern a value, an unset field, a list item, and a label.
    for change in [
        json!({"spec": {"scaleSettings": {"minReplicas": 5}}}),
        json!({"spec": {"replicas": 4}}),
        json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": [
            {"name": "app", "image": "app:1"}, {"name": "intruder", "image": "app:1"},
        ]}}}}}}),
        json!({"metadata": {"labels": {labels::UPSTREAM_NAMESPACE: "elsewhere"}}}),
    ] {
        let edited = patch(&copies, "web-us-dfw", change.clone()).await?;
        let repaired = |copy: &WorkloadDeployment| {
            copy.spec == wanted
                && copy.labels().get(labels::UPSTREAM_NAMESPACE) == Some(&space.name)
                && copy.resource_version() != edited.resource_version()
        };
        wait::until(
            &copies,
            "web-us-dfw",
            &format!("repaired after {change}"),
            WITHIN,
            repaired,
        )
        .await?;
    }
    // A foreign label stays.
    patch(
        &copies,
        "web-us-dfw",
        json!({"metadata": {"labels": {"example.com/note": "mine"}}}),
    )
    .await?;
    space.until_settled("web", 1).await?;
    assert_eq!(
        copies.get("web-us-dfw").await?.labels()["example.com/note"],
        "mine"
    );
    Ok(())
}

pub(crate) async fn a_hub_object_deleted_by_hand(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "deleted").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let copies: Api<WorkloadDeployment> = space.on_hub();
    let former = copies.get("web-us-dfw").await?.uid();
    copies
        .delete("web-us-dfw", &DeleteParams::default())
        .await?;
    let anew = |copy: &WorkloadDeployment| copy.uid() != former && is_settled(copy, 1);
    wait::until(
        &copies,
        "web-us-dfw",
        "there again and settled",
        WITHIN,
        anew,
    )
    .await?;
    space.until_settled("web", 1).await?;
    Ok(())
}

pub(crate) async fn a_policy_deleted_by_hand(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "policy-gone").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let policies: Api<PropagationPolicy> = space.on_hub();
    let former = policies.get("city-dfw").await?.uid();
    policies
        .delete("city-dfw", &DeleteParams::default())
        .await?;
    let anew = |policy: &PropagationPolicy| {
        policy.uid() != former && policy.metadata.deletion_timestamp.is_none()
    };
    wait::until(&policies, "city-dfw", "there again", WITHIN, anew).await?;
    // The policy still propagates changes to the cell.
    let change = json!({"spec": {"placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"}}]}});
    patch::<Workload>(&space.in_project(), "web", change).await?;
    space.until_settled("web", 2).await?;
    Ok(())
}

pub(crate) async fn a_projection_edited_by_hand(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "projection-edited").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let names = ["web-us-dfw-0"];
    let wanted = space
        .until_instances(space.in_project(), &names)
        .await?
        .remove(0);
    let projections: Api<Instance> = space.in_project();
    patch(
        &projections,
        "web-us-dfw-0",
        json!({"spec": {"location": {"name": "mars", "namespace": "default"}}}),
    )
    .await?;
    let repaired = |projection: &Instance| projection.spec == wanted.spec;
    wait::until(&projections, "web-us-dfw-0", "repaired", WITHIN, repaired).await?;
    projections
        .delete("web-us-dfw-0", &DeleteParams::default())
        .await?;
    let anew = |projection: &Instance| {
        projection.uid() != wanted.uid() && projection.status == wanted.status
    };
    wait::until(&projections, "web-us-dfw-0", "there again", WITHIN, anew).await?;
    Ok(())
}

pub(crate) async fn a_copy_of_another_cell_is_left_alone(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "other-cell").await?;
    create::<WorkloadDeployment>(&space.in_project(), deployment("wd", "ORD")).await?;
    wait::until(
        &space.on_hub::<WorkloadDeployment>(),
        "wd",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;
    let mut copy = instance("held-0", "wd");
    copy["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!("lhr1");
    let copies: Api<Instance> = space.on_hub();
    let held = create(&copies, copy).await?;

    let instances: Api<Instance> = space.in_cell(DFW);
    let made = || async { create(&instances, instance("held-0", "wd")).await };
    wait::eventually("the Instance is created in the cell", WITHIN, made).await?;
    // The copy of this cell gets another name. Both Instances appear in the project.
    let of_this_cell = ListParams::default().labels(&format!("{}={DFW}", labels::SOURCE_CLUSTER));
    let own_copy = || async {
        let found = copies.list(&of_this_cell).await?.items;
        let [copy] = found.as_slice() else {
            anyhow::bail!("{} copies", found.len());
        };
        Ok(copy.name_any())
    };
    let name = wait::eventually("the Instance is copied", WITHIN, own_copy).await?;
    assert!(name.starts_with("held-0-"), "{name}");
    let projections: Api<Instance> = space.in_project();
    wait::until(&projections, &name, "projected", WITHIN, |_| true).await?;
    // No Cluster has the name of the other cell.
    let says_so = |projection: &Instance| {
        let status = projection.status.as_ref();
        let ready = status.and_then(|it| condition::find(&it.conditions, "Ready"));
        ready.is_some_and(|ready| ready.reason == "CellUnreachable")
    };
    wait::until(&projections, "held-0", "unreachable", WITHIN, says_so).await?;
    let unchanged = copies.get("held-0").await?;
    assert_eq!(
        (unchanged.uid(), unchanged.resource_version()),
        (held.uid(), held.resource_version())
    );

    // The copy belongs to another cell. The deletion of this cell's Instance must not delete the copy either.
    instances.delete("held-0", &DeleteParams::default()).await?;
    wait::gone(&instances, "held-0", WITHIN).await?;
    wait::gone(&copies, &name, WITHIN).await?;
    let unchanged = copies.get("held-0").await?;
    assert_eq!(
        (unchanged.uid(), unchanged.resource_version()),
        (held.uid(), held.resource_version())
    );
    Ok(())
}

/// I-11: a copy is created only when its owner exists.
pub(crate) async fn an_instance_without_its_deployment_is_not_copied(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "no-deployment").await?;
    // The federator creates the hub namespace for another deployment.
    create::<WorkloadDeployment>(&space.in_project(), deployment("other", "ORD")).await?;
    let instances: Api<Instance> = space.in_cell(DFW);
    let made = || async { create(&instances, instance("lonely-0", "absent")).await };
    wait::eventually("the Instance is created in the cell", WITHIN, made).await?;
    let refused = wait::until(&instances, "lonely-0", "refused", WITHIN, |instance| {
        refusal(instance).is_some()
    })
    .await?;
    let message = format!(
        "the hub has no WorkloadDeployment {}/absent",
        space.hub_name
    );
    assert_eq!(
        refusal(&refused),
        Some(("HubDeploymentMissing".into(), message.clone()))
    );
    assert!(
        space
            .on_hub::<Instance>()
            .get_opt("lonely-0")
            .await?
            .is_none()
    );
    let events: Api<Event> = space.in_cell(DFW);
    let is_reported = || async {
        let events = events
            .list(&ListParams::default().fields("involvedObject.name=lonely-0"))
            .await?
            .items;
        let reasons: Vec<_> = events
            .iter()
            .map(|event| (event.reason.clone(), event.message.clone()))
            .collect();
        anyhow::ensure!(
            reasons.contains(&(Some("HubDeploymentMissing".into()), Some(message.clone()))),
            "{reasons:?}"
        );
        Ok(())
    };
    wait::eventually("an Event reports it", WITHIN, is_reported).await?;

    // The deployment exists now. The controller copies the Instance and removes the condition.
    create::<WorkloadDeployment>(&space.in_project(), deployment("absent", "ORD")).await?;
    wait::until(
        &space.on_hub::<Instance>(),
        "lonely-0",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;
    wait::until(&instances, "lonely-0", "copied", WITHIN, |instance| {
        refusal(instance).is_none()
    })
    .await?;
    Ok(())
}

fn refusal(instance: &Instance) -> Option<(String, String)> {
    let conditions = &instance.status.as_ref()?.conditions;
    let condition = condition::find(conditions, COPIED_TO_HUB)?;
    Some((condition.reason.clone(), condition.message.clone()))
}
