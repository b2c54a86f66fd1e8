//! Tests the restore of the hub's etcd from an older snapshot.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use api::{Instance, Workload, WorkloadDeployment, WorkloadDeploymentSpec};
use harness::{Config, Federation, wait};
use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{self, DFW, ORD, Space, WITHIN, create, dynamic, patch, policies, workload};
use crate::restart::state;

/// The Workloads at the time of the snapshot: name and number of Instances. Each Workload is in one city.
const THEN: [(&str, i32); 5] = [
    ("calm", 1),
    ("gone", 1),
    ("grown", 1),
    ("moved", 1),
    ("shrunk", 3),
];
/// The Workloads at the time of the restore: name, city and number of Instances.
const NOW: [(&str, &str, i32); 5] = [
    ("calm", "DFW", 1),
    ("grown", "DFW", 2),
    ("moved", "ORD", 1),
    ("new", "DFW", 1),
    ("shrunk", "DFW", 1),
];

/// The Secrets of the Workloads of the same names, and their values in the end. `None` means that nothing uses the Secret
/// any more. All exist at the time of the snapshot.
const SECRETS: [(&str, Option<&str>); 3] =
    [("calm", Some("now")), ("gone", None), ("new", Some("then"))];

/// The name of a namespace in the project, and the name of its hub namespace.
struct NamespaceNames(String, String);

impl NamespaceNames {
    fn of(space: &Space<'_>) -> Self {
        Self(space.name.clone(), space.hub_name.clone())
    }

    fn space<'f>(&self, federation: &'f Federation) -> Space<'f> {
        let Self(name, hub_name) = self;
        Space {
            federation,
            name: name.clone(),
            hub_name: hub_name.clone(),
        }
    }
}

