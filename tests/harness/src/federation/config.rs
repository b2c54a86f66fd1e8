//! Configuration of a federation.

use std::path::PathBuf;

use crate::network_operator::Generation;
use crate::peers::Peers;

/// The parts to start.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each turns one part on")]
pub struct Config {
    /// Prefix of the name of the federation's directory.
    pub label: String,
    /// Cargo's target directory. The federation's directory is created below it.
    pub target: PathBuf,
    /// The compute-federation binary.
    pub binary: PathBuf,
    /// The external programs.
    pub peers: Peers,
    /// The cells.
    pub cells: Vec<CellConfig>,
    /// Whether compute-federation runs in the management plane and in the cells. If not, the federation is called bare.
    pub managers: bool,
    /// Whether Karmada uses its default thresholds to mark a cell as lost or recovered. With the defaults, this takes
    /// more than half a minute. Otherwise the thresholds are shorter.
    pub default_thresholds: bool,
    /// Whether the hub has its own etcd. Only such an etcd can be restored from a snapshot.
    pub hub_etcd: bool,
    /// Whether the cells enforce quota. Start a [`QuotaSystem`](crate::QuotaSystem) in the project then.
    pub quota: bool,
    /// `networking.strategy` of the cells. Start a [`NetworkOperator`](crate::NetworkOperator) in each of them then.
    pub networking: Option<&'static str>,
    /// The kinds of the network operator that the cells serve from the beginning. A cell that starts without them looks
    /// for them every minute.
    pub network_kinds: Option<Generation>,
}

/// A cell to start.
#[derive(Clone, Debug)]
pub struct CellConfig {
    /// Name of the cell.
    pub name: String,
    /// City code of the cell.
    pub city: String,
    /// Whether compute-federation runs in the cell. Has an effect only if the federation has managers. Without
    /// compute-federation, the test writes the status of the objects in the cell.
    pub controllers: bool,
}

impl CellConfig {
    /// Creates the configuration of a cell with this name in this city.
    pub fn new(name: &str, city: &str) -> Self {
        Self {
            name: name.to_owned(),
            city: city.to_owned(),
            controllers: true,
        }
    }

    /// Returns the same configuration without compute-federation in the cell.
    #[must_use]
    pub fn without_controllers(self) -> Self {
        Self {
            controllers: false,
            ..self
        }
    }
}
