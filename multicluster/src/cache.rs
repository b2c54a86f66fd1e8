//! Caches. A cache stores the objects of one kind on one plane, and a list and a watch keep it current.

mod change;
mod contents;
mod entry;
mod handle;
mod index;
mod list_limiter;
mod list_watch;
mod position;
mod reflector;
mod sync_state;
mod tolerant;
mod tombstones;
mod values;

pub use change::Change;
pub use entry::{NamespacedName, Undecodable};
pub use handle::Cache;
pub use index::Index;
pub use list_limiter::ListLimiter;
pub use reflector::Reflector;
pub use sync_state::SyncState;
pub(crate) use sync_state::request_problem;

#[cfg(test)]
mod tests;
