//! Renders a fold into the status that is written.

use jiff::Timestamp;

use super::available::{require_known_cell, require_reachable};
use super::cell_view::{CellView, Source};
use super::cells::{NamedContribution, StatusFold};
use super::entry::CellEntry;
use super::join::{all_suspended, common_selector, join, sum};
use super::rendered_status::RenderedStatus;
use super::reporting::cells_reporting;
use super::resource_template::ResourceTemplate;
use super::shares::{AssignedShare, are_shares_of, shares};
use super::status::{Counters, RememberedCell, StatusView};
use super::translation::Translation;

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
        let cells = self.cell_views(former, &memory);
        let first = cells.first()?;

        let total = template
            .replicas
            .or(template.min_replicas)
            .map(|total| total.max(0));
        let shares = shares(&cells, template)
            .zip(total)
            .filter(|(shares, total)| are_shares_of(shares, *total, former.cells()));
        let current = shares.is_some() && cells.iter().all(|cell| cell.is_current(template));
        let translation = Translation {
            generation: template.generation,
            is_current: current,
        };
        let carried = cells.iter().any(CellView::carries_observed_generation);
        let observed_generation =
            translation.translate(carried, true, former.generations.observed_generation);

        let formers = &former.conditions;
        let single = cells.len() == 1;
        let mut conditions = if single {
            first.conditions().to_vec()
        } else {
            join(&cells, formers)
        };
        translation.translate_conditions(&mut conditions, formers, &cells);

        let cells_reporting = cells_reporting(self, former, template.shown, now);
        if let Some(reporting) = &cells_reporting {
            if first.name.is_none() {
                require_known_cell(&mut conditions, reporting);
            }
            require_reachable(
                &mut conditions,
                &cells,
                &self.unreachable,
                formers,
                template.shown,
                &reporting.message,
            );
        }

        // The order of the shares is the order of the cells.
        let assigned = |index: usize, cell: &CellView<'_, '_>| match &shares {
            Some((shares, total)) if current => AssignedShare {
                assigned_replicas: shares.get(index).map(|(_, share)| *share),
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
        if single {
            let has_reported = !matches!(first.source, Source::Nothing);
            reporting_cell = first.name.filter(|_| has_reported);
        } else {
            entries.reserve_exact(cells.len());
            let cells = cells.iter().enumerate();
            let entry = |(index, cell)| CellEntry::of(cell, assigned(index, cell));
            entries.extend(cells.filter_map(entry));
        }
        let status = RenderedStatus {
            cells: entries,
            conditions,
            counters: sum(&cells),
            observed_generation,
            others: first.whole.filter(|_| single).map(|whole| &whole.others),
            cells_reporting,
            reporting_cell,
            selector: common_selector(&cells),
            suspended: all_suspended(&cells),
        };
        Some(then(status))
    }

    /// Returns a view of each cell, from its report or from its last report in the former status.
    fn cell_views<'f>(
        &'f self,
        former: &'f StatusView<'a>,
        memory: &CellsByName<'f, 'a>,
    ) -> Vec<CellView<'f, 'a>> {
        let any_report = self.cells.iter().any(|(_, cell)| cell.report.is_some());
        // Former versions wrote the status of a single cell without the name of the cell. The counters of such a status
        // are used until a cell reports. The status gets no name, because another cell may have replaced the single
        // cell.
        let is_unnamed = former.reporting_cell().is_none()
            && former.cells().is_empty()
            && (former.counters() != Counters::default() || !former.conditions.is_empty());
        if is_unnamed && !any_report && !self.cells.is_empty() {
            return vec![CellView::of_hub_status(None, former)];
        }
        let is_single = self.cells.len() == 1;
        let view = |(name, cell): &'f NamedContribution<'a>| match &cell.report {
            Some(report) => CellView::of_report(name, report, cell.missing.is_none()),
            None if former.reporting_cell() == Some(name.as_ref()) => {
                CellView::of_hub_status(Some(name), former)
            }
            None => {
                let memory = memory.get(name);
                let mut view = CellView::of_memory(name, memory);
                view.whole = memory.filter(|_| is_single).map(|_| former);
                view
            }
        };
        self.cells.iter().map(view).collect()
    }
}

/// The entries of `status.cells` of the former status, sorted by name.
struct CellsByName<'f, 'a>(Vec<&'f RememberedCell<'a>>);

impl<'f, 'a> CellsByName<'f, 'a> {
    fn of(former: &'f StatusView<'a>) -> Self {
        let mut cells: Vec<_> = former.cells().iter().collect();
        cells.sort_by(|one, other| one.name.cmp(&other.name));
        Self(cells)
    }

    fn get(&self, name: &str) -> Option<&'f RememberedCell<'a>> {
        let index = self
            .0
            .binary_search_by(|cell| cell.name.as_ref().cmp(name))
            .ok()?;
        self.0.get(index).copied()
    }
}
