//! The controllers. Each has a folder with `triggers.rs`, a pure table from changes to keys, and `plan.rs`, a pure
//! function from observations to actions. The other files of the folder observe from caches and execute the plan.
//!
//! [`management_controllers`] starts the controllers beside the project API servers and the hub, [`cell_controllers`] those
//! of a cell. `runtime` runs controllers, `hub` has the caches of the hub, `projects` and `cell` those of the other planes.
//! A controller writes only the fields that it owns, and only if they differ: a settled system makes no writes. Discovery of
//! planes and scheduling of keys is in `multicluster`.

pub mod ca_bundle;
mod cell;
pub mod cell_controllers;
mod customizations;
mod deployment;
mod federator;
#[cfg(test)]
mod fixtures;
mod generation;
mod hub;
mod instance;
mod instance_writeback;
pub mod management_controllers;
mod names;
mod namespace;
mod objects;
mod policy;
mod projector;
mod projects;
pub mod runtime;
mod workload;
