//! Caches for tests of triggers. Tests fill them by hand.

use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::references::Source;
use api::{HubNamespace, ProjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::cache::NamespacedName;
use serde_json::{Value, json};

use super::lookups::{HubLookups, ProjectLookups};
use crate::fixtures::object;
use crate::hub::upstream::{self, Upstream};
use crate::objects::{Namespace, deployment_name};
use crate::referenced_data::project_data::{index_value, sources_of_metadata};
use crate::runtime::keys::{HubKey, ProjectKey};

/// Returns the project of the fakes.
pub(crate) fn acme() -> ProjectName {
    ProjectName::new("acme").unwrap()
}

/// Decodes metadata from JSON.
pub(crate) fn metadata(value: Value) -> ObjectMeta {
    object(value)
}

/// Returns metadata that contain only this namespace and name.
pub(crate) fn named(namespace: &str, name: &str) -> ObjectMeta {
    metadata(json!({"namespace": namespace, "name": name}))
}

/// Returns metadata of a hub namespace. It belongs to a namespace of a project, or to none.
pub(crate) fn hub_namespace(name: &str, upstream: Option<(&str, &str)>) -> ObjectMeta {
    let labels = upstream.map(|(project, namespace)| {
        let project = ProjectName::new(project).unwrap();
        let namespace = namespace.to_owned();
        Upstream { project, namespace }.labels()
    });
    metadata(json!({"name": name, "uid": format!("{name}-uid"), "labels": labels}))
}

/// A fake hub. It finds `namespaces` and the contents of `deployments` in the same way as the indexes of the caches.
#[derive(Default)]
pub(crate) struct FakeHub {
    pub(crate) namespaces: Vec<ObjectMeta>,
    pub(crate) copies: Vec<ObjectMeta>,
    pub(crate) instances: Vec<ObjectMeta>,
    pub(crate) bindings: Vec<Arc<ResourceBinding>>,
    /// Metadata of WorkloadDeployments of project `acme`.
    pub(crate) deployments: Vec<ObjectMeta>,
    /// Metadata of WorkloadSummaries of project `acme`.
    pub(crate) summaries: Vec<ObjectMeta>,
}

impl FakeHub {
    /// Returns a hub with these namespaces:
    /// - `ns-1` of namespace `default` in project `acme`, with the copies `web` and `api`, one Instance of each, and a
    ///   binding of `web` to cell `dfw1`;
    /// - `ns-2` of namespace `other` in the same project, with the copy `far` and its Instance;
    /// - `ns-3` of namespace `default` in project `umbrella`, with a copy and an Instance;
    /// - `plain`, which has no labels, with the Instance `stray`.
    pub(crate) fn new() -> Self {
        let namespaces = [
            hub_namespace("ns-1", Some(("acme", "default"))),
            hub_namespace("ns-2", Some(("acme", "other"))),
            hub_namespace("ns-3", Some(("umbrella", "default"))),
            hub_namespace("plain", None),
        ];
        let copies = [
            ("ns-1", "web"),
            ("ns-1", "api"),
            ("ns-2", "far"),
            ("ns-3", "foreign"),
        ];
        let instance = |(namespace, deployment): &(&str, &str)| {
            let labels = json!({
                api::labels::WORKLOAD_DEPLOYMENT_NAME: deployment,
                api::labels::SOURCE_CLUSTER: if *namespace == "ns-1" { "dfw1" } else { "ord1" },
            });
            let name = format!("{deployment}-0");
            metadata(json!({"namespace": namespace, "name": name, "labels": labels}))
        };
        let mut instances: Vec<_> = copies.iter().map(instance).collect();
        instances.push(named("plain", "stray"));
        let copies = copies.map(|(namespace, name)| named(namespace, name));
        Self {
            namespaces: namespaces.into(),
            copies: copies.into(),
            instances,
            bindings: vec![
                Arc::new(binding("ns-1", "web", "WorkloadDeployment", "dfw1")),
                Arc::new(binding("ns-1", "settings", "ConfigMap", "dfw1")),
                Arc::new(binding("plain", "stray", "WorkloadDeployment", "dfw1")),
            ],
            deployments: vec![
                named("default", "web"),
                named("default", "new"),
                named("other", "far"),
            ],
            summaries: vec![
                named("default", "by-cell"),
                named("default", "by-city"),
                named("other", "all"),
            ],
        }
    }
}

/// Returns a ResourceBinding that has the name of the object that it binds.
pub(crate) fn binding(namespace: &str, name: &str, kind: &str, cell: &str) -> ResourceBinding {
    object(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "clusters": [{"name": cell}],
            "resource": {"apiVersion": api::API_VERSION, "kind": kind, "name": name, "uid": "u"},
        },
    }))
}

fn in_namespace(objects: &[ObjectMeta], namespace: &str) -> Vec<ObjectMeta> {
    let objects = objects.iter();
    let objects = objects.filter(|it| it.namespace.as_deref() == Some(namespace));
    objects.cloned().collect()
}

fn as_namespace(metadata: &ObjectMeta) -> Arc<Namespace> {
    Arc::new(object(json!({"metadata": metadata})))
}

fn names(objects: impl IntoIterator<Item = ObjectMeta>) -> Vec<NamespacedName> {
    let name = |it: ObjectMeta| Some((it.namespace?, it.name?));
    objects.into_iter().filter_map(name).collect()
}

