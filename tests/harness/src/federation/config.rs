//! What a federation is made of.

use std::path::PathBuf;

use crate::peers::Peers;

/// What to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names the federation's directory.
    pub label: String,
    /// The build's target directory, below which the federation's directory is made.
    pub target: PathBuf,
    /// The compute-federation binary.
    pub binary: PathBuf,
    /// The outside programs.
    pub peers: Peers,
    /// The cells.
    pub cells: Vec<CellConfig>,
    /// Whether compute-federation runs in the management plane and in the cells; if not, the federation is bare.
    pub managers: bool,
    /// Whether Karmada takes as long as it does by default until it counts a cell as lost or as returned, which is more than
    /// half a minute; if not, it is sooner.
    pub default_thresholds: bool,
    /// Whether the hub has an etcd of its own, which can be brought back to an older state.
    pub hub_etcd: bool,
}

/// A cell to start.
#[derive(Clone, Debug)]
pub struct CellConfig {
    /// Name of the cell.
    pub name: String,
    /// Code of its city.
    pub city: String,
    /// Whether compute-federation runs in the cell, if the federation has managers; if not, whoever uses the federation
    /// writes the status of the cell's objects.
    pub controllers: bool,
}

impl CellConfig {
    /// A cell of this name in this city.
    pub fn new(name: &str, city: &str) -> Self {
        Self {
            name: name.to_owned(),
            city: city.to_owned(),
            controllers: true,
        }
    }

    /// The same without compute-federation.
    #[must_use]
    pub fn without_controllers(self) -> Self {
        Self {
            controllers: false,
            ..self
        }
    }
}
