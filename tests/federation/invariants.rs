//! Tests of three invariants of the whole system: labels and annotations of other writers stay (I-1), a change makes
//! only the necessary writes (I-2), and each object has the documented writers (I-29).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use anyhow::ensure;
use api::karmada::PropagationPolicy;
use api::{Instance, Workload, WorkloadDeployment, WorkloadSummary};
use harness::audit::AuditPosition;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{DFW, Space, WITHIN, create, patch, workload};
use crate::settled::quiet;

/// Numbers of writes, by plane, verb and resource.
type WriteCounts = BTreeMap<String, usize>;

/// Numbers of writes in a namespace, by writer and kind.
#[derive(Default)]
struct NamespaceWrites {
    /// Writes of the management process.
    ours: WriteCounts,
    /// Karmada's writes of the statuses of deployments on the hub.
    of_deployments: usize,
    /// Writes of the statuses of Instances on the hub. The writer is a cell.
    of_instances: usize,
    /// Writes of the statuses of Instances in cells.
    in_cells: usize,
    /// The provider's writes of the statuses of Instances in cells. Apart from our own rollout, only these writes may
    /// cause our writes in a cell.
    of_provider: usize,
    /// Our writes of `Ready` of Instances in cells.
    of_readiness: usize,
    /// Our writes of Instances in cells, by verb. Writes of their statuses do not count.
    instances: WriteCounts,
    /// Writes of Instances in cells by others. Writes of their statuses do not count.
    of_others: usize,
    /// A cell's writes of the copies of Instances on the hub, by verb. Writes of their statuses do not count.
    copies: WriteCounts,
    /// Our writes of the statuses of deployments in cells.
    of_cells: usize,
    /// Karmada's creates of deployments in cells.
    of_deliveries: usize,
}

fn written(position: &AuditPosition, space: &Space<'_>) -> anyhow::Result<NamespaceWrites> {
    let mut written = NamespaceWrites::default();
    for write in position.writes()? {
        let (plane, resource) = (write.plane.as_str(), write.resource.as_str());
        let mut names = [&space.name, &space.hub_name].into_iter();
        let is_here = names.any(|name| write.object.contains(name.as_str()));
        // A failed write, such as a conflict, does not count.
        if !is_here || write.code >= 300 {
            continue;
        }
        match (write.is_ours(), plane, resource) {
            (true, "hub", "instances/status") => written.of_instances += 1,
            // A cell makes this write, not the management process.
            (true, "hub", "instances") => *written.copies.entry(write.verb).or_default() += 1,
            (true, "project" | "hub", _) => {
                let what = format!("{plane} {} {resource}", write.verb);
                *written.ours.entry(what).or_default() += 1;
            }
            (false, "hub", "workloaddeployments/status") => written.of_deployments += 1,
            (_, "project" | "hub", _) => {}
            (is_ours, _, "instances/status") => {
                written.in_cells += 1;
                match is_ours {
                    true => written.of_readiness += 1,
                    false => written.of_provider += 1,
                }
            }
            (true, _, "instances") => *written.instances.entry(write.verb).or_default() += 1,
            (false, _, "instances") => written.of_others += 1,
            (true, _, "workloaddeployments/status") => written.of_cells += 1,
            (false, _, "workloaddeployments") if write.verb == "create" => {
                written.of_deliveries += 1;
            }
            _ => {}
        }
    }
    Ok(written)
}

/// Checks the numbers of a cell's writes of Instances and of their copies.
fn check_instances(what: &str, written: &NamespaceWrites) -> anyhow::Result<()> {
    let (instances, copies) = (&written.instances, &written.copies);
    let count = |writes: &WriteCounts, verb: &str| writes.get(verb).copied().unwrap_or_default();
    eprintln!("{what}: writes of Instances {instances:?}, of copies {copies:?}");
    // An Instance is created with the finalizer of the write-back, and this federation sets no gates. So the only patch
    // of an Instance removes the finalizer.
    let (patches, deletes) = (count(instances, "patch"), count(instances, "delete"));
    ensure!(
        patches <= deletes,
        "{what}: {patches} patches and {deletes} deletes of Instances"
    );
    // A copy is made and deleted once for its Instance, and is written again only if someone else has changed the
    // Instance. The hub's garbage collection can delete the copy first.
    for (verb, needed) in [
        ("create", count(instances, "create")),
        ("patch", written.of_others),
        ("delete", deletes),
    ] {
        let count = count(copies, verb);
        ensure!(
            count <= needed,
            "{what}: {count} times {verb} of copies, {needed} are needed"
        );
    }
    Ok(())
}

