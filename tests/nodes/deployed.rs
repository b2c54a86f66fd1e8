//! compute-federation as Pods, installed as the documentation says: two replicas of the management process with
//! certificates of the CSI driver, and the process of a cell.

#[path = "deployed/changes.rs"]
mod changes;
#[path = "deployed/flow.rs"]
mod flow;
#[path = "deployed/former.rs"]
mod former;
#[path = "deployed/interpreter.rs"]
mod interpreter;
#[path = "deployed/kills.rs"]
mod kills;
#[path = "deployed/load.rs"]
mod load;
#[path = "deployed/objects.rs"]
mod objects;
#[path = "deployed/replicas.rs"]
mod replicas;
#[path = "deployed/resources.rs"]
mod resources;
#[path = "deployed/single.rs"]
mod single;
#[path = "deployed/webhooks.rs"]
mod webhooks;

use std::time::Duration;

use harness::peers::Peers;
use harness::{CellConfig, Installation, InstallationConfig};

pub(crate) use changes::{no_call_fails_during_planned_changes, renewals_and_another_authority};
pub(crate) use flow::{a_workload_goes_all_the_way_and_back, containers_run_as_the_manifest_says};
pub(crate) use former::the_go_manager_is_replaced_and_restored;
pub(crate) use interpreter::the_interpreter_answers_without_the_management_process;
pub(crate) use kills::{
    a_killed_leader_costs_only_the_calls_in_flight,
    a_leader_out_of_memory_costs_only_the_calls_in_flight,
};
pub(crate) use resources::memory_and_cpu_of_the_pods;
pub(crate) use single::a_single_cluster_is_its_own_project;

use crate::fixture;

/// Time limit for one change to pass through all planes, on a machine with two cores.
const WITHIN: Duration = Duration::from_mins(2);
/// The cell, and its city.
const CELL: &str = "dfw1";
const CITY: &str = "DFW";

/// Returns the configuration of an installation with one cell.
fn config() -> anyhow::Result<InstallationConfig> {
    Ok(InstallationConfig {
        target: fixture::target(),
        binary: fixture::binary(),
        peers: Peers::find_or_build(|progress| eprintln!("{progress}"))?,
        programs: fixture::programs()?,
        cells: vec![CellConfig::new(CELL, CITY)],
    })
}

/// Installs compute-federation with one cell, and prints the time.
pub(crate) async fn install() -> anyhow::Result<Installation> {
    let installation = Installation::start(&config()?).await?;
    let (booted, ready) = installation.ready_after();
    eprintln!(
        "clusters ready after {:.1} s, compute-federation after {:.1} s, in {}",
        booted.as_secs_f64(),
        ready.as_secs_f64(),
        installation.directory().display()
    );
    Ok(installation)
}
