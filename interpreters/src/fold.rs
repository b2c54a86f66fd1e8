//! Joins the statuses that several cells report for one WorkloadDeployment into one status. See docs/concepts/status.md.
//!
//! [`StatusFold`] is a value keyed by cell. Its merge is commutative, associative and idempotent: folding groups of
//! cells first, and then the groups, gives the same value and the same bytes. [`StatusFold::render`] combines the fold
//! with the object that receives the status. The former status of that object keeps the last reports of cells that do
//! not report now.
//!
//! `AggregateStatus` knows only the items. A caller that knows more about the cells can
//! [mark](StatusFold::mark_unreachable) unreachable cells, [expect](StatusFold::expect) cells that no item names, or
//! render the status of an object that [no cell matches](no_matching_cell).

mod available;
mod cell_view;
pub(crate) mod cells;
pub(crate) mod condition;
mod entry;
mod join;
mod render;
mod rendered_status;
mod reporting;
mod resource_template;
mod shares;
pub(crate) mod status;
mod unreachable;
mod unscheduled;

pub use cells::StatusFold;
pub use resource_template::ResourceTemplate;
pub use shares::share;
pub use unreachable::Unreachable;
pub use unscheduled::no_matching_cell;

pub(crate) use status::StatusView;
