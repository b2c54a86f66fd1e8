//! What the controllers of the management plane hear of in a project.

use std::sync::Arc;
use std::time::Duration;

use api::{HubNamespace, Instance, ProjectName, Workload, WorkloadDeployment};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::Cache;
use multicluster::cache::{Change, Reflector};
use multicluster::projects::ProjectHandler;
use tokio::time::timeout;

use super::hub::{add_all_of, add_instances_for, add_instances_of, add_namespaces_of_project};
use super::{Management, Queues};
use crate::federator::StaleCells;
use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::objects::{Namespace, Network, controller_name, recorded_hub_namespace};
use crate::policy::{kinds, of_upstream};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::keys::{HubKey, ProjectKey};
use crate::runtime::wiring::{Watches, for_each_version};
use crate::workload::{network_key, networks_of, workload_of, workload_of_undecodable};

/// How all projects together are named in metrics: there may be thousands.
const PROJECTS: &str = "projects";

/// For how long a watch may fail before Workloads say so: one that broke off is mostly back at once.
const INTERRUPTION: Duration = Duration::from_secs(3);

impl ProjectHandler for Management {
    fn run(&self, project: Arc<multicluster::projects::EngagedProject>) -> BoxFuture<'static, ()> {
        let (watches, plane) = self.follow(&project);
        let (name, plane) = (project.name().clone(), Arc::new(plane));
        let (projects, hub, queues) = (
            Arc::clone(&self.projects),
            Arc::clone(&self.hub),
            self.queues.clone(),
        );
        let stale_cells = Arc::clone(&self.stale_cells);
        let needs = follow_needs(Arc::clone(&plane), queues.clone());
        let enter = move || {
            projects.register(name.clone(), Arc::clone(&plane));
            // What came before was no one's.
            queues.add_all_of(&name, &plane);
            add_all_of(&hub, &queues, &name);
            Registered {
                projects,
                hub,
                queues,
                name,
                plane,
                stale_cells,
            }
        };
        async move {
            tokio::join!(watches.run(enter), needs);
        }
        .boxed()
    }

    fn on_removed(&self, name: &ProjectName) {
        add_namespaces_of_project(&self.hub, &self.queues, name);
    }
}

/// A project that is served; it is not any more when this is dropped.
struct Registered {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    queues: Queues,
    name: ProjectName,
    plane: Arc<ProjectCaches>,
    stale_cells: Arc<StaleCells>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Another project of the same name may have come meanwhile.
        if self.projects.unregister(&self.name, &self.plane) {
            self.queues.forget(&self.name);
            self.stale_cells.forget_project(&self.name);
            // It may be gone for good.
            add_namespaces_of_project(&self.hub, &self.queues, &self.name);
        }
    }
}

/// Workloads are placed anew where other cities are offered, or where it is known again which cities and Networks there are,
/// and what could not be written is tried again where the API server answers again.
async fn follow_needs(plane: Arc<ProjectCaches>, queues: Queues) {
    let project = &plane.locations;
    let change = || {
        let (cities, suspension) = (project.cities_change(), project.suspension_change());
        let mut networks = plane.networks.sync_state();
        networks.mark_unchanged();
        Box::pin(async move {
            // Neither ends before the project does.
            tokio::select! {
                () = cities => {}
                () = suspension => {}
                _ = networks.changed() => {}
            }
        })
    };
    let mut next = change();
    loop {
        next.await;
        // What changes from now on is another change.
        next = change();
        let is_known =
            project.cities().is_ok() && plane.networks.sync_state().borrow().is_current();
        if !is_known && timeout(INTERRUPTION, &mut next).await.is_ok() {
            next = change();
        }
        queues.release(project.name());
        queues.add_workloads_of(project.name(), &plane);
    }
}

