//! A settled federation with quota and networks.

use super::fixture::{GatedFederation, TWIN};
use super::pauses::until_nothing_is_recorded;
use crate::fixture::{DFW, ORD};
use crate::settled::{SILENCE, is_silent_after_a_restart};

/// I-3: nothing is written on any plane while all Instances have their networks and their quota.
pub(crate) async fn open_gates_cause_no_write(gated: &GatedFederation) -> anyhow::Result<()> {
    let space = gated.space("settled").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2)])
        .await?;
    space.until_settled("web", 6).await?;
    let cells = [DFW, ORD, TWIN];
    gated.until_all_run(&space, &cells, 2).await?;
    // Another test may have replaced an Instance.
    until_nothing_is_recorded(gated).await?;
    is_silent_after_a_restart(&gated.federation, &cells, SILENCE).await?;
    gated.delete(&space, "web").await
}
