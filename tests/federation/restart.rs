//! Tests that kill compute-federation during its work and restart the process.

use std::collections::BTreeMap;

use api::{Instance, Workload, WorkloadDeployment, labels};
use harness::{Federation, wait};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{DFW, ORD, Space, WITHIN, patch, policies, workload};

/// The moment at which the test kills a manager.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The project has a deployment.
    Deployment,
    /// The hub has the copy.
    Copy,
    /// The cell has the deployment.
    InCell,
    /// The cell has an Instance.
    Instance,
    /// The project has the Instance.
    Projection,
}

const MOMENTS: [Moment; 5] = [
    Moment::Deployment,
    Moment::Copy,
    Moment::InCell,
    Moment::Instance,
    Moment::Projection,
];

/// The managers that the test kills, one after the other.
const MANAGERS: [&str; 2] = ["management", DFW];

pub(crate) async fn a_killed_manager_converges_to_the_same_state(
    federation: &Federation,
) -> anyhow::Result<()> {
    let undisturbed = Space::create(federation, "undisturbed").await?;
    create_and_change(&undisturbed, async { Ok(()) }, async { Ok(()) }).await?;
    let expected = state(&undisturbed).await?;
    for manager in MANAGERS {
        for moment in MOMENTS {
            eprintln!("kill of {manager} at {moment:?}");
            let space = Space::create(federation, "killed").await?;
            let kill_once = async {
                until(&space, moment).await?;
                kill_and_restart(federation, manager).await
            };
            let kill_again = kill_and_restart(federation, manager);
            create_and_change(&space, kill_once, kill_again).await?;
            let found = state(&space).await?;
            assert_eq!(found, expected, "{manager} was killed at {moment:?}");
            // The test also kills a manager during the deletion.
            space
                .in_project::<Workload>()
                .delete("web", &DeleteParams::default())
                .await?;
            kill_and_restart(federation, manager).await?;
            wait::gone(&space.in_project::<Workload>(), "web", WITHIN).await?;
            space.until_empty().await?;
        }
    }
    Ok(())
}

/// Creates a Workload and scales it, with one concurrent action for each step.
async fn create_and_change(
    space: &Space<'_>,
    on_create: impl Future<Output = anyhow::Result<()>>,
    on_change: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    space
        .create_workload("web", &[("us", &["DFW"], 1), ("west", &["ORD"], 1)])
        .await?;
    on_create.await?;
    space.until_settled("web", 2).await?;
    let placements =
        &workload("web", &[("us", &["DFW"], 2), ("west", &["ORD"], 1)])["spec"]["placements"];
    patch::<Workload>(
        &space.in_project(),
        "web",
        json!({"spec": {"placements": placements}}),
    )
    .await?;
    on_change.await?;
    space.until_settled("web", 3).await?;
    let all = ["web-us-dfw-0", "web-us-dfw-1", "web-west-ord-0"];
    space.until_instances(space.in_project(), &all).await?;
    space.until_instances(space.on_hub(), &all).await.map(drop)
}

async fn until(space: &Space<'_>, moment: Moment) -> anyhow::Result<()> {
    async fn there<K>(api: Api<K>, name: &str) -> anyhow::Result<()>
    where
        K: Resource
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize
            + Send
            + 'static,
    {
        wait::until(&api, name, "there", WITHIN, |_| true)
            .await
            .map(drop)
    }
    match moment {
        Moment::Deployment => there::<WorkloadDeployment>(space.in_project(), "web-us-dfw").await,
        Moment::Copy => there::<WorkloadDeployment>(space.on_hub(), "web-us-dfw").await,
        Moment::InCell => there::<WorkloadDeployment>(space.in_cell(DFW), "web-us-dfw").await,
        Moment::Instance => there::<Instance>(space.in_cell(DFW), "web-us-dfw-0").await,
        Moment::Projection => there::<Instance>(space.in_project(), "web-us-dfw-0").await,
    }
}

async fn kill_and_restart(federation: &Federation, manager: &str) -> anyhow::Result<()> {
    let manager = match manager {
        "management" => federation.management()?,
        cell => federation.cell_manager(cell)?,
    };
    let mut manager = manager.lock().await;
    manager.kill().await;
    manager.restart().await
}

/// Returns all objects of a namespace on every plane, without fields that differ between runs.
pub(crate) async fn state(space: &Space<'_>) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut state = BTreeMap::new();
    let policies = policies(space);
    collect(&mut state, "hub PropagationPolicy", space, policies).await?;
    collect::<Workload>(&mut state, "project Workload", space, space.in_project()).await?;
    collect::<WorkloadDeployment>(
        &mut state,
        "project WorkloadDeployment",
        space,
        space.in_project(),
    )
    .await?;
    collect::<Instance>(&mut state, "project Instance", space, space.in_project()).await?;
    collect::<WorkloadDeployment>(&mut state, "hub WorkloadDeployment", space, space.on_hub())
        .await?;
    collect::<Instance>(&mut state, "hub Instance", space, space.on_hub()).await?;
    for cell in [DFW, ORD] {
        collect::<WorkloadDeployment>(
            &mut state,
            &format!("{cell} WorkloadDeployment"),
            space,
            space.in_cell(cell),
        )
        .await?;
        collect::<Instance>(
            &mut state,
            &format!("{cell} Instance"),
            space,
            space.in_cell(cell),
        )
        .await?;
    }
    Ok(state)
}

async fn collect<K>(
    state: &mut BTreeMap<String, Value>,
    what: &str,
    space: &Space<'_>,
    api: Api<K>,
) -> anyhow::Result<()>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    for object in api.list(&ListParams::default()).await? {
        let mut value = json!(object);
        let metadata = value["metadata"].take();
        let kept = |key: &str| metadata.get(key).cloned().unwrap_or_default();
        let owners: Vec<_> = object
            .owner_references()
            .iter()
            .map(|o| json!([o.kind, o.name, o.controller]))
            .collect();
        value["metadata"] =
            json!({"labels": kept("labels"), "finalizers": kept("finalizers"), "owners": owners});
        forget(&mut value, space);
        state.insert(format!("{what} {}", object.name_any()), value);
    }
    Ok(())
}

/// Removes times, generations, identifiers and the names of the namespaces.
fn forget(value: &mut Value, space: &Space<'_>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| {
                let is_time = ["creationTimestamp", "lastTransitionTime"].contains(&name.as_str());
                let name = name.to_ascii_lowercase();
                !is_time
                    && !["generation", "uid", "permanent-id"]
                        .iter()
                        .any(|part| name.contains(part))
            });
            fields.values_mut().for_each(|value| forget(value, space));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, space)),
        Value::String(text) => {
            *text = text
                .replace(&space.name, "<namespace>")
                .replace(&space.hub_name, "<hub namespace>");
            // `status.selector` contains a UID.
            if let Some((labels::WORKLOAD_DEPLOYMENT_UID, uid)) = text.split_once('=') {
                *text = text.replace(uid, "<uid>");
            }
        }
        _ => {}
    }
}

pub(crate) async fn sigterm_shuts_down_in_order(federation: &Federation) -> anyhow::Result<()> {
    for manager in [federation.management()?, federation.cell_manager(ORD)?] {
        let mut manager = manager.lock().await;
        assert_eq!(manager.terminate().await, Some(0));
        manager.restart().await?;
    }
    Ok(())
}
