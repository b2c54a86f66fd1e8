//! Runs controllers: wires watches to work queues, names keys, writes to API servers, publishes events, and says why a
//! reconciliation failed. Knows no controller.

pub(crate) mod absence;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod wiring;
pub(crate) mod write;

pub use error::ReconcileError;
pub use multicluster::clock::Clock;
pub use multicluster::queue::ReconcileContext;
pub use wiring::Synced;
