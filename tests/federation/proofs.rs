//! Tests of proofs. The controllers need positive proof before they delete an object, remove a finalizer or overwrite
//! an identity.

use anyhow::{Context, bail};
use api::{WorkloadDeployment, annotations, condition, labels};
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{Space, WITHIN, create, deployment, is_settled, patch, patch_status};

const CONTRADICTED: &str = "HubNamespaceContradicted";

/// Checks several forms of a 404. Only the first form proves to the controllers that an object is absent. The
/// controllers rely on these forms (I-8, I-12).
pub(crate) async fn forms_of_a_404(federation: &Federation) -> anyhow::Result<()> {
    let compute = "/apis/compute.datumapis.com/v1alpha";
    let absent = [
        (
            format!("{compute}/namespaces/default/workloaddeployments/web"),
            "web",
            "workloaddeployments",
        ),
        (
            format!("{compute}/namespaces/nowhere/instances/web"),
            "web",
            "instances",
        ),
        (
            "/api/v1/namespaces/nowhere".to_owned(),
            "nowhere",
            "namespaces",
        ),
    ];
    let unknown = [
        format!("{compute}/namespaces/default/unserved/web"),
        "/apis/unserved.example.com/v1/namespaces/default/workloads/web".to_owned(),
        "/apis/apps/v1/namespaces/default/unserved/web".to_owned(),
        "/api/v1/namespaces/default/unserved/web".to_owned(),
        format!("{compute}0/namespaces/default/workloaddeployments/web"),
    ];
    let cell = federation.cells().next().context("no cell")?;
    for plane in [federation.project(), federation.hub(), cell] {
        for (path, name, resource) in &absent {
            let status = answer(&plane.client(), path).await?;
            let details = status.details.as_ref().context("no details")?;
            let found = (
                status.reason.as_str(),
                details.name.as_str(),
                details.kind.as_str(),
            );
            assert_eq!(found, ("NotFound", *name, *resource), "{path}: {status:?}");
        }
        for path in &unknown {
            let status = answer(&plane.client(), path).await?;
            let names = status.details.as_ref().map(|details| details.name.as_str());
            assert!(names.is_none_or(str::is_empty), "{path}: {status:?}");
        }
    }
    Ok(())
}

async fn answer(client: &Client, path: &str) -> anyhow::Result<Status> {
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(*status),
        other => bail!("{path}: {other:?}"),
    }
}

pub(crate) async fn a_record_of_a_foreign_hub_namespace_holds_the_deployment(
    federation: &Federation,
) -> anyhow::Result<()> {
    let own = Space::create(federation, "misled").await?;
    let other = Space::create(federation, "bystander").await?;
    for space in [&own, &other] {
        create::<WorkloadDeployment>(&space.in_project(), deployment("wd", "DFW")).await?;
        let copies = space.on_hub::<WorkloadDeployment>();
        wait::until(&copies, "wd", "there", WITHIN, |_| true).await?;
    }
    let deployments: Api<WorkloadDeployment> = own.in_project();
    let bystander = other.on_hub::<WorkloadDeployment>();
    let before = bystander.get("wd").await?.uid();

    let record = |name: &str| json!({"metadata": {"annotations": {annotations::FEDERATION_NAMESPACE: name}}});
    patch(&deployments, "wd", record(&other.hub_name)).await?;
    wait::until(&deployments, "wd", "held", WITHIN, has_reason(CONTRADICTED)).await?;
    deployments.delete("wd", &DeleteParams::default()).await?;
    let held = |wd: &WorkloadDeployment| {
        let message = available(wd)
            .map(|(_, message)| message)
            .unwrap_or_default();
        wd.metadata.deletion_timestamp.is_some() && message.contains("labels of hub namespace")
    };
    wait::until(&deployments, "wd", "held while it is deleted", WITHIN, held).await?;
    let spared = bystander.get("wd").await?;
    assert_eq!(
        (spared.uid(), spared.metadata.deletion_timestamp),
        (before, None)
    );

    // The test corrects the record. Then the deletion completes, also on the hub.
    patch(&deployments, "wd", record(&own.hub_name)).await?;
    wait::gone(&deployments, "wd", WITHIN).await?;
    wait::gone(&own.on_hub::<WorkloadDeployment>(), "wd", WITHIN).await
}

/// I-16: identities are neither guessed nor overwritten.
pub(crate) async fn a_hub_namespace_with_a_foreign_identity_is_held(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "relabelled").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());
    let label =
        |project: &str| json!({"metadata": {"labels": {labels::UPSTREAM_CLUSTER_NAME: project}}});
    let is_labelled = |project: &'static str| {
        move |namespace: &Namespace| {
            namespace
                .labels()
                .get(labels::UPSTREAM_CLUSTER_NAME)
                .is_some_and(|value| value == project)
        }
    };

    patch(&namespaces, &space.hub_name, label("cluster-other")).await?;
    wait::until(
        &deployments,
        "web-us-dfw",
        "held",
        WITHIN,
        has_reason(CONTRADICTED),
    )
    .await?;
    assert!(is_labelled("cluster-other")(
        &namespaces.get(&space.hub_name).await?
    ));

    // The controllers rewrite a legacy form of the same identity. They also rewrite a label that encodes no project.
    for form in ["cluster-_single", "single"] {
        patch(&namespaces, &space.hub_name, label(form)).await?;
        let rewritten = is_labelled("cluster-single");
        wait::until(&namespaces, &space.hub_name, "rewritten", WITHIN, rewritten).await?;
    }
    wait::until(&deployments, "web-us-dfw", "settled", WITHIN, |wd| {
        is_settled(wd, 1)
    })
    .await?;
    space.until_settled("web", 1).await?;
    Ok(())
}

