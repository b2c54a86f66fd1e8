//! One case of every metric that has labels.

use super::admission::{AdmissionLabels, AdmissionMetrics, WebhookLabels};
use super::requests::{RefusalLabels, RequestMetrics};
use super::{InterpretationLabels, Metrics, OperationLabels};

/// The value of every label.
const EXAMPLE: &str = "example";

impl Metrics {
    /// Creates one case of every metric that has labels, so that the exposition names the labels. For the reference of
    /// metrics, not for a process that serves metrics.
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
