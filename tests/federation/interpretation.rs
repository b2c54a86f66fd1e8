//! Tests of the interpreter with a deployment in several cells. A real Karmada calls the interpreter.
//!
//! Two cells are in one city, and a third cell is in another city. compute-federation does not run in the cells.
//! Instead, the tests write the status of the objects in the cells. [`witness`] checks every version of the object on
//! the hub.

#[path = "interpretation/burst.rs"]
mod burst;
#[path = "interpretation/changes.rs"]
mod changes;
#[path = "interpretation/dependencies.rs"]
mod dependencies;
#[path = "interpretation/deployment_fixture.rs"]
mod deployment_fixture;
#[path = "interpretation/failures.rs"]
mod failures;
#[path = "interpretation/refused_updates.rs"]
pub(crate) mod refused_updates;
#[path = "interpretation/rescheduling.rs"]
mod rescheduling;
#[path = "interpretation/shares.rs"]
mod shares;
#[path = "interpretation/witness.rs"]
mod witness;

use harness::{CellConfig, Config, Federation};
use serde_json::{Value, json};

pub(crate) use burst::{a_burst, a_burst_of_a_thousand};
pub(crate) use changes::{
    a_new_image, an_autoscaler_in_a_cell, recreated_while_the_old_object_terminates,
};
pub(crate) use dependencies::dependencies_follow_the_deployment;
pub(crate) use failures::{a_cell_that_dies_and_returns, a_refused_work};
pub(crate) use rescheduling::{
    a_total_that_each_former_share_equals, a_total_that_is_the_sum_of_the_former_shares,
    scaled_to_zero_and_back,
};
pub(crate) use shares::{an_override_of_the_replicas, divided, duplicated, one_cell_or_two};

use crate::fixture;

const DFW1: &str = "dfw1";
const DFW2: &str = "dfw2";
const ORD1: &str = "ord1";

/// Starts a federation. Its cells run no controllers, so the tests write the statuses of the objects in the cells.
pub(crate) async fn start(label: &str) -> anyhow::Result<Federation> {
    let cells = [(DFW1, "DFW"), (DFW2, "DFW"), (ORD1, "ORD")];
    let cells = cells.map(|(name, city)| CellConfig::new(name, city).without_controllers());
    let config = Config {
        cells: cells.into(),
        ..fixture::config(label)?
    };
    fixture::start_from(&config).await
}

/// Returns a placement in both cells of the city, each with all replicas.
fn in_dfw() -> Value {
    json!({"clusterAffinity": {"labelSelector": {"matchLabels": {api::labels::CITY_CODE: "DFW"}}}})
}

/// Returns a placement in both cells of the city that divides the replicas by these weights.
fn divided_in_dfw(first: u32, second: u32) -> Value {
    let weight = |cell: &str, weight: u32| json!({"targetCluster": {"clusterNames": [cell]}, "weight": weight});
    let mut placement = in_dfw();
    placement["replicaScheduling"] = json!({
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight(DFW1, first), weight(DFW2, second)]},
    });
    placement
}

/// Returns the same share for both cells of the city.
fn each(replicas: i32) -> [(&'static str, i32); 2] {
    [(DFW1, replicas), (DFW2, replicas)]
}
