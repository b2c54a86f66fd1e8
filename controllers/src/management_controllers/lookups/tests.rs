//! Tests of the lookups in caches. The caches watch in-memory API servers.

use apiserver::objects;
use kube::Resource;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::object;
use crate::fixtures::servers::{FakePlanes, copy, hub_namespace, recorded, settle};
use crate::management_controllers::ProjectReflectors;
use crate::objects::Network;
use crate::runtime::triggers::fakes::binding;

fn project(name: &str) -> ProjectName {
    ProjectName::new(name).unwrap()
}

fn upstream(project_name: &str, namespace: &str) -> Upstream {
    Upstream {
        project: project(project_name),
        namespace: namespace.to_owned(),
    }
}

fn hub_namespace_of(name: &str, upstream: &Upstream) -> Value {
    let mut namespace = objects::namespace(name, name);
    namespace["metadata"]["labels"] = json!(upstream.labels());
    namespace
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn instance_of(namespace: &str, deployment: &str) -> Value {
    let mut instance = objects::instance(namespace, &format!("{deployment}-0"));
    instance["metadata"]["labels"] = json!({api::labels::WORKLOAD_DEPLOYMENT_NAME: deployment});
    instance
}

fn names(objects: impl IntoIterator<Item = ObjectMeta>) -> Vec<String> {
    let name =
        |it: ObjectMeta| format!("{}/{}", it.namespace.unwrap_or_default(), it.name.unwrap());
    sorted(objects.into_iter().map(name))
}

fn names_of<K: Resource>(objects: &[Arc<K>]) -> Vec<String> {
    names(objects.iter().map(|it| it.meta().clone()))
}

fn keys(keys: Vec<NamespacedName>) -> Vec<String> {
    let keys = keys.into_iter();
    sorted(keys.map(|(namespace, name)| format!("{namespace}/{name}")))
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Starts a project `p` with two namespaces, and a hub. The hub has a namespace for each of these two, and two other
/// namespaces.
async fn start() -> FakePlanes {
    let in_project = vec![
        objects::workload("default", "shop", &[]),
        in_namespace(objects::workload("", "shop", &[]), "other"),
        recorded("web"),
        recorded("new"),
        in_namespace(recorded("far"), "other"),
        instance_of("default", "web"),
        instance_of("other", "far"),
    ];
    let on_hub = vec![
        hub_namespace(),
        hub_namespace_of("ns-2", &upstream("p", "other")),
        hub_namespace_of("ns-3", &upstream("umbrella", "default")),
        objects::namespace("plain", "plain"),
        copy("web"),
        copy("api"),
        in_namespace(copy("far"), "ns-2"),
        instance_of("ns-1", "web"),
        instance_of("ns-1", "api"),
        instance_of("ns-2", "web"),
        json!(binding("ns-1", "web", "WorkloadDeployment", "dfw1")),
        json!(binding("ns-1", "settings", "ConfigMap", "dfw1")),
        json!(binding("ns-2", "far", "WorkloadDeployment", "ord1")),
    ];
    FakePlanes::start(in_project, on_hub).await
}

fn hub_view(planes: &FakePlanes) -> HubView {
    HubView {
        hub: Arc::clone(&planes.hub_caches),
        projects: Arc::clone(&planes.projects),
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_on_the_hub_find_the_objects_of_the_caches() {
    let planes = start().await;
    let hub = hub_view(&planes);
    let found = hub.namespace("ns-1").unwrap();
    assert_eq!(found.meta().uid.as_deref(), Some("hub-1"));
    assert!(hub.namespace("ns-9").is_none());
    let of_project = |name| names_of(&hub.namespaces_of_project(&project(name)));
    assert_eq!(of_project("p"), ["/ns-1", "/ns-2"]);
    assert_eq!(of_project("umbrella"), ["/ns-3"]);
    assert_eq!(of_project("nobody"), [""; 0]);
    let of = |project, namespace| names_of(&hub.namespaces_of(&upstream(project, namespace)));
    assert_eq!(of("p", "default"), ["/ns-1"]);
    assert_eq!(of("p", "other"), ["/ns-2"]);
    assert_eq!(of("umbrella", "default"), ["/ns-3"]);
    assert_eq!(of("umbrella", "other"), [""; 0]);
    assert_eq!(names(hub.copies_in("ns-1")), ["ns-1/api", "ns-1/web"]);
    assert_eq!(names(hub.copies_in("ns-2")), ["ns-2/far"]);
    assert_eq!(
        names(hub.instances_in("ns-1")),
        ["ns-1/api-0", "ns-1/web-0"]
    );
    assert_eq!(names(hub.instances_in("ns-2")), ["ns-2/web-0"]);
    assert_eq!(keys(hub.instances_of("ns-1", "web")), ["ns-1/web-0"]);
    assert_eq!(keys(hub.instances_of("ns-1", "far")), [""; 0]);
    let found = hub.binding("ns-1", "settings").unwrap();
    assert_eq!(found.spec.resource.kind, "ConfigMap");
    assert!(hub.binding("ns-2", "settings").is_none());
    assert_eq!(names_of(&hub.bindings_of_cell("dfw1")), ["ns-1/web"]);
    assert_eq!(names_of(&hub.bindings_of_cell("ord1")), ["ns-2/far"]);
    let deployments = |project, namespace| names(hub.deployments_in(&upstream(project, namespace)));
    assert_eq!(deployments("p", "default"), ["default/new", "default/web"]);
    assert_eq!(deployments("p", "other"), ["other/far"]);
    assert_eq!(deployments("umbrella", "default"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn lookups_in_a_project_find_the_objects_of_the_caches() {
    let planes = start().await;
    let name = project("p");
    let engaged = Arc::clone(&planes.projects.get(&name).unwrap().locations);
    let reflectors = ProjectReflectors::new(&name, &planes.metrics);
    let view = reflectors.view(&name, &hub_view(&planes));
    tokio::spawn(reflectors.watches(&engaged).0.run(|| ()));
    settle().await;
    assert_eq!(*view.project(), name);
    assert_eq!(names(view.hub().copies_in("ns-2")), ["ns-2/far"]);
    assert_eq!(keys(view.workloads()), ["default/shop", "other/shop"]);
    let deployments = ["default/new", "default/web", "other/far"];
    assert_eq!(keys(view.deployments()), deployments);
    assert_eq!(keys(view.instances()), ["default/web-0", "other/far-0"]);
    assert_eq!(names(view.deployments_in("default")), deployments[..2]);
    assert_eq!(names(view.instances_in("other")), ["other/far-0"]);
    let on = |network| {
        let network: Network = object(network);
        keys(view.workloads_on(network.meta()))
    };
    assert_eq!(on(objects::network("default", "default")), ["default/shop"]);
    assert_eq!(on(objects::network("other", "default")), ["other/shop"]);
    assert_eq!(on(objects::network("default", "blue")), [""; 0]);
    let removed = RemovedProject {
        name: name.clone(),
        hub: hub_view(&planes),
    };
    assert_eq!(*removed.project(), name);
    let of_project = removed.hub().namespaces_of_project(&name);
    assert_eq!(names_of(&of_project), ["/ns-1", "/ns-2"]);
}
