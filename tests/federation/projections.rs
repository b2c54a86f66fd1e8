//! Tests of Instances on the hub that cannot be projected, and of projections without an Instance on the hub.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Instance, WorkloadDeployment, annotations, labels};
use harness::audit::AuditPosition;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::events;
use crate::fixture::{Space, WITHIN, create, deployment, instance, patch};

/// Time during which no further Event may be published.
const REST: Duration = Duration::from_secs(5);

const UNIDENTIFIED: &str = "NamespaceUnidentified";
const CONTRADICTED: &str = "IdentityContradicted";
const UNNAMED: &str = "DeploymentNameMissing";

/// Returns an Instance of the deployment `wd` with one more label.
fn with_label(name: &str, key: &str, value: Value) -> Value {
    let mut instance = instance(name, "wd");
    instance["metadata"]["labels"][key] = value;
    instance
}

fn reason(instance: &Instance) -> Option<&str> {
    let keys = instance.annotations();
    keys.get(annotations::QUARANTINE_REASON).map(String::as_str)
}

fn is_unmarked(instance: &Instance) -> bool {
    let mut keys = instance.annotations().keys();
    !keys.any(|key| key.contains("/quarantine-"))
}

/// Creates a namespace with a deployment `wd`, and waits for its copy on the hub.
async fn with_deployment<'f>(
    federation: &'f Federation,
    prefix: &str,
) -> anyhow::Result<Space<'f>> {
    let space = Space::create(federation, prefix).await?;
    create::<WorkloadDeployment>(&space.in_project(), deployment("wd", "DFW")).await?;
    let copies: Api<WorkloadDeployment> = space.on_hub();
    wait::until(&copies, "wd", "there", WITHIN, |_| true).await?;
    Ok(space)
}

/// I-14, I-15: an Instance that cannot be projected stays and is reported once. Its namespace determines its project.
pub(crate) async fn an_instance_that_cannot_be_projected_is_reported_once(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = with_deployment(federation, "quarantine").await?;
    let nowhere = Space::on_hub_alone(federation, "quarantine").await?;
    let position = AuditPosition::now([federation.hub()])?;
    let cases = [
        (
            &nowhere,
            "unidentified",
            UNIDENTIFIED,
            instance("unidentified", "wd"),
        ),
        (
            &space,
            "contradicted",
            CONTRADICTED,
            with_label(
                "contradicted",
                labels::UPSTREAM_CLUSTER_NAME,
                json!("cluster-other"),
            ),
        ),
        (
            &space,
            "unnamed",
            UNNAMED,
            with_label("unnamed", labels::WORKLOAD_DEPLOYMENT_NAME, json!("")),
        ),
    ];
    for (space, name, expected, object) in &cases {
        let instances: Api<Instance> = space.on_hub();
        create(&instances, object.clone()).await?;
        let is_held = |instance: &Instance| reason(instance) == Some(*expected);
        wait::until(&instances, name, "in quarantine", WITHIN, is_held).await?;
        events::until(&space.on_hub(), "Instance", name, &[("Warning", *expected)]).await?;
        // After a change of other metadata, the projector must not report the Instance again.
        let note = json!({"metadata": {"annotations": {"example.com/note": "mine"}, "labels": {"example.com/note": "mine"}}});
        patch(&instances, name, note).await?;
    }
    is_counted(federation, &cases.each_ref().map(|case| case.2)).await?;

    sleep(REST).await;
    let writes = position.writes()?;
    for (space, name, expected, _) in &cases {
        let object = format!("{}/{name}", space.hub_name);
        let ours = writes
            .iter()
            .filter(|write| write.is_ours() && write.object == object);
        let ours: Vec<_> = ours
            .map(|write| (write.verb.as_str(), write.code))
            .collect();
        assert_eq!(ours, [("patch", 200)], "{object}");
        events::until(&space.on_hub(), "Instance", name, &[("Warning", *expected)]).await?;
        let projections: Api<Instance> =
            Api::namespaced(federation.project().client(), &cases[1].0.name);
        ensure!(
            projections.get_opt(name).await?.is_none(),
            "{name} is projected"
        );
    }

    // The Instances get the correct labels, so the projector projects them.
    let instances: Api<Instance> = space.on_hub();
    let relabel = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    patch(
        &instances,
        "contradicted",
        relabel(labels::UPSTREAM_CLUSTER_NAME, Value::Null),
    )
    .await?;
    patch(
        &instances,
        "unnamed",
        relabel(labels::WORKLOAD_DEPLOYMENT_NAME, json!("wd")),
    )
    .await?;
    for name in ["contradicted", "unnamed"] {
        wait::until(
            &space.in_project::<Instance>(),
            name,
            "projected",
            WITHIN,
            |_| true,
        )
        .await?;
        wait::until(&instances, name, "out of quarantine", WITHIN, is_unmarked).await?;
    }
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());
    let identity = json!({"metadata": {"labels": {
        labels::UPSTREAM_CLUSTER_NAME: "cluster-single", labels::UPSTREAM_NAMESPACE: nowhere.hub_name,
    }}});
    patch(&namespaces, &nowhere.hub_name, identity).await?;
    // The namespace does not exist in the project. It could still be created, so the projector does not report the
    // Instance.
    let instances: Api<Instance> = nowhere.on_hub();
    wait::until(
        &instances,
        "unidentified",
        "out of quarantine",
        WITHIN,
        is_unmarked,
    )
    .await?;
    Ok(())
}

