//! Runs the real rules on real objects for the model. Results are cached, because the same inputs occur very often.

use std::collections::{BTreeMap, HashMap};

use api::references::{Source, SourceKind, references};
use api::{HubNamespace, ProjectName, WorkloadDeployment, annotations, finalizers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::super::plan::{Observed, plan};
use super::super::releases::{Release, Releases};
use super::super::resolve::{Found, Resolved, SourceFacts, resolve};
use super::super::users::Users;
use super::super::version::{SourceVersion, expected};
use super::world::{Deployment, Each, Phase};
use crate::deletion_locks::DeletionLocks;
use crate::fixtures::servers::{HUB_NAMESPACE, recorded};
use crate::fixtures::{now, object, terminating};
use crate::objects::is_terminating;
use crate::runtime::keys::{ProjectKey, SourceKey};

const NAMES: Each<&str> = ["web", "api"];

/// The effect of a plan on the list of a WorkloadDeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataChange {
    None,
    Lists,
    /// The finalizer goes with the list.
    Unlists,
}

/// The effect of a plan in the model.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub(super) release: Option<Release>,
    pub(super) change: MetadataChange,
}

/// The WorkloadDeployments that a companion names.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) named: Each<bool>,
    pub(super) may_have_more: bool,
}

type PlanInput = (Option<Deployment>, Option<u8>, Option<Release>, bool);

#[derive(Default)]
pub(super) struct Cast {
    plans: HashMap<PlanInput, Planned>,
    users: HashMap<(Each<Option<Deployment>>, Each<bool>), Named>,
}

fn source() -> Source {
    Source::new(SourceKind::Secret, "token")
}

fn key(name: &str) -> ProjectKey {
    ProjectKey::new(&ProjectName::new("p").unwrap(), "default", name)
}

fn source_key() -> SourceKey {
    SourceKey::new(&key("web"), &source())
}

/// Returns the real object.
fn real(name: &str, it: Deployment) -> WorkloadDeployment {
    let mut body = recorded(name);
    if it.uses {
        let all = json!([{"secretRef": {"name": "token"}}]);
        body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    }
    let mut held = vec![finalizers::FEDERATOR];
    if it.phase == Phase::Ended {
        held.clear();
    }
    if it.is_listed {
        held.push(finalizers::REFERENCED_DATA);
        let list = json!([source().to_string()]).to_string();
        body["metadata"]["annotations"][annotations::EXPECTED_REFERENCED_DATA] = json!(list);
    }
    body["metadata"]["finalizers"] = json!(held);
    body["metadata"]["generation"] = json!(2);
    let observed = if it.is_rolled_out { 2 } else { 1 };
    body["status"] = json!({
        "observedGeneration": observed, "replicas": 1, "updatedReplicas": 1, "currentReplicas": 1,
        "desiredReplicas": 1, "readyReplicas": 1,
    });
    let deployment = object(body);
    match it.phase {
        Phase::Live => deployment,
        Phase::Terminating | Phase::Ended => terminating(deployment),
    }
}

fn facts(version: u8) -> Found {
    let metadata = json!({"uid": "u", "resourceVersion": version.to_string()});
    let version = SourceVersion::of(&object(metadata)).unwrap();
    Found::Facts(SourceFacts::new(version, std::iter::empty()))
}

