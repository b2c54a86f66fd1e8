//! The triggers of the controllers of referenced data. They are changes of a project's WorkloadDeployment, of a source,
//! and of the copy on the hub.

use std::collections::{BTreeSet, HashSet};

use api::DEFAULT_NAMESPACE;
use api::references::{Source, SourceKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::Change;

use super::version::expected;
use crate::hub::upstream::Upstream;
use crate::objects::recorded_hub_namespace;
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, Trigger};

/// The triggers of `referenced-data`.
pub(crate) const ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, ProjectKey>] = &[
    Trigger {
        source: ProjectSource::Deployments,
        reason: "the WorkloadDeployment changed",
        keys: |change, project| {
            let keys = change.versions();
            keys.map(|it| ProjectKey::of(project.project(), it))
                .collect()
        },
    },
    Trigger {
        source: ProjectSource::ConfigMaps,
        reason: "a ConfigMap that the template uses changed",
        keys: |change, project| deployments_on(SourceKind::ConfigMap, change, project),
    },
    Trigger {
        source: ProjectSource::Secrets,
        reason: "a Secret that the template uses changed",
        keys: |change, project| deployments_on(SourceKind::Secret, change, project),
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| {
            let deployments = project.deployments().into_iter();
            deployments
                .map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name))
                .collect()
        },
    },
];

/// The triggers of `companion` in a project.
pub(crate) const COMPANION_ON_PROJECT: &[Trigger<ProjectSource, dyn ProjectLookups, SourceKey>] = &[
    Trigger {
        source: ProjectSource::Deployments,
        reason: "the list of a WorkloadDeployment or its hub namespace changed",
        keys: |change, project| {
            let listed = |metadata: Option<&ObjectMeta>| {
                let in_namespace = metadata.map(|it| {
                    let hub_namespace = recorded_hub_namespace(it).map(str::to_owned);
                    let sources = listed_by(&ProjectKey::of(project.project(), it), it).into_iter();
                    sources.map(move |source| (source, hub_namespace.clone()))
                });
                in_namespace.into_iter().flatten().collect::<BTreeSet<_>>()
            };
            let (former, current) = (listed(change.former), listed(change.current));
            let changed = former.symmetric_difference(&current);
            changed.map(|(source, _)| source.clone()).collect()
        },
    },
    Trigger {
        source: ProjectSource::ConfigMaps,
        reason: "the ConfigMap changed",
        keys: |change, project| source(SourceKind::ConfigMap, change, project),
    },
    Trigger {
        source: ProjectSource::Secrets,
        reason: "the Secret changed",
        keys: |change, project| source(SourceKind::Secret, change, project),
    },
    Trigger {
        source: ProjectSource::Served,
        reason: "events before the project was served were dropped",
        keys: |_, project| {
            let deployments = project.deployments().into_iter();
            let namespaces: HashSet<_> = deployments.map(|(namespace, _)| namespace).collect();
            let deployments = namespaces.iter().flat_map(|it| project.deployments_in(it));
            deployments
                .flat_map(|it| listed_by(&ProjectKey::of(project.project(), &it), &it))
                .collect()
        },
    },
];

/// The triggers of `companion` on the hub.
pub(crate) const COMPANION_ON_HUB: &[Trigger<HubSource, dyn HubLookups, SourceKey>] = &[
    Trigger {
        source: HubSource::Deployments,
        reason: "a copy was made or is gone; the project may not have its WorkloadDeployment any more",
        keys: |change, hub| {
            let uid = |it: &ObjectMeta| it.uid.clone();
            if change.former.map(uid) == change.current.map(uid) {
                return Vec::new();
            }
            let keys = change.versions().filter_map(|copy| {
                let upstream = hub.upstream_of(copy.namespace.as_deref()?)?;
                let name = copy.name.as_deref()?;
                let key = ProjectKey::new(&upstream.project, &upstream.namespace, name);
                Some(listed_by(&key, copy))
            });
            keys.flatten().collect()
        },
    },
    Trigger {
        source: HubSource::Namespaces,
        reason: "companions are made in the hub namespace",
        keys: |change, hub| {
            let (former, current) = (change.former, change.current);
            let is_new =
                former.and_then(|it| it.uid.as_ref()) != current.and_then(|it| it.uid.as_ref());
            let versions = change
                .versions()
                .filter(|it| is_new && it.name.as_deref() != Some(DEFAULT_NAMESPACE));
            let upstreams = versions.filter_map(|it| Upstream::of(it).ok());
            let deployments = upstreams.flat_map(|upstream| {
                let all = hub.deployments_in(&upstream).into_iter();
                all.map(move |it| (ProjectKey::of(&upstream.project, &it), it))
            });
            deployments
                .flat_map(|(key, it)| listed_by(&key, &it))
                .collect()
        },
    },
];

/// Returns the keys of the sources that an object of the project, or its copy, lists.
fn listed_by(deployment: &ProjectKey, metadata: &ObjectMeta) -> Vec<SourceKey> {
    let sources = expected(metadata).unwrap_or_default();
    sources
        .iter()
        .map(|it| SourceKey::new(deployment, it))
        .collect()
}

fn deployments_on(
    kind: SourceKind,
    change: Change<'_>,
    project: &dyn ProjectLookups,
) -> Vec<ProjectKey> {
    let keys = change.versions().flat_map(|metadata| {
        let key = ProjectKey::of(project.project(), metadata);
        project.deployments_on(&key.namespace, &Source::new(kind, &key.name))
    });
    keys.map(|(namespace, name)| ProjectKey::new(project.project(), &namespace, &name))
        .collect()
}

