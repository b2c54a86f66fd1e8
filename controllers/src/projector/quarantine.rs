//! Hub Instances that are not projected until someone has put them right: each is visible, and said once (P-10, I-14).

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

/// The hub Instances that are in quarantine, or on the way there. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quarantined {
    metrics: Metrics,
    /// By UID.
    by_uid: Arc<Mutex<BTreeMap<String, QuarantineState>>>,
}

#[derive(Default)]
struct QuarantineState {
    /// When its deployment was first missed.
    missed_since: Option<Timestamp>,
    held: Option<HeldVerdict>,
}

struct HeldVerdict {
    verdict: Verdict,
    /// Whether the hub refuses to have it said.
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

    /// The Instance with this UID is no more, or goes.
    pub(crate) fn forget(&self, uid: &str) {
        self.states().remove(uid);
    }

    /// Its deployment is missed now. Says since when that is so.
    fn missed(&self, uid: &str, now: Timestamp) -> Timestamp {
        let mut states = self.states();
        let missed_since = &mut states.entry(uid.to_owned()).or_default().missed_since;
        *missed_since.get_or_insert(now)
    }

    /// Says whether the hub has refused to have this said.
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

/// Says on the hub what is in quarantine.
pub(crate) struct Quarantine {
    /// Of the hub.
    pub(crate) client: Client,
    pub(crate) instances: Cache<Instance>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) quarantined: Quarantined,
}

impl Quarantine {
    /// An Instance is not projected. That is said once: neither again as long as nothing of it changes, nor by the next
    /// process.
    pub(super) async fn hold(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        verdict: &Verdict,
    ) -> Result<(), ReconcileError> {
        let uid = instance.uid().unwrap_or_default();
        let refused = self.quarantined.hold(&uid, verdict);
        if refused || verdict.is_said_by(&instance.metadata) {
            return Ok(());
        }
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
                error!(namespace, name, reason, message, %problem, "hub Instance is not projected, and the hub does not let it say so");
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }

    /// What was said of an Instance, if anything was, is so no more.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
    ) -> Result<(), ReconcileError> {
        self.quarantined
            .release(&instance.uid().unwrap_or_default());
        if !is_marked(&instance.metadata) {
            return Ok(());
        }
        match self.annotate(context, instance, &StringMap::new()).await {
            // It is tried again when the Instance is looked at again.
            Err(problem) if problem.refusal().is_some() => {
                let (namespace, name) = (instance.namespace(), instance.name_any());
                warn!(namespace, name, %problem, "hub Instance still says that it is not projected");
                Ok(())
            }
            result => result,
        }
    }

    /// The Instance goes, or is as it should be.
    pub(super) fn forget(&self, instance: &Instance) {
        if let Some(uid) = &instance.metadata.uid {
            self.quarantined.forget(uid);
        }
    }

    /// The Instance is without its deployment now. Says since when that is so, as far as this process knows.
    pub(super) fn missed(&self, instance: &Instance, now: Timestamp) -> Timestamp {
        let uid = instance.uid().unwrap_or_default();
        self.quarantined.missed(&uid, now)
    }

    /// Makes the annotations of a verdict these.
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
