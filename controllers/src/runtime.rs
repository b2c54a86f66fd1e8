//! Runs controllers. It connects watches with work queues, defines the keys, writes to API servers, publishes events,
//! and defines the errors of reconciliations. It depends on no controller.

pub(crate) mod absence;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod hub_proof;
pub(crate) mod keys;
pub(crate) mod triggers;
pub(crate) mod wiring;
pub(crate) mod write;

pub use error::ReconcileError;
pub use multicluster::clock::Clock;
pub use multicluster::queue::ReconcileContext;
pub use wiring::Synced;
