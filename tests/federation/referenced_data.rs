//! Tests of the ConfigMaps and Secrets of templates: they reach the cells of the Workload, and no other cell.

#[path = "referenced_data/away.rs"]
mod away;
#[path = "referenced_data/kills.rs"]
mod kills;

use std::time::Duration;

use anyhow::ensure;
use api::condition::{self, Condition};
use api::instance::REFERENCED_DATA_READY;
use api::{Instance, Workload, WorkloadDeployment, annotations};
use harness::rights::PlaneUser;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use multicluster::connect;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::{DFW, ORD, Space, WITHIN, create, is_ready, patch, workload};
pub(crate) use away::{a_cell_is_away_for_a_moment, a_cell_is_away_for_long};
pub(crate) use kills::{a_kill_after_each_write, a_kill_after_some_writes};

/// The value that no output may contain, in base64.
const PLANTED: &str = "cGxhbnRlZC12YWx1ZQ==";

/// Returns a Workload in Dallas that uses a ConfigMap, a Secret and a pull secret.
fn using_data(name: &str) -> Value {
    let mut workload = workload(name, &[("us", &["DFW"], 1)]);
    let spec = &mut workload["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "keys", "secret": {"secretName": "keys"}}]);
    let sandbox = &mut spec["runtime"]["sandbox"];
    sandbox["imagePullSecrets"] = json!([{"name": "pull"}]);
    let container = &mut sandbox["containers"][0];
    container["volumeAttachments"] = json!([{"name": "keys", "mountPath": "/keys"}]);
    let key = json!({"name": "settings", "key": "url"});
    container["env"] = json!([{"name": "URL", "valueFrom": {"configMapKeyRef": key}}]);
    workload
}

fn config_map(data: &Value) -> Value {
    json!({"metadata": {"name": "settings"}, "data": data})
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"key": PLANTED}})
}

/// Checks that one object has conditions, and that this is its reason of `ReferencedDataReady`.
fn is_only_reason<'a>(
    reason: &str,
    all: impl Iterator<Item = &'a [Condition]>,
) -> anyhow::Result<()> {
    let shown = all.filter_map(|it| condition::find(it, REFERENCED_DATA_READY));
    let shown: Vec<_> = shown.map(|it| it.reason.as_str()).collect();
    ensure!(shown == [reason], "{shown:?}");
    Ok(())
}

/// Waits until the deployment has this reason of `ReferencedDataReady`, and returns the time that it took.
async fn until_reason(space: &Space<'_>, reason: &str) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let deployments = space.in_project::<WorkloadDeployment>();
    wait::eventually(reason, WITHIN, || async {
        let all = deployments.list(&ListParams::default()).await?.items;
        let statuses = all.iter().filter_map(|it| it.status.as_ref());
        is_only_reason(reason, statuses.map(|it| it.conditions.as_slice()))
    })
    .await?;
    Ok(begin.elapsed())
}

/// Waits until the Instance in a plane has this reason of `ReferencedDataReady`.
async fn until_instance(instances: Api<Instance>, reason: &str) -> anyhow::Result<()> {
    wait::eventually(reason, WITHIN, || async {
        let all = instances.list(&ListParams::default()).await?.items;
        let statuses = all.iter().filter_map(|it| it.status.as_ref());
        is_only_reason(reason, statuses.map(|it| it.conditions.as_slice()))
    })
    .await
}

/// Waits until the cell has this value of the ConfigMap, and returns the time that it took.
async fn until_value(space: &Space<'_>, value: &'static str) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let is_so = |it: &ConfigMap| {
        let data = it.data.as_ref();
        data.and_then(|data| data.get("url")).map(String::as_str) == Some(value)
    };
    wait::until(&space.in_cell(DFW), "settings", value, WITHIN, is_so).await?;
    Ok(begin.elapsed())
}

