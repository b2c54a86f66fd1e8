//! What is counted of requests before they are answered, whatever their protocol.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters of the requests of one protocol.
#[derive(Debug)]
pub(crate) struct Intake {
    /// The protocol, as metrics and the log name it.
    pub(crate) protocol: &'static str,
    pub(super) refused: Family<RefusedLabels, Counter>,
    in_flight: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusedLabels {
    pub(super) reason: &'static str,
}

/// A request that is being read or answered.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Intake {
    /// Registers the counters; `requests` is how the protocol's requests are named in a sentence.
    pub(super) fn register(
        protocol: &'static str,
        requests: &str,
        registry: &mut Registry,
    ) -> Self {
        let (refused, in_flight) = (Family::default(), Gauge::default());
        registry.register(
            format!("{protocol}_requests_refused"),
            format!("{requests} that were answered as an HTTP error, by reason"),
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
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }
}
