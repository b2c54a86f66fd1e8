//! The controllers. Each controller has a folder with two pure files. `triggers.rs` is a table from changes to keys.
//! `plan.rs` is a function from observations to actions. The other files of the folder observe from caches and execute
//! the plan.
//!
//! [`management_controllers`] starts the controllers for the project API servers and the hub. [`cell_controllers`]
//! starts the controllers of a cell, and [`lower_hub_controllers`] that of a lower hub. `runtime` runs controllers. `hub` has the caches of the hub. `projects` and `cell`
//! have the caches of the other planes. A controller writes only the fields that it owns, and only if they differ. So a
//! settled system makes no writes. `multicluster` discovers planes and schedules keys.

mod autoscaler;
pub mod ca_bundle;
mod cell;
mod cell_companions;
pub mod cell_controllers;
pub mod cell_rules;
mod customizations;
mod data_gate;
mod deletion_locks;
mod deployment;
mod federator;
#[cfg(test)]
mod fixtures;
mod gate;
mod generation;
mod heartbeat;
mod hub;
pub mod hub_in_use;
mod instance;
mod instance_writeback;
mod lifecycle;
mod lock;
mod lower_hub;
pub mod lower_hub_controllers;
pub mod management_controllers;
mod names;
mod namespace;
mod network;
mod objects;
mod outdated_copies;
mod policy;
mod projector;
mod projects;
mod quota;
mod referenced_data;
pub mod runtime;
#[cfg(test)]
mod settled;
mod summary;
mod template;
mod waiting;
mod workload;