pub(crate) async fn the_hub_follows_the_project_again() -> anyhow::Result<()> {
    let config = Config {
        hub_etcd: true,
        ..fixture::config("restore")?
    };
    let mut federation = fixture::start_from(&config).await?;
    let restored = restore(&mut federation).await;
    restored.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn restore(federation: &mut Federation) -> anyhow::Result<()> {
    let (lasting, former) = prepare(federation).await?;
    let snapshot = federation.snapshot_hub()?;
    change_after_snapshot(&lasting.space(federation), &former.space(federation)).await?;
    let before = NamespaceObjects::of(&lasting.space(federation)).await?;

    // The test follows the documented procedure. Karmada writes nothing to the cells before the hub matches the
    // project.
    let karmada = federation.restore_hub(snapshot).await?;
    let mut manager = federation.management()?.lock().await;
    manager.terminate().await;
    manager.restart().await?;
    drop(manager);
    let space = lasting.space(federation);
    until_data(space.on_hub()).await?;
    wait::eventually("the hub matches the project", WITHIN, || async {
        let wanted = specs(space.in_project()).await?;
        let found = specs(space.on_hub()).await?;
        ensure!(found == wanted, "{:?}", found.keys());
        Ok(())
    })
    .await?;
    let held = federation.start_karmada_held(karmada).await?;
    until_planned(&lasting.space(federation)).await?;
    federation.release_karmada(held).await?;
    // A cell manager checks all its copies on the hub at start. Without a restart, the next check could be ten minutes
    // later.
    for cell in [DFW, ORD] {
        let mut manager = federation.cell_manager(cell)?.lock().await;
        manager.terminate().await;
        manager.restart().await?;
    }

    let space = lasting.space(federation);
    wait::eventually("all planes are as before", 2 * WITHIN, || async {
        let after = NamespaceObjects::of(&space).await?;
        before.check_equal(&after)
    })
    .await?;
    let after = NamespaceObjects::of(&space).await?;
    assert_eq!(after.lasting, before.lasting, "an object was recreated");
    assert_ne!(after.recreated, before.recreated, "nothing was restored");
    until_data(space.in_cell(DFW)).await?;
    // The restore brings back objects of a deleted project namespace. The controllers delete these objects again.
    until_gone(&former.space(federation)).await?;
    // A new Workload proves that the restored hub works.
    space
        .create_workload("next", &[("us", &["DFW"], 1)])
        .await?;
    space.until_settled("next", 1).await?;
    Ok(())
}

/// Creates the objects that the snapshot contains.
async fn prepare(federation: &Federation) -> anyhow::Result<(NamespaceNames, NamespaceNames)> {
    let space = Space::create(federation, "restored").await?;
    let former = Space::create(federation, "former").await?;
    for (name, _) in SECRETS {
        create::<Secret>(&space.in_project(), secret(name, "then")).await?;
    }
    for (name, replicas) in THEN {
        let mut body = workload(name, &[("us", &["DFW"], replicas)]);
        use_secrets(&mut body, name);
        create::<Workload>(&space.in_project(), body).await?;
    }
    former
        .create_workload("web", &[("us", &["DFW"], 1)])
        .await?;
    for (name, replicas) in THEN {
        space.until_settled(name, replicas).await?;
    }
    former.until_settled("web", 1).await?;
    Ok((NamespaceNames::of(&space), NamespaceNames::of(&former)))
}

/// Makes changes after the snapshot.
async fn change_after_snapshot(space: &Space<'_>, former: &Space<'_>) -> anyhow::Result<()> {
    for (name, city, replicas) in NOW {
        if THEN.iter().all(|(then, _)| *then != name) {
            let placement: (&str, &[&str], i32) = ("us", &[city], replicas);
            let mut body = workload(name, &[placement]);
            use_secrets(&mut body, name);
            create::<Workload>(&space.in_project(), body).await?;
            continue;
        }
        let wanted = workload(name, &[("us", &[city], replicas)]);
        let change = json!({"spec": {"placements": wanted["spec"]["placements"]}});
        patch::<Workload>(&space.in_project(), name, change).await?;
    }
    space.delete_workload("gone").await?;
    let changed = json!({"stringData": {"key": "now"}});
    patch::<Secret>(&space.in_project(), "calm", changed).await?;
    let namespaces: Api<Namespace> = Api::all(space.federation.project().client());
    namespaces
        .delete(&former.name, &DeleteParams::default())
        .await?;
    wait::gone(&namespaces, &former.name, 2 * WITHIN).await?;
    until_gone(former).await?;
    for (name, _, replicas) in NOW {
        space.until_settled(name, replicas).await?;
    }
    let all = [
        "calm-us-dfw-0",
        "grown-us-dfw-0",
        "grown-us-dfw-1",
        "moved-us-ord-0",
        "new-us-dfw-0",
        "shrunk-us-dfw-0",
    ];
    for plane in [space.in_project::<Instance>(), space.on_hub()] {
        space.until_instances(plane, &all).await?;
    }
    until_data(space.in_cell(DFW)).await
}

fn secret(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"key": value}})
}

/// Has a Workload use the Secret of its name, if there is one.
fn use_secrets(workload: &mut Value, name: &str) {
    if SECRETS.iter().any(|(secret, _)| *secret == name) {
        workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
            json!([{"secretRef": {"name": name}}]);
    }
}

/// Waits until a plane has the Secrets of the Workloads that exist now, with their values.
async fn until_data(secrets: Api<Secret>) -> anyhow::Result<()> {
    wait::eventually(
        "the Secrets are those of the project",
        2 * WITHIN,
        || async {
            for (name, value) in SECRETS {
                let secret = secrets.get_opt(name).await?;
                let data = secret.and_then(|it| it.data).unwrap_or_default();
                let found = data.get("key").map(|ByteString(value)| value.as_slice());
                ensure!(found == value.map(str::as_bytes), "{name}");
            }
            Ok(())
        },
    )
    .await
}

