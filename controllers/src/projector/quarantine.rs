//! Instances on the hub that are not projected until an administrator has corrected them. Each of them has annotations
//! and an event, is counted by a metric, and is logged once (I-14).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Instance;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use kube::{Client, ResourceExt};
use multicluster::metrics::Counted;
use multicluster::{Cache, Metrics};
use serde_json::{Value, json};
use tracing::{error, warn};

use super::plan::verdict::{ANNOTATIONS, Verdict, is_marked};
use crate::objects::StringMap;
use crate::runtime::events::Events;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// The Instances on the hub that are in quarantine or lack their WorkloadDeployment. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quarantined {
    metrics: Metrics,
    /// The states of the Instances, by UID of the Instance.
    by_uid: Arc<Mutex<BTreeMap<String, QuarantineState>>>,
}

#[derive(Default)]
struct QuarantineState {
    /// When the WorkloadDeployment was first missed.
    missed_since: Option<Timestamp>,
    held: Option<HeldVerdict>,
}

struct HeldVerdict {
    verdict: Verdict,
    /// Whether the hub refused to write the annotations.
    refused: bool,
    _counted: Counted,
}

impl Quarantined {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            by_uid: Arc::default(),
        }
    }

    /// Forgets an Instance that is gone or terminating.
    pub(crate) fn forget(&self, uid: &str) {
        self.states().remove(uid);
    }

    /// Records that the WorkloadDeployment is missing. Returns the time at which it was first missed.
    fn missed(&self, uid: &str, now: Timestamp) -> Timestamp {
        let mut states = self.states();
        let missed_since = &mut states.entry(uid.to_owned()).or_default().missed_since;
        *missed_since.get_or_insert(now)
    }

    /// Records a verdict. Returns whether the hub has already refused the annotations of this verdict.
    fn hold(&self, uid: &str, verdict: &Verdict) -> bool {
        let mut states = self.states();
        let held = &mut states.entry(uid.to_owned()).or_default().held;
        match held {
            Some(held) if held.verdict == *verdict => held.refused,
            _ => {
                let counted = self.metrics.quarantined_object(verdict.reason.as_str());
                *held = Some(HeldVerdict {
                    verdict: verdict.clone(),
                    refused: false,
                    _counted: counted,
                });
                false
            }
        }
    }

    fn refused(&self, uid: &str) {
        if let Some(held) = self
            .states()
            .get_mut(uid)
            .and_then(|state| state.held.as_mut())
        {
            held.refused = true;
        }
    }

    fn release(&self, uid: &str) {
        if let Some(state) = self.states().get_mut(uid) {
            state.held = None;
        }
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, QuarantineState>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks Instances on the hub that are in quarantine.
pub(crate) struct Quarantine {
    /// The client of the hub.
    pub(crate) client: Client,
    pub(crate) instances: Cache<Instance>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) quarantined: Quarantined,
}

impl Quarantine {
    /// Puts an Instance into quarantine. Annotates, logs and reports the Instance once per verdict. If the verdict
    /// stays the same, does not repeat this, also not after a restart. If `own_hub` does not prove that the hub in use
    /// is the hub of the Instance, only counts the Instance.
    pub(super) async fn hold(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        verdict: &Verdict,
        own_hub: impl FnOnce() -> Result<(), ReconcileError>,
    ) -> Result<(), ReconcileError> {
        let uid = instance.uid().unwrap_or_default();
        let refused = self.quarantined.hold(&uid, verdict);
        if self.forget_if_gone(instance) || refused || verdict.is_said_by(&instance.metadata) {
            return Ok(());
        }
        own_hub()?;
        let (namespace, name) = (instance.namespace(), instance.name_any());
        let (reason, message) = (verdict.reason.as_str(), verdict.message.as_str());
        match self
            .annotate(context, instance, &verdict.annotations(context.now()))
            .await
        {
            Ok(()) => {
                error!(
                    namespace,
                    name, reason, message, "hub Instance is not projected"
                );
                self.events
                    .publish(instance, EventType::Warning, reason, message)
                    .await;
                Ok(())
            }
            Err(problem) if problem.refusal().is_some() => {
                self.quarantined.refused(&uid);
                error!(namespace, name, reason, message, %problem, "hub Instance is not projected, and the hub refuses its annotations");
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }

    /// Removes an Instance from quarantine. If `own_hub` proves that the hub in use is the hub of the Instance, removes
    /// its annotations.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        own_hub: impl FnOnce() -> Result<(), ReconcileError>,
    ) -> Result<(), ReconcileError> {
        self.quarantined
            .release(&instance.uid().unwrap_or_default());
        if !is_marked(&instance.metadata) {
            return Ok(());
        }
        own_hub()?;
        match self.annotate(context, instance, &StringMap::new()).await {
            // The removal is retried when the Instance is reconciled again.
            Err(problem) if problem.refusal().is_some() => {
                let (namespace, name) = (instance.namespace(), instance.name_any());
                warn!(namespace, name, %problem, "annotations of an Instance that left quarantine cannot be removed");
                Ok(())
            }
            result => result,
        }
    }

    /// Forgets an Instance that the hub's cache no longer has. It may have been deleted while the reconciliation waited,
    /// and then no later event forgets it.
    pub(super) fn forget_if_gone(&self, instance: &Instance) -> bool {
        let namespace = instance.namespace().unwrap_or_default();
        let cached = self.instances.get(&namespace, &instance.name_any());
        let is_gone = match cached {
            Ok(cached) => cached.is_none_or(|cached| cached.metadata.uid != instance.metadata.uid),
            Err(_) => false,
        };
        if is_gone {
            self.forget(instance);
        }
        is_gone
    }

    /// Forgets an Instance that is terminating or correct.
    pub(super) fn forget(&self, instance: &Instance) {
        if let Some(uid) = &instance.metadata.uid {
            self.quarantined.forget(uid);
        }
    }

    /// Records that the WorkloadDeployment of an Instance is missing. Returns the time at which this process first
    /// missed it.
    pub(super) fn missed(&self, instance: &Instance, now: Timestamp) -> Timestamp {
        let uid = instance.uid().unwrap_or_default();
        self.quarantined.missed(&uid, now)
    }

    /// Replaces the annotations with those of this verdict.
    async fn annotate(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        wanted: &StringMap,
    ) -> Result<(), ReconcileError> {
        let namespace = instance.namespace().unwrap_or_default();
        let instances = Collection::new(&self.client, &namespace, Some(&self.instances));
        let mut body = json!({
            "apiVersion": api::API_VERSION,
            "kind": "Instance",
            "metadata": {"name": instance.name_any(), "namespace": namespace},
        });
        if let Some(Value::Object(metadata)) = body.get_mut("metadata")
            && !wanted.is_empty()
        {
            metadata.insert("annotations".to_owned(), json!(wanted));
        }
        let own =
            ANNOTATIONS.map(|key| format!("/metadata/annotations/{}", key.replace('/', "~1")));
        let as_wanted = |written: &Instance| {
            let said = |key| written.annotations().get(key);
            ANNOTATIONS.iter().all(|key| said(*key) == wanted.get(*key))
        };
        self.writer
            .ensure(
                context,
                &instances,
                Some(instance),
                &body,
                &own.each_ref().map(String::as_str),
                as_wanted,
            )
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests;
