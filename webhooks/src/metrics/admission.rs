//! Metrics of the admission webhooks.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::requests::RequestMetrics;

/// Upper bounds of the latency buckets, in seconds. An access review takes milliseconds. API servers wait for at most
/// 10 s.
const BUCKETS: [f64; 9] = [0.000_25, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

/// The metrics of the admission webhooks.
#[derive(Debug)]
pub(crate) struct AdmissionMetrics {
    pub(super) answered: Family<AdmissionLabels, Counter>,
    pub(super) seconds: Family<WebhookLabels, Histogram>,
    pub(crate) requests: RequestMetrics,
}

/// One of the admission webhooks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Webhook {
    Mutate,
    Validate,
    ValidateDeployment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AdmissionLabels {
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
            Self::ValidateDeployment => "validate_deployment",
        }
    }
}

impl AdmissionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            answered: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            requests: RequestMetrics::register("admission", "Admission requests", registry),
        };
        // An alert sees the first error only if the counter was 0 before.
        let webhooks = [
            Webhook::Mutate,
            Webhook::Validate,
            Webhook::ValidateDeployment,
        ];
        for webhook in webhooks.map(Webhook::as_str) {
            let outcome = "error";
            let labels = AdmissionLabels { webhook, outcome };
            drop(metrics.answered.get_or_create(&labels));
        }
        registry.register(
            "admission_requests",
            "Answered admission requests, by webhook and outcome: allowed, denied, or error if a required fact could not be found out",
            metrics.answered.clone(),
        );
        registry.register(
            "admission_request_seconds",
            "Time from the last byte of an admission request to its answer, including access reviews, in seconds",
            metrics.seconds.clone(),
        );
        metrics
    }

    pub(crate) fn answered(&self, webhook: Webhook, outcome: &'static str, elapsed: Duration) {
        let webhook = webhook.as_str();
        self.answered
            .get_or_create(&AdmissionLabels { webhook, outcome })
            .inc();
        self.seconds
            .get_or_create(&WebhookLabels { webhook })
            .observe(elapsed.as_secs_f64());
    }
}
