//! The sync state of a cache: whether the cache is in sync with its API server.

use std::error::Error;
use std::mem;
use std::time::Duration;

use kube::Resource;
use kube::core::Status;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use tokio::time::Instant;

use crate::connect::auth_problem;

/// Longest wait before a list is retried, without jitter: 30 s, the default of kube and of client-go.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether a cache is in sync with the API server, according to its watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SyncState {
    /// The first list is not complete yet.
    #[default]
    Listing,
    /// Everything has been listed, and the watch works.
    Current,
    /// The list or the watch has failed, or the API server was restored from a snapshot, or there has been no watch for
    /// long, and no list or watch has succeeded since. The objects may be out of date.
    Failing {
        /// The message of the API server, or another reason. It may be shown to users.
        problem: String,
    },
    /// The API server forbids to list or watch the kind. The cache keeps its objects.
    Forbidden {
        /// The message of the API server. It may be shown to users.
        problem: String,
    },
    /// The API server does not serve the kind, for example because its CustomResourceDefinition is missing. This does
    /// not prove that there are no objects, so the cache keeps its objects.
    NotServed {
        /// A message with the kind that is not served. It may be shown to users.
        problem: String,
    },
}

impl SyncState {
    /// Returns the state after this error.
    pub(super) fn failed<K: Resource<DynamicType = ()>>(error: &watcher::Error) -> Self {
        let problem = problem::<K>(error);
        if is_not_served(error) {
            Self::NotServed { problem }
        } else if is_forbidden(error) {
            Self::Forbidden { problem }
        } else {
            Self::Failing { problem }
        }
    }

    /// Returns the reason why the cache is not current, if the reason is known. It may be shown to users.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Listing | Self::Current => None,
            Self::Failing { problem }
            | Self::Forbidden { problem }
            | Self::NotServed { problem } => Some(problem),
        }
    }

    /// Returns whether the API server forbids the kind or does not serve it. Waiting alone does not change this state.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::NotServed { .. })
    }

    /// Returns whether the cache is in sync with the API server.
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// Returns the problem of a watch of this kind: the message of the API server, if the API server answered. If the kind
/// is not served, the problem contains the kind, because the message of the API server does not contain it.
fn problem<K: Resource<DynamicType = ()>>(error: &watcher::Error) -> String {
    if let Some(status) = answer(error) {
        if is_not_served(error) {
            let kind = match (K::plural(&()), K::group(&())) {
                (plural, group) if group.is_empty() => plural.into_owned(),
                (plural, group) => format!("{plural}.{group}"),
            };
            return format!("the API server does not serve {kind} yet");
        }
        return answer_text(status);
    }
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => request_problem(error),
        error => error.to_string(),
    }
}

/// Returns the answer of an API server that refuses a request.
fn answer_text(status: &Status) -> String {
    let (code, reason) = (status.code, &status.reason);
    match status.message.as_str() {
        "" => format!("{code} {reason}"),
        message => format!("{code} {reason}: {message}"),
    }
}

/// Returns the problem of a request: the answer of the API server, or the reason why there is none.
pub(crate) fn request_problem(error: &kube::Error) -> String {
    if let Some(problem) = auth_problem(error) {
        return problem;
    }
    match error {
        kube::Error::Api(status) => answer_text(status),
        // The text of the wrapper contains no further information.
        kube::Error::Service(error) => chain(&**error),
        error => chain(error),
    }
}

/// Returns whether the API server could not be reached or could not answer. In this case other requests would probably
/// fail too.
fn is_outage(error: &watcher::Error) -> bool {
    match (answer(error), error) {
        (Some(status), _) => status.code >= 500,
        (
            None,
            watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error),
        ) => matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)),
        (None, _) => false,
    }
}

/// Returns whether the API server does not serve the kind.
fn is_not_served(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| status.code == 404)
}

/// Returns whether the API server forbids the request.
fn is_forbidden(error: &watcher::Error) -> bool {
    answer(error).is_some_and(Status::is_forbidden)
}

/// Returns the answer of the API server, if it answered.
pub(super) fn answer(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

/// Joins an error and its sources, without repetitions.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// Returns the Retry-After of the API server's answer, or zero if it has none. The transport copies it into the
/// details.
fn retry_after(error: &watcher::Error) -> Duration {
    let details = answer(error).and_then(|status| status.details.as_ref());
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds)).min(LONGEST)
}