/// Checks the number of writes that one change causes. The writes in `fixed` are necessary. Each status of a deployment
/// on the hub needs one status write of the project's deployment, and one of its Workload. Each status of an Instance
/// on the hub needs one status write of the project's Instance.
async fn writes_no_more_than(
    what: &str,
    position: &AuditPosition,
    space: &Space<'_>,
    fixed: &[(&str, usize)],
) -> anyhow::Result<()> {
    quiet(space.federation).await?;
    let written = written(position, space)?;
    check_instances(what, &written)?;
    let of_rollout = ["create", "delete"].map(|verb| written.instances.get(verb).copied());
    let of_rollout: usize = of_rollout.into_iter().flatten().sum();
    let NamespaceWrites {
        ours: written,
        of_deployments,
        of_instances,
        in_cells,
        of_provider,
        of_readiness,
        of_cells,
        of_deliveries,
        ..
    } = written;
    // Each write in a cell needs a cause. Otherwise superfluous writes there would allow more writes on the other
    // planes.
    ensure!(
        of_readiness <= of_provider + of_rollout,
        "{what}: {of_readiness} writes of Ready after {of_provider} writes of the provider"
    );
    // A write of `Ready` changes no status of the deployment: the deployment counts an Instance as ready by what the
    // provider has written. One more: the first status, if it is written before the cell creates an Instance.
    ensure!(
        of_cells <= of_provider + of_rollout + 1,
        "{what}: {of_cells} statuses of the cell's deployment"
    );
    eprintln!("{what}: {of_cells} statuses of the cell's deployment");
    let placed = ("hub create workloaddeployments", of_deliveries);
    ensure!(
        of_deliveries == 0 || fixed.contains(&placed),
        "{what}: {of_deliveries} creates of deployments in cells"
    );
    // One status of Karmada per status of the cell, one for the new generation of the hub's object, and one for a new
    // object in a cell that has no status yet.
    ensure!(
        of_deployments <= of_cells + 1 + of_deliveries,
        "{what}: {of_deployments} statuses on the hub, {of_cells} in the cell"
    );
    let mut needed: WriteCounts = fixed
        .iter()
        .map(|(what, count)| ((*what).to_owned(), *count))
        .collect();
    if of_deployments > 0 {
        // The deployment and its Workload each need one more status write, before the first status arrives from the
        // hub.
        for resource in ["workloaddeployments", "workloads"] {
            let what = format!("project patch {resource}/status");
            needed.insert(what, of_deployments + 1);
        }
    }
    needed.insert("project patch instances/status".to_owned(), of_instances);
    ensure!(
        of_instances <= in_cells,
        "{what}: {of_instances} statuses of Instances on the hub, {in_cells} in cells"
    );
    let total = |writes: &WriteCounts| writes.values().sum::<usize>();
    let (count, least) = (total(&written), total(&needed));
    eprintln!("{what}: {count} writes, {least} are needed");
    // The number of writes of each kind may exceed the necessary number by at most 5 %. So small numbers may not
    // be exceeded at all.
    let is_superfluous = |(key, count): &(&String, &usize)| {
        let needed = needed.get(*key).copied().unwrap_or_default();
        **count * 100 > needed * 105
    };
    let superfluous: BTreeMap<_, _> = written.iter().filter(is_superfluous).collect();
    ensure!(
        superfluous.is_empty(),
        "{what}: superfluous writes {superfluous:?}; needed are {needed:#?}"
    );
    Ok(())
}