async fn is_counted(federation: &Federation, reasons: &[&str]) -> anyhow::Result<()> {
    let manager = federation.management()?.lock().await;
    let metrics = manager.metrics().await?;
    for reason in reasons {
        let metric = format!("compute_federation_quarantined_objects{{reason=\"{reason}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&metric));
        let value: usize = value.with_context(|| metric.clone())?.parse()?;
        ensure!(value > 0, "{metric}{value}");
    }
    Ok(())
}

/// I-23: after downtime the mirrors follow the current state, without the missed events.
pub(crate) async fn deletions_during_downtime_are_projected(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = with_deployment(federation, "unseen").await?;
    let (instances, projections) = (space.on_hub::<Instance>(), space.in_project::<Instance>());
    let names = ["kept", "gone", "gone-of-the-baseline"];
    for name in names {
        create(&instances, instance(name, "wd")).await?;
    }
    create(
        &instances,
        with_label("held", labels::UPSTREAM_NAMESPACE, json!("other")),
    )
    .await?;
    for name in names {
        wait::until(&projections, name, "projected", WITHIN, |_| true).await?;
    }
    let is_held = |instance: &Instance| reason(instance) == Some(CONTRADICTED);
    wait::until(&instances, "held", "in quarantine", WITHIN, is_held).await?;
    let expected_events = [("Warning", CONTRADICTED)];
    events::until(&space.on_hub(), "Instance", "held", &expected_events).await?;

    let mut manager = federation.management()?.lock().await;
    manager.terminate().await;
    // A projection of the baseline has no annotation with its source, and another encoding of the label with the
    // project.
    let as_of_the_baseline = json!({"metadata": {
        "annotations": {annotations::FEDERATION_NAMESPACE: null},
        "labels": {labels::UPSTREAM_CLUSTER_NAME: "cluster-_single"},
    }});
    for name in ["kept", "gone-of-the-baseline"] {
        patch(&projections, name, as_of_the_baseline.clone()).await?;
    }
    let of_another = with_label("of-another", labels::UPSTREAM_NAMESPACE, json!("other"));
    for object in [instance("bare", "wd"), of_another] {
        create(&projections, object).await?;
    }
    for name in ["gone", "gone-of-the-baseline"] {
        instances.delete(name, &DeleteParams::default()).await?;
    }
    let position = AuditPosition::now([federation.hub()])?;
    manager.restart().await?;
    drop(manager);

    for name in ["gone", "gone-of-the-baseline"] {
        wait::gone(&projections, name, WITHIN).await?;
    }
    let is_recorded = |projection: &Instance| {
        let keys = projection.annotations();
        keys.get(annotations::FEDERATION_NAMESPACE) == Some(&space.hub_name)
    };
    wait::until(&projections, "kept", "taken over", WITHIN, is_recorded).await?;
    let counted = || is_counted(federation, &[CONTRADICTED]);
    wait::eventually("the metric counts it again", WITHIN, counted).await?;
    sleep(REST).await;
    for name in ["kept", "bare", "of-another"] {
        projections.get(name).await.context(name)?;
    }
    let object = format!("{}/held", space.hub_name);
    let events: Vec<_> = position
        .writes()?
        .iter()
        .filter(|it| it.object == object)
        .map(ToString::to_string)
        .collect();
    ensure!(events.is_empty(), "reported again: {events:?}");
    events::until(&space.on_hub(), "Instance", "held", &expected_events).await
}
