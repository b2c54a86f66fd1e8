//! The live table. Each row is an object, and each column is a plane. If the output is not a terminal, plain lines are
//! printed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, stdout};

use api::{Instance, Workload, WorkloadDeployment, condition};
use kube::Resource;
use rustix::termios::tcgetwinsize;

use super::checks::gates;
use super::layout::{cut, fit, table};
use crate::observe::{Objects, ObservedPlane, ObservedState};
use crate::output::{print, write};

/// Column width in characters if the output is not a terminal.
const WIDTH: usize = 22;
const ABSENT: &str = "-";

/// For each object name, the cells of its row: one cell per plane.
type Rows = BTreeMap<String, Vec<String>>;

/// Draws the table.
pub(crate) struct Screen {
    planes: Vec<String>,
    is_terminal: bool,
    /// Number of lines in the last drawing. The next drawing replaces these lines.
    drawn: usize,
    /// The rows in the last drawing.
    rows: Rows,
}

impl Screen {
    pub(crate) fn new(planes: &[ObservedPlane]) -> Self {
        Self {
            planes: planes.iter().map(|plane| plane.name.clone()).collect(),
            is_terminal: stdout().is_terminal(),
            drawn: 0,
            rows: Rows::new(),
        }
    }

    /// Prints a line about an event. Prints nothing in a terminal, because the table already contains the event.
    pub(crate) fn tell(&self, line: &str) -> anyhow::Result<()> {
        if self.is_terminal {
            return Ok(());
        }
        print(line)
    }

    /// Draws the state and the lines below it. If the output is not a terminal, prints only the rows that have changed.
    pub(crate) fn draw(&mut self, state: &ObservedState, below: &[String]) -> anyhow::Result<()> {
        let rows = self.rows(state);
        if self.is_terminal {
            self.draw_in_terminal(&rows, below)?;
        } else if below.is_empty() {
            self.print_changes(&rows)?;
        }
        self.rows = rows;
        Ok(())
    }

    fn draw_in_terminal(&mut self, rows: &Rows, below: &[String]) -> anyhow::Result<()> {
        let (width, height) = size();
        let all: Vec<_> = std::iter::once(("", &self.planes))
            .chain(rows.iter().map(|(name, cells)| (name.as_str(), cells)))
            .map(|(name, cells)| [&[name.to_owned()], cells.as_slice()].concat())
            .collect();
        // The cursor is in the line below the drawing, so the drawing can use one line less than the terminal has.
        let lines = fit(&table(&all, width), below, height.saturating_sub(1));
        let mut text = match self.drawn {
            0 => String::new(),
            // Moves to the first line of the last drawing, and clears the screen from there.
            drawn => format!("\x1b[{drawn}A\x1b[J"),
        };
        for line in &lines {
            text += &cut(line, width);
            text += "\n";
        }
        self.drawn = lines.len();
        write(&text)
    }

    fn print_changes(&self, rows: &Rows) -> anyhow::Result<()> {
        if self.rows.is_empty() && !rows.is_empty() {
            print(line("", &self.planes))?;
        }
        for (name, cells) in rows {
            if self.rows.get(name) != Some(cells) {
                print(line(name, cells))?;
            }
        }
        for name in self.rows.keys().filter(|name| !rows.contains_key(*name)) {
            print(line(name, &["gone".to_owned()]))?;
        }
        Ok(())
    }

    fn rows(&self, state: &ObservedState) -> Rows {
        let mut rows = Rows::new();
        self.add(&mut rows, &state.workloads, workload);
        self.add(&mut rows, &state.deployments, deployment);
        self.add(&mut rows, &state.instances, instance);
        rows
    }

    fn add<K: Resource>(&self, rows: &mut Rows, objects: &Objects<K>, show: fn(&K) -> String) {
        let names: BTreeSet<_> = objects.values().flat_map(BTreeMap::keys).collect();
        for name in names {
            let cells = self.planes.iter().map(|plane| {
                match objects.get(plane).and_then(|of| of.get(name)) {
                    Some(object) if object.meta().deletion_timestamp.is_some() => {
                        "going".to_owned()
                    }
                    Some(object) => show(object),
                    None => ABSENT.to_owned(),
                }
            });
            rows.insert(name.clone(), cells.collect());
        }
    }
}

/// Returns the number of columns and lines of the terminal.
fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

fn line(name: &str, cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| format!(" {cell:<WIDTH$}"));
    let line = format!("{name:<WIDTH$}{}", cells.collect::<String>());
    line.trim_end().to_owned()
}

fn workload(workload: &Workload) -> String {
    let status = workload.status.clone().unwrap_or_default();
    let available = condition::is_true(&status.conditions, "Available");
    counters(status.ready_replicas, status.desired_replicas, available)
}

fn deployment(deployment: &WorkloadDeployment) -> String {
    let status = deployment.status.clone().unwrap_or_default();
    let available = condition::is_true(&status.conditions, "Available");
    counters(
        status.ready_replicas,
        deployment.spec.desired_replicas(),
        available,
    )
}

fn counters(ready: i32, desired: i32, available: bool) -> String {
    format!(
        "{ready}/{desired} {}",
        if available {
            "available"
        } else {
            "unavailable"
        }
    )
}

fn instance(instance: &Instance) -> String {
    let conditions = instance
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    match condition::find(conditions, "Ready") {
        Some(ready) if ready.is_true() => "ready".to_owned(),
        Some(ready) if gates(instance).next().is_some() => {
            let gates: Vec<_> = gates(instance).collect();
            format!("{}, gates {}", ready.reason, gates.join("+"))
        }
        Some(ready) => ready.reason.clone(),
        None => "no status".to_owned(),
    }
}
