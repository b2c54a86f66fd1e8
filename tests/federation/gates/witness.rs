//! Checks every version of the Instances and of their claims.
//!
//! All planes keep their objects in one etcd, and a resource version is a revision of this etcd. So versions have an
//! order across planes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition;
use api::instance::{NETWORK_GATE, NETWORK_READY, QUOTA_GATE, QUOTA_GRANTED};
use api::quota::{GRANTED, ResourceClaim};
use api::{Instance, annotations, labels};
use futures::StreamExt;
use harness::Federation;
use harness::wait::SteadyBackoff;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fixture::WITHIN;

/// The gates and their conditions.
const GATES: [(&str, &str); 2] = [(NETWORK_GATE, NETWORK_READY), (QUOTA_GATE, QUOTA_GRANTED)];

/// Cell, namespace in the cell and name of an Instance.
type Claimant = (String, String, String);

/// Watches the Instances of all cells and the claims of the project.
pub(super) struct Witness {
    seen: Arc<Mutex<Seen>>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    /// The last version of each Instance, by UID.
    instances: BTreeMap<String, Instance>,
    /// When the gate `Quota` of an Instance opened: the Instance, its UID, and the revision.
    opened: Vec<(Claimant, String, u64)>,
    /// The revision in which each claim was first seen to be granted and to be for an Instance, by the UIDs of both.
    granted: BTreeMap<(String, String), (Claimant, u64)>,
    last_grant: Option<Instant>,
    last_opening: Option<Instant>,
    /// The claims of each Instance that are not being deleted, by name.
    live: BTreeMap<Claimant, BTreeSet<String>>,
    violations: Vec<String>,
}

impl Witness {
    pub(super) async fn begin(federation: &Federation) -> anyhow::Result<Self> {
        let (seen, mut watches): (Arc<Mutex<Seen>>, _) = (Arc::default(), JoinSet::new());
        for cell in federation.cells() {
            let (seen, name) = (Arc::clone(&seen), cell.name().to_owned());
            let instances: Api<Instance> = Api::all(cell.client());
            follow(&mut watches, instances, move |instance, is_gone| {
                lock(&seen).note_instance(&name, instance, is_gone);
            })
            .await?;
        }
        let claims: Api<ResourceClaim> = Api::all(federation.project().client());
        let of_claims = Arc::clone(&seen);
        follow(&mut watches, claims, move |claim, is_gone| {
            lock(&of_claims).note_claim(&claim, is_gone);
        })
        .await?;
        Ok(Self {
            seen,
            _watches: watches,
        })
    }

    /// Checks all versions so far.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let seen = lock(&self.seen);
        ensure!(seen.violations.is_empty(), "{:#?}", seen.violations);
        ensure!(!seen.opened.is_empty(), "no gate was seen to open");
        for (claimant, uid, opened) in &seen.opened {
            let mut grants = seen.granted.iter();
            let is_paid = grants.any(|((_, of), (instance, granted))| {
                of == uid && instance == claimant && granted < opened
            });
            ensure!(
                is_paid,
                "I-30, I-31: {claimant:?} has its gate open without a granted claim for it"
            );
        }
        Ok(())
    }
}

impl Witness {
    /// Returns the time from the last grant of a claim to the last opening of a gate `Quota`, as the watches have
    /// reported them.
    pub(super) fn between_grants_and_gates(&self) -> anyhow::Result<Duration> {
        let seen = lock(&self.seen);
        let granted = seen.last_grant.context("no claim was granted")?;
        let opened = seen.last_opening.context("no gate was opened")?;
        Ok(opened.saturating_duration_since(granted))
    }
}