/// I-2: each change is written once on its way out, and each status once on its way back.
pub(crate) async fn a_change_makes_only_the_necessary_writes(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "writes").await?;
    quiet(federation).await?;
    let position = AuditPosition::now(federation.planes())?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    // The status can arrive before the Instances.
    let first = "web-us-dfw-0";
    space.until_instances(space.in_project(), &[first]).await?;
    // Controllers write Events later than the objects.
    quiet(federation).await?;
    let created = [
        ("hub create namespaces", 1),
        ("hub create propagationpolicies", 1),
        ("hub create workloaddeployments", 1),
        // One Event about the Workload and one about the deployment. Each Event reports that the object is available.
        ("project create events", 2),
        ("project create instances", 1),
        ("project create workloaddeployments", 1),
        // These writes set the finalizers. The write to the deployment also sets the annotations that name its hub and
        // its hub namespace.
        ("project patch workloaddeployments", 1),
        ("project patch workloads", 1),
    ];
    writes_no_more_than("create", &position, &space, &created).await?;

    let position = AuditPosition::now(federation.planes())?;
    let more = workload("web", &[("us", &["DFW"], 2)]);
    patch::<Workload>(&space.in_project(), "web", json!({"spec": more["spec"]})).await?;
    space.until_settled("web", 2).await?;
    let both = [first, "web-us-dfw-1"];
    space.until_instances(space.in_project(), &both).await?;
    quiet(federation).await?;
    let scaled = [
        ("hub patch workloaddeployments", 1),
        ("project create instances", 1),
        ("project patch workloaddeployments", 1),
    ];
    writes_no_more_than("scale", &position, &space, &scaled).await?;

    let position = AuditPosition::now(federation.planes())?;
    space.delete_workload("web").await?;
    space.until_empty().await?;
    let deleted = [
        ("hub delete propagationpolicies", 1),
        ("hub delete workloaddeployments", 1),
        // The cells end the Instances before the copy is deleted.
        ("hub patch workloaddeployments", 1),
        ("project delete instances", 2),
        ("project delete workloaddeployments", 1),
        ("project patch workloaddeployments", 1),
        ("project patch workloads", 1),
    ];
    writes_no_more_than("delete", &position, &space, &deleted).await
}

/// Sets a label and an annotation on an object, under the field manager of a foreign writer.
async fn mark_as_theirs<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let theirs = json!({"example.com/theirs": "kept"});
    let change = json!({"metadata": {"labels": theirs, "annotations": theirs}});
    let params = PatchParams {
        field_manager: Some("someone".to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &params, &Patch::Merge(&change)).await?;
    Ok(())
}

async fn still_is_theirs<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let object = api.get(name).await?;
    for keys in [object.labels(), object.annotations()] {
        let theirs = keys.get("example.com/theirs").map(String::as_str);
        ensure!(
            theirs == Some("kept"),
            "{} {name} has {keys:?}",
            K::kind(&())
        );
    }
    Ok(())
}

/// I-1: labels and annotations of foreign writers stay on every object after any change.
pub(crate) async fn foreign_labels_and_annotations_stay(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "theirs").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let (deployment, instance) = ("web-us-dfw", "web-us-dfw-0");
    space
        .until_instances(space.in_project(), &[instance])
        .await?;
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());
    let workloads = space.in_project::<Workload>();
    let deployments = [space.in_project::<WorkloadDeployment>(), space.on_hub()];
    let instances = [
        space.in_project::<Instance>(),
        space.on_hub(),
        space.in_cell(DFW),
    ];
    let policies = space.on_hub::<PropagationPolicy>();
    mark_as_theirs(&namespaces, &space.hub_name).await?;
    mark_as_theirs(&workloads, "web").await?;
    mark_as_theirs(&policies, "city-dfw").await?;
    for api in &deployments {
        mark_as_theirs(api, deployment).await?;
    }
    for api in &instances {
        mark_as_theirs(api, instance).await?;
    }

    let more = workload("web", &[("us", &["DFW"], 2)]);
    patch::<Workload>(&workloads, "web", json!({"spec": more["spec"]})).await?;
    space.until_settled("web", 2).await?;
    quiet(federation).await?;
    still_is_theirs(&namespaces, &space.hub_name).await?;
    still_is_theirs(&workloads, "web").await?;
    still_is_theirs(&policies, "city-dfw").await?;
    for api in &deployments {
        still_is_theirs(api, deployment).await?;
    }
    for api in &instances {
        still_is_theirs(api, instance).await?;
    }
    space.delete_workload("web").await?;
    space.until_empty().await
}

