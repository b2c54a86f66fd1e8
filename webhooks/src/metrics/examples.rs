//! One sample of every metric that has labels.

use super::admission::{AdmissionLabels, AdmissionMetrics, WebhookLabels};
use super::requests::{RefusalLabels, RequestMetrics};
use super::{InterpretationLabels, Metrics, OperationLabels};

/// The value of every label in the samples.
const EXAMPLE: &str = "example";

impl Metrics {
    /// Creates one sample of every metric that has labels. Without a sample, the exposition does not contain the names
    /// of the labels. Only the reference of metrics needs these samples. A process that serves metrics must not call
    /// this function.
    pub fn record_examples(&self) {
        let (operation, kind, outcome) = (EXAMPLE, EXAMPLE, EXAMPLE);
        drop(self.answered.get_or_create(&InterpretationLabels {
            operation,
            kind,
            outcome,
        }));
        drop(
            self.seconds
                .get_or_create(&OperationLabels { operation, kind }),
        );
        self.requests.record_examples();
        self.admission.record_examples();
    }
}

impl AdmissionMetrics {
    fn record_examples(&self) {
        let (webhook, outcome) = (EXAMPLE, EXAMPLE);
        drop(
            self.answered
                .get_or_create(&AdmissionLabels { webhook, outcome }),
        );
        drop(self.seconds.get_or_create(&WebhookLabels { webhook }));
        self.requests.record_examples();
    }
}

impl RequestMetrics {
    fn record_examples(&self) {
        let labels = RefusalLabels { reason: EXAMPLE };
        drop(self.refused.get_or_create(&labels));
    }
}