/// The wait before a list or a watch is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetryWait {
    /// The Retry-After of the API server. Nothing shortens this part of the wait.
    pub(super) least: Duration,
    /// The whole wait, if no caller waits for the cache and the API server does not recover.
    pub(super) whole: Duration,
}

/// Computes the wait before a list or a watch is retried. The wait gets longer after each failure in a row.
#[derive(Default)]
pub(super) struct Retry {
    backoff: watcher::DefaultBackoff,
    /// The last success since the last failure.
    success: Option<Success>,
    /// Whether lists have failed because the API server was unreachable or answered with a 5xx.
    outage: bool,
    /// Whether the history was lost since the cache was last current for [`LONGEST`].
    lost: bool,
    /// Whether the API server refused the kind at the last failure.
    refused: bool,
}

/// A list or a watch that has succeeded.
#[derive(Clone, Copy, Debug)]
struct Success {
    at: Instant,
    is_watch: bool,
}

impl Retry {
    /// Records that a list or a watch has succeeded. Returns whether this ended an outage.
    pub(super) fn succeeded(&mut self) -> bool {
        self.success = Some(Success {
            at: Instant::now(),
            is_watch: false,
        });
        mem::take(&mut self.outage)
    }

    /// Records that the last success is a watch.
    pub(super) fn watched(&mut self) {
        if let Some(success) = &mut self.success {
            success.is_watch = true;
        }
    }

    /// Records that the history of the API server was lost. Returns whether a list may follow at once. If the history
    /// is lost again and again, lists wait as after a failure. This happens if two API servers with different histories
    /// answer in turn.
    pub(super) fn lost(&mut self) -> bool {
        let has_held = self.has_held();
        let was_lost = mem::replace(&mut self.lost, true);
        has_held || !was_lost
    }

    /// Returns whether the cache has been current for long enough to forget earlier failures.
    pub(super) fn has_held(&self) -> bool {
        self.success
            .is_some_and(|success| success.at.elapsed() >= LONGEST)
    }

