//! The tasks of the process. Each is owned: one that ends before it is asked to ends the process.

use std::any::Any;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info_span};

/// Spawns tasks and stops them together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

impl Tasks {
    /// Runs a task that goes on until it is asked to stop.
    pub fn spawn<F, E>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let tasks = self.clone();
        let task = async move {
            let failure = match AssertUnwindSafe(task).catch_unwind().await {
                Ok(Ok(())) if tasks.stop.is_cancelled() => return,
                Ok(Ok(())) => "ended".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("panicked: {}", message(&*panic)),
            };
            tasks.fail(name, &failure);
        };
        self.tracker
            .spawn(task.instrument(info_span!("task", name)));
    }

    /// Ends the process in an orderly way because `name` cannot go on. The first failure counts.
    fn fail(&self, name: &str, failure: &str) {
        error!(task = name, failure, "a task ended; the process stops");
        self.failure.get_or_init(|| format!("{name}: {failure}"));
        self.stop.cancel();
    }

    /// Cancelled when tasks are to stop.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until every task has ended after a stop, and says why the process stopped if no one asked it to.
    pub async fn ended(&self) -> Option<String> {
        self.tracker.close();
        self.tracker.wait().await;
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
