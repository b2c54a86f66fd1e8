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
                "When the certificate that webhooks are served with expires",
                not_after.as_second(),
            )?;
        }
        if let Some(reloaded) = state.reloaded {
            gauge(
                "certificate_reloaded_seconds",
                "When a certificate was last taken into service",
                reloaded.as_second(),
            )?;
        }
        gauge(
            "certificate_valid",
            "Whether the files of the certificate can be served (1) or not (0)",
            i64::from(state.problem.is_none()),
        )?;
        gauge(
            "certificate_waits_for_trust",
            "Whether the certificate of the files waits until callers trust its authorities (1) or not (0)",
            i64::from(state.mounted != state.served),
        )?;
        for (name, help, count) in [
            (
                "certificate_reloads",
                "Certificates that were taken into service",
                state.reloads,
            ),
            (
                "certificate_failures",
                "Certificates that could not be served",
                state.failures,
            ),
        ] {
            let metric = ConstCounter::new(count);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
