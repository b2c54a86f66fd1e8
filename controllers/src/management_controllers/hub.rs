//! What the controllers of the management plane hear of on the hub.

use std::fmt::Debug;
use std::sync::Arc;

use api::karmada::{PropagationPolicy, ResourceBinding, ResourceInterpreterCustomization};
use api::{HubNamespace, Instance, ProjectName, WorkloadDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use multicluster::cache::Reflector;
use multicluster::{Cache, Metrics};
use serde::de::DeserializeOwned;

use super::Queues;
use super::cells::CellReflectors;
use crate::customizations::CustomizationReflector;
use crate::hub::HubCaches;
use crate::hub::policy_locks::PolicyLocks;
use crate::hub::unidentified::UnidentifiedNamespaces;
use crate::hub::upstream::{self, Upstream};
use crate::objects::{Namespace, deployment_name};
use crate::policy::{claimed_for, kinds, of_copy};
use crate::projector::Quarantined;
use crate::projects::SyncedProjects;
use crate::runtime::keys::{HubKey, InstanceKey, ProjectKey};
use crate::runtime::wiring::{Wiring, for_each_version};

/// What is not done where ResourceBindings cannot be watched.
const WITHOUT_BINDINGS: &str = "a WorkloadDeployment whose cell cannot be reached, or that has none, does not say so, and \
    no PropagationPolicy is removed";

/// What follows the hub.
pub(super) struct HubReflectors {
    namespaces: Reflector<Namespace>,
    deployments: Reflector<WorkloadDeployment>,
    policies: Reflector<PropagationPolicy>,
    bindings: Reflector<ResourceBinding>,
    instances: Reflector<Instance>,
    cells: CellReflectors,
    customizations: CustomizationReflector,
    unidentified: Arc<UnidentifiedNamespaces>,
}

impl HubReflectors {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            namespaces: Reflector::new("hub", metrics),
            deployments: Reflector::new("hub", metrics),
            policies: Reflector::new("hub", metrics),
            bindings: Reflector::new("hub", metrics),
            instances: Reflector::new("hub", metrics),
            cells: CellReflectors::new(metrics),
            customizations: CustomizationReflector::new(metrics),
            unidentified: Arc::new(UnidentifiedNamespaces::new(metrics)),
        }
    }

    pub(super) fn hub(&self, client: Client) -> HubCaches {
        HubCaches {
            client,
            namespaces: self.namespaces.cache(),
            namespaces_of: self.namespaces.index(project_of),
            namespaces_for: self.namespaces.index(upstream_of),
            deployments: self.deployments.cache(),
            copies_for_policies: self
                .deployments
                .index_all(|copy| kinds::of_copy(copy.meta()), kinds::of_copy),
            policies: self.policies.cache(),
            policy_locks: PolicyLocks::default(),
            bindings: self.bindings.cache(),
            bindings_for_policies: self.bindings.index_all(
                |binding| kinds::of_binding(binding.meta()),
                kinds::of_binding,
            ),
            instances: self.instances.cache(),
            instances_of: self.instances.index(deployment_of),
            cells: self.cells.cells(&self.bindings),
        }
    }

    pub(super) fn customizations(&self) -> Cache<ResourceInterpreterCustomization> {
        self.customizations.cache()
    }

    pub(super) fn follow(
        mut self,
        wiring: &mut Wiring<'_>,
        hub: &Arc<HubCaches>,
        projects: &Arc<SyncedProjects>,
        queues: &Queues,
        quarantined: &Quarantined,
    ) {
        let unidentified = &self.unidentified;
        self.namespaces.on_change({
            let (projects, queues) = (Arc::clone(projects), queues.clone());
            let (hub, unidentified) = (Arc::clone(hub), Arc::clone(unidentified));
            for_each_version(move |metadata| {
                let Some(namespace) = metadata
                    .name
                    .as_deref()
                    .and_then(|name| HubNamespace::new(name).ok())
                else {
                    return;
                };
                unidentified.look_at(&hub, metadata);
                let project = upstream::project(metadata);
                let key = HubKey { project, namespace };
                queues.policy.add(key.clone());
                queues.namespace.add(key);
                // Also for whom it was before, who has to know that it is so no more.
                if let Ok(upstream) = Upstream::of(metadata) {
                    add_deployments_of(&projects, &queues, &upstream);
                    add_copies_in(&hub, &queues, &upstream, metadata);
                }
            })
        });
        self.deployments.on_change({
            let (hub, queues) = (Arc::clone(hub), queues.clone());
            let unidentified = Arc::clone(unidentified);
            move |change| {
                let matters_to_policies = change.former.map(of_copy) != change.current.map(of_copy);
                for metadata in change.versions() {
                    let namespace = metadata.namespace.as_deref().unwrap_or_default();
                    // Of a namespace that is not known yet, the Namespace's own event comes.
                    if matters_to_policies {
                        add_policies_of(&hub, &queues, namespace);
                    }
                    let upstream = unidentified.upstream_of(&hub, namespace);
                    if let Some(Upstream { project, namespace }) = upstream {
                        let name = metadata.name.as_deref().unwrap_or_default();
                        let key = ProjectKey::new(&project, &namespace, name);
                        queues.federator.add(key);
                    }
                }
            }
        });
        self.policies.on_change({
            let (hub, projects, queues) = (Arc::clone(hub), Arc::clone(projects), queues.clone());
            let unidentified = Arc::clone(unidentified);
            for_each_version(move |metadata| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                add_policies_of(&hub, &queues, namespace);
                // New deployments wait for their policy.
                if let Some(upstream) = unidentified.upstream_of(&hub, namespace) {
                    add_deployments_of(&projects, &queues, &upstream);
                }
            })
        });
        self.bindings.on_change({
            let (hub, queues) = (Arc::clone(hub), queues.clone());
            move |change| {
                if change.former.and_then(claimed_for) != change.current.and_then(claimed_for) {
                    let namespace = change.versions().find_map(|it| it.namespace.as_deref());
                    add_policies_of(&hub, &queues, namespace.unwrap_or_default());
                }
            }
        });
        self.namespaces.on_change({
            let (hub, queues) = (Arc::clone(hub), queues.clone());
            move |change| {
                let whose = |it: &ObjectMeta| Upstream::of(it).ok();
                if change.former.and_then(whose) != change.current.and_then(whose) {
                    // Also as those of whom they were before.
                    for metadata in change.versions() {
                        add_instances_in(&hub, &queues, metadata);
                    }
                }
            }
        });
        watch_instances(&mut self.instances, hub, queues, quarantined);
        let (bindings, federator) = (&mut self.bindings, &queues.federator);
        self.cells
            .follow(wiring, bindings, hub, unidentified, federator);
        add_namespaces_of(&mut self.bindings, hub, queues);
        add_namespaces_of(&mut self.deployments, hub, queues);
        add_namespaces_of(&mut self.policies, hub, queues);
        add_namespaces_of(&mut self.instances, hub, queues);
        let client = &hub.client;
        wiring.watch("Namespaces of the hub", self.namespaces, client.clone());
        let what = "WorkloadDeployments of the hub";
        wiring.watch(what, self.deployments, client.clone());
        let what = "PropagationPolicies of the hub";
        wiring.watch(what, self.policies, client.clone());
        let what = "ResourceBindings of the hub";
        wiring.watch_if_served(what, WITHOUT_BINDINGS, self.bindings, client.clone());
        wiring.watch("Instances of the hub", self.instances, client.clone());
        self.customizations
            .follow(wiring, client, &queues.customizations);
    }
}

