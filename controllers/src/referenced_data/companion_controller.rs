//! Keeps the companions of the sources that WorkloadDeployments list.

use std::sync::Arc;
use std::time::Duration;

use multicluster::Outcome;

use super::companion::Companions;
use crate::projects::SyncedProjects;
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::wiring::Controller;
use crate::runtime::{ReconcileContext, ReconcileError};

/// How often a companion that the hub refuses is tried again.
const REFUSED: Duration = Duration::from_mins(1);
/// How often a companion is compared with its source although nothing has changed. Nothing watches companions, because
/// the right to watch Secrets is the right to read them all.
const COMPARED: Duration = Duration::from_mins(10);

pub(crate) struct CompanionController {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) companions: Arc<Companions>,
    /// Called with a source if its companion begins or ceases to have a problem, or has another content.
    pub(crate) on_change: Box<dyn Fn(&SourceKey) + Send + Sync>,
    /// Called with a WorkloadDeployment once no companion of the sources that it releases names it.
    pub(crate) on_released: Box<dyn Fn(&ProjectKey) + Send + Sync>,
}

impl Controller for CompanionController {
    const NAME: &'static str = "companion";
    type Key = SourceKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: SourceKey,
    ) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let synced = self.companions.sync(context, &project, &key).await?;
        if synced.is_changed {
            (self.on_change)(&key);
        }
        synced.released?.iter().for_each(&self.on_released);
        if self.companions.problem(&key).is_some() {
            return Ok(Outcome::Again(REFUSED));
        }
        match project.data.names_of_users(&key.namespace, &key.source)[..] {
            [] => {
                self.companions.forget_source(&key);
                Ok(Outcome::Gone)
            }
            _ => Ok(Outcome::Again(COMPARED)),
        }
    }
}
