//! Metrics of connections.

mod examples;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the connections of one server.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    open: Gauge,
    tls_errors: Family<TlsErrorLabels, Counter>,
    shed: Family<ShedLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TlsErrorLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShedLabels {
    reason: &'static str,
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenConnection(Gauge);

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // An alert sees the first event only if the counter was 0 before.
        for reason in ["certificate_not_trusted", "certificate_expired"] {
            drop(metrics.tls_errors.get_or_create(&TlsErrorLabels { reason }));
        }
        for reason in ["idle", "refused"] {
            drop(metrics.shed.get_or_create(&ShedLabels { reason }));
        }
        registry.register("connections", "Open connections", metrics.open.clone());
        registry.register(
            "tls_errors",
            "Failed TLS handshakes, by reason",
            metrics.tls_errors.clone(),
        );
        registry.register(
            "connections_shed",
            "Connections that were closed because a limit of connections was reached, by reason: idle (idle for the longest time) or refused (new, and no connection was idle)",
            metrics.shed.clone(),
        );
        metrics
    }

    pub(crate) fn opened(&self) -> OpenConnection {
        self.open.inc();
        OpenConnection(self.open.clone())
    }

    pub(crate) fn shed(&self, reason: &'static str) {
        self.shed.get_or_create(&ShedLabels { reason }).inc();
    }

    pub(crate) fn tls_error(&self, reason: &'static str) {
        self.tls_errors
            .get_or_create(&TlsErrorLabels { reason })
            .inc();
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
