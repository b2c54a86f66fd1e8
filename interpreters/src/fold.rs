//! Joins the statuses that several cells report for one WorkloadDeployment. The result is one status. See
//! docs/concepts/status.md.
//!
//! [`StatusFold`] is a map from cells to reports. The merge of two folds is commutative, associative and idempotent.
//! Groups of cells can therefore be folded first and merged afterwards. The result has the same value and the same
//! bytes. [`StatusFold::render`] combines the fold with the object that receives the status. If a cell does not report
//! now, the last report of the cell comes from the former status of the object.
//!
//! Karmada's `AggregateStatus` request contains only the items. Three functions are for callers with more information:
//!
//! - [`StatusFold::mark_unreachable`] marks a cell as unreachable.
//! - [`StatusFold::expect`] adds a cell that is not in the items.
//! - [`no_matching_cell`] renders the status of an object that no cell matches.

mod available;
mod cell_name;
mod cell_view;
pub(crate) mod cells;
pub(crate) mod condition;
pub(crate) mod condition_index;
mod entry;
mod join;
mod lower_hub;
mod memory;
mod named_cells;
mod render;
mod rendered_status;
mod reporting;
mod resource_template;
mod shares;
pub(crate) mod status;
mod translation;
mod unreachable;
mod unscheduled;
mod views;

pub use cell_name::{checked_name_above, usable_name_above};
pub use cells::StatusFold;
pub use named_cells::NamedCells;
pub use resource_template::ResourceTemplate;
pub use shares::share;
pub use unreachable::Unreachable;
pub use unscheduled::no_matching_cell;
pub(crate) use unscheduled::without_reports;

pub(crate) use status::StatusView;