impl HubLookups for FakeHub {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        let mut namespaces = self.namespaces.iter();
        let namespace = namespaces.find(|it| it.name.as_deref() == Some(name));
        namespace.map(as_namespace)
    }

    fn namespaces_of_project(&self, project: &ProjectName) -> Vec<Arc<Namespace>> {
        let namespaces = self.namespaces.iter();
        let namespaces = namespaces.filter(|it| upstream::project(it).as_ref() == Some(project));
        namespaces.map(as_namespace).collect()
    }

    fn namespaces_of(&self, upstream: &Upstream) -> Vec<Arc<Namespace>> {
        let namespaces = self.namespaces.iter();
        let namespaces = namespaces.filter(|it| Upstream::of(it).as_ref() == Ok(upstream));
        namespaces.map(as_namespace).collect()
    }

    fn copies_in(&self, hub_namespace: &str) -> Vec<ObjectMeta> {
        in_namespace(&self.copies, hub_namespace)
    }

    fn instances_in(&self, hub_namespace: &str) -> Vec<ObjectMeta> {
        in_namespace(&self.instances, hub_namespace)
    }

    fn instances_of(&self, hub_namespace: &str, deployment: &str) -> Vec<NamespacedName> {
        let mut instances = self.instances_in(hub_namespace);
        instances.retain(|it| deployment_name(it) == Some(deployment));
        names(instances)
    }

    fn binding(&self, hub_namespace: &str, name: &str) -> Option<Arc<ResourceBinding>> {
        let mut bindings = self.bindings.iter();
        let is_it = |it: &&Arc<ResourceBinding>| {
            it.meta().namespace.as_deref() == Some(hub_namespace)
                && it.meta().name.as_deref() == Some(name)
        };
        bindings.find(is_it).cloned()
    }

    fn instances_in_cell(&self, cell: &str) -> Vec<NamespacedName> {
        let instances = self.instances.iter().filter(|it| {
            let labels = it.labels.as_ref();
            let of = labels.and_then(|labels| labels.get(api::labels::SOURCE_CLUSTER));
            of.is_some_and(|of| of == cell)
        });
        names(instances.cloned())
    }

    fn bindings_of_cell(&self, cell: &str) -> Vec<Arc<ResourceBinding>> {
        let goes_there =
            |it: &&Arc<ResourceBinding>| it.spec.clusters.iter().any(|target| target.name == cell);
        self.bindings.iter().filter(goes_there).cloned().collect()
    }

    fn deployments_in(&self, upstream: &Upstream) -> Vec<ObjectMeta> {
        if upstream.project == acme() {
            in_namespace(&self.deployments, &upstream.namespace)
        } else {
            Vec::new()
        }
    }

    fn all_deployments(&self) -> Vec<ProjectKey> {
        let keys = self.deployments.iter();
        keys.map(|it| ProjectKey::of(&acme(), it)).collect()
    }

    fn summaries_in(&self, upstream: &Upstream) -> Vec<ProjectKey> {
        if upstream.project != acme() {
            return Vec::new();
        }
        let keys = in_namespace(&self.summaries, &upstream.namespace).into_iter();
        keys.map(|it| ProjectKey::of(&acme(), &it)).collect()
    }

    fn all_summaries(&self) -> Vec<ProjectKey> {
        let keys = self.summaries.iter();
        keys.map(|it| ProjectKey::of(&acme(), it)).collect()
    }
}

/// The project `acme` of a [`FakeHub`].
pub(crate) struct FakeProject {
    name: ProjectName,
    pub(crate) hub: FakeHub,
    workloads: Vec<ObjectMeta>,
    instances: Vec<ObjectMeta>,
}

impl FakeProject {
    /// Returns the project with these objects: the WorkloadDeployments `default/web`, `default/new` and `other/far`,
    /// the Workloads `default/shop` and `other/shop`, the Instances `default/web-0` and `other/old-0`, and the
    /// WorkloadSummaries `default/by-cell`, `default/by-city` and `other/all`.
    /// `default/shop` uses Network `default/blue`.
    pub(crate) fn new() -> Self {
        Self {
            name: acme(),
            hub: FakeHub::new(),
            workloads: vec![named("default", "shop"), named("other", "shop")],
            instances: vec![named("default", "web-0"), named("other", "old-0")],
        }
    }
}

impl ProjectLookups for FakeProject {
    fn project(&self) -> &ProjectName {
        &self.name
    }

    fn hub(&self) -> &dyn HubLookups {
        &self.hub
    }

    fn workloads(&self) -> Vec<NamespacedName> {
        names(self.workloads.clone())
    }

    fn deployments(&self) -> Vec<NamespacedName> {
        names(self.hub.deployments.clone())
    }

    fn instances(&self) -> Vec<NamespacedName> {
        names(self.instances.clone())
    }

    fn summaries(&self) -> Vec<NamespacedName> {
        names(self.hub.summaries.clone())
    }

    fn summaries_in(&self, namespace: &str) -> Vec<NamespacedName> {
        names(in_namespace(&self.hub.summaries, namespace))
    }

    fn deployments_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        in_namespace(&self.hub.deployments, namespace)
    }

    fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        in_namespace(&self.instances, namespace)
    }

    fn deployments_on(&self, namespace: &str, source: &Source) -> Vec<NamespacedName> {
        let named = self.hub.deployments.iter().filter(|it| {
            let sources = sources_of_metadata(it);
            sources.contains(&index_value(namespace, source))
        });
        names(named.cloned())
    }

    fn workloads_on(&self, network: &ObjectMeta) -> Vec<NamespacedName> {
        if *network == named("default", "blue") {
            names([named("default", "shop")])
        } else {
            Vec::new()
        }
    }
}

/// Returns the keys of hub namespaces, each with its project if it has one.
pub(crate) fn hub_keys(expected: &[(&str, Option<&str>)]) -> Vec<HubKey> {
    let keys = expected.iter().map(|(namespace, project)| HubKey {
        project: project.map(|project| ProjectName::new(project).unwrap()),
        namespace: HubNamespace::new(*namespace).unwrap(),
    });
    keys.collect()
}