pub(crate) async fn data_reach_the_cells_of_their_workload(
    federation: &Federation,
) -> anyhow::Result<()> {
    // The controllers must be able to write the annotations that the webhook protects.
    federation.register_deployment_admission().await?;
    let space = Space::create(federation, "data").await?;
    create::<Workload>(&space.in_project(), using_data("web")).await?;
    let missing = until_reason(&space, "SourceNotFound").await?;
    until_instance(space.in_cell(DFW), "SourceNotFound").await?;
    until_instance(space.in_project(), "SourceNotFound").await?;

    for name in ["keys", "pull"] {
        create::<Secret>(&space.in_project(), secret(name)).await?;
    }
    create::<ConfigMap>(&space.in_project(), config_map(&json!({"url": "a"}))).await?;
    let begin = Instant::now();
    space.until_settled("web", 1).await?;
    let runs = begin.elapsed();
    for name in ["keys", "pull"] {
        let copy: Secret = space.in_cell(DFW).get(name).await?;
        ensure!(
            copy.data
                .is_some_and(|data| data["key"].0 == b"planted-value")
        );
        ensure!(space.in_cell::<Secret>(ORD).get_opt(name).await?.is_none());
    }
    until_value(&space, "a").await?;
    ensure!(
        space
            .in_cell::<ConfigMap>(ORD)
            .get_opt("settings")
            .await?
            .is_none()
    );

    patch::<ConfigMap>(
        &space.in_project(),
        "settings",
        json!({"data": {"url": "b"}}),
    )
    .await?;
    let rotated = until_value(&space, "b").await?;
    let more = json!({"data": {"more": PLANTED}});
    patch::<Secret>(&space.in_project(), "keys", more).await?;
    let is_changed = |it: &Secret| {
        it.data
            .as_ref()
            .is_some_and(|data| data.contains_key("more"))
    };
    let keys = space.in_cell(DFW);
    wait::until(&keys, "keys", "changed", WITHIN, is_changed).await?;

    what_is_wrong_is_said(&space).await?;
    others_may_not_change_the_annotations(&space).await?;
    eprintln!(
        "a missing source is said after {:.2} s, all run {:.2} s after the last source is there, a change is in the cell after {:.2} s",
        missing.as_secs_f64(),
        runs.as_secs_f64(),
        rotated.as_secs_f64(),
    );

    no_output_has_the_secret(&space).await?;
    space.delete_workload("web").await?;
    space.until_empty().await?;
    for name in ["keys", "pull"] {
        wait::gone(&space.on_hub::<Secret>(), name, WITHIN).await?;
        wait::gone(&space.in_cell::<Secret>(DFW), name, WITHIN).await?;
    }
    wait::gone(&space.on_hub::<ConfigMap>(), "settings", WITHIN).await?;
    wait::gone(&space.in_cell::<ConfigMap>(DFW), "settings", WITHIN).await
}

/// Changes a source in each way. Running Instances are not affected.
async fn what_is_wrong_is_said(space: &Space<'_>) -> anyhow::Result<()> {
    let sources = space.in_project::<ConfigMap>();
    let runs = async || {
        let workload: Workload = space.in_project().get("web").await?;
        let ready = workload.status.map(|it| it.ready_replicas);
        ensure!(ready == Some(1), "{ready:?} are ready");
        anyhow::Ok(())
    };
    sources.delete("settings", &DeleteParams::default()).await?;
    until_reason(space, "SourceNotFound").await?;
    until_instance(space.in_project(), "SourceNotFound").await?;
    let says_so = |workload: &Workload| {
        let conditions = &workload.status.as_ref().map(|it| it.conditions.clone());
        let available = condition::find(conditions.as_deref().unwrap_or_default(), "Available");
        available.is_some_and(|it| it.is_true() && it.message.contains("ConfigMap/settings"))
    };
    let workloads = space.in_project();
    wait::until(&workloads, "web", "names the source", WITHIN, says_so).await?;
    runs().await?;
    let data = json!({"url": "c", "large": "l".repeat(262_144)});
    create::<ConfigMap>(&sources, config_map(&data)).await?;
    until_reason(space, "SourceTooLarge").await?;
    runs().await?;
    let companion: ConfigMap = space.in_cell(DFW).get("settings").await?;
    ensure!(companion.data.is_some_and(|data| data["url"] == "b"));
    let data = json!({"data": {"url": null, "large": null, "other": "o"}});
    patch::<ConfigMap>(&sources, "settings", data).await?;
    until_reason(space, "SourceKeyNotFound").await?;
    runs().await?;
    patch::<ConfigMap>(
        &sources,
        "settings",
        json!({"data": {"url": "d", "other": null}}),
    )
    .await?;
    until_reason(space, "Ready").await?;
    until_value(space, "d").await?;
    until_instance(space.in_project(), "Ready").await?;
    runs().await
}