/// Returns the key of a source, if a WorkloadDeployment uses or lists it.
fn source(kind: SourceKind, change: Change<'_>, project: &dyn ProjectLookups) -> Vec<SourceKey> {
    let keys = change.versions().filter_map(|metadata| {
        let key = ProjectKey::of(project.project(), metadata);
        let source = Source::new(kind, &key.name);
        let users = project.deployments_on(&key.namespace, &source);
        (!users.is_empty()).then(|| SourceKey::new(&key, &source))
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{FakeProject, acme, hub_namespace, metadata, named};

    /// Returns metadata of an object that lists the ConfigMap `settings` and the Secret `token`.
    fn listing(namespace: &str, name: &str, uid: &str) -> ObjectMeta {
        let list = json!(["ConfigMap/settings", "Secret/token"]).to_string();
        metadata(json!({
            "namespace": namespace, "name": name, "uid": uid,
            "annotations": {annotations::EXPECTED_REFERENCED_DATA: list},
        }))
    }

    fn project() -> FakeProject {
        let mut project = FakeProject::new();
        project
            .hub
            .deployments
            .push(listing("default", "shop", "u"));
        project
    }

    fn key(name: &str) -> ProjectKey {
        ProjectKey::new(&acme(), "default", name)
    }

    fn sources() -> Vec<SourceKey> {
        let both = ["ConfigMap/settings", "Secret/token"];
        let both = both.map(|it| SourceKey::new(&key("shop"), &Source::parse(it).unwrap()));
        both.to_vec()
    }

    #[test]
    fn changes_in_a_project_add_its_deployments() {
        let (settings, token) = (named("default", "settings"), named("default", "token"));
        let other = named("default", "other");
        let case = |name, source, current, keys| TriggerCase {
            name,
            source,
            former: None,
            current,
            keys,
        };
        let (shop, all) = (vec![key("shop")], ["web", "new", "shop"].map(key).to_vec());
        let mut served = all;
        served.push(ProjectKey::new(&acme(), "other", "far"));
        let cases = [
            case(
                "deployment",
                ProjectSource::Deployments,
                Some(&other),
                vec![key("other")],
            ),
            case(
                "ConfigMap",
                ProjectSource::ConfigMaps,
                Some(&settings),
                shop.clone(),
            ),
            case(
                "Secret of the same name",
                ProjectSource::Secrets,
                Some(&settings),
                Vec::new(),
            ),
            case("Secret", ProjectSource::Secrets, Some(&token), shop),
            case(
                "not used",
                ProjectSource::ConfigMaps,
                Some(&other),
                Vec::new(),
            ),
            case("served", ProjectSource::Served, None, served),
        ];
        assert_cases(ON_PROJECT, &cases, &project() as &dyn ProjectLookups);
    }

    #[test]
    fn changes_in_a_project_add_its_sources() {
        let (listed, unlisted) = (listing("default", "shop", "u"), named("default", "shop"));
        let (settings, token) = (named("default", "settings"), named("default", "token"));
        let case = |name, source, former, current, keys| TriggerCase {
            name,
            source,
            former,
            current,
            keys,
        };
        let [config_map, secret] = sources().try_into().unwrap_or_else(|_| unreachable!());
        let mut fewer = listed.clone();
        let list = json!(["ConfigMap/settings"]).to_string();
        fewer.annotations = Some([(annotations::EXPECTED_REFERENCED_DATA.to_owned(), list)].into());
        let deployments = ProjectSource::Deployments;
        let (config_maps, secrets) = (ProjectSource::ConfigMaps, ProjectSource::Secrets);
        let cases = [
            case(
                "listed",
                deployments,
                Some(&unlisted),
                Some(&listed),
                sources(),
            ),
            case("gone", deployments, Some(&listed), None, sources()),
            case(
                "one is no longer listed",
                deployments,
                Some(&listed),
                Some(&fewer),
                vec![secret.clone()],
            ),
            case(
                "the same list",
                deployments,
                Some(&listed),
                Some(&listed),
                Vec::new(),
            ),
            case(
                "ConfigMap",
                config_maps,
                None,
                Some(&settings),
                vec![config_map],
            ),
            case("Secret", secrets, Some(&token), None, vec![secret]),
            case("not used", secrets, None, Some(&settings), Vec::new()),
            case("served", ProjectSource::Served, None, None, sources()),
        ];
        assert_cases(
            COMPANION_ON_PROJECT,
            &cases,
            &project() as &dyn ProjectLookups,
        );
    }

    #[test]
    fn changes_on_the_hub_add_the_sources_of_the_copies() {
        let (copy, again) = (listing("ns-1", "shop", "1"), listing("ns-1", "shop", "2"));
        let namespace = hub_namespace("ns-1", Some(("acme", "default")));
        let case = |name, source, former, current, keys| TriggerCase {
            name,
            source,
            former,
            current,
            keys,
        };
        let (deployments, namespaces) = (HubSource::Deployments, HubSource::Namespaces);
        let cases = [
            case("made", deployments, None, Some(&copy), sources()),
            case("changed", deployments, Some(&copy), Some(&copy), Vec::new()),
            case(
                "made again",
                deployments,
                Some(&copy),
                Some(&again),
                sources(),
            ),
            case("gone", deployments, Some(&copy), None, sources()),
            case(
                "new Namespace",
                namespaces,
                None,
                Some(&namespace),
                sources(),
            ),
            case(
                "Namespace",
                namespaces,
                Some(&namespace),
                Some(&namespace),
                Vec::new(),
            ),
        ];
        let hub = project().hub;
        assert_cases(COMPANION_ON_HUB, &cases, &hub as &dyn HubLookups);
    }
}
