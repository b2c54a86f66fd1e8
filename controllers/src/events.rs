//! Kubernetes events on transitions.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tracing::warn;

/// Publishes events as one controller.
pub(crate) struct Events(Recorder);

impl Events {
    pub(crate) fn new(client: Client, controller: &str) -> Self {
        let reporter = Reporter {
            controller: format!("compute-federation-{controller}"),
            instance: None,
        };
        Self(Recorder::new(client, reporter))
    }

    /// Publishes an event about `object`. An event that cannot be published is logged: what it tells is in a condition too.
    pub(crate) async fn publish<K>(&self, object: &K, type_: EventType, reason: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(1024).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, &object.object_ref(&())).await {
            warn!(%error, reason, note, "event not published");
        }
    }
}
