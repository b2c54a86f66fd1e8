//! Watches the objects of a Workload on every plane.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::Context;
use api::karmada::PropagationPolicy;
use api::{Instance, Workload, WorkloadDeployment};
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use harness::{Federation, Plane};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Objects of one kind, by plane and name.
pub(crate) type Objects<K> = BTreeMap<String, BTreeMap<String, K>>;

/// All observed objects in one namespace of the project and in its hub namespace.
#[derive(Default)]
pub(crate) struct ObservedState {
    pub(crate) workloads: Objects<Workload>,
    pub(crate) deployments: Objects<WorkloadDeployment>,
    pub(crate) instances: Objects<Instance>,
    pub(crate) policies: Objects<PropagationPolicy>,
}

/// An API server whose objects are observed.
pub(crate) struct ObservedPlane {
    /// `project`, `hub` or `cell`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) client: Client,
}

impl ObservedPlane {
    /// Returns the API servers of a federation.
    pub(crate) fn all_of(federation: &Federation) -> Vec<Self> {
        let observed = |plane: &Plane| Self {
            kind: plane.kind(),
            name: plane.name().to_owned(),
            client: plane.client(),
        };
        federation.planes().map(observed).collect()
    }

    /// Returns the namespace of this API server, for a namespace of the project and its hub namespace.
    pub(crate) fn namespace<'n>(&self, namespace: &'n str, hub_namespace: &'n str) -> &'n str {
        match self.kind {
            "project" => namespace,
            _ => hub_namespace,
        }
    }
}

type StateChange = Box<dyn FnOnce(&mut ObservedState) + Send>;

/// Keeps an [`ObservedState`] up to date.
pub(crate) struct Observer {
    pub(crate) state: ObservedState,
    changes: UnboundedReceiver<StateChange>,
}

impl Observer {
    /// Watches a namespace of the project, and the namespace `hub_namespace` on the hub and in the cells.
    pub(crate) fn start(planes: &[ObservedPlane], namespace: &str, hub_namespace: &str) -> Self {
        let (sender, changes) = mpsc::unbounded_channel();
        for plane in planes {
            let namespace = plane.namespace(namespace, hub_namespace);
            match plane.kind {
                "project" => watch(plane, namespace, &sender, |state| &mut state.workloads),
                "hub" => watch(plane, namespace, &sender, |state| &mut state.policies),
                _ => {}
            }
            watch(plane, namespace, &sender, |state| &mut state.deployments);
            watch(plane, namespace, &sender, |state| &mut state.instances);
        }
        Self {
            state: ObservedState::default(),
            changes,
        }
    }

    /// Waits for a change, then applies all pending changes.
    pub(crate) async fn changed(&mut self) -> anyhow::Result<()> {
        let mut change = Some(
            self.changes
                .recv()
                .await
                .context("the watches have ended")?,
        );
        while let Some(apply) = change {
            apply(&mut self.state);
            change = self.changes.try_recv().ok();
        }
        Ok(())
    }
}

fn watch<K>(
    plane: &ObservedPlane,
    namespace: &str,
    sender: &UnboundedSender<StateChange>,
    objects: fn(&mut ObservedState) -> &mut Objects<K>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(plane.client.clone(), namespace);
    let (plane, sender) = (plane.name.clone(), sender.clone());
    tokio::spawn(async move {
        let mut events = watcher(api, watcher::Config::default())
            .backoff(SteadyBackoff)
            .boxed();
        while let Some(event) = events.next().await {
            let plane = plane.clone();
            let change: StateChange = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => Box::new(move |state| {
                    objects(state)
                        .entry(plane)
                        .or_default()
                        .insert(object.name_any(), object);
                }),
                Ok(Event::Delete(object)) => Box::new(move |state| {
                    objects(state)
                        .entry(plane)
                        .or_default()
                        .remove(&object.name_any());
                }),
                Ok(Event::Init) => {
                    Box::new(move |state| objects(state).entry(plane).or_default().clear())
                }
                // The watcher restarts a broken watch.
                Ok(Event::InitDone) | Err(_) => continue,
            };
            if sender.send(change).is_err() {
                return;
            }
        }
    });
}
