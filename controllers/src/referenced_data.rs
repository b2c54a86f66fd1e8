//! Determines the ConfigMaps and Secrets that a WorkloadDeployment of a project needs, and copies them to the hub
//! (docs/concepts/referenced-data.md).

pub(crate) mod companion;
pub(crate) mod companion_controller;
pub(crate) mod companion_kind;
#[cfg(test)]
mod lifecycle_tests;
mod plan;
pub(crate) mod project_data;
#[cfg(test)]
mod reconcile_tests;
mod releases;
mod resolve;
mod sources;
pub(crate) mod triggers;
mod users;
pub(crate) mod version;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::instance::REFERENCED_DATA_READY;
use api::references::{References, Source, references};
use api::{WorkloadDeployment, WorkloadDeploymentStatus, finalizers};
use multicluster::Outcome;

use crate::hub::identity::recorded_hub;
use crate::objects::{describe, has_finalizer, is_terminating, recorded_hub_namespace};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::events::EventPublisher;
use crate::runtime::hub_proof::require_no_contradiction;
use crate::runtime::keys::{ProjectKey, SourceKey};
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};
use crate::template::template_hash;
use companion::Companions;
use plan::{Observed, Plan, plan};
use resolve::{Found, Resolved, resolve};
use version::expected;

/// How often a source is read again that compute-federation may not read.
const UNAUTHORIZED: Duration = Duration::from_mins(1);
/// How often a WorkloadDeployment looks whether its companions have been written without it. They usually tell.
const RELEASING: Duration = Duration::from_mins(1);

pub(crate) struct ReferencedDataController {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) companions: Arc<Companions>,
    pub(crate) writer: Writer,
    pub(crate) publisher: EventPublisher,
    /// Called with a source if its companion has to be written with or without a WorkloadDeployment.
    pub(crate) on_release: Box<dyn Fn(&SourceKey) + Send + Sync>,
}

impl Controller for ReferencedDataController {
    const NAME: &'static str = "referenced-data";
    type Key = ProjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ProjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let Some(deployment) = project.deployments.get(&key.namespace, &key.name)? else {
            project.require(&project.deployments)?;
            self.companions.release(&key, &[], &[])?;
            return Ok(Outcome::Gone);
        };
        if !is_terminating(deployment.as_ref())
            && !has_finalizer(deployment.as_ref(), finalizers::FEDERATOR)
        {
            project.require(&project.namespaces)?;
            project.require_no_hub_namespace(&key.namespace)?;
        }
        let references = references(&deployment.spec.template.spec);
        let is_held = has_finalizer(deployment.as_ref(), finalizers::REFERENCED_DATA);
        if !references.is_empty() || is_held {
            project.data.watch();
        }
        let mut found = BTreeMap::new();
        if !is_terminating(deployment.as_ref()) {
            for source in references.keys() {
                let of = SourceKey::new(&key, source);
                found.insert(
                    source.clone(),
                    self.companions.sources.find(&project, &of).await?,
                );
            }
        }
        let plan = self.plan(context, &key, &deployment, &references, &found);
        let pending = plan.pending.clone();
        self.execute(context, &project, &key, &deployment, plan)
            .await?;
        for source in &pending {
            if let Some(problem) = self.companions.problem(&SourceKey::new(&key, source)) {
                return Err(ReconcileError::NotYet {
                    object: describe(deployment.as_ref()),
                    missing: format!("the hub to accept the change of a companion: {problem}"),
                });
            }
        }
        // Nothing tells that a right has been granted.
        let is_refused = found.values().any(|it| *it == Found::Unauthorized);
        Ok(match is_refused {
            true => Outcome::Again(UNAUTHORIZED),
            false if !pending.is_empty() => Outcome::Again(RELEASING),
            false => Outcome::Settled,
        })
    }
}

impl ReferencedDataController {
    fn plan(
        &self,
        context: &ReconcileContext,
        key: &ProjectKey,
        deployment: &WorkloadDeployment,
        references: &References,
        found: &BTreeMap<Source, Found>,
    ) -> Plan {
        let resolved = match is_terminating(deployment) {
            true => Ok(Resolved::default()),
            false => resolve(references, found),
        };
        let listed = expected(&deployment.metadata).unwrap_or_default();
        let not_copied = listed.iter();
        let not_copied =
            not_copied.filter_map(|it| self.companions.problem(&SourceKey::new(key, it)));
        let contents = match deployment.rolls_on_data_change() {
            true => references
                .keys()
                .filter_map(|source| {
                    let since = self.companions.content(&SourceKey::new(key, source))?;
                    Some((source.clone(), since))
                })
                .collect(),
            false => BTreeMap::new(),
        };
        plan(&Observed {
            deployment,
            references,
            resolved,
            contents: &contents,
            template_hash: &template_hash(deployment),
            releases: &self.companions.releases_of(key),
            not_copied: not_copied.collect(),
            now: context.now(),
        })
    }

    async fn execute(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        key: &ProjectKey,
        deployment: &WorkloadDeployment,
        plan: Plan,
    ) -> Result<(), ReconcileError> {
        let Plan {
            release,
            begin,
            metadata,
            conditions,
            ..
        } = plan;
        let deployments =
            Collection::new(&project.client, &key.namespace, Some(&project.deployments));
        if !release.is_empty() {
            self.require_own_hub(deployment)?;
        }
        let listed = expected(&deployment.metadata).unwrap_or_default();
        let changed = self.companions.release(key, &listed, &release)?;
        changed.iter().for_each(&self.on_release);
        let written = match metadata {
            Some(metadata) => {
                // Until it is known that the source is listed, its companion is not deleted.
                let _locks = self.companions.lock_for_use(key, &begin)?;
                let written = self
                    .writer
                    .patch_metadata(context, &deployments, deployment, metadata)
                    .await?;
                Some(written)
            }
            None => None,
        };
        let Some(conditions) = conditions else {
            return Ok(());
        };
        let newest = written.as_ref().unwrap_or(deployment);
        let former = deployment.status.as_ref();
        // The first status needs all counters.
        let status = WorkloadDeploymentStatus {
            conditions: conditions.clone(),
            ..former.cloned().unwrap_or_default()
        };
        let patch = merge_patch(former, &status);
        self.writer
            .patch_status(context, &deployments, newest, patch)
            .await?;
        self.publisher.publish(
            &project.locations,
            Self::NAME,
            deployment,
            &[REFERENCED_DATA_READY],
            former.map_or(&[], |it| &it.conditions),
            &conditions,
        );
        Ok(())
    }

    /// Checks that the hub in use is the one that has the companions of a WorkloadDeployment (I-12).
    fn require_own_hub(&self, deployment: &WorkloadDeployment) -> Result<(), ReconcileError> {
        let hub = &self.companions.hub;
        let metadata = &deployment.metadata;
        let namespace = match recorded_hub_namespace(metadata) {
            Some(recorded) => hub.namespaces.get("", recorded)?,
            None => return Ok(()),
        };
        let problem = hub
            .identity()?
            .contradiction(recorded_hub(metadata), namespace.as_deref());
        require_no_contradiction(problem, || describe(deployment))
    }
}
