//! What is known of the reconciliation that is under way, wherever it writes.

use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    static SINCE: Option<Instant>;
}

/// Runs a reconciliation. `since` is when an event first told of what it is to do; nothing where none has.
pub(super) async fn attempt<T>(since: Option<Instant>, work: impl Future<Output = T>) -> T {
    SINCE.scope(since, work).await
}

/// How long ago an event told the reconciliation that is under way what it is to do.
pub(crate) fn age() -> Option<Duration> {
    SINCE
        .try_with(|since| since.map(|since| since.elapsed()))
        .ok()
        .flatten()
}
