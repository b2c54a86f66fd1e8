//! The controllers of the management plane, and what each of them hears of.

use std::collections::HashMap;
use std::sync::Arc;

use api::karmada::PropagationPolicy;
use api::{HubNamespace, Instance, ProjectName, Workload, WorkloadDeployment, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use planes::cache::Follower;
use planes::{Metrics, Queue, Tasks};
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::federator::Federator;
use crate::keys::{HubKey, ProjectKey};
use crate::objects::{Namespace, controller_name, deployment_name};
use crate::policy::PolicyController;
use crate::projector::{Projector, Unidentified, projection_of};
use crate::unidentified::UnidentifiedNamespaces;
use crate::upstream::{self, Upstream};
use crate::watched::{Hub, Project, Projects};
use crate::wiring::{Controller, Synced, Wiring, each_version};
use crate::workload::WorkloadController;
use crate::write::Writer;

/// What the controllers of the management plane need.
pub struct Config {
    /// The one project of `discovery.mode: single`.
    pub project: ProjectName,
    /// The project's API server.
    pub client: Client,
    /// The hub.
    pub hub: Client,
    /// Where writes and reconciliations are counted.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// Tells the time.
    pub clock: Clock,
}

/// Where each controller's work is added.
#[derive(Clone)]
struct Queues {
    workload: Queue<ProjectKey>,
    federator: Queue<ProjectKey>,
    policy: Queue<HubKey>,
    projector: Queue<ProjectKey>,
}

/// Starts the caches and the controllers of the management plane.
pub fn start(tasks: &Tasks, config: Config) -> Synced {
    let Config {
        project,
        client,
        hub: hub_client,
        metrics,
        may_write,
        clock,
    } = config;
    let (workload, workload_workers) = Queue::new(WorkloadController::NAME, &metrics);
    let (federator, federator_workers) = Queue::new(Federator::NAME, &metrics);
    let (policy, policy_workers) = Queue::new(PolicyController::NAME, &metrics);
    let (projector, projector_workers) = Queue::new(Projector::NAME, &metrics);
    let queues = Queues {
        workload,
        federator,
        policy,
        projector,
    };

    let mut wiring = Wiring::new(tasks);
    let followers = HubFollowers::new(&metrics);
    let hub = Arc::new(followers.hub(hub_client));
    let plane = follow_project(&mut wiring, &project, client, &hub, &queues, &metrics);
    let projects = Arc::new(Projects::new(HashMap::from([(project, plane)])));
    followers.follow(&mut wiring, &hub, &projects, &queues);

    let ready = wiring.ready_to_write(may_write);
    let writer = |controller| Writer::new(controller, &metrics);
    let controller = WorkloadController {
        projects: Arc::clone(&projects),
        writer: writer(WorkloadController::NAME),
        clock,
    };
    wiring.run(workload_workers, &ready, controller);
    let controller = Federator {
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        writer: writer(Federator::NAME),
        clock,
    };
    wiring.run(federator_workers, &ready, controller);
    let controller = PolicyController {
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        writer: writer(PolicyController::NAME),
    };
    wiring.run(policy_workers, &ready, controller);
    let controller = Projector {
        projects,
        hub,
        writer: writer(Projector::NAME),
    };
    wiring.run(projector_workers, &ready, controller);
    wiring.synced()
}

/// Watches one project.
fn follow_project(
    wiring: &mut Wiring<'_>,
    name: &ProjectName,
    client: Client,
    hub: &Arc<Hub>,
    queues: &Queues,
    metrics: &Metrics,
) -> Project {
    let plane = format!("project/{name}");
    let mut workloads = Follower::<Workload>::new(&plane, metrics);
    let mut deployments = Follower::<WorkloadDeployment>::new(&plane, metrics);
    let mut namespaces = Follower::<Namespace>::new(&plane, metrics);
    let mut instances = Follower::<Instance>::new(&plane, metrics);

    workloads.on_change({
        let (name, queue) = (name.clone(), queues.workload.clone());
        each_version(move |metadata| queue.add(ProjectKey::of(&name, metadata)))
    });
    deployments.on_change({
        let (name, queues, hub) = (name.clone(), queues.clone(), Arc::clone(hub));
        move |change| {
            let owner_changed = change.former.map(owner) != change.current.map(owner);
            for metadata in change.versions() {
                let key = ProjectKey::of(&name, metadata);
                if let Some(workload) = controller_name::<Workload>(metadata) {
                    queues.workload.add(ProjectKey {
                        name: workload.to_owned(),
                        ..key.clone()
                    });
                }
                if let Some(hub_namespace) = recorded_hub_namespace(metadata) {
                    if owner_changed {
                        add_instances_of(&hub, &queues, &hub_namespace, &key.name);
                    }
                    queues.policy.add(HubKey {
                        project: Some(name.clone()),
                        namespace: hub_namespace,
                    });
                }
                queues.federator.add(key);
            }
        }
    });
    instances.on_change({
        let (name, queue) = (name.clone(), queues.projector.clone());
        each_version(move |metadata| queue.add(ProjectKey::of(&name, metadata)))
    });
    namespaces.on_change({
        // A deployment can be seen before its Namespace is.
        let (name, queues, deployments) = (name.clone(), queues.clone(), deployments.cache());
        each_version(move |metadata| {
            let namespace = metadata.name.as_deref().unwrap_or_default();
            for deployment in deployments.metadata(namespace) {
                queues.federator.add(ProjectKey::of(&name, &deployment));
            }
        })
    });
    let project = Project {
        client: client.clone(),
        namespaces: namespaces.cache(),
        workloads: workloads.cache(),
        deployments: deployments.cache(),
        instances: instances.cache(),
    };
    wiring.follow("Namespaces of the project", namespaces, client.clone());
    wiring.follow("Workloads of the project", workloads, client.clone());
    wiring.follow(
        "WorkloadDeployments of the project",
        deployments,
        client.clone(),
    );
    wiring.follow("Instances of the project", instances, client);
    project
}

/// What follows the hub.
struct HubFollowers {
    namespaces: Follower<Namespace>,
    deployments: Follower<WorkloadDeployment>,
    policies: Follower<PropagationPolicy>,
    instances: Follower<Instance>,
    unidentified: Arc<UnidentifiedNamespaces>,
}

impl HubFollowers {
    fn new(metrics: &Metrics) -> Self {
        Self {
            namespaces: Follower::new("hub", metrics),
            deployments: Follower::new("hub", metrics),
            policies: Follower::new("hub", metrics),
            instances: Follower::new("hub", metrics),
            unidentified: Arc::new(UnidentifiedNamespaces::new(metrics)),
        }
    }

    fn hub(&self, client: Client) -> Hub {
        Hub {
            client,
            namespaces: self.namespaces.cache(),
            deployments: self.deployments.cache(),
            policies: self.policies.cache(),
            instances: self.instances.cache(),
            instances_of: self.instances.index(deployment_of),
        }
    }

    fn follow(
        mut self,
        wiring: &mut Wiring<'_>,
        hub: &Arc<Hub>,
        projects: &Arc<Projects>,
        queues: &Queues,
    ) {
        let unidentified = &self.unidentified;
        self.namespaces.on_change({
            let (projects, queues) = (Arc::clone(projects), queues.clone());
            let (hub, unidentified) = (Arc::clone(hub), Arc::clone(unidentified));
            each_version(move |metadata| {
                let Some(namespace) = metadata
                    .name
                    .as_deref()
                    .and_then(|name| HubNamespace::new(name).ok())
                else {
                    return;
                };
                unidentified.look_at(&hub, metadata);
                queues.policy.add(HubKey {
                    project: upstream::project(metadata),
                    namespace,
                });
                // Also for whom it was before, who has to know that it is so no more.
                if let Ok(upstream) = Upstream::of(metadata) {
                    add_deployments_of(&projects, &queues, &upstream);
                }
            })
        });
        self.deployments.on_change({
            let (hub, queues) = (Arc::clone(hub), queues.clone());
            let unidentified = Arc::clone(unidentified);
            each_version(move |metadata| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                // Of a namespace that is not known yet, the Namespace's own event comes.
                add_policies_of(&hub, &queues, namespace);
                let upstream = unidentified.upstream_of(&hub, namespace);
                if let Some(Upstream { project, namespace }) = upstream {
                    let name = metadata.name.as_deref().unwrap_or_default();
                    let key = ProjectKey::new(&project, &namespace, name);
                    queues.federator.add(key);
                }
            })
        });
        self.policies.on_change({
            let (hub, projects, queues) = (Arc::clone(hub), Arc::clone(projects), queues.clone());
            let unidentified = Arc::clone(unidentified);
            each_version(move |metadata| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                add_policies_of(&hub, &queues, namespace);
                // New deployments wait for their policy.
                if let Some(upstream) = unidentified.upstream_of(&hub, namespace) {
                    add_deployments_of(&projects, &queues, &upstream);
                }
            })
        });
        self.instances.on_change({
            let (queue, unidentified) = (queues.projector.clone(), Unidentified::default());
            each_version(move |metadata| match projection_of(metadata) {
                Ok(key) => queue.add(key),
                Err(error) => unidentified.report(metadata, &error),
            })
        });
        let client = &hub.client;
        wiring.follow("Namespaces of the hub", self.namespaces, client.clone());
        wiring.follow(
            "WorkloadDeployments of the hub",
            self.deployments,
            client.clone(),
        );
        wiring.follow(
            "PropagationPolicies of the hub",
            self.policies,
            client.clone(),
        );
        wiring.follow("Instances of the hub", self.instances, client.clone());
    }
}

