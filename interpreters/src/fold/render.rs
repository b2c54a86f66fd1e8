//! Renders a fold into the status that is written.

use jiff::Timestamp;

use super::available::{require_known_cell, require_reachable};
use super::cell_view::{CellView, Source};
use super::cells::StatusFold;
use super::entry::CellEntry;
use super::join::{all_suspended, common_selector, join, sum};
use super::lower_hub::CellBelow;
use super::memory::CellsByName;
use super::rendered_status::RenderedStatus;
use super::reporting::cells_reporting;
use super::resource_template::ResourceTemplate;
use super::shares::{AssignedShare, are_shares_of, share_of, shares};
use super::status::StatusView;
use super::translation::Translation;
use super::views::Views;

impl<'a> StatusFold<'a> {
    /// Returns the new status of `template` as JSON. The fields are in alphabetical order. Returns `None` if the fold
    /// has no cells. The status must not change then. `now` is the transition time of conditions that begin with this
    /// call. If a condition begins because of an [unreachable](Self::mark_unreachable) cell, the transition time is the
    /// time of the mark.
    ///
    /// If the same items are rendered again with the rendered status as the former status, the result has the same
    /// bytes.
    pub fn render(&self, template: &ResourceTemplate<'a>, now: Timestamp) -> Option<String> {
        let former = template.status.and_then(StatusView::parse);
        let mut text = Vec::new();
        self.with_status(template, former.as_ref(), now, |status| {
            status.write(&mut text)
        })?
        .ok()?;
        String::from_utf8(text).ok()
    }

    /// Appends the status that [`render`](Self::render) returns, if the status differs from `former`. `former` is the
    /// current status of `template`. Returns whether the status differs.
    pub(crate) fn write_change(
        &self,
        template: &ResourceTemplate<'a>,
        former: Option<&StatusView<'a>>,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> bool {
        let written = self.with_status(template, former, now, |status| match former {
            Some(former) if status.equals(former) => false,
            _ => status.write(out).is_ok(),
        });
        written.unwrap_or(false)
    }

    /// Calls `then` with the rendered status.
    fn with_status<R>(
        &self,
        template: &ResourceTemplate<'a>,
        former: Option<&StatusView<'a>>,
        now: Timestamp,
        then: impl FnOnce(RenderedStatus<'_, 'a>) -> R,
    ) -> Option<R> {
        let empty = StatusView::default();
        let former = former.unwrap_or(&empty);
        let memory = CellsByName::of(former);
        let below = CellBelow::of_fold(self, &memory);
        let views = Views::of(self, &below, former, &memory);
        let (items, cells, single) = (views.items(), || views.cells(), views.single());
        let first = cells().next()?;

        let total = template
            .replicas
            .or(template.min_replicas)
            .map(|total| total.max(0));
        let shares = shares(items, template)
            .zip(total)
            .filter(|(shares, total)| are_shares_of(shares, *total, former.cells()));
        let current = shares.is_some() && items.iter().all(|item| item.is_current(template));
        let translation = Translation {
            generation: template.generation,
            is_current: current,
        };
        let carried = cells().any(CellView::carries_observed_generation);
        let observed_generation =
            translation.translate(carried, true, former.generations.observed_generation);

        let formers = &former.conditions;
        let mut conditions = match single {
            Some(single) => single.conditions().to_vec(),
            None => join(cells(), formers),
        };
        translation.translate_conditions(&mut conditions, formers, items);

        let cells_reporting = cells_reporting(self, cells(), former, template.shown, now);
        if let Some(reporting) = &cells_reporting {
            if first.name.is_none() {
                require_known_cell(&mut conditions, reporting);
            }
            require_reachable(
                &mut conditions,
                &cells(),
                &self.unreachable,
                formers,
                template.shown,
                &reporting.message,
            );
        }

        let assigned = |index: usize, cell: &CellView<'_, '_>| match &shares {
            Some((shares, total)) if current => AssignedShare {
                assigned_replicas: share_of(shares, index, cell),
                template_replicas: Some(*total),
            },
            _ => cell
                .name
                .and_then(|name| memory.get(name))
                .map(AssignedShare::of)
                .unwrap_or_default(),
        };
        // The hub status of a single cell is the last report of this cell. It needs no entries, only the name.
        let mut entries = Vec::new();
        let mut reporting_cell = None;
        if let Some(single) = single {
            let has_reported = !matches!(single.source, Source::Nothing);
            reporting_cell = single.name.filter(|_| has_reported);
        } else {
            entries.reserve_exact(cells().count());
            let cells = cells().enumerate();
            let entry = |(index, cell)| CellEntry::of(cell, assigned(index, cell));
            entries.extend(cells.filter_map(entry));
        }
        let (selector, suspended) = match single.map(|single| single.whole) {
            Some(whole) => (
                whole.and_then(StatusView::selector),
                whole.and_then(StatusView::suspended),
            ),
            None => (common_selector(items), all_suspended(items)),
        };
        let status = RenderedStatus {
            cells: entries,
            conditions,
            counters: sum(cells()),
            observed_generation,
            others: single
                .and_then(|single| single.whole)
                .map(|whole| &whole.others),
            cells_reporting,
            reporting_cell,
            selector,
            suspended,
        };
        Some(then(status))
    }
}
