//! Serves the Lua scripts of kinds that the native interpreter does not know.
//!
//! Scripts run on threads of their own, so that a hostile script does not delay other requests. A part of Lua cannot be
//! interrupted (docs/concepts/lua.md#bounds), so a script can keep its thread longer than its time. Each kind leaves at
//! least one thread to the others. Each source address leaves at least one thread, and one place of each kind, to the
//! others.

mod source_places;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use interpreters::lua::{Limits, LuaInterpreter, SCRIPT_TIME, StopFlag};
use interpreters::{InterpretError, Interpretation, MalformedReview};
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use crate::http_error::HttpError;
use crate::overload::Overloaded;
use source_places::{SourcePlace, SourcePlaces};

/// Scripts that run at the same time.
pub const SCRIPTS_AT_ONCE: usize = 3;
/// Scripts of one kind that run at the same time.
const OF_KIND_AT_ONCE: usize = SCRIPTS_AT_ONCE - 1;
/// Scripts that run at the same time for one source address.
const OF_SOURCE_AT_ONCE: usize = SCRIPTS_AT_ONCE - 1;
/// Scripts of one kind that run at the same time for one source address.
const OF_KIND_AND_SOURCE_AT_ONCE: usize = OF_KIND_AT_ONCE - 1;
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
    places: BTreeMap<Kind, Arc<Semaphore>>,
}

/// Serves scripts. They can be replaced at any time.
pub struct Scripts {
    served: ArcSwapOption<Served>,
    threads: Handle,
    /// One permit for each thread.
    idle: Arc<Semaphore>,
    /// The places of each source address on the threads.
    of_sources: SourcePlaces,
}

/// The kind of an object: its `apiVersion` and `kind`.
pub(crate) type Kind = (String, String);

/// The result of a call of a script.
pub(crate) enum Answered {
    /// The answer of the script.
    Answer(Interpretation),
    /// The script does not end, so the call fails with this error.
    Failed(InterpretError),
    /// No script is for the kind any more.
    NoScript,
}

/// The places that a script holds: those of its source address, that of its kind, and its thread.
struct Places {
    _of_source: Option<[SourcePlace; 2]>,
    _of_kind: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
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
            of_sources: SourcePlaces::default(),
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

    /// Returns the kind of a request about an object that is not native. Returns `None` if no script is for the kind.
    ///
    /// # Errors
    ///
    /// If a field of the request cannot be decoded.
    pub(crate) fn target(&self, body: &[u8]) -> Result<Option<Kind>, MalformedReview> {
        let Some(served) = self.served.load_full() else {
            return Ok(None);
        };
        let kind = interpreters::target(body)?;
        Ok(served.places.contains_key(&kind).then_some(kind))
    }

    /// Answers a request about an object of a kind that [`Self::target`] has returned. `source` is the source address
    /// of the request, if it is known.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if no thread is free in time.
    pub(crate) async fn answer(
        &self,
        body: &Bytes,
        kind: Kind,
        source: Option<IpAddr>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Answered, HttpError> {
        let served_with = |kind: &Kind| {
            let served = self.served.load_full()?;
            let place = Arc::clone(served.places.get(kind)?);
            Some((served, place))
        };
        let Some((_, place)) = served_with(&kind) else {
            return Ok(Answered::NoScript);
        };
        let wait_end = deadline.min(Instant::now() + WAIT_MAX);
        let permits = self.wait(place, &kind, source, wait_end).await?;
        // The scripts may have been replaced during the wait.
        let Some((served, _)) = served_with(&kind) else {
            return Ok(Answered::NoScript);
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
                return Ok(Answered::Failed(InterpretError { field, problem }));
            }
        };
        answer
            .map(Answered::Answer)
            .map_err(|error| HttpError::malformed(&error))
    }

    /// Waits for the places of the source address, then for a place of the kind, and then for a thread. So the calls of
    /// one source address do not wait among those of others.
    async fn wait(
        &self,
        place: Arc<Semaphore>,
        kind: &Kind,
        source: Option<IpAddr>,
        deadline: Instant,
    ) -> Result<Places, Overloaded> {
        let all = async {
            let of_source = match source {
                Some(source) => {
                    let (of_sources, max) = (&self.of_sources, OF_KIND_AND_SOURCE_AT_ONCE);
                    let of_kind = of_sources.take(source, Some(kind), max).await?;
                    let of_all = of_sources.take(source, None, OF_SOURCE_AT_ONCE).await?;
                    Some([of_kind, of_all])
                }
                None => None,
            };
            Ok::<_, AcquireError>(Places {
                _of_source: of_source,
                _of_kind: place.acquire_owned().await?,
                _thread: Arc::clone(&self.idle).acquire_owned().await?,
            })
        };
        match timeout_at(deadline, all).await {
            Ok(Ok(places)) => Ok(places),
            // Nothing closes the semaphores.
            Ok(Err(_)) | Err(_) => Err(Overloaded),
        }
    }
}

#[cfg(test)]
mod tests;
