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
    wrote: Cell<bool>,
}

/// Runs a reconciliation, and says also whether it wrote. `since` is when an event first told of what it is to do; nothing
/// where none has.
pub(super) async fn attempt<T>(since: Option<Instant>, work: impl Future<Output = T>) -> (T, bool) {
    let attempt = Attempt {
        since,
        wrote: Cell::new(false),
    };
    let work = async {
        let result = work.await;
        (result, ATTEMPT.with(|attempt| attempt.wrote.get()))
    };
    ATTEMPT.scope(attempt, work).await
}

/// Notes that the reconciliation that is under way has written, and says how long before that an event told of it.
pub(crate) fn wrote() -> Option<Duration> {
    let note = |attempt: &Attempt| {
        attempt.wrote.set(true);
        attempt.since.map(|since| since.elapsed())
    };
    ATTEMPT.try_with(note).ok().flatten()
}
