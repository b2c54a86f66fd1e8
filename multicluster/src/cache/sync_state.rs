//! Whether a cache holds what the API server has.

use std::error::Error;
use std::mem;
use std::time::Duration;

use kube::Resource;
use kube::core::Status;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use tokio::time::Instant;

/// The longest wait before a list is tried again, without its jitter; the default of `kube`, as of client-go.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether a cache holds what the API server has, as far as its watch has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SyncState {
    /// Nothing has been listed yet.
    #[default]
    Listing,
    /// Everything has been listed, and the watch has not failed since.
    Current,
    /// The list or the watch has failed, and nothing has been listed since: what is in the cache may have changed.
    Failing {
        /// What the API server said, or why it could not be asked; for the eyes of a user.
        problem: String,
    },
    /// The API server does not allow to list or watch the kind. What was in the cache stays there.
    Forbidden {
        /// What the API server said; for the eyes of a user.
        problem: String,
    },
    /// The API server does not serve the kind, as without its CustomResourceDefinition. That is no proof that there are no
    /// objects: what was in the cache stays there.
    NotServed {
        /// That it does not serve it; for the eyes of a user.
        problem: String,
    },
}

impl SyncState {
    /// What has failed, with this error.
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

    /// What keeps the cache from being current, for the eyes of a user, if that is known.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Listing | Self::Current => None,
            Self::Failing { problem }
            | Self::Forbidden { problem }
            | Self::NotServed { problem } => Some(problem),
        }
    }

    /// Whether the API server has answered that there is nothing to be known here, which time alone will not change.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::NotServed { .. })
    }

    /// Whether the cache holds what the API server has.
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// What went wrong with a watch of this kind, in the API server's own words where it answered. A kind that it does not serve
/// is named: its own words are that it could not find what was asked for.
fn problem<K: Resource<DynamicType = ()>>(error: &watcher::Error) -> String {
    if let Some(status) = answer(error) {
        if is_not_served(error) {
            let kind = match (K::plural(&()), K::group(&())) {
                (plural, group) if group.is_empty() => plural.into_owned(),
                (plural, group) => format!("{plural}.{group}"),
            };
            return format!("the API server does not serve {kind} yet");
        }
        let (code, reason) = (status.code, &status.reason);
        return match status.message.as_str() {
            "" => format!("{code} {reason}"),
            message => format!("{code} {reason}: {message}"),
        };
    }
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            // What it wraps says it better.
            kube::Error::Service(error) => chain(&**error),
            error => chain(error),
        },
        error => error.to_string(),
    }
}

/// Whether a watch broke off with its connection, so that nothing that came over it was lost.
pub(super) fn is_interruption(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchFailed(kube::Error::ReadEvents(_))
    )
}

/// Whether the API server could not be reached, or could not answer, whatever it was asked for.
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

/// Whether the API server does not know the kind.
fn is_not_served(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| status.code == 404)
}

/// Whether the API server does not allow it.
fn is_forbidden(error: &watcher::Error) -> bool {
    answer(error).is_some_and(Status::is_forbidden)
}

/// What the API server answered, if it did.
fn answer(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

/// An error with its sources, each said once.
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

/// How long to wait before a list is tried again: longer with each failure that follows another.
#[derive(Default)]
pub(super) struct Retry {
    backoff: watcher::DefaultBackoff,
    current_since: Option<Instant>,
    /// Whether lists have failed because the API server was out.
    outage: bool,
}

impl Retry {
    /// Notes that everything has been listed, and says whether an outage has ended with that.
    pub(super) fn succeeded(&mut self) -> bool {
        self.current_since = Some(Instant::now());
        mem::take(&mut self.outage)
    }

    /// The wait after this failure. One that follows a list at once counts as if there had been no list, so that a watch
    /// which is always refused is not begun every second. An API server that forbids to list, as that of a suspended
    /// project may, or does not serve the kind, is left in peace for the longest time.
    pub(super) fn after(&mut self, error: &watcher::Error) -> Duration {
        let since = self.current_since.take();
        // Where lists are served and watches are not, a list proves nothing.
        self.outage |= since.is_none() && is_outage(error);
        if since.is_some_and(|since| since.elapsed() >= LONGEST) {
            self.backoff.reset();
        }
        let patient = is_forbidden(error) || is_not_served(error);
        self.backoff
            .find(|wait| !patient || *wait >= LONGEST)
            .unwrap_or(LONGEST)
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
    fn a_problem_is_what_the_api_server_said_or_the_cause_that_it_could_not_be_asked() {
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
        assert!(first.contains(&retry.after(&error)));
        for _ in 0..3 {
            retry.succeeded();
            retry.after(&error);
        }
        retry.succeeded();
        assert!(retry.after(&error) > *first.end());
        for _ in 0..4 {
            retry.after(&error);
        }
        assert!(retry.after(&error) >= LONGEST);
        retry.succeeded();
        tokio::time::advance(LONGEST).await;
        assert!(first.contains(&retry.after(&error)));
    }

    #[test]
    fn an_outage_is_over_with_the_first_list_after_lists_that_failed() {
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
        // A watch that is refused after a list, and what is said of one kind alone.
        assert_eq!(ends(&[unavailable()]), (false, false));
        let forbidden = || refused("", "Forbidden", 403);
        assert_eq!(ends(&[forbidden(), forbidden()]), (false, false));
        let unread = || watcher::Error::NoResourceVersion;
        assert_eq!(ends(&[unread(), unread()]), (false, false));
    }

    #[test]
    fn a_refusal_is_told_from_a_failure() {
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
    fn who_forbids_or_does_not_serve_is_left_in_peace_at_once() {
        for (reason, code) in [("Forbidden", 403), ("NotFound", 404)] {
            let mut retry = Retry::default();
            for _ in 0..3 {
                let wait = retry.after(&refused("", reason, code));
                assert!((LONGEST..=2 * LONGEST).contains(&wait), "{wait:?}");
            }
        }
    }
}