/// Returns the releases of the first WorkloadDeployment, or of both.
fn releases(of: impl IntoIterator<Item = (&'static str, Option<Release>)>) -> Releases {
    let mut releases = Releases::default();
    for (name, release) in of {
        if let Some(release) = release {
            let (locks, sources) = (DeletionLocks::default(), [source()]);
            releases
                .set(&key(name), &sources, &sources, &locks)
                .unwrap();
            if release == Release::Proved {
                releases.prove(&source_key(), &[name.to_owned()].into());
            }
        }
    }
    releases
}

impl Cast {
    /// Returns the effect of a reconciliation of `referenced-data`.
    pub(super) fn plan(
        &mut self,
        deployment: Option<Deployment>,
        version: Option<u8>,
        release: Option<Release>,
        is_being_deleted: bool,
    ) -> Planned {
        let input = (deployment, version, release, is_being_deleted);
        *self.plans.entry(input).or_insert_with(|| planned(input))
    }

    /// Returns the WorkloadDeployments that the companion is to name.
    pub(super) fn users(
        &mut self,
        deployments: Each<Option<Deployment>>,
        releasing: Each<bool>,
    ) -> Named {
        let users = self.users.entry((deployments, releasing));
        *users.or_insert_with(|| {
            let all = NAMES.into_iter().zip(deployments);
            let all = all.filter_map(|(name, it)| Some(real(name, it?).metadata));
            let all: Vec<ObjectMeta> = all.collect();
            let releasing = NAMES.into_iter().zip(releasing).filter(|(_, it)| *it);
            let users = Users {
                deployments: all.iter().collect(),
                source: &source(),
                releasing: &releasing.map(|(name, _)| name.to_owned()).collect(),
            };
            let names = users.of(&HubNamespace::new(HUB_NAMESPACE).unwrap());
            Named {
                named: NAMES.map(|name| names.contains(&format!("default/{name}"))),
                may_have_more: users.may_have_more(|_| true),
            }
        })
    }
}

/// Returns the releases after a reconciliation of the companion that began when these WorkloadDeployments were being
/// released.
pub(super) fn prove(all: Each<Option<Release>>, began: Each<bool>) -> Each<Option<Release>> {
    let mut releases = releases(NAMES.into_iter().zip(all));
    let began = NAMES.into_iter().zip(began).filter(|(_, it)| *it);
    releases.prove(
        &source_key(),
        &began.map(|(name, _)| name.to_owned()).collect(),
    );
    NAMES.map(|name| releases.of(&key(name)).get(&source()).copied())
}

fn planned((deployment, version, release, is_being_deleted): PlanInput) -> Planned {
    let name = NAMES[0];
    let mut releases = releases([(name, release)]);
    let locks = DeletionLocks::default();
    let _deletion = is_being_deleted.then(|| locks.for_a_deletion(source_key()).unwrap());
    let Some(deployment) = deployment.map(|it| real(name, it)) else {
        releases.set(&key(name), &[], &[], &locks).unwrap();
        return Planned {
            release: releases.of(&key(name)).get(&source()).copied(),
            change: MetadataChange::None,
        };
    };
    let references = references(&deployment.spec.template.spec);
    let found = references
        .keys()
        .map(|it| (it.clone(), version.map_or(Found::Missing, facts)));
    let found: BTreeMap<_, _> = found.collect();
    let planned = plan(&Observed {
        deployment: &deployment,
        references: &references,
        resolved: match is_terminating(&deployment) {
            true => Ok(Resolved::default()),
            false => resolve(&references, &found),
        },
        contents: &BTreeMap::new(),
        template_hash: "v1-a",
        releases: &releases.of(&key(name)),
        not_copied: Vec::new(),
        now: now(),
    });
    let listed = expected(&deployment.metadata).unwrap_or_default();
    let set = releases.set(&key(name), &listed, &planned.release, &locks);
    let metadata = planned.metadata.unwrap_or_default();
    let change = match &metadata["annotations"][annotations::EXPECTED_REFERENCED_DATA] {
        // A reconciliation that fails writes nothing.
        _ if set.is_err() => MetadataChange::None,
        Value::String(list) if list != "[]" => match is_being_deleted {
            true => MetadataChange::None,
            false => MetadataChange::Lists,
        },
        _ if metadata["finalizers"].is_array() && !listed.is_empty() => MetadataChange::Unlists,
        _ => MetadataChange::None,
    };
    Planned {
        release: releases.of(&key(name)).get(&source()).copied(),
        change,
    }
}
