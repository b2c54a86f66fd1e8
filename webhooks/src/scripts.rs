//! Serves the Lua scripts of kinds that the native interpreter does not know.
//!
//! Scripts run on threads of their own, so that a hostile script does not delay other requests. A part of Lua cannot be
//! interrupted (docs/concepts/lua.md#bounds), so a script can keep its thread longer than its time. Each kind leaves at
//! least one thread to the others.

use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use interpreters::lua::{Limits, LuaInterpreter, SCRIPT_TIME, StopFlag};
use interpreters::{InterpretError, Interpretation};
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use crate::http_error::HttpError;
use crate::overload::Overloaded;

/// Scripts that run at the same time.
pub const SCRIPTS_AT_ONCE: usize = 3;
/// Scripts of one kind that run at the same time.
const OF_KIND_AT_ONCE: usize = SCRIPTS_AT_ONCE - 1;
/// Memory of a script, in bytes.
const SERVED_MEMORY_MAX: usize = 32 << 20;
/// Memory of the result of a script, in bytes.
const SERVED_RESULT_MAX: usize = 8 << 20;
/// Time for which a script that was stopped may answer with its error.
const STOP_TIME: Duration = Duration::from_millis(100);
/// Longest wait for a thread.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The scripts that are served.
struct Served {
    interpreter: LuaInterpreter,
    /// The places of each kind on the threads.
    places: BTreeMap<(String, String), Arc<Semaphore>>,
}

/// Serves scripts. They can be replaced at any time.
pub struct Scripts {
    served: ArcSwapOption<Served>,
    threads: Handle,
    /// One permit for each thread.
    idle: Arc<Semaphore>,
}

/// Stops a script when nobody waits for it any more.
struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Scripts {
    /// Serves no scripts yet. `threads` is a runtime with [`SCRIPTS_AT_ONCE`] threads.
    pub fn new(threads: Handle) -> Self {
        Self {
            served: ArcSwapOption::empty(),
            threads,
            idle: Arc::new(Semaphore::new(SCRIPTS_AT_ONCE)),
        }
    }

    /// Returns the bounds of a script.
    pub fn limits() -> Limits {
        Limits {
            memory: SERVED_MEMORY_MAX,
            output: SERVED_RESULT_MAX,
            ..Limits::default()
        }
    }

    /// Serves these scripts from now on, instead of former ones. Calls that run end with the former ones.
    pub fn replace(&self, interpreter: LuaInterpreter) {
        let former = self.served.load_full();
        let kinds = interpreter.kinds().into_iter();
        // A kind keeps its places, because former calls of it may still run.
        let place = |kind| {
            let kept = former
                .as_ref()
                .and_then(|served| served.places.get(&kind))
                .cloned();
            let place = kept.unwrap_or_else(|| Arc::new(Semaphore::new(OF_KIND_AT_ONCE)));
            (kind, place)
        };
        let places = kinds.map(place).collect();
        self.served.store(Some(Arc::new(Served {
            interpreter,
            places,
        })));
    }

    /// Answers a request about a kind that is not native. Returns `None` if no script is for the kind.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if no thread is free in time.
    pub(crate) async fn answer(
        &self,
        body: &Bytes,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Option<Interpretation>, HttpError> {
        let Some(served) = self.served.load_full() else {
            return Ok(None);
        };
        let kind = interpreters::target(body).map_err(|error| HttpError::malformed(&error))?;
        let Some(place) = served.places.get(&kind) else {
            return Ok(None);
        };
        let wait_end = deadline.min(Instant::now() + WAIT_MAX);
        let permits = self.wait(place, wait_end).await?;
        // The scripts may have been replaced during the wait.
        let Some(served) = self
            .served
            .load_full()
            .filter(|served| served.places.contains_key(&kind))
        else {
            return Ok(None);
        };
        let stop = StopOnDrop(StopFlag::default());
        let (flag, bytes) = (stop.0.clone(), body.clone());
        let mut task = AbortOnDropHandle::new(self.threads.spawn(async move {
            let answer = served.interpreter.interpret(&bytes, now, &flag);
            drop(permits);
            answer
        }));
        let end = deadline.min(Instant::now() + SCRIPT_TIME);
        let mut ended = timeout_at(end, &mut task).await;
        if ended.is_err() {
            stop.0.stop();
            ended = timeout_at(Instant::now() + STOP_TIME, &mut task).await;
        }
        let answer = match ended {
            Ok(Ok(answer)) => answer,
            Ok(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The process ends.
            Ok(Err(_)) => return Err(Overloaded.into()),
            Err(_) => {
                let (api_version, kind) = &kind;
                error!(api_version, kind, "a script does not end");
                let problem = "the script does not end".to_owned();
                let field = "request.object".to_owned();
                interpreters::refuse(body, InterpretError { field, problem })
            }
        };
        answer
            .map(Some)
            .map_err(|error| HttpError::malformed(&error))
    }

    /// Waits for a place of the kind and for a thread.
    async fn wait(
        &self,
        place: &Arc<Semaphore>,
        deadline: Instant,
    ) -> Result<[OwnedSemaphorePermit; 2], Overloaded> {
        let both = async {
            let place = Arc::clone(place).acquire_owned().await;
            let thread = Arc::clone(&self.idle).acquire_owned().await;
            match (place, thread) {
                (Ok(place), Ok(thread)) => [place, thread],
                // Nothing closes the semaphores.
                _ => future::pending().await,
            }
        };
        timeout_at(deadline, both).await.map_err(|_| Overloaded)
    }
}

#[cfg(test)]
mod tests;
