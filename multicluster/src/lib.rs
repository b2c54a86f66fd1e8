//! Where API servers are and how to reach them.
//!
//! Owns connections ([`connect`]), the registry of projects ([`projects`]), caches of what is watched ([`cache`]), the
//! work queue that all watches feed ([`queue`]), leadership ([`lease`]), the tasks of the process ([`tasks`]), its clock
//! ([`clock`]), and what an API server's 404 says ([`absence`]). Decides nothing about the objects that pass through: that is the controllers'.

pub mod absence;
pub mod cache;
pub mod clock;
pub mod connect;
pub mod lease;
pub mod metrics;
pub mod projects;
pub mod queue;
pub mod tasks;

pub use cache::Cache;
pub use metrics::Metrics;
pub use projects::ProjectRegistry;
pub use queue::{Outcome, Queue};
pub use tasks::Tasks;
