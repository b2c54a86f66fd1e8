//! What the interpreter makes of a deployment in several cells, by the real Karmada.
//!
//! There are two cells in one city and a third in another. compute-federation does not run in them: the tests write what
//! the cells say, and the object on the hub is the witness. See [`witness`] for what is asked of every version of it.

#[path = "interpretation/burst.rs"]
mod burst;
#[path = "interpretation/changes.rs"]
mod changes;
#[path = "interpretation/dependencies.rs"]
mod dependencies;
#[path = "interpretation/failures.rs"]
mod failures;
#[path = "interpretation/refusal.rs"]
mod refusal;
#[path = "interpretation/rescheduling.rs"]
mod rescheduling;
#[path = "interpretation/shares.rs"]
mod shares;
#[path = "interpretation/subject.rs"]
mod subject;
#[path = "interpretation/witness.rs"]
mod witness;

use harness::{CellConfig, Config, Federation};
use serde_json::{Value, json};

pub(crate) use burst::{a_burst, a_burst_of_a_thousand};
pub(crate) use changes::{a_new_image, a_successor_of_what_is_dying, an_autoscaler_in_a_cell};
pub(crate) use dependencies::what_the_template_uses;
pub(crate) use failures::{a_cell_that_dies_and_returns, a_work_that_is_refused};
pub(crate) use rescheduling::{
    a_total_of_nothing_and_back, a_total_that_each_former_share_equals,
    a_total_that_is_the_sum_of_the_former_shares,
};
pub(crate) use shares::{divided, duplicated};

use crate::fixture;

const DFW1: &str = "dfw1";
const DFW2: &str = "dfw2";
const ORD1: &str = "ord1";

/// Starts a federation whose cells say what the tests write.
pub(crate) async fn start(label: &str) -> anyhow::Result<Federation> {
    let cells = [(DFW1, "DFW"), (DFW2, "DFW"), (ORD1, "ORD")];
    let cells = cells.map(|(name, city)| CellConfig::new(name, city).without_controllers());
    let config = Config {
        cells: cells.into(),
        ..fixture::config(label)?
    };
    fixture::start_from(&config).await
}

/// A placement in both cells of the city, each with all replicas.
fn in_dfw() -> Value {
    json!({"clusterAffinity": {"labelSelector": {"matchLabels": {api::labels::CITY_CODE: "DFW"}}}})
}

/// A placement in both cells of the city that divides the replicas by these weights.
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

/// The same for both cells of the city.
fn each(replicas: i32) -> [(&'static str, i32); 2] {
    [(DFW1, replicas), (DFW2, replicas)]
}
