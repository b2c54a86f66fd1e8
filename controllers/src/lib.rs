//! The controllers, one folder each: `plan.rs` is a pure function from what is observed to what must be done, the rest
//! observes from caches and does it.
//!
//! [`management_controllers`] run beside the project API servers and the hub, [`cell_controllers`] in every cell. `runtime`
//! runs them, `hub` knows the hub, `projects` and `cell` know the other API servers. A controller writes only fields that it
//! owns and only when they differ, so that a settled system is silent. Which API servers there are, and when a key is worked
//! off, is `multicluster`'s business.

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
