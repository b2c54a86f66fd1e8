//! What the webhook server counts.

mod admission;
mod examples;
mod intake;

use std::time::Duration;

use interpreters::{Interpretation, Kind, Operation};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use admission::Webhook;
pub(crate) use intake::Intake;

/// Upper bounds of latency, in seconds: an interpretation takes microseconds, its deadline is seconds.
const BUCKETS: [f64; 10] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5,
];

/// Counters and histograms of the webhook server.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) admission: admission::Metrics,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    pub(crate) intake: Intake,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    kind: &'static str,
}

/// The value of a label for what is not known by name: names that callers send never become labels.
const OTHER: &str = "other";

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let seconds = Family::new_with_constructor(histogram);
        registry.register(
            "interpreter_requests",
            "Interpreter requests by operation, kind and outcome: success or failure, which is answered in the protocol",
            requests.clone(),
        );
        registry.register(
            "interpreter_request_seconds",
            "Time from the last byte of an interpreter request to its answer",
            seconds.clone(),
        );
        Self {
            admission: admission::Metrics::register(registry),
            requests,
            seconds,
            intake: Intake::register("interpreter", "Interpreter requests", registry),
        }
    }

    pub(crate) fn answered(&self, interpretation: &Interpretation, elapsed: Duration) {
        let operation = interpretation.operation.map_or(OTHER, Operation::as_str);
        let kind = interpretation.kind.map_or(OTHER, Kind::as_str);
        let outcome = if interpretation.error.is_none() {
            "success"
        } else {
            "failure"
        };
        self.requests
            .get_or_create(&RequestLabels {
                operation,
                kind,
                outcome,
            })
            .inc();
        self.seconds
            .get_or_create(&OperationLabels { operation, kind })
            .observe(elapsed.as_secs_f64());
    }
}
