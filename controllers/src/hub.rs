//! The identity and the caches of the hub, the state of its cells, and the project that a hub namespace belongs to.

pub(crate) mod caches;
pub(crate) mod cells;
pub(crate) mod cells_below;
pub(crate) mod clusters;
pub(crate) mod departed;
pub(crate) mod heartbeats;
pub(crate) mod identity;
pub(crate) mod policy_refusals;
pub(crate) mod unidentified;
pub(crate) mod upstream;
pub(crate) mod upstream_namespace;

pub(crate) use caches::HubCaches;
