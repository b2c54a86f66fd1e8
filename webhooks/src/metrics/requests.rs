//! Metrics of requests. The metrics are the same for both webhook protocols.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::http_error::HttpError;

/// The metrics of the requests of one protocol.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    /// The name of the protocol in metrics and in logs.
    pub(crate) protocol: &'static str,
    pub(super) refused: Family<RefusalLabels, Counter>,
    in_flight: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    pub(super) reason: &'static str,
}

/// Counts one request as in flight. Dropping the value ends the count.
#[derive(Debug)]
pub(crate) struct InFlightGuard(Gauge);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl RequestMetrics {
    /// Registers the metrics. `requests` is the name of the requests of the protocol, and the first words of each HELP
    /// text.
    pub(crate) fn register(
        protocol: &'static str,
        requests: &str,
        registry: &mut Registry,
    ) -> Self {
        let refused = Family::<RefusalLabels, Counter>::default();
        let in_flight = Gauge::default();
        // An alert sees the first refusal only if the counter was 0 before.
        for reason in HttpError::REASONS {
            drop(refused.get_or_create(&RefusalLabels { reason }));
        }
        registry.register(
            format!("{protocol}_requests_refused"),
            format!("{requests} that were answered with an HTTP error, by reason"),
            refused.clone(),
        );
        registry.register(
            format!("{protocol}_requests_in_flight"),
            format!("{requests} whose answer the client has not taken yet"),
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
