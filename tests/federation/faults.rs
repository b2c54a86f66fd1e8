//! Injects faults while compute-federation works in the management plane: kills, error responses, lost messages. After
//! each fault, the final state must equal the final state of a run without faults. During the run, no object that is
//! still needed may be deleted.

#[path = "faults/answers.rs"]
mod answers;
#[path = "faults/cuts.rs"]
mod cuts;
#[path = "faults/fixture.rs"]
mod fixture;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/pauses.rs"]
mod pauses;
#[path = "faults/restarts.rs"]
mod restarts;

pub(crate) use answers::{api_servers_answer_with_errors, watches_that_end};
pub(crate) use cuts::{long_cuts, short_cuts};
pub(crate) use kills::{a_kill_after_each_write, a_kill_after_some_writes};
pub(crate) use pauses::{
    a_cell_beside_a_hub_that_hangs, an_instance_is_replaced_beside_a_hub_that_hangs, long_pauses,
};
pub(crate) use restarts::restarts;
