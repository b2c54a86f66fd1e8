//! One case of every metric that has labels.

use super::{
    CacheLabels, ControllerLabels, EventLabels, KindLabels, Metrics, OutageLabels,
    QuarantineLabels, ReconcileLabels, WriteLabels,
};

/// The value of every label.
const EXAMPLE: &str = "example";

impl Metrics {
    /// Creates one case of every metric that has labels, so that the exposition contains the label names. Only the
    /// metrics reference uses this function, never a process that serves metrics.
    pub fn record_examples(&self) {
        let (controller, result, trouble) = (EXAMPLE, EXAMPLE, EXAMPLE);
        let (verb, outcome, reason) = (EXAMPLE, EXAMPLE, EXAMPLE);
        let (plane, kind) = (EXAMPLE.to_owned(), EXAMPLE.to_owned());
        let of_controller = ControllerLabels { controller };
        let of_write = WriteLabels {
            controller,
            verb,
            kind: kind.clone(),
        };
        drop(
            self.reconciles
                .get_or_create(&ReconcileLabels { controller, result }),
        );
        drop(self.reconcile_seconds.get_or_create(&of_controller));
        drop(self.queue_depth.get_or_create(&of_controller));
        drop(self.queue_keys.get_or_create(&of_controller));
        drop(self.queue_groups_in_trouble.get_or_create(&OutageLabels {
            controller,
            trouble,
        }));
        let of_kind = KindLabels { kind: kind.clone() };
        drop(self.projects_failing_kinds.get_or_create(&of_kind));
        let labels = CacheLabels { plane, kind };
        drop(self.cached.get_or_create(&labels));
        drop(self.undecodable.get_or_create(&labels));
        drop(
            self.quarantined_objects
                .get_or_create(&QuarantineLabels { reason }),
        );
        drop(self.events.get_or_create(&EventLabels { outcome }));
        drop(self.writes.get_or_create(&of_write));
        drop(self.propagation_seconds.get_or_create(&of_write));
    }
}
