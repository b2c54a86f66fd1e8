//! Tests of admission from the user's side. The requests pass through `kubectl`, Milo's front and the API servers of
//! projects.

#[path = "admission/callers.rs"]
mod callers;
#[path = "admission/data.rs"]
mod data;
#[path = "admission/locations.rs"]
mod locations;
#[path = "admission/mistakes.rs"]
mod mistakes;
#[path = "admission/outages.rs"]
mod outages;
#[path = "admission/platform.rs"]
mod platform;
#[path = "admission/rights.rs"]
mod rights;
#[path = "admission/updates.rs"]
mod updates;

pub(crate) use callers::only_api_servers_with_a_certificate_are_accepted;
pub(crate) use data::{
    a_user_with_the_right_may_reference_a_secret, only_the_resolver_changes_what_is_expected,
};
pub(crate) use locations::{cities_are_those_of_the_project, every_replica_follows_locations};
pub(crate) use mistakes::kubectl_shows_all_errors;
pub(crate) use outages::{
    a_project_that_hangs_slows_no_other, a_replica_starts_while_a_project_hangs,
    a_starting_replica_is_unready_until_its_caches_are_filled,
    an_unreachable_project_causes_no_wrong_denial, projects_come_and_go,
};
pub(crate) use platform::{Platform, start, workload};
pub(crate) use rights::{
    a_user_with_the_right_may_use_a_network, every_claim_identifies_the_requester,
    every_claim_reaches_the_authorizer,
};
pub(crate) use updates::earlier_mistakes_do_not_block_updates;