impl Management {
    /// What is watched of a project, and where it is kept.
    fn follow(
        &self,
        project: &Arc<multicluster::projects::EngagedProject>,
    ) -> (Watches, ProjectCaches) {
        let (name, client) = (project.name(), project.client());
        let (hub, queues, metrics) = (&self.hub, &self.queues, &self.metrics);
        let named = format!("project/{name}");
        let mut workloads = Reflector::<Workload>::of_many(&named, PROJECTS, metrics);
        let mut deployments = Reflector::<WorkloadDeployment>::of_many(&named, PROJECTS, metrics);
        let mut namespaces = Reflector::<Namespace>::of_many(&named, PROJECTS, metrics);
        let mut instances = Reflector::<Instance>::of_many(&named, PROJECTS, metrics);
        let mut networks = Reflector::<Network>::of_many(&named, PROJECTS, metrics);

        workloads.on_change({
            let (name, queue) = (name.clone(), queues.workload.clone());
            for_each_version(move |metadata| queue.add(ProjectKey::of(&name, metadata)))
        });
        deployments.on_change({
            let (name, queues, hub) = (name.clone(), queues.clone(), Arc::clone(hub));
            move |change| {
                let owner_changed = change.former.map(owner) != change.current.map(owner);
                let matters_to_policies =
                    change.former.map(of_upstream) != change.current.map(of_upstream);
                for metadata in change.versions() {
                    let key = ProjectKey::of(&name, metadata);
                    if let Some(workload) = controller_name::<Workload>(metadata) {
                        queues.workload.add(ProjectKey {
                            name: workload.to_owned(),
                            ..key.clone()
                        });
                    }
                    let recorded = recorded_hub_namespace(metadata);
                    if let Some(Ok(hub_namespace)) = recorded.map(HubNamespace::new) {
                        if owner_changed {
                            add_instances_of(&hub, &queues, &hub_namespace, &key.name);
                        }
                        let hub_key = HubKey {
                            project: Some(name.clone()),
                            namespace: hub_namespace,
                        };
                        if change.current.is_none() {
                            queues.namespace.add(hub_key.clone());
                        }
                        if matters_to_policies {
                            queues.policy.add(hub_key);
                        }
                    }
                    queues.federator.add(key);
                }
            }
        });
        instances.on_change({
            let (name, queue) = (name.clone(), queues.projector.clone());
            for_each_version(move |metadata| queue.add(ProjectKey::of(&name, metadata).into()))
        });
        self.watch_namespaces(
            name,
            &mut namespaces,
            &deployments.cache(),
            &instances.cache(),
        );
        networks.on_change({
            let (name, queue) = (name.clone(), queues.workload.clone());
            let workloads_on = workloads.index(networks_of);
            move |change| {
                // What becomes of one that exists is of no interest.
                if change.former.is_some() != change.current.is_some() {
                    for network in change.versions() {
                        for (namespace, workload) in workloads_on.keys(&network_key(network)) {
                            queue.add(ProjectKey::new(&name, &namespace, &workload));
                        }
                    }
                }
            }
        });
        let plane = ProjectCaches {
            client: client.clone(),
            locations: Arc::clone(project),
            namespaces: namespaces.cache(),
            networks: networks.cache(),
            workloads: workloads.cache(),
            deployments: deployments.cache(),
            deployments_of: deployments.index_all(workload_of, workload_of_undecodable),
            for_policies: deployments.index_all(kinds::of_upstream, kinds::of_unreadable_upstream),
            instances: instances.cache(),
        };
        let mut watches = Watches::new(client, &project.list_limiter());
        watches.watch(namespaces);
        watches.watch(workloads);
        watches.watch(deployments);
        watches.watch(instances);
        watches.watch_if_served(networks);
        (watches, plane)
    }

