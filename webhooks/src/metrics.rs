//! Metrics of the webhook server.

mod admission;
mod examples;
mod requests;

use std::time::Duration;

use interpreters::{Interpretation, InterpretedKind, Operation};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use admission::{AdmissionMetrics, Webhook};
pub(crate) use requests::{InFlightGuard, RequestMetrics};

/// Upper bounds of the latency buckets, in seconds. An interpretation takes microseconds. Karmada waits for seconds.
const BUCKETS: [f64; 10] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5,
];

/// Metrics of the webhook server.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) admission: AdmissionMetrics,
    answered: Family<InterpretationLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    pub(crate) requests: RequestMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InterpretationLabels {
    operation: &'static str,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    kind: &'static str,
}

/// Label value of an unknown operation or kind. A name from a request never becomes a label value.
const OTHER: &str = "other";

/// Label value of the outcome of an object that could not be interpreted.
const FAILURE: &str = "failure";

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let answered = Family::<InterpretationLabels, Counter>::default();
        // An alert sees the first failure only if the counter was 0 before.
        for operation in Operation::ALL {
            for kind in InterpretedKind::ALL {
                drop(answered.get_or_create(&InterpretationLabels {
                    operation: operation.as_str(),
                    kind: kind.as_str(),
                    outcome: FAILURE,
                }));
            }
        }
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let seconds = Family::new_with_constructor(histogram);
        registry.register(
            "interpreter_requests",
            "Answered interpreter requests, by operation, kind and outcome: success, or failure if the object could not be interpreted",
            answered.clone(),
        );
        registry.register(
            "interpreter_request_seconds",
            "Time from the last byte of an interpreter request to its answer, in seconds",
            seconds.clone(),
        );
        Self {
            admission: AdmissionMetrics::register(registry),
            answered,
            seconds,
            requests: RequestMetrics::register("interpreter", "Interpreter requests", registry),
        }
    }

    pub(crate) fn answered(&self, interpretation: &Interpretation, elapsed: Duration) {
        let operation = interpretation.operation.map_or(OTHER, Operation::as_str);
        let kind = interpretation.kind.map_or(OTHER, InterpretedKind::as_str);
        let outcome = if interpretation.error.is_none() {
            "success"
        } else {
            FAILURE
        };
        self.answered
            .get_or_create(&InterpretationLabels {
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
