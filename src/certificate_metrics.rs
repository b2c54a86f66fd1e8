//! Metrics of the certificates.

use certs::CertificateState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;

/// Encodes the problem of each server's certificate files at each scrape.
#[derive(Debug)]
pub(crate) struct ProblemCollector(pub(crate) Vec<(Server, watch::Receiver<CertificateState>)>);

/// A server with a certificate, as the value of the label `server`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Server {
    Webhooks,
    Metrics,
}

impl Server {
    fn as_str(self) -> &'static str {
        match self {
            Self::Webhooks => "webhooks",
            Self::Metrics => "metrics",
        }
    }
}

impl Collector for ProblemCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut metric = encoder.encode_descriptor(
            "certificate_problem",
            "1 while the certificate files of a server cannot be used, by server and reason",
            None,
            MetricType::Gauge,
        )?;
        for (server, state) in &self.0 {
            if let Some(problem) = &state.borrow().problem {
                let labels = [("server", server.as_str()), ("reason", problem.reason)];
                ConstGauge::new(1_i64).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Encodes the state of the webhook server's certificate at each scrape.
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
                "Time at which the served webhook certificate or its authority expires, in seconds since the epoch",
                not_after.as_second(),
            )?;
        }
        if let Some(not_before) = state.not_before {
            gauge(
                "certificate_not_before_seconds",
                "Begin of the validity period whose end is in `compute_federation_certificate_not_after_seconds`, in seconds since the epoch",
                not_before.as_second(),
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
                "Times that the certificate files became unusable: they changed or expired, or the expected names changed",
                state.failures,
            ),
        ] {
            let metric = ConstCounter::new(count);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
