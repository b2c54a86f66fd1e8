//! The condition `CellsReporting`. Its message lists the cells without a current report.

use std::borrow::Cow;
use std::fmt::Write as _;

use api::ConditionStatus;
use api::condition::MESSAGE_MAX;
use api::identity::cluster_of;
use api::workload_deployment::{
    CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELL_UNREACHABLE, CELLS_REPORTING,
};
use jiff::Timestamp;

use super::cell_view::CellView;
use super::cells::{MissingReport, StatusFold};
use super::condition::{ConditionView, shown_since, time};
use super::join::truncated;
use super::named_cells::{COLON, NOT_APPLIED, NOT_REPORTED, SEPARATOR, UNREACHABLE};
use super::status::StatusView;
use super::unreachable::Unreachable;

/// The text for one cell in the message is never cut to fewer characters than this. They are enough for a cell name and
/// a short reason.
const MIN_PER_CELL: usize = 96;

/// The reason why a cell does not report.
#[derive(Clone, Copy)]
enum ReportingProblem<'f, 'a> {
    Unreachable(&'f Unreachable<'a>),
    Missing(&'f MissingReport<'a>),
    /// The condition `CellsReporting` of a lower hub.
    Below(&'f ConditionView<'a>),
}

/// Returns `CellsReporting` if a cell has no current report or is unreachable. Otherwise returns `None`. The status of
/// this condition is therefore always False.
///
/// The transition time is kept while the condition is False on the hub or in `shown`. If a cell is unreachable, the
/// time in `shown` has precedence. Otherwise the time on the hub has precedence. `cells` are the views of the cells.
pub(super) fn cells_reporting<'k, 'a: 'k>(
    fold: &StatusFold<'a>,
    cells: impl Iterator<Item = &'k CellView<'k, 'a>>,
    former: &StatusView<'a>,
    shown: &[api::Condition],
    now: Timestamp,
) -> Option<ConditionView<'a>> {
    let below = problems_below(fold, cells);
    let problems = || {
        let of_items = fold.cells.iter().filter_map(|(name, cell)| {
            let problem = match (fold.unreachable.of_cell(name), &cell.missing) {
                (Some(unreachable), _) => ReportingProblem::Unreachable(unreachable),
                (None, Some(missing)) => ReportingProblem::Missing(missing),
                (None, None) => {
                    let report = cell.report.as_deref();
                    ReportingProblem::Below(report.and_then(StatusView::problem_below)?)
                }
            };
            Some((name.as_ref(), problem))
        });
        of_items.chain(below.iter().copied())
    };
    let count = problems().count();
    let reasons = problems().map(|(_, problem)| problem.reason());
    let reason = reasons.min_by_key(|reason| severity(reason))?;
    // Cuts long texts, so that the message contains the name of every cell. If there are too many cells, the message
    // contains only the first ones.
    let max_per_cell = MESSAGE_MAX
        .checked_div(count)?
        .saturating_sub(SEPARATOR.len())
        .max(MIN_PER_CELL);
    let parts =
        problems().map(|(name, problem)| truncated(problem.describe(name).into(), max_per_cell));
    let on_hub = former
        .cells_reporting()
        .filter(|former| former.status == ConditionStatus::False)
        .map(|former| former.last_transition_time.clone());
    let shown = || shown_since(shown, CELLS_REPORTING, ConditionStatus::False);
    let kept_time = match fold.unreachable.is_empty() {
        true => on_hub.or_else(shown),
        false => shown().or(on_hub),
    };
    let new_time = || time(fold.unreachable.earliest().unwrap_or(now));
    Some(ConditionView {
        last_transition_time: kept_time.unwrap_or_else(new_time),
        message: joined(parts, count).into(),
        observed_generation: None,
        reason: reason.into(),
        status: ConditionStatus::False,
        type_: CELLS_REPORTING.into(),
    })
}

/// Returns the unreachable cells below lower hubs that are not unreachable themselves.
fn problems_below<'f, 'k, 'a: 'k>(
    fold: &'f StatusFold<'a>,
    cells: impl Iterator<Item = &'k CellView<'k, 'a>>,
) -> Vec<(&'k str, ReportingProblem<'f, 'a>)> {
    if fold.unreachable.is_empty() {
        return Vec::new();
    }
    let names = cells.filter_map(|cell| cell.name);
    let below = names.filter(|name| {
        let cluster = cluster_of(name);
        cluster != *name && fold.unreachable.of_cell(cluster).is_none()
    });
    let marked = below.filter_map(|name| {
        let unreachable = fold.unreachable.of_cell(name)?;
        Some((name, ReportingProblem::Unreachable(unreachable)))
    });
    marked.collect()
}

/// Returns the order of the reasons: the most severe one is the lowest.
fn severity(reason: &str) -> u8 {
    match reason {
        CELL_UNREACHABLE => 0,
        CELL_NOT_APPLIED => 1,
        _ => 2,
    }
}

impl ReportingProblem<'_, '_> {
    fn reason(self) -> &'static str {
        match self {
            Self::Unreachable(_) => CELL_UNREACHABLE,
            Self::Missing(MissingReport::NotApplied { .. }) => CELL_NOT_APPLIED,
            Self::Below(condition) if condition.reason == CELL_NOT_APPLIED => CELL_NOT_APPLIED,
            // A cell can claim to be a lower hub. It must not choose another reason.
            Self::Missing(MissingReport::NotReported) | Self::Below(_) => CELL_NOT_REPORTED,
        }
    }

    fn describe(&self, name: &str) -> String {
        match self {
            Self::Unreachable(Unreachable { since, message }) => {
                let colon = if message.is_empty() { "" } else { COLON };
                format!("{name}{COLON}{UNREACHABLE}{}{colon}{message}", time(*since))
            }
            Self::Missing(MissingReport::NotApplied { message }) if message.is_empty() => {
                format!("{name}{COLON}{NOT_APPLIED} yet")
            }
            Self::Missing(MissingReport::NotApplied { message }) => {
                format!("{name}{COLON}{NOT_APPLIED}{COLON}{message}")
            }
            Self::Missing(MissingReport::NotReported) => format!("{name}{COLON}{NOT_REPORTED}"),
            Self::Below(condition) => format!("{name}{COLON}{}", condition.message),
        }
    }
}

/// Joins the parts into one message. If some of the `count` parts do not fit, appends the number of these parts.
fn joined<'p>(parts: impl Iterator<Item = Cow<'p, str>>, count: usize) -> String {
    /// Number of characters reserved for `; and <n> more`.
    const MORE: usize = 32;
    let mut message = String::new();
    let mut characters = 0;
    for (index, part) in parts.enumerate() {
        characters += part.chars().count() + SEPARATOR.len();
        if characters > MESSAGE_MAX - MORE && index + 1 < count
            || characters > MESSAGE_MAX + SEPARATOR.len()
        {
            let _ = write!(message, "{SEPARATOR}and {} more", count - index);
            break;
        }
        if index > 0 {
            message.push_str(SEPARATOR);
        }
        message.push_str(&part);
    }
    message.shrink_to_fit();
    message
}