/// Waits until Karmada's Works match the deployments on the hub, with these replicas.
async fn until_planned(space: &Space<'_>) -> anyhow::Result<()> {
    let hub = space.federation.hub().client();
    wait::eventually("the Works match the hub", 2 * WITHIN, || async {
        for (name, city, replicas) in NOW {
            let (name, city) = (
                format!("{name}-us-{}", city.to_lowercase()),
                city.to_lowercase(),
            );
            let copy = space.on_hub::<WorkloadDeployment>().get(&name).await?;
            let namespace = format!("karmada-es-{city}1");
            let works = dynamic(
                hub.clone(),
                &namespace,
                "work.karmada.io",
                "v1alpha1",
                "Work",
            );
            let works = works.list(&ListParams::default()).await?;
            let manifests = works.iter().map(|work| {
                let manifests = &work.data["spec"]["workload"]["manifests"];
                &manifests[0]
            });
            let mut found = Vec::new();
            for manifest in manifests {
                let metadata = &manifest["metadata"];
                if metadata["name"] == name && metadata["namespace"] == space.hub_name {
                    let spec: WorkloadDeploymentSpec =
                        serde_json::from_value(manifest["spec"].clone())?;
                    found.push((spec.desired_replicas(), spec.template));
                }
            }
            let wanted = (replicas, copy.spec.template);
            ensure!(found == [wanted], "{name}: {found:?}");
        }
        Ok(())
    })
    .await
}

async fn until_gone(space: &Space<'_>) -> anyhow::Result<()> {
    let hub = [space.federation.hub()].into_iter();
    for plane in hub.chain(space.federation.cells()) {
        let namespaces: Api<Namespace> = Api::all(plane.client());
        wait::gone(&namespaces, &space.hub_name, WITHIN).await?;
    }
    Ok(())
}

async fn specs(api: Api<WorkloadDeployment>) -> anyhow::Result<BTreeMap<String, Value>> {
    let listed = api.list(&ListParams::default()).await?;
    let specs = listed.into_iter().map(|it| (it.name_any(), json!(it.spec)));
    Ok(specs.collect())
}

/// The objects of a namespace on every plane.
struct NamespaceObjects {
    /// All objects, without fields that change when an object is recreated.
    state: BTreeMap<String, Value>,
    policies: Vec<String>,
    /// UIDs of the customer's objects and of Instances. No such object may be recreated.
    lasting: Vec<String>,
    /// UID of the copy on the hub that the federator created after the snapshot. The restore removes this copy, so a
    /// new copy gets another UID.
    recreated: Option<String>,
}

impl NamespaceObjects {
    async fn of(space: &Space<'_>) -> anyhow::Result<Self> {
        let listed = policies(space).list(&ListParams::default()).await?;
        let mut lasting = Vec::new();
        for cell in [DFW, ORD] {
            lasting.extend(uids::<WorkloadDeployment>(space.in_cell(cell)).await?);
            lasting.extend(uids::<Instance>(space.in_cell(cell)).await?);
        }
        lasting.extend(uids::<Workload>(space.in_project()).await?);
        lasting.extend(uids::<WorkloadDeployment>(space.in_project()).await?);
        let copies: Api<WorkloadDeployment> = space.on_hub();
        let recreated = copies.get_opt("new-us-dfw").await?;
        Ok(Self {
            state: state(space).await?,
            policies: listed.iter().map(ResourceExt::name_any).collect(),
            lasting,
            recreated: recreated.and_then(|copy| copy.uid()),
        })
    }

    fn check_equal(&self, after: &Self) -> anyhow::Result<()> {
        ensure!(self.policies == after.policies, "{:?}", after.policies);
        for name in self.state.keys().chain(after.state.keys()) {
            let (was, is) = (self.state.get(name), after.state.get(name));
            ensure!(was == is, "{name} was {was:?} and is {is:?}");
        }
        Ok(())
    }
}

async fn uids<K>(api: Api<K>) -> anyhow::Result<Vec<String>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let listed = api.list(&ListParams::default()).await?;
    Ok(listed
        .iter()
        .filter_map(|it| Some(format!("{} {}", it.name_any(), it.uid()?)))
        .collect())
}
