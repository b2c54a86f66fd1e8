//! The controllers, one folder each: `plan.rs` is a pure function from what is observed to what must be done, the rest
//! observes from caches and does it.
//!
//! [`management`] runs beside the project API servers and the hub, [`cell`] in every cell. A controller writes only
//! fields that it owns and only when they differ, so that a settled system is silent. Which API servers there are, and
//! when a key is worked off, is `planes`' business.

mod absence;
pub mod ca_bundle;
pub mod cell;
mod cells;
mod customizations;
mod deployment;
mod error;
mod events;
mod federator;
#[cfg(test)]
mod fixtures;
mod generation;
mod instance;
mod keys;
pub mod management;
mod names;
mod namespace;
mod objects;
mod policy;
mod projector;
mod unapplied_since;
mod unidentified;
mod upstream;
mod watched;
pub mod wiring;
mod workload;
mod write;
mod writeback;

pub use error::ReconcileError;

use jiff::Timestamp;

/// Tells the time.
pub type Clock = fn() -> Timestamp;