pub(crate) async fn foreign_conditions_stay(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "conditions").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let mut conditions = deployments
        .get("web-us-dfw")
        .await?
        .status
        .context("no status")?
        .conditions;
    let others = ["ReferencedDataReady", "example.com/Audited"];
    for type_ in others {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let status = condition::ConditionStatus::True;
        conditions.push(api::Condition::new(
            type_,
            status,
            "Because",
            "set by someone else",
            now,
        ));
    }
    // This condition has a type that normally comes from the hub, but the object on the hub has no such condition.
    let stale = conditions
        .iter()
        .find(|condition| condition.type_ == others[1])
        .cloned();
    conditions.extend(stale.map(|stale| api::Condition {
        type_: "CellsReporting".into(),
        ..stale
    }));
    patch_status(
        &deployments,
        "web-us-dfw",
        json!({"conditions": conditions}),
    )
    .await?;

    let has = |wd: &WorkloadDeployment, type_: &str| {
        let status = wd.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, type_))
    };
    let kept = |wd: &WorkloadDeployment| {
        others.iter().all(|type_| has(wd, type_)) && !has(wd, "CellsReporting")
    };
    wait::until(
        &deployments,
        "web-us-dfw",
        "without what the hub has not",
        WITHIN,
        kept,
    )
    .await?;
    // The conditions from the hub still arrive in a status that has foreign conditions too.
    let scaled = json!({"spec": {"placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"}}]}});
    patch::<api::Workload>(&space.in_project(), "web", scaled).await?;
    space.until_settled("web", 2).await?;
    assert!(kept(&deployments.get("web-us-dfw").await?));
    Ok(())
}

/// I-19: an annotation that is removed in the project is removed on the hub.
pub(crate) async fn the_referenced_data_annotation_is_mirrored_and_removed(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "referenced").await?;
    create::<WorkloadDeployment>(&space.in_project(), deployment("wd", "DFW")).await?;
    let (deployments, copies) = (space.in_project::<WorkloadDeployment>(), space.on_hub());
    let key = annotations::EXPECTED_REFERENCED_DATA;
    let annotate = |value: Option<&str>| json!({"metadata": {"annotations": {key: value, "example.com/note": "mine"}}});
    wait::until(&copies, "wd", "there", WITHIN, |_: &WorkloadDeployment| {
        true
    })
    .await?;
    // The test sets a value by hand on the hub. The federator removes this value, because the project has no value.
    patch(&copies, "wd", annotate(Some(r#"["Secret/s"]"#))).await?;
    let is = |value: Option<&'static str>| {
        move |copy: &WorkloadDeployment| {
            let annotations = copy.annotations();
            annotations.get(key).map(String::as_str) == value
                && annotations["example.com/note"] == "mine"
        }
    };
    wait::until(&copies, "wd", "without", WITHIN, is(None)).await?;
    for value in [Some("[]"), Some(r#"["ConfigMap/c"]"#), None] {
        patch::<WorkloadDeployment>(&deployments, "wd", annotate(value)).await?;
        wait::until(&copies, "wd", "the same", WITHIN, is(value)).await?;
    }
    Ok(())
}

/// I-6: an object without a project is an error that metrics show.
pub(crate) async fn a_hub_namespace_without_identity_is_counted(
    federation: &Federation,
) -> anyhow::Result<()> {
    // Tests that have ended may have left such namespaces. No other test runs now.
    let before = unidentified_namespaces(federation).await?;
    let space = Space::on_hub_alone(federation, "no-identity").await?;
    let deployments = space.on_hub::<WorkloadDeployment>();
    create(&deployments, deployment("wd", "DFW")).await?;
    let is_counted = async |expected: u64| {
        wait::eventually("the metric follows", WITHIN, || async {
            let value = unidentified_namespaces(federation).await?;
            anyhow::ensure!(value == expected, "{value}, not {expected}");
            Ok(())
        })
        .await
    };
    is_counted(before + 1).await?;
    deployments.delete("wd", &DeleteParams::default()).await?;
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());
    let deletion = DeleteParams::default();
    namespaces.delete(&space.hub_name, &deletion).await?;
    is_counted(before).await
}

async fn unidentified_namespaces(federation: &Federation) -> anyhow::Result<u64> {
    let manager = federation.management()?.lock().await;
    let metrics = manager.metrics().await?;
    let mut lines = metrics.lines();
    let name = "compute_federation_unidentified_namespaces ";
    let value = lines.find_map(|line| line.strip_prefix(name));
    Ok(value.context("the metric")?.parse()?)
}

fn available(wd: &WorkloadDeployment) -> Option<(String, String)> {
    let available = condition::find(&wd.status.as_ref()?.conditions, "Available")?;
    Some((available.reason.clone(), available.message.clone()))
}

fn has_reason(reason: &'static str) -> impl Fn(&WorkloadDeployment) -> bool {
    move |wd| available(wd).is_some_and(|(found, _)| found == reason)
}
