//! Metrics of requests that do not depend on their protocol.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the requests of one protocol.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    /// The name of the protocol in metrics and in the log.
    pub(crate) protocol: &'static str,
    pub(super) refused: Family<RefusalLabels, Counter>,
    in_flight: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    pub(super) reason: &'static str,
}

/// Counts a request as in flight until it is dropped.
pub(crate) struct InFlightGuard(Gauge);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl RequestMetrics {
    /// Registers the metrics. `requests` names the protocol's requests at the beginning of a HELP text.
    pub(super) fn register(
        protocol: &'static str,
        requests: &str,
        registry: &mut Registry,
    ) -> Self {
        let (refused, in_flight) = (Family::default(), Gauge::default());
        registry.register(
            format!("{protocol}_requests_refused"),
            format!("{requests} that were answered with an HTTP error, by reason"),
            refused.clone(),
        );
        registry.register(
            format!("{protocol}_requests_in_flight"),
            format!("{requests} that are being read or answered"),
            in_flight.clone(),
        );
        Self {
            protocol,
            refused,
            in_flight,
        }
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusalLabels { reason }).inc();
    }

    pub(crate) fn in_flight(&self) -> InFlightGuard {
        self.in_flight.inc();
        InFlightGuard(self.in_flight.clone())
    }
}
