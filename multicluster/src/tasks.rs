//! The tasks of the process. If a task ends before the process is told to stop, the process stops with an error.

use std::any::Any;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use thiserror::Error;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info_span};

/// The reason why a task ended before the process stopped.
#[derive(Debug, Error)]
enum TaskError {
    #[error("ended")]
    Ended,
    #[error("{0}")]
    Failed(String),
    #[error("panicked: {0}")]
    Panicked(String),
}

/// Spawns tasks and stops them together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

impl Tasks {
    /// Runs a task that must run until [`Tasks::stop`]. If the task ends, fails or panics earlier, the process stops.
    pub fn spawn<F, E>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let stop = self.stop.clone();
        self.own(name, async move {
            match task.await {
                Ok(()) if stop.is_cancelled() => Ok(()),
                Ok(()) => Err(TaskError::Ended),
                Err(error) => Err(TaskError::Failed(error.to_string())),
            }
        });
    }

    /// Runs a task that never ends. The task is dropped when the guard is dropped or the process stops. This is not a
    /// failure. If the task ends or panics by itself, the process stops.
    pub fn spawn_cancellable<F>(&self, name: &'static str, task: F) -> DropGuard
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancel = self.stop.child_token();
        let cancelled = cancel.clone();
        self.own(name, async move {
            match cancelled.run_until_cancelled(task).await {
                None => Ok(()),
                Some(()) => Err(TaskError::Ended),
            }
        });
        cancel.drop_guard()
    }

    /// Runs a task. An error or a panic of the task stops the process.
    fn own(
        &self,
        name: &'static str,
        task: impl Future<Output = Result<(), TaskError>> + Send + 'static,
    ) {
        let tasks = self.clone();
        let task = async move {
            let failure = match AssertUnwindSafe(task).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(failure)) => failure,
                Err(panic) => TaskError::Panicked(message(&*panic).to_owned()),
            };
            tasks.fail(name, &failure);
        };
        self.tracker
            .spawn(task.instrument(info_span!("task", name)));
    }

    /// Stops the process because a task failed. [`Tasks::ended`] returns the first failure.
    fn fail(&self, name: &str, failure: &TaskError) {
        error!(task = name, %failure, "a task ended; the process stops");
        self.failure.get_or_init(|| format!("{name}: {failure}"));
        self.stop.cancel();
    }

    /// Returns the token that is cancelled when the process stops. The caller can also cancel the token to stop the
    /// process.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until the process stops and every task has ended. If a failure stopped the process, returns the failure.
    pub async fn ended(&self) -> Option<String> {
        self.tracker.close();
        self.tracker.wait().await;
        self.failure()
    }

    /// Returns the failure that stopped the process, if there was one.
    pub fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Task = Result<(), String>;

    async fn until(stop: CancellationToken) -> Task {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_stop_is_no_failure() {
        let tasks = Tasks::default();
        let stop = tasks.stop();
        tasks.spawn("waits", until(stop));
        tasks.stop().cancel();
        assert_eq!(tasks.ended().await, None);
    }

    #[tokio::test]
    async fn a_task_that_is_cancelled_by_itself_is_no_failure_and_stops_no_other() {
        let tasks = Tasks::default();
        let (kept, cancelled) = (Arc::new(()), Arc::new(()));
        let holds = |what: &Arc<()>| {
            let what = Arc::clone(what);
            async move {
                std::future::pending::<()>().await;
                drop(what);
            }
        };
        let guard = tasks.spawn_cancellable("kept", holds(&kept));
        drop(tasks.spawn_cancellable("cancelled", holds(&cancelled)));
        while Arc::strong_count(&cancelled) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&kept), 2);
        assert!(!tasks.stop().is_cancelled());
        tasks.stop().cancel();
        assert_eq!(tasks.ended().await, None);
        drop(guard);
    }

    #[tokio::test]
    async fn a_cancellable_task_that_ends_or_panics_by_itself_ends_the_process() {
        let tasks = Tasks::default();
        let _guard = tasks.spawn_cancellable("task", async {});
        assert_eq!(tasks.ended().await.as_deref(), Some("task: ended"));
        let tasks = Tasks::default();
        let _guard = tasks.spawn_cancellable("task", async { panic!("oh") });
        assert_eq!(tasks.ended().await.as_deref(), Some("task: panicked: oh"));
    }

    #[tokio::test]
    async fn a_task_that_ends_panics_or_fails_stops_all_others() {
        async fn failure(task: impl Future<Output = Task> + Send + 'static) -> Option<String> {
            let tasks = Tasks::default();
            let stop = tasks.stop();
            tasks.spawn("other", until(stop));
            tasks.spawn("task", task);
            tasks.ended().await
        }
        assert_eq!(
            failure(async { Ok(()) }).await.as_deref(),
            Some("task: ended")
        );
        assert_eq!(
            failure(async { Err("broken".into()) }).await.as_deref(),
            Some("task: broken")
        );
        assert_eq!(
            failure(async { panic!("oh") }).await.as_deref(),
            Some("task: panicked: oh")
        );
    }
}
