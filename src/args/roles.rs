//! The flags of the roles of the manager.

use clap::ArgAction;

use super::values::boolean;

/// The controllers that the manager runs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct RoleArgs {
    /// Run the controllers of the management plane, which copy WorkloadDeployments to the hub and their status back.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_management_controllers: bool,

    /// Run the controllers of a cell, which create Instances and write their status to the hub. Needs
    /// discovery.clusterName in the config file.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_cell_controllers: bool,

    /// Run the controller of a lower hub, which is the own cluster. It reports the cells of the lower hub to the upper
    /// hub. Needs discovery.clusterName in the config file, the name of the Cluster of the lower hub on the upper hub.
    /// Cannot be combined with the other roles.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_lower_hub_controllers: bool,
}

impl RoleArgs {
    /// Returns whether the manager runs controllers.
    pub(crate) fn has_controllers(self) -> bool {
        self.enable_management_controllers
            || self.enable_cell_controllers
            || self.enable_lower_hub_controllers
    }

    /// Returns whether the manager belongs to the plane that manages the hub of `--federation-kubeconfig`, and not to a
    /// cell or a lower hub below it.
    pub(crate) fn manages_the_hub(self) -> bool {
        !self.enable_cell_controllers && !self.enable_lower_hub_controllers
    }
}
