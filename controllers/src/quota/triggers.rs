//! The triggers of the quota controller.

use api::quota::CONSUMER_NAME;
use api::{ProjectName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claim::certain_instance_name;
use crate::hub::upstream::project;
use crate::runtime::keys::ClaimKey;
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, dyn CellLookups, ClaimKey>] = &[
    Trigger {
        source: CellSource::Instances,
        reason: "the Instance changed",
        keys: |change, cell| change.versions().map(|it| key(cell, it)).collect(),
    },
    Trigger {
        source: CellSource::Namespaces,
        reason: "the Namespace identifies the project of its Instances; the keys of the former project must end",
        keys: |change, cell| {
            let namespace = change.current.or(change.former);
            let namespace = namespace.and_then(|it| it.name.as_deref());
            let instances = cell.instances_in(namespace.unwrap_or_default());
            let versions = [change.former, change.current];
            let mut projects = versions.map(|it| it.and_then(project)).to_vec();
            projects.dedup();
            let keys = projects
                .iter()
                .flat_map(|project| instances.iter().map(|it| key_of(project.clone(), it)));
            keys.collect()
        },
    },
    Trigger {
        source: CellSource::Claims,
        reason: "the claim of the Instance changed",
        keys: |change, cell| {
            let keys = change.versions().filter_map(|claim| {
                let namespace = claim.labels.as_ref()?.get(labels::INSTANCE_NAMESPACE)?;
                Some(ClaimKey {
                    project: cell.project_of(namespace),
                    namespace: namespace.clone(),
                    name: certain_instance_name(claim)?.to_owned(),
                })
            });
            keys.collect()
        },
    },
    Trigger {
        source: CellSource::Buckets,
        reason: "the quota that the project of the Instance has left changed",
        keys: |change, cell| {
            let labels = change
                .versions()
                .filter_map(|bucket| bucket.labels.as_ref());
            let projects = labels.filter_map(|labels| labels.get(CONSUMER_NAME));
            let namespaces = projects.flat_map(|project| cell.namespaces_of(project));
            let instances = namespaces.flat_map(|namespace| cell.instances_in(&namespace));
            instances.map(|it| key(cell, &it)).collect()
        },
    },
];

/// Returns the key of an Instance with this metadata.
fn key(cell: &dyn CellLookups, instance: &ObjectMeta) -> ClaimKey {
    let namespace = instance.namespace.as_deref().unwrap_or_default();
    key_of(cell.project_of(namespace), instance)
}

fn key_of(project: Option<ProjectName>, instance: &ObjectMeta) -> ClaimKey {
    ClaimKey {
        project,
        namespace: instance.namespace.clone().unwrap_or_default(),
        name: instance.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use multicluster::cache::NamespacedName;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{acme, hub_namespace, metadata, named};

    /// A cell with the Namespace `ns-1` of project `acme`, and two Instances in it.
    struct FakeCell;

    impl CellLookups for FakeCell {
        fn namespaces_of(&self, project: &str) -> Vec<String> {
            match project {
                "acme" => vec!["ns-1".to_owned()],
                _ => Vec::new(),
            }
        }

        fn project_of(&self, namespace: &str) -> Option<ProjectName> {
            (namespace == "ns-1").then(acme)
        }

        fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta> {
            match namespace {
                "ns-1" => vec![named("ns-1", "web-0"), named("ns-1", "web-1")],
                _ => Vec::new(),
            }
        }

        fn instances(&self) -> Vec<NamespacedName> {
            Vec::new()
        }

        fn instances_on(&self, _: &ObjectMeta) -> Vec<NamespacedName> {
            Vec::new()
        }
    }

    #[test]
    fn changes_wake_the_instances_that_need_quota() {
        let key = |project: Option<ProjectName>, namespace: &str, name: &str| ClaimKey {
            project,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let (instance, stray) = (named("ns-1", "web-0"), named("plain", "web-0"));
        let claim = |annotations| {
            metadata(json!({
                "namespace": "default", "name": "instance-web-7",
                "labels": {labels::SOURCE_CLUSTER: "dfw1", labels::INSTANCE_NAMESPACE: "ns-1"},
            "annotations": annotations,
            }))
        };
        let own = claim(json!({api::annotations::INSTANCE_NAME: "web-0"}));
        let (former, foreign) = (claim(json!({})), named("default", "instance-web-0"));
        let web = |ordinal: i32| key(Some(acme()), "ns-1", &format!("web-{ordinal}"));
        let bucket = |project: &str| {
            let labels = json!({CONSUMER_NAME: project});
            metadata(json!({"namespace": "milo-system", "name": "bucket-1", "labels": labels}))
        };
        let (bucket, foreign_bucket) = (bucket("acme"), bucket("other"));
        let case = |name, source, current, keys| TriggerCase {
            name,
            source,
            former: None,
            current: Some(current),
            keys,
        };
        let (instances, claims) = (CellSource::Instances, CellSource::Claims);
        #[rustfmt::skip]
        let cases = [
            case("instance", instances, &instance, vec![web(0)]),
            case("instance without project", instances, &stray, vec![key(None, "plain", "web-0")]),
            case("claim", claims, &own, vec![web(0)]),
            case("claim of the Go manager", claims, &former, vec![web(7)]),
            case("claim without labels", claims, &foreign, vec![]),
            case("bucket", CellSource::Buckets, &bucket, vec![web(0), web(1)]),
            case("bucket of another project", CellSource::Buckets, &foreign_bucket, vec![]),
            case("deployment", CellSource::Deployments, &instance, vec![]),
        ];
        // Without the key of the former project, the process would keep its client until the resync.
        let named = |project: &str| hub_namespace("ns-1", Some((project, "default")));
        let (of_acme, of_other) = (named("acme"), named("other"));
        let unnamed = hub_namespace("ns-1", None);
        let other = ProjectName::new("other").ok();
        let namespaces = [
            ("new", None, Some(&of_acme), vec![None, Some(acme())]),
            (
                "changed",
                Some(&of_acme),
                Some(&of_acme),
                vec![Some(acme())],
            ),
            (
                "identity lost",
                Some(&of_acme),
                Some(&unnamed),
                vec![Some(acme()), None],
            ),
            (
                "of another project",
                Some(&of_other),
                Some(&of_acme),
                vec![other, Some(acme())],
            ),
            ("gone", Some(&of_acme), None, vec![Some(acme()), None]),
        ];
        let namespaces = namespaces.map(|(name, former, current, projects)| TriggerCase {
            name,
            source: CellSource::Namespaces,
            former,
            current,
            keys: projects
                .into_iter()
                .flat_map(|project| {
                    ["web-0", "web-1"].map(|name| key(project.clone(), "ns-1", name))
                })
                .collect(),
        });
        let cases: Vec<_> = cases.into_iter().chain(namespaces).collect();
        assert_cases(ON_CELL, &cases, &FakeCell as &dyn CellLookups);
    }
}
