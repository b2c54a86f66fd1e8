//! The live table: one row per object, one column per plane. Plain lines where the output is no terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write, stdout};

use api::{Instance, Workload, WorkloadDeployment, condition};
use harness::Federation;
use kube::Resource;

use super::observe::{Objects, State};

/// Width of a column.
const WIDTH: usize = 22;
const ABSENT: &str = "-";

/// Draws the table.
pub(crate) struct Screen {
    planes: Vec<String>,
    is_terminal: bool,
    /// Lines of the last drawing, which the next one takes the place of.
    drawn: usize,
    /// The rows as they were last shown.
    rows: BTreeMap<String, String>,
}

impl Screen {
    pub(crate) fn new(federation: &Federation) -> Self {
        Self {
            planes: federation
                .planes()
                .map(|plane| plane.name().to_owned())
                .collect(),
            is_terminal: stdout().is_terminal(),
            drawn: 0,
            rows: BTreeMap::new(),
        }
    }

    /// Tells of something that has happened. In a terminal the drawing tells it.
    pub(crate) fn tell(&self, line: &str) {
        if !self.is_terminal {
            println!("{line}");
        }
    }

    /// Draws the state and some lines below it; without a terminal, prints the rows that have changed.
    pub(crate) fn draw(&mut self, state: &State, below: &[String]) {
        let rows = self.table(state);
        if self.is_terminal {
            let mut lines = vec![line("", self.planes.iter().map(String::as_str))];
            lines.extend(rows.values().cloned());
            lines.extend(below.iter().cloned());
            let mut out = stdout().lock();
            if self.drawn > 0 {
                // Up to the first line of the last drawing, and clear from there.
                let _ = write!(out, "\x1b[{}A\x1b[J", self.drawn);
            }
            for line in &lines {
                let _ = writeln!(out, "{line}");
            }
            let _ = out.flush();
            self.drawn = lines.len();
        } else if below.is_empty() {
            for (name, row) in &rows {
                if self.rows.get(name) != Some(row) {
                    println!("{row}");
                }
            }
            for name in self.rows.keys().filter(|name| !rows.contains_key(*name)) {
                println!("{name:<WIDTH$}gone");
            }
        }
        self.rows = rows;
    }

    fn table(&self, state: &State) -> BTreeMap<String, String> {
        let mut rows = BTreeMap::new();
        self.add(&mut rows, &state.workloads, workload);
        self.add(&mut rows, &state.deployments, deployment);
        self.add(&mut rows, &state.instances, instance);
        rows
    }

    fn add<K: Resource>(
        &self,
        rows: &mut BTreeMap<String, String>,
        objects: &Objects<K>,
        show: fn(&K) -> String,
    ) {
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
            let cells: Vec<_> = cells.collect();
            rows.insert(name.clone(), line(name, cells.iter().map(String::as_str)));
        }
    }
}

fn line<'l>(name: &str, cells: impl Iterator<Item = &'l str>) -> String {
    let cells = cells.map(|cell| {
        format!(
            "{:<WIDTH$}",
            cell.chars().take(WIDTH - 1).collect::<String>()
        )
    });
    format!("{name:<WIDTH$}{}", cells.collect::<String>())
        .trim_end()
        .to_owned()
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
        Some(ready) => ready.reason.clone(),
        None => "no status".to_owned(),
    }
}