fn watch_instances(
    instances: &mut Reflector<Instance>,
    hub: &Arc<HubCaches>,
    queues: &Queues,
    quarantined: &Quarantined,
) {
    instances.on_change({
        let (hub, queue) = (Arc::clone(hub), queues.projector.clone());
        let quarantined = quarantined.clone();
        move |change| {
            let uid = |it: &'_ ObjectMeta| it.uid.clone();
            let (former, current) = (change.former.and_then(uid), change.current.and_then(uid));
            if let Some(gone) = former.filter(|former| current.as_ref() != Some(former)) {
                quarantined.forget(&gone);
            }
            for metadata in change.versions() {
                queue.add(instance_key(&hub, metadata));
            }
        }
    });
}

fn add_policies_of(hub: &HubCaches, queues: &Queues, namespace: &str) {
    if let Some(key) = hub_key(hub, namespace) {
        queues.policy.add(key);
    }
}

/// The key of a hub namespace that is known.
fn hub_key(hub: &HubCaches, namespace: &str) -> Option<HubKey> {
    let known = hub.namespaces.get("", namespace).ok()??;
    let namespace = HubNamespace::new(namespace).ok()?;
    let project = upstream::project(known.meta());
    Some(HubKey { project, namespace })
}

/// Adds the namespace of each object of a kind that goes: it may be the last thing in it.
fn add_namespaces_of<K>(reflector: &mut Reflector<K>, hub: &Arc<HubCaches>, queues: &Queues)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (hub, queue) = (Arc::clone(hub), queues.namespace.clone());
    reflector.on_change(move |change| {
        if let (Some(former), None) = (change.former, change.current)
            && let Some(key) = hub_key(&hub, former.namespace.as_deref().unwrap_or_default())
        {
            queue.add(key);
        }
    });
}

fn add_deployments_of(projects: &SyncedProjects, queues: &Queues, upstream: &Upstream) {
    let Upstream { project, namespace } = upstream;
    if let Ok(plane) = projects.get(project) {
        for metadata in plane.deployments.metadata(namespace) {
            queues.federator.add(ProjectKey::of(project, &metadata));
        }
    }
}

