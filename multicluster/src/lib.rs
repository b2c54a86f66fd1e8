//! Connections to many API servers: the hub, the projects, and the process's own cluster.
//!
//! This crate contains connections ([`connect`]), the registry of projects ([`projects`]), caches of watched objects
//! ([`cache`]), the work queue of controllers ([`queue`]), leader election ([`lease`]), heartbeats ([`heartbeat`]), the tasks of the process
//! ([`tasks`]), its clock ([`clock`]), its metrics ([`metrics`]), the check of 404 answers ([`absence`]),
//! and the files of a mounted directory ([`mounted`]). Decisions
//! about objects are made by controllers, not by this crate.

pub mod absence;
pub mod cache;
pub mod clock;
pub mod connect;
pub mod heartbeat;
pub mod lease;
pub mod metrics;
pub mod mounted;
pub mod projects;
pub mod queue;
pub mod tasks;

pub use cache::Cache;
pub use metrics::Metrics;
pub use projects::ProjectRegistry;
pub use queue::{Outcome, Queue};
pub use tasks::Tasks;
