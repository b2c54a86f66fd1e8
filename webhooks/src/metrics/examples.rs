//! One case of every metric that has labels.

use super::{Metrics, OperationLabels, RequestLabels};
use super::{admission, intake};

/// The value of every label.
const EXAMPLE: &str = "example";

impl Metrics {
    /// Creates one case of every metric that has labels, so that the exposition names the labels. For the reference of
    /// metrics, not for a process that serves metrics.
    pub fn record_examples(&self) {
        let (operation, kind, outcome) = (EXAMPLE, EXAMPLE, EXAMPLE);
        drop(self.requests.get_or_create(&RequestLabels {
            operation,
            kind,
            outcome,
        }));
        drop(
            self.seconds
                .get_or_create(&OperationLabels { operation, kind }),
        );
        self.intake.record_examples();
        self.admission.record_examples();
    }
}

impl admission::Metrics {
    fn record_examples(&self) {
        let (webhook, outcome) = (EXAMPLE, EXAMPLE);
        drop(
            self.requests
                .get_or_create(&admission::RequestLabels { webhook, outcome }),
        );
        drop(
            self.seconds
                .get_or_create(&admission::WebhookLabels { webhook }),
        );
        self.intake.record_examples();
    }
}

impl intake::Intake {
    fn record_examples(&self) {
        let labels = intake::RefusedLabels { reason: EXAMPLE };
        drop(self.refused.get_or_create(&labels));
    }
}
