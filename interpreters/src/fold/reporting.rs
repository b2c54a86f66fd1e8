//! The condition that names the cells of which nothing, or nothing new, is known.

use std::borrow::Cow;
use std::fmt::Write as _;

use api::ConditionStatus;
use api::condition::MESSAGE_MAX;
use api::workload_deployment::{
    CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELL_UNREACHABLE, CELLS_REPORTING,
};
use jiff::Timestamp;

use super::condition::{Condition, shown_since, time};
use super::join::truncated;
use super::marks::Unreachable;
use super::report::Report;
use super::{Silence, StatusFold};

/// Characters that are left to what is said of one cell, however many there are.
const SENTENCE: usize = 96;
/// Between what is said of two cells.
const SEPARATOR: &str = "; ";

/// What is wrong with a cell, what weighs most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble<'f, 'a> {
    Unreachable(&'f Unreachable<'a>),
    Silent(&'f Silence<'a>),
}

impl<'a> StatusFold<'a> {
    /// The condition that names the cells which are silent or marked, while there are any. Its time stays while it stays
    /// False, where it is shown and on the hub; with a mark, what is shown comes first.
    pub(super) fn cells_reporting(
        &self,
        former: &Report<'a>,
        shown: &[api::Condition],
        now: Timestamp,
    ) -> Option<Condition<'a>> {
        let troubles = self.cells.iter().filter_map(|(name, cell)| {
            let trouble = match self.marks.of_cell(name) {
                Some(unreachable) => Trouble::Unreachable(unreachable),
                None => Trouble::Silent(cell.silence.as_ref()?),
            };
            Some((name, trouble))
        });
        let troubles: Vec<_> = troubles.collect();
        let first = troubles.iter().map(|(_, trouble)| trouble).min()?;
        let reason = first.reason();
        // However long the message of one cell is, every cell is named; of very many, those for which there is room.
        let longest = MESSAGE_MAX
            .checked_div(troubles.len())?
            .saturating_sub(SEPARATOR.len())
            .max(SENTENCE);
        let sentences: Vec<_> = troubles
            .into_iter()
            .map(|(name, trouble)| truncated(trouble.of_cell(name).into(), longest))
            .collect();
        let on_hub = former
            .cells_reporting
            .as_ref()
            .filter(|former| former.status == ConditionStatus::False)
            .map(|former| former.last_transition_time.clone());
        let shown = || shown_since(shown, CELLS_REPORTING, ConditionStatus::False);
        let stays = match self.marks.is_empty() {
            true => on_hub.or_else(shown),
            false => shown().or(on_hub),
        };
        let begins = || time(self.marks.earliest().unwrap_or(now));
        Some(Condition {
            last_transition_time: stays.unwrap_or_else(begins),
            message: joined(&sentences).into(),
            observed_generation: None,
            reason: reason.into(),
            status: ConditionStatus::False,
            type_: CELLS_REPORTING.into(),
        })
    }
}

impl Trouble<'_, '_> {
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => CELL_UNREACHABLE,
            Self::Silent(Silence::NotApplied { .. }) => CELL_NOT_APPLIED,
            Self::Silent(Silence::NotReported) => CELL_NOT_REPORTED,
        }
    }

    fn of_cell(&self, name: &str) -> String {
        match self {
            Self::Unreachable(Unreachable { since, message }) => {
                let colon = if message.is_empty() { "" } else { ": " };
                format!("{name}: unreachable since {}{colon}{message}", time(*since))
            }
            Self::Silent(Silence::NotApplied { message }) if message.is_empty() => {
                format!("{name}: not applied yet")
            }
            Self::Silent(Silence::NotApplied { message }) => {
                format!("{name}: not applied: {message}")
            }
            Self::Silent(Silence::NotReported) => format!("{name}: no status reported"),
        }
    }
}

/// As many of the sentences as there is room for, and how many more there are.
fn joined(sentences: &[Cow<'_, str>]) -> String {
    const MORE: usize = 32;
    let mut message = String::new();
    let mut characters = 0;
    for (index, sentence) in sentences.iter().enumerate() {
        characters += sentence.chars().count() + SEPARATOR.len();
        if characters > MESSAGE_MAX - MORE && index + 1 < sentences.len()
            || characters > MESSAGE_MAX + SEPARATOR.len()
        {
            let _ = write!(message, "{SEPARATOR}and {} more", sentences.len() - index);
            break;
        }
        if index > 0 {
            message.push_str(SEPARATOR);
        }
        message.push_str(sentence);
    }
    message
}