/// Adds the paths of the fields of a `fieldsV1`. Keys of lists and elements of sets count as fields.
fn add_fields(fields: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (name, below) in fields.as_object().into_iter().flatten() {
        let path = match name.as_str() {
            // The object or the element itself.
            "." => path.to_owned(),
            name => format!("{path}/{name}"),
        };
        match below.as_object().is_none_or(serde_json::Map::is_empty) {
            true => drop(all.insert(path)),
            false => add_fields(below, &path, all),
        }
    }
}

/// Returns the field managers of compute-federation on an object. An example is `workload`, or `workload status` for
/// fields of the status. Fails if a field has two of them.
async fn writers<K>(api: Api<K>, name: &str) -> anyhow::Result<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let object = api.get(name).await?;
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for entry in object.managed_fields() {
        let manager = entry.manager.as_deref().unwrap_or_default();
        if !manager.starts_with("compute-federation-") {
            continue;
        }
        let mut fields = BTreeSet::new();
        if let Some(of_entry) = &entry.fields_v1 {
            add_fields(&of_entry.0, "", &mut fields);
        }
        for field in fields {
            let other = owners.insert(field.clone(), manager);
            ensure!(
                other.is_none_or(|other| other == manager),
                "{} {name}: {manager} and {other:?} write {field}",
                K::kind(&())
            );
        }
    }
    let ours = object.managed_fields().iter().filter_map(|entry| {
        let manager = entry
            .manager
            .as_deref()?
            .strip_prefix("compute-federation-")?;
        Some(match entry.subresource.as_deref() {
            Some(subresource) => format!("{manager} {subresource}"),
            None => manager.to_owned(),
        })
    });
    // The test harness has created the Workload. It is no controller.
    let ours: BTreeSet<_> = ours.filter(|manager| manager != "harness").collect();
    let ours: Vec<_> = ours.into_iter().collect();
    Ok(ours.join(", "))
}

/// I-29: each object is written by the controllers that docs/concepts/flow.md#who-writes-what names.
pub(crate) async fn each_object_has_the_documented_writers(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "writers").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let (deployment, instance) = ("web-us-dfw", "web-us-dfw-0");
    let summary = json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadSummary", "metadata": {"name": "by-cell"},
        "spec": {"selector": {}, "rows": "Cells"},
    });
    let summaries = space.in_project::<WorkloadSummary>();
    create(&summaries, summary).await?;
    let is_evaluated = |summary: &WorkloadSummary| summary.status.is_some();
    wait::until(&summaries, "by-cell", "evaluated", WITHIN, is_evaluated).await?;
    space
        .until_instances(space.in_project(), &[instance])
        .await?;
    let namespaces: Api<Namespace> = Api::all(federation.hub().client());
    let in_project = writers(space.in_project::<WorkloadDeployment>(), deployment);
    let on_hub = writers(space.on_hub::<WorkloadDeployment>(), deployment);
    let in_cell = writers(space.in_cell::<WorkloadDeployment>(DFW), deployment);
    let projection = writers(space.in_project::<Instance>(), instance);
    let copy = writers(space.on_hub::<Instance>(), instance);
    let original = writers(space.in_cell::<Instance>(DFW), instance);
    for (what, found, expected) in [
        (
            "Workload",
            writers(space.in_project::<Workload>(), "web").await?,
            "workload, workload status",
        ),
        (
            "WorkloadSummary",
            writers(summaries, "by-cell").await?,
            "summary status",
        ),
        (
            "deployment in the project",
            in_project.await?,
            "federator, federator status, workload",
        ),
        (
            "Instance in the project",
            projection.await?,
            "projector, projector status",
        ),
        (
            "Namespace on the hub",
            writers(namespaces, &space.hub_name).await?,
            "federator",
        ),
        ("deployment on the hub", on_hub.await?, "federator"),
        (
            "policy",
            writers(space.on_hub::<PropagationPolicy>(), "city-dfw").await?,
            "policy",
        ),
        (
            "Instance on the hub",
            copy.await?,
            "instance-writeback, instance-writeback status",
        ),
        (
            "deployment in the cell",
            in_cell.await?,
            "deployment, deployment status",
        ),
        (
            "Instance in the cell",
            original.await?,
            "deployment, instance status",
        ),
    ] {
        assert_eq!(found, expected, "{what}");
    }
    space.delete_workload("web").await
}
