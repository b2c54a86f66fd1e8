//! Hub namespaces that stay though the project's namespace is gone: how often each was looked at, and what was said.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::HubNamespace;
use tracing::warn;

/// The wait after the first look: what Karmada has made goes within seconds. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(10);
/// From this look on, half a minute after the first, it is not only on its way.
const LASTING: u32 = 4;

#[derive(Default)]
pub(super) struct KeptNamespaces(Mutex<BTreeMap<HubNamespace, Looks>>);

#[derive(Default)]
struct Looks {
    count: u32,
    reported: Option<String>,
}

impl KeptNamespaces {
    /// Notes why a namespace stays; a reason that lasts is reported once. Says when to look again.
    pub(super) fn note(&self, namespace: &HubNamespace, reason: &str) -> Duration {
        self.look(namespace, reason).0
    }

    /// The wait, and whether the reason was reported.
    fn look(&self, namespace: &HubNamespace, reason: &str) -> (Duration, bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = kept.entry(namespace.clone()).or_default();
        looks.count = looks.count.saturating_add(1);
        let news = looks.count >= LASTING && looks.reported.as_deref() != Some(reason);
        if news {
            warn!(%namespace, reason, "hub namespace stays though the project has no namespace that it stands for, or does not say so");
            looks.reported = Some(reason.to_owned());
        }
        let doubled = FIRST.saturating_mul(1 << looks.count.saturating_sub(1).min(16));
        (doubled.min(LONGEST), news)
    }

    /// There is nothing to say of the namespace, or nothing any more.
    pub(super) fn settle(&self, namespace: &HubNamespace) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_lasts_is_reported_once_and_looked_at_less_and_less() {
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