fn recorded_hub_namespace(deployment: &ObjectMeta) -> Option<HubNamespace> {
    let recorded = deployment
        .annotations
        .as_ref()?
        .get(annotations::FEDERATION_NAMESPACE)?;
    HubNamespace::new(recorded.as_str()).ok()
}

fn add_policies_of(hub: &Hub, queues: &Queues, namespace: &str) {
    if let Ok(Some(known)) = hub.namespaces.get("", namespace)
        && let Ok(namespace) = HubNamespace::new(namespace)
    {
        queues.policy.add(HubKey {
            project: upstream::project(known.meta()),
            namespace,
        });
    }
}

fn add_deployments_of(projects: &Projects, queues: &Queues, upstream: &Upstream) {
    let Upstream { project, namespace } = upstream;
    if let Ok(plane) = projects.get(project) {
        for metadata in plane.deployments.metadata(namespace) {
            queues.federator.add(ProjectKey::of(project, &metadata));
        }
    }
}

/// What the Instances of a deployment on the hub wait for, and what they go with.
fn owner(deployment: &ObjectMeta) -> (Option<&str>, bool, Option<HubNamespace>) {
    let terminating = deployment.deletion_timestamp.is_some();
    let hub_namespace = recorded_hub_namespace(deployment);
    (deployment.uid.as_deref(), terminating, hub_namespace)
}

fn add_instances_of(hub: &Hub, queues: &Queues, namespace: &HubNamespace, deployment: &str) {
    let instances = hub.instances_of.get(&of(namespace.as_str(), deployment));
    // One that does not say whose it is has been reported.
    let keys = instances
        .iter()
        .filter_map(|it| projection_of(it.meta()).ok());
    keys.for_each(|key| queues.projector.add(key));
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn instances_wait_for_an_owner_that_is_there_and_recorded_whatever_its_status() {
        let former = json!({
            "uid": "u", "resourceVersion": "1", "generation": 1,
            "annotations": {"compute.datumapis.com/federation-namespace": "ns-1"},
        });
        let same = |path: &str, value: Value| {
            let mut current = former.clone();
            *current.pointer_mut(path).unwrap() = value;
            let [former, current] = [&former, &current]
                .map(|metadata| serde_json::from_value::<ObjectMeta>(metadata.clone()).unwrap());
            owner(&former) == owner(&current)
        };
        assert!(same("/resourceVersion", json!("2")));
        assert!(same("/generation", json!(2)));
        assert!(!same("/uid", json!("v")));
        assert!(!same("/annotations", json!({})));
        let mut terminating = former.clone();
        terminating["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!same("", terminating));
    }

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