    /// Returns the wait after this failure. If a watch fails soon after a list, the failure counts as if the list had
    /// failed too. Otherwise a watch that is always refused would be retried every second. The wait is at least
    /// [`LONGEST`] if the API server does not serve the kind or forbids it, as in a suspended project. Another failure
    /// after that is the first in its row: an API server that starts forbids everything first, and is often too busy next.
    /// So is a 429 after a watch. The API server has served the watch before, and says when it will serve it again, for
    /// example after each change of a CRD.
    pub(super) fn after(&mut self, error: &watcher::Error) -> RetryWait {
        if self.has_held() {
            self.backoff.reset();
            self.lost = false;
        }
        let success = self.success.take();
        // The first failure after a success is no outage: the API server has just answered.
        self.outage |= success.is_none() && is_outage(error);
        let refused = is_forbidden(error) || is_not_served(error);
        let is_busy = answer(error).is_some_and(|status| status.code == 429);
        let was_watching = success.is_some_and(|success| success.is_watch);
        if mem::replace(&mut self.refused, refused) && !refused || is_busy && was_watching {
            self.backoff.reset();
        }
        let backoff = self
            .backoff
            .find(|wait| !refused || *wait >= LONGEST)
            .unwrap_or(LONGEST);
        let least = retry_after(error);
        RetryWait {
            least,
            whole: backoff.max(least),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use api::networking::LocationBinding;

    use super::*;

    fn refused(message: &str, reason: &str, code: u16) -> watcher::Error {
        let status = Status::failure(message, reason).with_code(code).boxed();
        watcher::Error::InitialListFailed(kube::Error::Api(status))
    }

    #[test]
    fn a_problem_is_the_message_of_the_api_server_or_the_cause_of_no_answer() {
        let unreachable = io::Error::other("connection refused");
        for (error, expected) in [
            (refused("no", "Forbidden", 403), "403 Forbidden: no"),
            (refused("", "InternalError", 500), "500 InternalError"),
            (
                refused("404 page not found", "Failed to parse error data", 404),
                "the API server does not serve locationbindings.networking.datumapis.com yet",
            ),
            (
                watcher::Error::WatchError(
                    Status::failure("too old", "Expired").with_code(410).boxed(),
                ),
                "410 Expired: too old",
            ),
            (
                watcher::Error::WatchStartFailed(kube::Error::Service(Box::new(unreachable))),
                "connection refused",
            ),
        ] {
            assert_eq!(problem::<LocationBinding>(&error), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_a_list_has_held() {
        let error = refused("", "InternalError", 500);
        let mut retry = Retry::default();
        let first = Duration::from_millis(800)..=Duration::from_millis(1600);
        assert!(first.contains(&retry.after(&error).whole));
        for _ in 0..3 {
            retry.succeeded();
            retry.after(&error);
        }
        retry.succeeded();
        assert!(retry.after(&error).whole > *first.end());
        for _ in 0..4 {
            retry.after(&error);
        }
        assert!(retry.after(&error).whole >= LONGEST);
        retry.succeeded();
        tokio::time::advance(LONGEST).await;
        assert!(first.contains(&retry.after(&error).whole));
    }

    #[tokio::test(start_paused = true)]
    async fn a_history_that_is_lost_again_soon_is_listed_later() {
        let mut retry = Retry::default();
        retry.succeeded();
        assert!(retry.lost());
        retry.succeeded();
        assert!(!retry.lost());
        retry.after(&refused("", "Expired", 410));
        retry.succeeded();
        tokio::time::advance(LONGEST).await;
        assert!(retry.lost());
        // The watch ended with an error before the restore was found.
        retry.succeeded();
        tokio::time::advance(LONGEST).await;
        retry.after(&refused("", "InternalError", 500));
        assert!(retry.lost());
    }

    #[test]
    fn the_first_list_that_succeeds_ends_an_outage() {
        let unreachable = || {
            let error = io::Error::other("connection refused");
            watcher::Error::InitialListFailed(kube::Error::Service(Box::new(error)))
        };
        let ends = |errors: &[watcher::Error]| {
            let mut retry = Retry::default();
            assert!(!retry.succeeded());
            for error in errors {
                retry.after(error);
            }
            (retry.succeeded(), retry.succeeded())
        };
        let unavailable = || refused("", "ServiceUnavailable", 503);
        assert_eq!(ends(&[unavailable(), unavailable()]), (true, false));
        assert_eq!(ends(&[unavailable(), unreachable()]), (true, false));
        // A watch that is refused after a list is not an outage. A failure of only one kind is not an outage either.
        assert_eq!(ends(&[unavailable()]), (false, false));
        let forbidden = || refused("", "Forbidden", 403);
        assert_eq!(ends(&[forbidden(), forbidden()]), (false, false));
        let unread = || watcher::Error::NoResourceVersion;
        assert_eq!(ends(&[unread(), unread()]), (false, false));
    }

    #[test]
    fn refusals_and_failures_are_told_apart() {
        let refused = |reason, code| {
            let sync_state = SyncState::failed::<LocationBinding>(&refused("", reason, code));
            assert!(sync_state.problem().is_some());
            sync_state.is_refused()
        };
        assert!(refused("Forbidden", 403));
        assert!(refused("NotFound", 404));
        assert!(!refused("InternalError", 500));
        assert!(!refused("Unauthorized", 401));
    }

    #[test]
    fn a_list_waits_for_its_retry_after() {
        for (seconds, expected) in [(20, 20), (86_400, 30)] {
            let details = serde_json::json!({"retryAfterSeconds": seconds});
            let status = serde_json::json!({"code": 429, "details": details});
            let status: Status = serde_json::from_value(status).unwrap();
            let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
            let wait = Retry::default().after(&error);
            let expected = Duration::from_secs(expected);
            assert_eq!((wait.least, wait.whole), (expected, expected));
        }
        let wait = Retry::default().after(&refused("", "TooManyRequests", 429));
        assert_eq!(wait.least, Duration::ZERO);
    }

    #[test]
    fn a_refused_list_waits_for_the_longest_time_at_once() {
        for (reason, code) in [("Forbidden", 403), ("NotFound", 404)] {
            let mut retry = Retry::default();
            for _ in 0..3 {
                let wait = retry.after(&refused("", reason, code)).whole;
                assert!((LONGEST..=2 * LONGEST).contains(&wait), "{wait:?}");
            }
        }
    }

    #[test]
    fn another_failure_after_a_refusal_does_not_wait_for_the_longest_time() {
        let mut retry = Retry::default();
        retry.after(&refused("", "Forbidden", 403));
        let wait = retry.after(&refused("", "TooManyRequests", 429)).whole;
        assert!(wait <= Duration::from_millis(1600), "{wait:?}");
        let next = retry.after(&refused("", "Expired", 410)).whole;
        assert!(next < LONGEST, "{next:?}");
    }
}
