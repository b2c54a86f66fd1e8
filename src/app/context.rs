//! The state that the parts of the process share during wiring.

use multicluster::Tasks;
use multicluster::lease::Leadership;
use prometheus_client::registry::Registry;

use crate::args::Args;
use crate::config::Config;
use crate::leadership;
use crate::logging;
use crate::serving::Servers;

/// The state that the parts of the process share during wiring.
pub(super) struct AppContext {
    pub(super) args: Args,
    pub(super) registry: Registry,
    /// The metrics of a cell that have the names of the Go manager.
    pub(super) cell_registry: Registry,
    pub(super) planes_metrics: multicluster::Metrics,
    /// The controllers. They stop first.
    pub(super) controllers: Tasks,
    /// The servers. They stop last.
    pub(super) servers: Servers,
    pub(super) leadership: Leadership,
}

impl AppContext {
    pub(super) fn new(args: Args) -> Self {
        let mut registry = Registry::with_prefix("compute_federation");
        logging::register(&mut registry);
        let planes_metrics = multicluster::Metrics::register(&mut registry);
        let mut cell_registry = Registry::with_prefix("compute");
        if args.roles.enable_cell_controllers {
            planes_metrics.register_cell(&mut cell_registry);
        }
        Self {
            leadership: leadership::initial(&args),
            args,
            registry,
            cell_registry,
            planes_metrics,
            controllers: Tasks::default(),
            servers: Servers::default(),
        }
    }

    /// Returns whether the webhook server answers admission requests. In a cell and on a lower hub the result is
    /// `false`, because neither has Workloads.
    pub(super) fn serves_admission(&self, config: &Config) -> bool {
        config.webhooks.is_some() && self.args.roles.manages_the_hub()
    }
}
