//! Reports Instances that the cell does not have, because the hub may still have copies of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::plan::{instance_name, ordinal_of_name};
use super::view::View;
use crate::lock::lock;
use crate::runtime::keys::ObjectKey;

/// How many missing Instances below the wanted number are reported. A rollout that waits has more, and reports the next
/// one with each step.
const MISSING: usize = 10;
/// How many ordinals after the wanted number are reported besides the first one, in case that a copy is missing there.
const AHEAD: i32 = 3;

/// The Instances that were reported as absent.
pub(crate) struct AbsentInstances {
    /// Called with the namespace and the name of an absent Instance.
    report: Box<dyn Fn(&ObjectMeta) + Send + Sync>,
    /// The ordinals of each WorkloadDeployment that were absent when it last reported.
    known: Mutex<HashMap<ObjectKey, BTreeSet<i32>>>,
}

impl AbsentInstances {
    /// Creates the record. `report` is called with the namespace and the name of an absent Instance.
    pub(crate) fn new(report: impl Fn(&ObjectMeta) + Send + Sync + 'static) -> Self {
        Self {
            report: Box::new(report),
            known: Mutex::default(),
        }
    }

    /// Reports the first ordinal after the wanted number each time, and the others once. So a settled
    /// WorkloadDeployment causes the reads of one ordinal.
    pub(super) fn report(&self, view: &View) {
        let deployment = view.deployment.as_ref();
        let key = ObjectKey::of(deployment.meta());
        let absent = absent(view);
        let former = lock(&self.known).insert(key.clone(), absent.clone());
        let former = former.unwrap_or_default();
        let first = deployment.spec.desired_replicas();
        for ordinal in absent {
            if ordinal == first || !former.contains(&ordinal) {
                (self.report)(&ObjectMeta {
                    namespace: Some(key.namespace.clone()),
                    name: Some(instance_name(deployment, ordinal)),
                    ..ObjectMeta::default()
                });
            }
        }
    }

    /// Forgets a WorkloadDeployment that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        lock(&self.known).remove(key);
    }
}

/// Returns the first ordinals that no Instance of the namespace has: below the wanted number, and after it.
fn absent(view: &View) -> BTreeSet<i32> {
    let deployment = view.deployment.as_ref();
    let names = view.instances.iter().map(|it| &it.metadata.name);
    let undecodable = view.undecodable.iter().map(|it| &it.metadata.name);
    let existing: BTreeSet<i32> = names
        .chain(undecodable)
        .filter_map(|name| ordinal_of_name(deployment, name.as_deref()?))
        .collect();
    let is_absent = |ordinal: &i32| !existing.contains(ordinal);
    let wanted = deployment.spec.desired_replicas();
    let missing = (0..wanted).filter(is_absent).take(MISSING);
    let after = (wanted..=wanted.saturating_add(AHEAD)).filter(is_absent);
    missing.chain(after).collect()
}