    fn watch_namespaces(
        &self,
        name: &ProjectName,
        namespaces: &mut Reflector<Namespace>,
        deployments: &Cache<WorkloadDeployment>,
        instances: &Cache<Instance>,
    ) {
        let (hub, queues) = (&self.hub, &self.queues);
        namespaces.on_change({
            // A deployment can be seen before its Namespace is.
            let (name, queues, deployments) = (name.clone(), queues.clone(), deployments.clone());
            for_each_version(move |metadata| {
                let namespace = metadata.name.as_deref().unwrap_or_default();
                for deployment in deployments.metadata(namespace) {
                    queues.federator.add(ProjectKey::of(&name, &deployment));
                }
            })
        });
        namespaces.on_change({
            // So can Instances, on the hub and here.
            let (name, queues) = (name.clone(), queues.clone());
            let (hub, instances) = (Arc::clone(hub), instances.clone());
            move |change| {
                let uid = |it: &ObjectMeta| it.uid.clone();
                if change.former.and_then(uid) == change.current.and_then(uid) {
                    return;
                }
                for metadata in change.versions() {
                    let namespace = metadata.name.as_deref().unwrap_or_default();
                    add_all_instances_of(&hub, &queues, &name, namespace, &instances);
                }
            }
        });
        namespaces.on_change({
            let (name, queue) = (name.clone(), queues.namespace.clone());
            move |change| {
                if let Some(namespace) = ended(change) {
                    let project = Some(name.clone());
                    queue.add(HubKey { project, namespace });
                }
            }
        });
    }
}

impl Queues {
    /// Adds everything that a project has.
    fn add_all_of(&self, name: &ProjectName, project: &ProjectCaches) {
        self.add_workloads_of(name, project);
        for (namespace, object) in project.deployments.keys() {
            self.federator
                .add(ProjectKey::new(name, &namespace, &object));
        }
        for (namespace, object) in project.instances.keys() {
            self.projector
                .add(ProjectKey::new(name, &namespace, &object).into());
        }
    }

    fn add_workloads_of(&self, name: &ProjectName, project: &ProjectCaches) {
        for (namespace, object) in project.workloads.keys() {
            self.workload
                .add(ProjectKey::new(name, &namespace, &object));
        }
    }

    fn forget(&self, name: &ProjectName) {
        self.workload.forget(name);
        self.federator.forget(name);
        self.policy.forget(&Some(name.clone()));
        self.projector.forget(&Some(name.clone()));
        self.namespace.forget(&Some(name.clone()));
    }

    fn release(&self, name: &ProjectName) {
        self.workload.release(name);
        self.federator.release(name);
        self.policy.release(&Some(name.clone()));
        self.projector.release(&Some(name.clone()));
        self.namespace.release(&Some(name.clone()));
    }
}

/// Adds the Instances of a namespace, here and on the hub.
fn add_all_instances_of(
    hub: &HubCaches,
    queues: &Queues,
    project: &ProjectName,
    namespace: &str,
    instances: &Cache<Instance>,
) {
    let upstream = Upstream {
        project: project.clone(),
        namespace: namespace.to_owned(),
    };
    add_instances_for(hub, queues, &upstream);
    for instance in instances.metadata(namespace) {
        queues
            .projector
            .add(ProjectKey::of(project, &instance).into());
    }
}

/// The hub namespace of a Namespace that is gone, or has been made anew.
fn ended(change: Change<'_>) -> Option<HubNamespace> {
    let former = change.former?.uid.as_deref()?;
    let current = change.current.and_then(|current| current.uid.as_deref());
    let derived = HubNamespace::of_project_namespace(former);
    derived.ok().filter(|_| current != Some(former))
}

/// What the Instances of a deployment on the hub wait for, and what they go with.
fn owner(deployment: &ObjectMeta) -> (Option<&str>, bool, Option<&str>) {
    let terminating = deployment.deletion_timestamp.is_some();
    let hub_namespace = recorded_hub_namespace(deployment);
    (deployment.uid.as_deref(), terminating, hub_namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_namespace_has_ended_when_its_uid_is_there_no_more() {
        let of = |uid: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        };
        let (one, other) = (of("1"), of("2"));
        for (former, current, expected) in [
            (Some(&one), None, Some("ns-1")),
            (Some(&one), Some(&other), Some("ns-1")),
            (Some(&one), Some(&one), None),
            (None, Some(&one), None),
        ] {
            let namespace = ended(Change { former, current });
            assert_eq!(namespace.as_ref().map(HubNamespace::as_str), expected);
        }
    }

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
}
