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

use std::panic::resume_unwind;
use std::sync::Arc;

use api::WorkloadSummary;
use api::reasons::workload_summary as reason;
use api::workload_summary::SummaryRows;
use jiff::Timestamp;
use multicluster::Outcome;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::hub::HubCaches;
use crate::objects::{describe, is_terminating};
use crate::projects::{ProjectCaches, SyncedProjects};
use crate::runtime::keys::ProjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use by_age::{SUMMARIES_MAX, oldest};
use observe::Observer;
use pace::EVALUATED_EVERY;
use plan::{KnownCells, Table, changed_status, evaluate};
use query::Query;
use work::NoResult;

/// Most evaluations at a time. Their rows need memory (see [`work::ROWS_TEXT_MAX`]).
const EVALUATIONS_MAX: usize = 4;

/// Writes the result of each query into its status.
pub(crate) struct SummaryController {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    writer: Writer,
    /// One permit for each evaluation that may run.
    evaluations: Semaphore,
}

impl SummaryController {
    pub(crate) fn new(projects: Arc<SyncedProjects>, hub: Arc<HubCaches>, writer: Writer) -> Self {
        Self {
            projects,
            hub,
            writer,
            evaluations: Semaphore::new(EVALUATIONS_MAX),
        }
    }
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
        if summary.spec.rows == SummaryRows::Instances {
            project.require(&project.instances)?;
        }
        // The time of this wait must not count as that of the evaluation.
        let place = self.evaluations.acquire().await;
        let turn = match project.pace.begin(&key, Instant::now()) {
            Ok(turn) => turn,
            Err(_) if project.pace.has_failed(&key) => {
                return Err(ReconcileError::NotYet {
                    object: describe(summary.as_ref()),
                    missing: "its next turn, after a status could not be written".to_owned(),
                });
            }
            Err(wait) => return Ok(Outcome::Again(wait)),
        };
        let evaluation = Evaluation {
            hub: Arc::clone(&self.hub),
            project: Arc::clone(&project),
            key: key.clone(),
            summary: Arc::clone(&summary),
            now: context.now(),
        };
        // An evaluation can take longer than a task may keep a worker thread: others renew the Lease there.
        let changed = match spawn_blocking(move || evaluation.changed_status()).await {
            Ok(changed) => changed,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The process ends.
                Err(_) => return Ok(Outcome::Again(EVALUATED_EVERY)),
            },
        };
        drop(place);
        let begin = turn.end(Instant::now());
        let mut bytes = 0;
        if let Some(status) = changed {
            bytes = status.to_string().len();
            let summaries =
                Collection::new(&project.client, &key.namespace, Some(&project.summaries));
            let written = self
                .writer
                .apply_status(context, &summaries, summary.as_ref(), status)
                .await;
            if let Err(error) = written {
                project.pace.failed(&key);
                return Err(error);
            }
        }
        project.pace.written(&key, begin, bytes);
        Ok(Outcome::Settled)
    }
}

/// An evaluation of a summary.
struct Evaluation {
    hub: Arc<HubCaches>,
    project: Arc<ProjectCaches>,
    key: ProjectKey,
    summary: Arc<WorkloadSummary>,
    now: Timestamp,
}

impl Evaluation {
    /// Returns the status, if it differs from the current one.
    fn changed_status(&self) -> Option<Value> {
        let changed = changed_status(&self.summary, self.result(), self.now);
        changed.map(|status| json!(status))
    }

    fn result(&self) -> Result<Table, NoResult> {
        let evaluated = oldest(&self.project.summaries_by_age, &self.key.namespace);
        if !evaluated.iter().any(|(_, name)| *name == self.key.name) {
            return Err(NoResult {
                reason: reason::TOO_MANY_SUMMARIES,
                message: format!("the namespace has {SUMMARIES_MAX} older summaries"),
            });
        }
        let query = Query::of(&self.summary.spec).map_err(|message| NoResult {
            reason: reason::INVALID_QUERY,
            message,
        })?;
        let observer = Observer {
            hub: &self.hub,
            project: &self.project,
            key: &self.key,
        };
        let former = self.summary.status.as_ref();
        let former = former.map_or(&[][..], |it| &it.rows);
        let cells = KnownCells {
            state: &|cell| self.hub.cells.state(cell),
            is_lower_hub: &|cluster| self.hub.cells.is_lower_hub(cluster),
            silent: &|cluster| self.hub.cells.silent(cluster),
        };
        let facts = observer.observe(&query, former, cells, self.now);
        evaluate(&query, &facts)
    }
}
