//! The age of what waits longest, computed at each scrape.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::clock::Clock;

/// Since when the one waits that waits longest. `None` if none waits.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingSince(Arc<Mutex<Option<Timestamp>>>);

impl WaitingSince {
    pub(super) fn set(&self, since: Option<Timestamp>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Returns the metric of this name.
    pub(super) fn collector(
        &self,
        name: &'static str,
        help: &'static str,
        clock: Clock,
    ) -> WaitingCollector {
        WaitingCollector {
            name,
            help,
            since: self.clone(),
            clock,
        }
    }
}

/// Encodes the age in seconds.
pub(super) struct WaitingCollector {
    name: &'static str,
    help: &'static str,
    since: WaitingSince,
    clock: Clock,
}

impl fmt::Debug for WaitingCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitingCollector").field(&self.name).finish()
    }
}

impl Collector for WaitingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let since = *self.since.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = since.map_or(0, |since| {
            (self.clock)().duration_since(since).as_secs().max(0)
        });
        let metric = ConstGauge::new(age);
        metric.encode(encoder.encode_descriptor(
            self.name,
            self.help,
            None,
            metric.metric_type(),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn the_age_grows_without_a_record() {
        let metrics = crate::Metrics::default();
        let scrape = |clock: Clock| {
            let mut registry = Registry::default();
            metrics.register_cell_with(&mut registry, clock);
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        metrics.quota_waiting(Some(at(100)));
        let early = scrape(|| Timestamp::from_second(130).unwrap());
        assert!(
            early.contains("\nquota_claims_waiting_seconds 30\n"),
            "{early}"
        );
        assert!(early.contains("\nnetworks_waiting_seconds 0\n"), "{early}");
        let later = scrape(|| Timestamp::from_second(190).unwrap());
        assert!(
            later.contains("\nquota_claims_waiting_seconds 90\n"),
            "{later}"
        );
        metrics.networks_waiting(Some(at(150)));
        metrics.quota_waiting(None);
        let later = scrape(|| Timestamp::from_second(190).unwrap());
        assert!(
            later.contains("\nquota_claims_waiting_seconds 0\n"),
            "{later}"
        );
        assert!(later.contains("\nnetworks_waiting_seconds 40\n"), "{later}");
    }
}
