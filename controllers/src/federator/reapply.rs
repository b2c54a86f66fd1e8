//! Makes Karmada apply an object again if Karmada treats the object as applied although a cell lacks it.
//!
//! If a cell does not answer a request within 32 s, Karmada's execution controller counts the request as successful.
//! The controller runs the request under client-go's `RetryOnConflict`, and that function returns no error when its
//! deadline has passed. Karmada does not write the object again until the object changes. This module therefore changes
//! the object: it sets an annotation to the current time.

mod below;
pub(crate) mod stale_cells;
pub(super) mod staleness;

use std::time::Duration;

use api::{HubNamespace, annotations};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use serde_json::json;
use tracing::info;

use crate::hub::HubCaches;
use crate::objects::{describe, is_terminating};
use crate::projects::Engagement;
use crate::runtime::error::FirstError;
use crate::runtime::keys::ProjectKey;
use crate::runtime::write::{Collection, Object, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use stale_cells::{Observation, StaleCells, due};
use staleness::Staleness;

/// Interval until the next check after a re-application.
const SOON: Duration = Duration::from_mins(1);
/// Longest interval between two checks.
const SELDOM: Duration = Duration::from_mins(5);

/// Returns when the object was last applied again.
fn reapplied(object: &impl Resource) -> Option<Timestamp> {
    let at = object.annotations().get(annotations::REAPPLIED_AT)?;
    at.parse().ok()
}

/// Makes Karmada apply objects again that cells have lacked for too long.
pub(super) struct Reapplier<'a> {
    pub(super) hub: &'a HubCaches,
    pub(super) stale_cells: &'a StaleCells,
    /// The engagement of the project.
    pub(super) engagement: &'a Engagement,
    pub(super) writer: &'a Writer,
}

impl Reapplier<'_> {
    /// Makes Karmada apply objects again that cells have lacked for too long. Returns when to check again.
    pub(super) async fn reapply(
        &self,
        context: &ReconcileContext,
        key: &ProjectKey,
        hub_namespace: &HubNamespace,
        staleness: Staleness,
    ) -> Result<Outcome, ReconcileError> {
        let copies = &self.hub.deployments;
        let copy = copies.get(hub_namespace.as_str(), &key.name)?;
        let now = context.now();
        let failures = &self.stale_cells.override_failures;
        let is_explained =
            staleness.lower_hubs.is_empty() && failures.explain(key, &staleness.cells, now);
        let mut cells = staleness.cells;
        cells.extend(staleness.lower_hubs);
        let observation = Observation {
            generation: copy.as_ref().and_then(|copy| copy.meta().generation),
            cells,
            complete: staleness.complete,
        };
        let since = self
            .stale_cells
            .observe(self.engagement, key, observation, now);
        let (Some(copy), Some(since)) = (copy, since) else {
            return Ok(Outcome::Settled);
        };
        let namespace = self.hub.namespaces.get("", hub_namespace.as_str())?;
        let namespace = namespace.filter(|it| staleness.namespace && !is_terminating(it.as_ref()));
        let copy = Some(copy).filter(|_| staleness.copy && !is_explained);
        let due = |reapplied| due(since, reapplied, now);
        let namespace = namespace.map(|it| (due(reapplied(it.as_ref())), it));
        let copy = copy.map(|it| (due(reapplied(it.as_ref())), it));

        let mut errors = FirstError::default();
        if let Some((due, namespace)) = &namespace
            && *due <= now
        {
            // All objects in the namespace depend on the Namespace. So the Namespace is applied first, and the copy
            // after it.
            let namespaces = Collection::of_plane(&self.hub.client, Some(&self.hub.namespaces));
            errors.note(
                self.touch(context, &namespaces, namespace.as_ref(), now)
                    .await,
            );
        }
        if let Some((due, copy)) = &copy
            && *due <= now
        {
            let (client, name) = (&self.hub.client, hub_namespace.as_str());
            let copies = Collection::new(client, name, Some(copies));
            errors.note(self.touch(context, &copies, copy.as_ref(), now).await);
        }
        errors.result()?;
        let next = [namespace.map(|it| it.0), copy.map(|it| it.0)];
        let next = next.into_iter().flatten().filter(|due| *due > now).min();
        let wait = next.map_or(SOON, |due| due.duration_since(now).unsigned_abs());
        Ok(Outcome::Again(wait.min(SELDOM)))
    }

    /// Changes an object so that Karmada applies it.
    async fn touch<K: Object>(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, K>,
        object: &K,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        info!(
            object = describe(object),
            "a cell has lacked this object, its current rules, or objects in it, for too long; making Karmada apply it again"
        );
        let at = json!({"annotations": {annotations::REAPPLIED_AT: format!("{now:.0}")}});
        let patched = self.writer.patch_metadata(context, to, object, at).await;
        patched.map(drop)
    }
}
