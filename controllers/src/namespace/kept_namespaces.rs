//! The hub namespaces that stay because they are not empty, or because the project does not confirm that its Namespace
//! is gone. For each hub namespace, records the number of checks and the logged reason.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::HubNamespace;
use tracing::warn;

/// Wait after the first check. Objects that Karmada created in the namespace are deleted within seconds. The wait
/// doubles with each check.
const FIRST: Duration = Duration::from_secs(5);
/// Longest wait between two checks.
const LONGEST: Duration = Duration::from_mins(10);
/// The number of the first check that logs the reason. It happens 35 s after the first check. Earlier checks may find
/// objects that are being deleted.
const LASTING: u32 = 4;

#[derive(Default)]
pub(super) struct KeptNamespaces(Mutex<BTreeMap<HubNamespace, Looks>>);

#[derive(Default)]
struct Looks {
    count: u32,
    reported: Option<String>,
}

impl KeptNamespaces {
    /// Records why a namespace stays. Logs the reason once if it lasts. Returns the wait until the next check.
    pub(super) fn note(&self, namespace: &HubNamespace, reason: &str) -> Duration {
        self.look(namespace, reason).0
    }

    /// Returns the wait until the next check, and whether the reason was logged.
    fn look(&self, namespace: &HubNamespace, reason: &str) -> (Duration, bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = kept.entry(namespace.clone()).or_default();
        looks.count = looks.count.saturating_add(1);
        let news = looks.count >= LASTING && looks.reported.as_deref() != Some(reason);
        if news {
            warn!(%namespace, reason, "hub namespace stays, although its project does not have or does not confirm the Namespace");
            looks.reported = Some(reason.to_owned());
        }
        let doubled = FIRST.saturating_mul(1 << looks.count.saturating_sub(1).min(16));
        (doubled.min(LONGEST), news)
    }

    /// Forgets a hub namespace that is gone or in use.
    pub(super) fn settle(&self, namespace: &HubNamespace) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_reason_is_logged_once_and_checked_less_often() {
        let (kept, namespace) = (
            KeptNamespaces::default(),
            HubNamespace::new("ns-1").unwrap(),
        );
        let looks = |reason| {
            let (wait, news) = kept.look(&namespace, reason);
            (wait.as_secs(), news)
        };
        assert_eq!(
            [looks("a"), looks("a"), looks("b")],
            [(5, false), (10, false), (20, false)]
        );
        assert_eq!(
            [looks("b"), looks("b"), looks("a")],
            [(40, true), (80, false), (160, true)]
        );
        assert_eq!(
            [looks("a"), looks("a"), looks("a")],
            [(320, false), (600, false), (600, false)]
        );
        kept.settle(&namespace);
        assert_eq!(looks("a"), (5, false));
    }
}
