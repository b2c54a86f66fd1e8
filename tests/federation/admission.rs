//! Admission as users see it: through `kubectl`, Milo's front and the API servers of projects.

#[path = "admission/locations.rs"]
mod locations;
#[path = "admission/mistakes.rs"]
mod mistakes;
#[path = "admission/outages.rs"]
mod outages;
#[path = "admission/rights.rs"]
mod rights;
#[path = "admission/subject.rs"]
mod subject;
#[path = "admission/updates.rs"]
mod updates;

pub(crate) use locations::{
    cities_are_those_of_the_project, locations_are_followed_on_every_replica,
};
pub(crate) use mistakes::kubectl_shows_everything_that_is_wrong;
pub(crate) use outages::{
    a_project_that_cannot_be_reached_denies_nothing_falsely, a_project_that_hangs_slows_no_other,
    a_replica_that_starts_beside_a_project_that_hangs,
    a_replica_that_starts_is_not_ready_before_it_knows, projects_come_and_go,
};
pub(crate) use rights::{
    a_changed_claim_is_another_requester, every_claim_reaches_the_authorizer,
    who_may_use_a_network_is_let_in,
};
pub(crate) use subject::{Platform, start, workload};
pub(crate) use updates::what_was_accepted_once_is_never_in_the_way;
