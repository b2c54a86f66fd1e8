//! Metrics of the webhook server's certificate.

use certs::CertificateState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;

/// Encodes the state of the certificate at each scrape.
#[derive(Debug)]
pub(crate) struct CertificateCollector(pub(crate) watch::Receiver<CertificateState>);

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let state = self.0.borrow().clone();
        let mut gauge = |name: &str, help: &str, value: i64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(not_after) = state.not_after {
            gauge(
                "certificate_not_after_seconds",
                "Time at which the served webhook certificate expires, in seconds since the epoch",
                not_after.as_second(),
            )?;
        }
        if let Some(reloaded) = state.reloaded {
            gauge(
                "certificate_reloaded_seconds",
                "Time at which a certificate was last put into service, in seconds since the epoch",
                reloaded.as_second(),
            )?;
        }
        gauge(
            "certificate_valid",
            "1 if the certificate files can be served, else 0",
            i64::from(state.problem.is_none()),
        )?;
        gauge(
            "certificate_waits_for_trust",
            "1 while the certificate in the files is not served because callers do not trust its CA yet, else 0",
            i64::from(state.mounted != state.served),
        )?;
        for (name, help, count) in [
            (
                "certificate_reloads",
                "Certificates that were put into service",
                state.reloads,
            ),
            (
                "certificate_failures",
                "Changes of the certificate files to something that cannot be served",
                state.failures,
            ),
        ] {
            let metric = ConstCounter::new(count);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