impl Seen {
    /// I-30: a gate opens only when its condition is stored for the generation.
    fn note_instance(&mut self, cell: &str, instance: Instance, is_gone: bool) {
        let uid = instance.uid().unwrap_or_default();
        let revision = revision(&instance);
        let claimant = (
            cell.to_owned(),
            instance.namespace().unwrap_or_default(),
            instance.name_any(),
        );
        let Some(former) = self.instances.get(&uid) else {
            for (gate, _) in GATES {
                if !has_gate(&instance, gate) {
                    let violation = format!("{claimant:?} was created without the gate {gate}");
                    self.violations.push(violation);
                }
            }
            self.instances.insert(uid, instance);
            return;
        };
        for (gate, type_) in GATES {
            if !has_gate(former, gate) || has_gate(&instance, gate) {
                continue;
            }
            let status = former.status.clone().unwrap_or_default();
            let stored = condition::find(&status.conditions, type_);
            let generation = former.metadata.generation;
            let is_stored =
                stored.is_some_and(|it| it.is_true() && it.observed_generation == generation);
            if !is_stored {
                let violation = format!(
                    "I-30: {gate} of {claimant:?} opened at {generation:?} with {stored:?}"
                );
                self.violations.push(violation);
            }
            if gate == QUOTA_GATE {
                self.opened.push((claimant.clone(), uid.clone(), revision));
                self.last_opening = Some(Instant::now());
            }
        }
        match is_gone {
            true => drop(self.instances.remove(&uid)),
            false => drop(self.instances.insert(uid, instance)),
        }
    }

    /// I-31: an Instance has one claim at a time.
    fn note_claim(&mut self, claim: &ResourceClaim, is_gone: bool) {
        let text = |it: Option<&String>| it.cloned().unwrap_or_default();
        let claimant = (
            text(claim.labels().get(labels::SOURCE_CLUSTER)),
            text(claim.labels().get(labels::INSTANCE_NAMESPACE)),
            text(claim.annotations().get(annotations::INSTANCE_NAME)),
        );
        let name = claim.name_any();
        let live = self.live.entry(claimant.clone()).or_default();
        match is_gone || claim.metadata.deletion_timestamp.is_some() {
            true => live.remove(&name),
            false => live.insert(name),
        };
        if live.len() > 1 {
            let violation = format!("I-31: {claimant:?} has the claims {live:?}");
            self.violations.push(violation);
        }
        let conditions = claim.status.as_ref().map(|status| &status.conditions[..]);
        let of = text(claim.annotations().get(annotations::INSTANCE_UID));
        let key = (claim.uid().unwrap_or_default(), of);
        let is_granted = condition::is_true(conditions.unwrap_or_default(), GRANTED);
        if is_granted && !self.granted.contains_key(&key) {
            self.granted.insert(key, (claimant, revision(claim)));
            self.last_grant = Some(Instant::now());
        }
    }
}

fn has_gate(instance: &Instance, name: &str) -> bool {
    let controller = instance.spec.controller.as_ref();
    let mut gates = controller.iter().flat_map(|it| &it.scheduling_gates);
    gates.any(|gate| gate.name == name)
}

fn revision(object: &impl ResourceExt) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().unwrap_or_default()
}

/// Calls a function with each version of all objects, and whether the object was deleted. Waits until the watch has
/// begun.
async fn follow<K>(
    watches: &mut JoinSet<()>,
    api: Api<K>,
    note: impl Fn(K, bool) + Send + 'static,
) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (begun, mut has_begun) = watch::channel(false);
    watches.spawn(async move {
        let config = watcher::Config::default();
        let mut events = watcher(api, config).backoff(SteadyBackoff).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(object) | Event::Apply(object)) => note(object, false),
                Ok(Event::Delete(object)) => note(object, true),
                Ok(Event::InitDone) => drop(begun.send_replace(true)),
                // The watcher restarts a broken watch.
                Ok(Event::Init) | Err(_) => {}
            }
        }
    });
    let begun = timeout(WITHIN, has_begun.wait_for(|begun| *begun)).await;
    begun.context("a watch does not begin")??;
    Ok(())
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
