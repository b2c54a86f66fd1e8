//! Evaluates the queries of WorkloadSummaries from the caches (docs/operate/summaries.md).

pub(crate) mod by_age;
mod observe;
pub(crate) mod pace;
mod path;
mod plan;
mod query;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;
mod value;
pub(crate) mod work;

use std::sync::Arc;

use api::WorkloadSummary;
use api::reasons::workload_summary as reason;
use multicluster::Outcome;
use serde_json::json;
use tokio::time::Instant;

use crate::hub::HubCaches;
use crate::objects::is_terminating;
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::keys::ProjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use by_age::oldest;
use observe::Observer;
use plan::{NoResult, Table, changed_status, evaluate};
use query::Query;

/// Summaries of one namespace that are evaluated: the oldest ones. Each change in the namespace can cause an evaluation of
/// all of them.
pub(crate) const SUMMARIES_MAX: usize = 50;

/// Writes the result of each query into its status.
pub(crate) struct SummaryController {
    pub(crate) projects: Arc<SyncedProjects>,
    pub(crate) hub: Arc<HubCaches>,
    pub(crate) writer: Writer,
}

impl Controller for SummaryController {
    const NAME: &'static str = "summary";
    type Key = ProjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ProjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let summary = project.summaries.get(&key.namespace, &key.name)?;
        let Some(summary) = summary.filter(|it| !is_terminating(it.as_ref())) else {
            project.pace.forget(&key);
            return Ok(Outcome::Gone);
        };
        // Otherwise a row, or all of them, would be missing.
        project.require(&project.namespaces)?;
        project.require(&project.workloads)?;
        project.require(&project.deployments)?;
        project.require(&project.instances)?;
        let begin = Instant::now();
        if let Some(wait) = project.pace.wait(&key, begin) {
            return Ok(Outcome::Again(wait));
        }
        let result = self.result(context, &project, &key, &summary);
        let changed = changed_status(&summary, result, context.now());
        project.pace.note(begin, Instant::now());
        if let Some(status) = changed {
            let summaries =
                Collection::new(&project.client, &key.namespace, Some(&project.summaries));
            self.writer
                .apply_status(context, &summaries, summary.as_ref(), json!(status))
                .await?;
        }
        Ok(Outcome::Settled)
    }
}

impl SummaryController {
    fn result(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        key: &ProjectKey,
        summary: &WorkloadSummary,
    ) -> Result<Table, NoResult> {
        let evaluated = oldest(&project.summaries_by_age, &key.namespace);
        if !evaluated.iter().any(|(_, name)| *name == key.name) {
            return Err(NoResult {
                reason: reason::TOO_MANY_SUMMARIES,
                message: format!("the namespace has {SUMMARIES_MAX} older summaries"),
            });
        }
        let query = Query::of(&summary.spec).map_err(|message| NoResult {
            reason: reason::INVALID_QUERY,
            message,
        })?;
        let observer = Observer {
            hub: &self.hub,
            project,
            key,
        };
        let former = summary.status.as_ref().map_or(&[][..], |it| &it.rows);
        let cell = |cell: &str| self.hub.cells.state(cell);
        evaluate(
            &query,
            &observer.observe(&query, former, &cell, context.now()),
        )
    }
}
