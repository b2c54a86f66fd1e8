//! The customer's view of a Workload, and checks that it is never disturbed.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::{Context, ensure};
use api::condition::{self, Condition};
use api::{Instance, Workload, WorkloadDeployment};
use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{FormerNamespace, WITHIN};
use crate::wait::{self, SteadyBackoff};

/// Fields that the Go manager does not write, or that customers ignore: messages and hashes.
const IGNORED: [&str; 6] = [
    "message",
    "observedGeneration",
    "observedTemplateHash",
    "selector",
    "templateHash",
    "updatedReplicas",
];

/// The objects of the project, by kind and name.
pub struct Shown(BTreeMap<String, Value>);

impl Shown {
    /// Reads the objects.
    ///
    /// # Errors
    ///
    /// When an object is being deleted, or the API server refuses a request.
    pub async fn to_the_customer(namespace: &FormerNamespace) -> anyhow::Result<Self> {
        let mut shown = BTreeMap::new();
        show::<Workload>(&mut shown, namespace.in_project()).await?;
        show::<WorkloadDeployment>(&mut shown, namespace.in_project()).await?;
        show::<Instance>(&mut shown, namespace.in_project()).await?;
        Ok(Self(shown))
    }

    /// Checks that `after` has the same objects with the same values. Further labels and annotations are allowed.
    ///
    /// # Errors
    ///
    /// When an object or a value differs. The error contains both values.
    pub fn is_kept_in(&self, after: &Self) -> anyhow::Result<()> {
        let names = |shown: &Self| shown.0.keys().cloned().collect::<Vec<_>>();
        ensure!(names(self) == names(after), "{:?}", names(after));
        for ((name, former), current) in self.0.iter().zip(after.0.values()) {
            for part in ["identity", "spec", "status"] {
                let (former, current) = (&former[part], &current[part]);
                ensure!(former == current, "{name}: {former} became {current}");
            }
            for part in ["labels", "annotations"] {
                let former = former[part].as_object();
                for (key, value) in former.into_iter().flatten() {
                    let now = &current[part][key];
                    ensure!(now == value, "{name}: {key} {value} became {now}");
                }
            }
        }
        Ok(())
    }
}

async fn show<K>(shown: &mut BTreeMap<String, Value>, api: Api<K>) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    for object in api.list(&ListParams::default()).await? {
        let mut value = json!(object);
        forget(&mut value);
        let metadata = object.meta();
        ensure!(
            metadata.deletion_timestamp.is_none(),
            "{} is being deleted",
            object.name_any()
        );
        let one = json!({
            "identity": [metadata.uid, metadata.creation_timestamp],
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "spec": value["spec"],
            "status": value["status"],
        });
        shown.insert(format!("{} {}", K::kind(&()), object.name_any()), one);
    }
    Ok(())
}

/// Removes ignored fields and sorts conditions.
fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !IGNORED.contains(&name.as_str()));
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(forget);
            items.sort_by_key(|item| item["type"].to_string());
        }
        _ => {}
    }
}

/// Watches every version of every object in the project.
pub struct Customer {
    seen: watch::Receiver<SeenObjects>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct SeenObjects {
    /// The last version of each object, by UID.
    versions: BTreeMap<String, String>,
    count: usize,
    complaints: Vec<String>,
}

impl Drop for Customer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Customer {
    /// Begins to watch.
    pub fn watch(namespace: &FormerNamespace) -> Self {
        let (sender, seen) = watch::channel(SeenObjects::default());
        let deployments = i32::try_from(namespace.deployments.len()).unwrap_or(i32::MAX);
        let tasks = vec![
            follow::<Workload>(namespace.in_project(), &sender, move |workload| {
                let status = workload.status.clone().unwrap_or_default();
                let counters = [
                    status.replicas,
                    status.ready_replicas,
                    status.current_replicas,
                ];
                counters == [deployments; 3] && available(&status.conditions)
            }),
            follow::<WorkloadDeployment>(namespace.in_project(), &sender, |deployment| {
                let status = deployment.status.clone().unwrap_or_default();
                let counters = [
                    status.replicas,
                    status.ready_replicas,
                    status.current_replicas,
                ];
                counters == [1; 3] && available(&status.conditions)
            }),
            follow::<Instance>(namespace.in_project(), &sender, |instance| {
                let status = instance.status.clone().unwrap_or_default();
                let mut types = ["Programmed", "Running", "Ready", "QuotaGranted"].iter();
                types.all(|type_| condition::is_true(&status.conditions, type_))
            }),
        ];
        Self { seen, tasks }
    }

    /// Checks that no version was less available than the first one, and that no object was deleted.
    ///
    /// # Errors
    ///
    /// When there was such a version. The error contains all of them.
    pub async fn was_never_disturbed(self, namespace: &FormerNamespace) -> anyhow::Result<()> {
        let mut current = versions::<Workload>(namespace.in_project()).await?;
        current.extend(versions::<WorkloadDeployment>(namespace.in_project()).await?);
        current.extend(versions::<Instance>(namespace.in_project()).await?);
        wait::eventually("the last version is seen", WITHIN, || async {
            ensure!(self.seen.borrow().versions == current);
            Ok(())
        })
        .await?;
        let seen = self.seen.borrow();
        ensure!(
            seen.count > current.len(),
            "no version was seen but the last"
        );
        let complaints = &seen.complaints;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    }
}

fn available(conditions: &[Condition]) -> bool {
    condition::is_true(conditions, "Available")
}

async fn versions<K>(api: Api<K>) -> anyhow::Result<BTreeMap<String, String>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let listed = api.list(&ListParams::default()).await?;
    let versions = listed
        .into_iter()
        .map(|object| object.uid().zip(object.resource_version()));
    versions
        .collect::<Option<_>>()
        .context("an object has no UID or no resource version")
}

fn follow<K>(
    api: Api<K>,
    sender: &watch::Sender<SeenObjects>,
    is_well: impl Fn(&K) -> bool + Send + 'static,
) -> JoinHandle<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let sender = sender.clone();
    let mut events = watcher(api, watcher::Config::default())
        .backoff(SteadyBackoff)
        .boxed();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let (object, gone) = match event {
                Ok(Event::InitApply(object) | Event::Apply(object)) => (object, false),
                Ok(Event::Delete(object)) => (object, true),
                // The watcher restarts a broken watch.
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            };
            sender.send_modify(|seen| {
                let uid = object.uid().unwrap_or_default();
                let version = object.resource_version().unwrap_or_default();
                seen.versions.insert(uid, version);
                seen.count += 1;
                let going = object.meta().deletion_timestamp.is_some();
                if gone || going || !is_well(&object) {
                    let (kind, name) = (K::kind(&()), object.name_any());
                    let status = &json!(object)["status"];
                    let complaint = format!("{kind} {name}: gone {gone}, going {going}, {status}");
                    seen.complaints.push(complaint);
                }
            });
        }
    })
}
