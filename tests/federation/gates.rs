//! Injects faults while Instances wait for their networks and their quota, and while they end: kills of the cell's
//! process, a project whose API server hangs or refuses, objects that are deleted by hand. After each fault, all
//! Instances run. After the end of their Workload, nothing of them is left on any plane.

#[path = "gates/burst.rs"]
mod burst;
#[path = "gates/claims.rs"]
mod claims;
#[path = "gates/fixture.rs"]
mod fixture;
#[path = "gates/kills.rs"]
mod kills;
#[path = "gates/lost_namespace.rs"]
mod lost_namespace;
#[path = "gates/pauses.rs"]
mod pauses;
#[path = "gates/settled.rs"]
mod settled;
#[path = "gates/suspension.rs"]
mod suspension;
#[path = "gates/twins.rs"]
mod twins;
#[path = "gates/witness.rs"]
mod witness;

pub(crate) use burst::two_hundred_at_once;
pub(crate) use claims::{
    a_claim_can_come_late, a_claim_is_deleted_by_hand, a_grant_is_revoked, a_project_is_suspended,
    a_replacement_keeps_its_claim,
};
pub(crate) use fixture::GatedFederation;
pub(crate) use kills::{
    a_kill_after_each_write, a_kill_after_each_write_with_bindings, a_kill_after_some_writes,
};
pub(crate) use lost_namespace::the_namespace_of_a_cell_is_deleted;
pub(crate) use pauses::{a_long_pause_of_the_ledger, a_short_pause_of_the_ledger};
pub(crate) use settled::open_gates_cause_no_write;
pub(crate) use suspension::a_service_is_suspended_and_resumed;
pub(crate) use twins::two_cells_with_equal_names;