/// Tries to change each annotation as a user with all rights to WorkloadDeployments who is not an administrator.
async fn others_may_not_change_the_annotations(space: &Space<'_>) -> anyhow::Result<()> {
    let project = space.federation.project();
    let user = PlaneUser {
        name: "data-editor".to_owned(),
        groups: Vec::new(),
    };
    let binding = json!({
        "metadata": {"name": "data-editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
    });
    create::<ClusterRoleBinding>(&Api::all(project.client()), binding).await?;
    let config = connect::kubeconfig(&project.kubeconfig_of(&user)?, None).await?;
    let client = connect::client(config, "test")?;
    let deployments: Api<WorkloadDeployment> = Api::namespaced(client, &space.name);
    let name = "web-us-dfw";
    let change =
        |key: &str, value: Option<&str>| json!({"metadata": {"annotations": {key: value}}});
    wait::eventually("the binding is used", WITHIN, || async {
        patch(&deployments, name, change("example.com/note", Some("n"))).await
    })
    .await?;
    for key in annotations::OF_REFERENCED_DATA {
        for value in [Some("[]"), None] {
            // The error is removed already when the data are resolved.
            let is_change = value.is_some() || key != annotations::REFERENCED_DATA_ERROR;
            let patched = patch(&deployments, name, change(key, value)).await;
            let refused = match &patched {
                Ok(_) => false,
                Err(error) => error.to_string().contains(&format!("may not change {key}")),
            };
            ensure!(refused == is_change, "{key} {value:?}: {patched:?}");
        }
    }
    Ok(())
}

/// Two Workloads in two cities use one ConfigMap. It goes to both cells, and stays until the last of them ends.
pub(crate) async fn workloads_share_a_source(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "shared-data").await?;
    create::<ConfigMap>(&space.in_project(), config_map(&json!({"url": "a"}))).await?;
    for (name, city) in [("web", "DFW"), ("api", "ORD")] {
        let mut workload = workload(name, &[("us", &[city], 1)]);
        let all = json!([{"configMapRef": {"name": "settings"}}]);
        workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
            all;
        create::<Workload>(&space.in_project(), workload).await?;
    }
    for (name, cell) in [("web", DFW), ("api", ORD)] {
        space.until_settled(name, 1).await?;
        space.in_cell::<ConfigMap>(cell).get("settings").await?;
    }
    space.delete_workload("web").await?;
    wait::gone(&space.in_cell::<ConfigMap>(DFW), "settings", WITHIN).await?;
    space.in_cell::<ConfigMap>(ORD).get("settings").await?;
    space.on_hub::<ConfigMap>().get("settings").await?;
    space.delete_workload("api").await?;
    wait::gone(&space.in_cell::<ConfigMap>(ORD), "settings", WITHIN).await?;
    wait::gone(&space.on_hub::<ConfigMap>(), "settings", WITHIN).await
}

