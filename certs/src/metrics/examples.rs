//! One case of every metric that has labels.

use super::{Metrics, TlsErrorLabels};

impl Metrics {
    /// Creates one case of every metric that has labels, so that the exposition names the labels. For the reference of
    /// metrics, not for a process that serves metrics.
    pub fn record_examples(&self) {
        let labels = TlsErrorLabels { reason: "example" };
        drop(self.tls_errors.get_or_create(&labels));
    }
}
