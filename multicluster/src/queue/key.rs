//! Keys of a work queue.

use std::fmt::Debug;
use std::hash::Hash;

/// Identifies the work of one reconciliation, usually an object.
pub trait Key: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// Groups keys that share an API server, and therefore become slow or fail together.
    type Tenant: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// Returns the tenant of the key. Equal keys have equal tenants.
    fn tenant(&self) -> &Self::Tenant;
}
