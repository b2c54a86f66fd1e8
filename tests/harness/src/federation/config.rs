//! Configuration of a federation.

use std::path::PathBuf;

use crate::peers::Peers;

/// The parts to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Prefix of the federation's directory.
    pub label: String,
    /// Cargo's target directory. The federation's directory is created below it.
    pub target: PathBuf,
    /// The compute-federation binary.
    pub binary: PathBuf,
    /// The external programs.
    pub peers: Peers,
    /// The cells.
    pub cells: Vec<CellConfig>,
    /// Whether compute-federation runs in the management plane and in the cells. A federation without it is called bare.
    pub managers: bool,
    /// Whether Karmada uses its default thresholds (more than half a minute) before it marks a cell as lost or
    /// recovered. Otherwise the thresholds are shorter.
    pub default_thresholds: bool,
    /// Whether the hub has an etcd of its own, which can be restored from a snapshot.
    pub hub_etcd: bool,
}

/// A cell to start.
#[derive(Clone, Debug)]
pub struct CellConfig {
    /// Name of the cell.
    pub name: String,
    /// Code of its city.
    pub city: String,
    /// Whether compute-federation runs in the cell, if the federation has managers. Otherwise the test writes the
    /// status of the cell's objects.
    pub controllers: bool,
}

impl CellConfig {
    /// Describes a cell of this name in this city.
    pub fn new(name: &str, city: &str) -> Self {
        Self {
            name: name.to_owned(),
            city: city.to_owned(),
            controllers: true,
        }
    }

    /// Returns the same cell without compute-federation.
    #[must_use]
    pub fn without_controllers(self) -> Self {
        Self {
            controllers: false,
            ..self
        }
    }
}
