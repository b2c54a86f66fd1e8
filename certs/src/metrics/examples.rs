//! One case of every metric that has labels.

use super::{Metrics, ShedLabels, TlsErrorLabels};

impl Metrics {
    /// Creates one case of every metric that has labels, so that the exposition contains the label names. Only the
    /// metrics reference uses this function, never a process that serves metrics.
    pub fn record_examples(&self) {
        let labels = TlsErrorLabels { reason: "example" };
        drop(self.tls_errors.get_or_create(&labels));
        let labels = ShedLabels { reason: "example" };
        drop(self.shed.get_or_create(&labels));
    }
}