/// A changed source replaces no Instance. A change of `restartedAt` in the template does, also if nothing else changes.
pub(crate) async fn a_restart_replaces_the_instances(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "data-restart").await?;
    create::<ConfigMap>(&space.in_project(), config_map(&json!({"url": "a"}))).await?;
    for name in ["keys", "pull"] {
        create::<Secret>(&space.in_project(), secret(name)).await?;
    }
    create::<Workload>(&space.in_project(), using_data("web")).await?;
    space.until_settled("web", 1).await?;
    let (instances, name) = (space.in_cell::<Instance>(DFW), "web-us-dfw-0");
    let former = instances.get(name).await?.metadata.uid;
    let change = json!({"data": {"url": "b"}});
    patch::<ConfigMap>(&space.in_project(), "settings", change).await?;
    until_value(&space, "b").await?;
    ensure!(
        instances.get(name).await?.metadata.uid == former,
        "it was replaced"
    );
    let restart =
        json!({"metadata": {"annotations": {"compute.datumapis.com/restartedAt": "now"}}});
    let change = json!({"spec": {"template": restart}});
    patch::<Workload>(&space.in_project(), "web", change).await?;
    let is_new = |it: &Instance| it.metadata.uid != former && is_ready(it);
    wait::until(&instances, name, "replaced", WITHIN, is_new).await?;
    space.until_settled("web", 1).await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// A template with `roll-on-data-change` has its Instances replaced when a source changes, and only then.
pub(crate) async fn changed_data_replace_the_instances_that_ask(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "data-roll").await?;
    create::<ConfigMap>(&space.in_project(), config_map(&json!({"url": "a"}))).await?;
    for name in ["keys", "pull"] {
        create::<Secret>(&space.in_project(), secret(name)).await?;
    }
    let mut body = using_data("web");
    body["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(2);
    body["spec"]["template"]["metadata"]["annotations"] =
        json!({annotations::ROLL_ON_DATA_CHANGE: "true"});
    create::<Workload>(&space.in_project(), body).await?;
    space.until_settled("web", 2).await?;
    let instances = space.in_cell::<Instance>(DFW);
    let names = ["web-us-dfw-0", "web-us-dfw-1"];
    let mut former = Vec::new();
    for name in names {
        let instance = instances.get(name).await?;
        let record = instance
            .annotations()
            .get(annotations::REFERENCED_DATA_VERSIONS);
        ensure!(record.is_some(), "{name} has no record of its data");
        former.push(instance.metadata.uid);
    }
    let change = json!({"data": {"url": "b"}});
    patch::<ConfigMap>(&space.in_project(), "settings", change).await?;
    for (name, former) in names.into_iter().zip(former) {
        let is_new = |it: &Instance| it.metadata.uid != former && is_ready(it);
        wait::until(&instances, name, "replaced", WITHIN, is_new).await?;
    }
    space.until_settled("web", 2).await?;
    until_value(&space, "b").await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// Checks that neither a log nor an object other than the Secrets contains the value of a Secret.
async fn no_output_has_the_secret(space: &Space<'_>) -> anyhow::Result<()> {
    let federation = space.federation;
    let is_planted = |text: &[u8]| {
        let contains = |part: &str| text.windows(part.len()).any(|it| it == part.as_bytes());
        contains(PLANTED) || contains("planted-value")
    };
    let logs = federation.directory().join("logs");
    let mut count = 0;
    for entry in std::fs::read_dir(&logs)? {
        let path = entry?.path();
        if path.is_file() {
            count += 1;
            ensure!(!is_planted(&std::fs::read(&path)?), "{}", path.display());
        }
    }
    ensure!(count > 0, "no logs in {}", logs.display());
    let mut objects = vec![
        json!(space.in_project::<Workload>().get("web").await?),
        json!(
            space
                .in_project::<Event>()
                .list(&ListParams::default())
                .await?
                .items
        ),
    ];
    for deployments in [space.in_project(), space.on_hub(), space.in_cell(DFW)] {
        let all: Vec<WorkloadDeployment> = deployments.list(&ListParams::default()).await?.items;
        objects.push(json!(all));
    }
    for instances in [space.in_project(), space.on_hub(), space.in_cell(DFW)] {
        let all: Vec<Instance> = instances.list(&ListParams::default()).await?.items;
        objects.push(json!(all));
    }
    for object in objects {
        ensure!(!is_planted(object.to_string().as_bytes()), "{object}");
    }
    Ok(())
}
