//! compute-federation as Pods, installed as the documentation says: two replicas of the management process with
//! certificates of the CSI driver, and the process of a cell.

#[path = "deployed/changes.rs"]
mod changes;
#[path = "deployed/documentation.rs"]
mod documentation;
#[path = "deployed/flow.rs"]
mod flow;
#[path = "deployed/image.rs"]
mod image;
#[path = "deployed/load.rs"]
mod load;
#[path = "deployed/objects.rs"]
mod objects;
#[path = "deployed/operator.rs"]
mod operator;
#[path = "deployed/platform.rs"]
mod platform;
#[path = "deployed/replicas.rs"]
mod replicas;

pub(crate) use changes::{
    a_killed_leader_costs_only_the_calls_in_flight, no_call_fails_during_planned_changes,
};
pub(crate) use flow::{a_workload_goes_all_the_way_and_back, containers_run_as_the_manifest_says};
pub(crate) use platform::Platform;
