//! What is known of the reconciliation that is under way, wherever it writes.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    static ATTEMPT: Attempt;
}

/// A reconciliation that is under way.
struct Attempt {
    /// When an event first told of what it is to do, if one has.
    since: Option<Instant>,
    done: Cell<Done>,
}

/// What a reconciliation has done on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Whether it wrote.
    pub(super) wrote: bool,
    /// For how long an API server that refused a request has asked to be left in peace.
    pub(super) peace: Option<Duration>,
}

/// Runs a reconciliation, and says also what it has done on the way. `since` is when an event first told of what it is to
/// do; nothing where none has.
pub(super) async fn attempt<T>(since: Option<Instant>, work: impl Future<Output = T>) -> (T, Done) {
    let attempt = Attempt {
        since,
        done: Cell::default(),
    };
    let work = async {
        let result = work.await;
        (result, ATTEMPT.with(|attempt| attempt.done.get()))
    };
    ATTEMPT.scope(attempt, work).await
}

/// Notes that the reconciliation that is under way has written, and says how long before that an event told of it.
pub(crate) fn wrote() -> Option<Duration> {
    let note = |attempt: &Attempt| {
        let done = attempt.done.get();
        attempt.done.set(Done {
            wrote: true,
            ..done
        });
        attempt.since.map(|since| since.elapsed())
    };
    ATTEMPT.try_with(note).ok().flatten()
}

/// Notes that an API server has refused a request of the reconciliation that is under way, and asked to be left in peace for
/// so long.
pub(crate) fn note_retry_after(time: Duration) {
    let note = |attempt: &Attempt| {
        let done = attempt.done.get();
        let peace = done.peace.max(Some(time));
        attempt.done.set(Done { peace, ..done });
    };
    // Watches ask too, and have a pace of their own.
    let _ = ATTEMPT.try_with(note);
}