pub(super) fn add_instances_of(
    hub: &HubCaches,
    queues: &Queues,
    namespace: &HubNamespace,
    deployment: &str,
) {
    let instances = hub.instances_of.get(&of(namespace.as_str(), deployment));
    for instance in instances {
        queues.projector.add(instance_key(hub, instance.meta()));
    }
}

/// Adds the Instances of the hub that are those of a namespace of a project.
pub(super) fn add_instances_for(hub: &HubCaches, queues: &Queues, upstream: &Upstream) {
    for namespace in hub.namespaces_for.get(&upstream.to_string()) {
        add_instances_in(hub, queues, namespace.meta());
    }
}

/// Adds the Instances of a hub namespace, as those of whom its labels name.
fn add_instances_in(hub: &HubCaches, queues: &Queues, namespace: &ObjectMeta) {
    for instance in hub
        .instances
        .metadata(namespace.name.as_deref().unwrap_or_default())
    {
        queues.projector.add(key_in(Some(namespace), &instance));
    }
}

/// The key of an Instance of the hub.
fn instance_key(hub: &HubCaches, instance: &ObjectMeta) -> InstanceKey {
    // Of a namespace that is not known yet, the Namespace's own event comes.
    let namespace = instance.namespace.as_deref().unwrap_or_default();
    let namespace = hub.namespaces.get("", namespace).ok().flatten();
    key_in(namespace.as_deref().map(Resource::meta), instance)
}

fn key_in(namespace: Option<&ObjectMeta>, instance: &ObjectMeta) -> InstanceKey {
    let name = instance.name.as_deref().unwrap_or_default();
    match namespace.map(Upstream::of) {
        Some(Ok(upstream)) => InstanceKey::of(&upstream, name),
        _ => InstanceKey::on_hub(instance.namespace.as_deref().unwrap_or_default(), name),
    }
}

/// The deployment of an Instance, as `Hub::instances_of` has it.
fn deployment_of(instance: &Instance) -> Vec<String> {
    let namespace = instance.meta().namespace.as_deref().unwrap_or_default();
    let name = deployment_name(instance.meta());
    name.map(|name| of(namespace, name)).into_iter().collect()
}

fn of(namespace: &str, deployment: &str) -> String {
    format!("{namespace}/{deployment}")
}

/// The project of a namespace, as `Hub::namespaces_of` has it.
fn project_of(namespace: &Namespace) -> Vec<String> {
    let project = upstream::project(namespace.meta());
    project
        .map(|project| project.to_string())
        .into_iter()
        .collect()
}

/// The namespace of a project that a namespace is for, as `Hub::namespaces_for` has it.
fn upstream_of(namespace: &Namespace) -> Vec<String> {
    let upstream = Upstream::of(namespace.meta());
    upstream.map(|it| it.to_string()).into_iter().collect()
}

/// Adds the deployments of a hub namespace, as those of whom its labels name: the project may not have them.
fn add_copies_in(hub: &HubCaches, queues: &Queues, upstream: &Upstream, namespace: &ObjectMeta) {
    for copy in hub
        .deployments
        .metadata(namespace.name.as_deref().unwrap_or_default())
    {
        let name = copy.name.as_deref().unwrap_or_default();
        let key = ProjectKey::new(&upstream.project, &upstream.namespace, name);
        queues.federator.add(key);
    }
}

/// Adds the hub namespaces of a project, and the policies in them.
pub(super) fn add_namespaces_of_project(hub: &HubCaches, queues: &Queues, project: &ProjectName) {
    for namespace in hub.namespaces_of.get(project.as_str()) {
        let name = namespace.meta().name.as_deref().unwrap_or_default();
        if let Some(key) = hub_key(hub, name) {
            queues.policy.add(key.clone());
            queues.namespace.add(key);
        }
    }
}

/// Adds what is on the hub for a project.
pub(super) fn add_all_of(hub: &HubCaches, queues: &Queues, project: &ProjectName) {
    add_namespaces_of_project(hub, queues, project);
    for namespace in hub.namespaces_of.get(project.as_str()) {
        let metadata = namespace.meta();
        if let Ok(upstream) = Upstream::of(metadata) {
            add_copies_in(hub, queues, &upstream, metadata);
        }
        add_instances_in(hub, queues, metadata);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_are_found_by_their_deployment() {
        let labels = json!({"compute.datumapis.com/workload-deployment-name": "web-dfw"});
        for (labels, expected) in [(labels, vec!["ns-1/web-dfw"]), (json!({}), vec![])] {
            let metadata = json!({"namespace": "ns-1", "name": "i", "labels": labels});
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            let mut instance = Instance::new("i", api::InstanceSpec::default());
            instance.metadata = metadata;
            assert_eq!(deployment_of(&instance), expected);
        }
    }
}
