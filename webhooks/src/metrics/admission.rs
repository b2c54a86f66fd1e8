//! What admission counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Intake;

/// Upper bounds of latency, in seconds: an access review takes milliseconds, and the caller's deadline is 10 s.
const BUCKETS: [f64; 9] = [0.000_25, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

/// Counters and histograms of admission.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) seconds: Family<WebhookLabels, Histogram>,
    pub(crate) intake: Intake,
}

/// A webhook of admission.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Webhook {
    Mutate,
    Validate,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) webhook: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) webhook: &'static str,
}

impl Webhook {
    fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            intake: Intake::register("admission", "Admission requests", registry),
        };
        registry.register(
            "admission_requests",
            "Admission requests by webhook and outcome: allowed, denied, or error, where it could not be decided",
            metrics.requests.clone(),
        );
        registry.register(
            "admission_request_seconds",
            "Time from the last byte of an admission request to its answer, access reviews included",
            metrics.seconds.clone(),
        );
        metrics
    }

    pub(crate) fn answered(&self, webhook: Webhook, outcome: &'static str, elapsed: Duration) {
        let webhook = webhook.as_str();
        self.requests
            .get_or_create(&RequestLabels { webhook, outcome })
            .inc();
        self.seconds
            .get_or_create(&WebhookLabels { webhook })
            .observe(elapsed.as_secs_f64());
    }
}
