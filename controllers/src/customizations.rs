//! Finds ResourceInterpreterCustomizations that shadow our webhook. Karmada runs the scripts of such a customization
//! instead of calling the webhook, and reports nothing (docs/concepts/interpreter.md).

#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::karmada::ResourceInterpreterCustomization;
use api::reasons::SHADOWS_WEBHOOK as REASON;
use api::{Instance, WorkloadDeployment};
use kube::runtime::events::EventType;
use kube::{Client, Resource};
use multicluster::cache::{Change, Reflector};
use multicluster::{Cache, Metrics, Outcome, Queue};
use tracing::{error, info};

use crate::runtime::events::Events;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{HubSource, wake};
use crate::runtime::wiring::{Controller, Wiring};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Watches ResourceInterpreterCustomizations.
pub(crate) struct CustomizationReflector {
    customizations: Reflector<ResourceInterpreterCustomization>,
    shadowing: Shadowing,
}

impl CustomizationReflector {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let customizations = Reflector::new("hub", metrics);
        Self {
            shadowing: Shadowing::new(customizations.cache(), metrics),
            customizations,
        }
    }

    pub(crate) fn cache(&self) -> Cache<ResourceInterpreterCustomization> {
        self.customizations.cache()
    }

    pub(crate) fn watch(self, wiring: &mut Wiring<'_>, client: &Client, queue: &Queue<ObjectKey>) {
        let (mut customizations, queue) = (self.customizations, queue.clone());
        customizations.on_change(move |change| {
            if self.shadowing.observe(change) {
                wake_customization(&queue, change);
            }
        });
        wiring.watch_in_background(
            "ResourceInterpreterCustomizations of the hub",
            "a customization that shadows the webhook is not reported",
            customizations,
            client.clone(),
        );
    }
}

/// Passes a change of a customization to the trigger of its Event.
pub(crate) fn wake_customization(queue: &Queue<ObjectKey>, change: Change<'_>) {
    let source = HubSource::ShadowingCustomizations;
    wake(queue, triggers::ON_HUB, source, change, &());
}

/// Logs and counts the customizations that shadow the webhook. Each customization is logged once per kind. This runs on
/// every replica.
struct Shadowing {
    metrics: Metrics,
    cache: Cache<ResourceInterpreterCustomization>,
    /// The kind that each customization shadows, by the name of the customization.
    found: Mutex<BTreeMap<String, String>>,
}

impl Shadowing {
    fn new(cache: Cache<ResourceInterpreterCustomization>, metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            cache,
            found: Mutex::default(),
        }
    }

    /// Handles a change of a customization. Returns true if the customization is newly reported, so that an Event must
    /// be published.
    fn observe(&self, change: Change<'_>) -> bool {
        let metadata = change.current.or(change.former);
        let Some(name) = metadata.and_then(|metadata| metadata.name.as_deref()) else {
            return false;
        };
        // `get` fails for an undecodable customization. The cache has reported the customization already, and Karmada
        // cannot decode it either.
        let current = self.cache.get("", name).ok().flatten();
        let kind = current.as_deref().and_then(shadowed);
        self.note(name, kind)
    }

    /// Records the kind that a customization shadows. Returns true if the recorded kind is new.
    fn note(&self, name: &str, kind: Option<&str>) -> bool {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let news = match kind {
            Some(kind) => {
                let former = found.insert(name.to_owned(), kind.to_owned());
                let news = former.as_deref() != Some(kind);
                if news {
                    error!(
                        name,
                        kind,
                        "this ResourceInterpreterCustomization shadows our webhook: Karmada does not call it for this kind; delete the customization"
                    );
                }
                news
            }
            None => {
                if found.remove(name).is_some() {
                    info!(
                        name,
                        "this ResourceInterpreterCustomization no longer shadows our webhook"
                    );
                }
                false
            }
        };
        self.metrics.shadowing_customizations(found.len());
        news
    }
}

/// Returns the kind that a customization shadows, if it is one of our kinds.
fn shadowed(customization: &ResourceInterpreterCustomization) -> Option<&str> {
    let target = &customization.spec.target;
    let kinds = [WorkloadDeployment::kind(&()), Instance::kind(&())];
    let is_ours =
        target.api_version == api::API_VERSION && kinds.contains(&target.kind.as_str().into());
    is_ours.then_some(target.kind.as_str())
}

/// Publishes an Event on each customization that shadows the webhook, if the API server permits it. This runs on the
/// leader only.
pub(crate) struct CustomizationController {
    pub(crate) cache: Cache<ResourceInterpreterCustomization>,
    pub(crate) events: Events,
}

impl Controller for CustomizationController {
    const NAME: &'static str = "customizations";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        _: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let customization = self.cache.get("", &key.name)?;
        if let Some(customization) = customization
            && let Some(kind) = shadowed(&customization)
        {
            let note = format!(
                "Karmada runs these scripts for {kind} and does not call the webhook of compute-federation; delete this object"
            );
            self.events
                .publish(customization.as_ref(), EventType::Warning, REASON, &note)
                .await;
        }
        // The Event is published once. `Shadowing` must report the customization again before another Event is
        // published.
        Ok(Outcome::Gone)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    #[test]
    fn only_our_kinds_of_our_group_are_shadowed() {
        for (api_version, kind, expected) in [
            ("compute.datumapis.com/v1alpha", "WorkloadDeployment", true),
            ("compute.datumapis.com/v1alpha", "Instance", true),
            ("compute.datumapis.com/v1alpha", "Workload", false),
            ("compute.example.com/v1alpha", "Instance", false),
            // Karmada compares the version exactly.
            ("compute.datumapis.com/v1", "Instance", false),
            ("v1", "Instance", false),
            ("", "", false),
        ] {
            let customization: ResourceInterpreterCustomization = object(json!({
                "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": "c"},
                "spec": {"target": {"apiVersion": api_version, "kind": kind}},
            }));
            assert_eq!(
                shadowed(&customization),
                expected.then_some(kind),
                "{api_version} {kind}"
            );
        }
    }

    #[test]
    fn a_customization_is_reported_once_per_kind() {
        let shadowing = Shadowing::new(Cache::default(), &Metrics::default());
        let count = || shadowing.found.lock().unwrap().len();
        assert!(!shadowing.note("c", None));
        assert!(shadowing.note("c", Some("Instance")));
        assert!(!shadowing.note("c", Some("Instance")));
        assert!(shadowing.note("d", Some("Instance")));
        assert!(shadowing.note("c", Some("WorkloadDeployment")));
        assert_eq!(count(), 2);
        assert!(!shadowing.note("c", None));
        assert_eq!(count(), 1);
        assert!(shadowing.note("c", Some("Instance")), "it is so again");
    }
}
