//! The law of lower hubs: a fold of the folds of lower hubs gives the status that one fold of all cells gives.

use std::collections::BTreeMap;

use api::identity::cluster_of;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::config;
use crate::fold::{ResourceTemplate, StatusFold, Unreachable};
use crate::tests::NOW;

/// Number of histories if `PROPTEST_CASES` is not set.
const CASES: u32 = 20_000;
/// A Cluster of the hub, and the cells below it. A Cluster without cells is a cell itself.
type Cluster = (&'static str, &'static [&'static str]);
const CLUSTERS: [Cluster; 3] = [("m", &["a", "b"]), ("m-2", &["c"]), ("n", &[])];
/// The number of cells in all Clusters.
const CELLS: usize = 4;
const TYPES: [&str; 3] = ["Available", "ReplicasReady", "Other"];

/// Status, message, time and generation lag of a condition.
type CellCondition = (&'static str, &'static str, &'static str, Option<i64>);

/// The behaviour of a cell in one round.
#[derive(Clone, Debug)]
struct CellRound {
    /// Whether the cell has acted on the object of this round.
    acts: bool,
    share: i32,
    /// `metadata.generation` of the object in the cell.
    generation: i64,
    counters: [i32; 4],
    updated: Option<i32>,
    /// A condition of each type.
    conditions: Vec<Option<CellCondition>>,
    selector: Option<&'static str>,
    suspended: Option<bool>,
    is_silent: bool,
    is_unreachable: bool,
}

#[derive(Clone, Debug)]
struct LevelsRound {
    /// Whether the cells have the shares of this total.
    adds_up: bool,
    /// The Cluster whose cells do not report. A lower hub does not report as a whole, and its cells do not change.
    silent: Option<&'static str>,
    cells: Vec<CellRound>,
}

fn cell_round() -> impl Strategy<Value = CellRound> {
    let condition = (
        select(vec!["True", "False", "Unknown"]),
        select(vec!["", "by cell"]),
        select(vec!["2026-11-21T09:00:00Z", "2026-11-21T09:30:00Z"]),
        option::weighted(0.9, prop_oneof![9 => Just(0_i64), 1 => Just(1)]),
    );
    let weighted = prop::bool::weighted;
    (
        (weighted(0.8), 1..4_i32, 1..9_i64),
        (any::<[u8; 4]>(), option::of(0..4_i32)),
        vec(option::weighted(0.9, condition), TYPES.len()),
        (
            option::weighted(0.9, Just("uid=a")),
            option::weighted(0.9, weighted(0.9)),
        ),
        (weighted(0.1), weighted(0.1)),
    )
        .prop_map(
            |(acted, counters, conditions, others, problems)| CellRound {
                acts: acted.0,
                share: acted.1,
                generation: acted.2,
                counters: counters.0.map(i32::from),
                updated: counters.1,
                conditions,
                selector: others.0,
                suspended: others.1,
                is_silent: problems.0,
                is_unreachable: problems.1,
            },
        )
}

/// Returns the Clusters of the hub, whether each cell has all replicas (Duplicated), and the rounds.
fn histories() -> impl Strategy<Value = (&'static [Cluster], bool, Vec<LevelsRound>)> {
    let silent = option::weighted(0.2, select(CLUSTERS.map(|(cluster, _)| cluster).to_vec()));
    let round = (prop::bool::weighted(0.8), silent, vec(cell_round(), CELLS));
    let round = round.prop_map(|(adds_up, silent, cells)| LevelsRound {
        adds_up,
        silent,
        cells,
    });
    let clusters = prop_oneof![
        3 => Just(&CLUSTERS[..]),
        1 => Just(&CLUSTERS[..1]),
        1 => Just(&CLUSTERS[1..2]),
    ];
    (clusters, any::<bool>(), vec(round, 1..5))
}

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn a_fold_of_folds_is_the_fold_of_all_cells((clusters, is_duplicated, rounds) in histories()) {
        let mut hub = Hub { clusters, is_duplicated, ..Hub::default() };
        let mut flat = None;
        for (generation, round) in (1..).zip(&rounds) {
            hub.advance(generation, round);
            let items = hub.cells().map(|(name, cell)| {
                let is_silent = hub.silent.is_some_and(|it| it == cluster_of(&name));
                item(&flat_name(&name), cell.report(None).filter(|_| !is_silent))
            });
            let (items, total): (Vec<_>, _) = (items.collect(), hub.total);
            let marks: Vec<_> = hub.marks.iter().map(|name| flat_name(name)).collect();
            let flat_with = |marks| render(&items, marks, generation, total, flat.as_deref());
            let (marked_flat, next_flat) = (flat_with(&marks), flat_with(&[]));
            let items: Vec<_> = clusters.iter().map(|(cluster, _)| hub.report_of(cluster)).collect();
            let with = |marks| render(&items, marks, generation, total, hub.status.as_deref());
            let (marked, next) = (with(&hub.marks), with(&[]));
            for (expected, levels) in [(&next_flat, &next), (&marked_flat, &marked)] {
                let expected = expected.as_ref().unwrap().replace(FLAT_SEPARATOR, ".");
                let comparable = |text| comparable(text, generation);
                let levels = comparable(levels.as_ref().unwrap());
                prop_assert_eq!(comparable(&expected), levels, "round {}", generation);
            }
            (flat, hub.status) = (next_flat, next);
        }
    }
}

/// Stands for the dot in the names of the flat hub, where each cell is a Cluster. It has the same place in the order.
const FLAT_SEPARATOR: &str = "/";

fn flat_name(cell: &str) -> String {
    cell.replace('.', FLAT_SEPARATOR)
}

/// The state of one cell.
#[derive(Clone, Debug, Default)]
struct CellState {
    /// The generation of the hub's object on which the cell has acted last. 0 before that.
    acted: i64,
    share: i32,
    round: Option<CellRound>,
    has_reported: bool,
}

impl CellState {
    /// Returns the answer of InterpretStatus. `generation_of_lower_hub` is that of the object of the lower hub when the
    /// hub's object has its generation; `None` if Karmada of the hub writes to the cell.
    fn report(&self, generation_of_lower_hub: Option<fn(i64) -> i64>) -> Option<Value> {
        let round = self
            .round
            .as_ref()
            .filter(|it| !it.is_silent && self.acted > 0)?;
        let conditions = TYPES.iter().zip(&round.conditions);
        let conditions = conditions.filter_map(|(type_, condition)| {
            let (status, message, time, lag) = condition.as_ref()?;
            let mut condition = json!({
                "type": type_, "status": status, "reason": "Reason", "message": message, "lastTransitionTime": time,
            });
            if let Some(lag) = lag {
                condition["observedGeneration"] = json!(round.generation - lag);
            }
            Some(condition)
        });
        let [current, desired, ready, replicas] = round.counters;
        let template = generation_of_lower_hub.map_or(self.acted, |it| it(self.acted));
        let mut report = json!({
            "conditions": conditions.collect::<Vec<_>>(),
            "currentReplicas": current, "desiredReplicas": desired, "readyReplicas": ready, "replicas": replicas,
            "generation": round.generation, "observedGeneration": round.generation,
            "resourceTemplateGeneration": template, "assignedReplicas": self.share,
        });
        let optional = [
            ("updatedReplicas", round.updated.map(Value::from)),
            ("selector", round.selector.map(Value::from)),
            ("suspended", round.suspended.map(Value::from)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                report[name] = value;
            }
        }
        Some(report)
    }
}

/// The generation of a lower hub's object after the hub's object has got this generation.
fn below(generation: i64) -> i64 {
    10 * generation
}

#[derive(Default)]
struct Hub {
    clusters: &'static [Cluster],
    generation: i64,
    total: i32,
    status: Option<String>,
    cells: BTreeMap<(&'static str, &'static str), CellState>,
    lower_hubs: BTreeMap<&'static str, Option<String>>,
    marks: Vec<String>,
    is_duplicated: bool,
    silent: Option<&'static str>,
}

impl Hub {
    fn advance(&mut self, generation: i64, round: &LevelsRound) {
        self.generation = generation;
        let names = self.clusters.iter().flat_map(|(cluster, cells)| {
            let cells = if cells.is_empty() { &[""][..] } else { cells };
            cells.iter().map(move |cell| (*cluster, *cell))
        });
        self.silent = round.silent;
        let first = round.cells.first().map_or(1, |cell| cell.share);
        for (name, cell) in names.zip(&round.cells) {
            let state = self.cells.entry(name).or_default();
            if round.silent == Some(name.0) && state.round.is_some() {
                continue;
            }
            if cell.acts {
                state.acted = generation;
                state.share = if self.is_duplicated {
                    first
                } else {
                    cell.share
                };
            }
            // A cell that does not act shows the state of another time, but its conditions are about its own generation.
            state.round = Some(cell.clone());
            state.has_reported |= round.silent != Some(name.0) && state.report(None).is_some();
        }
        let sum = self.cells.values().map(|it| it.share).sum();
        let total = if self.is_duplicated { first } else { sum };
        // No sum of shares equals it by chance.
        self.total = if round.adds_up { total } else { total + 10 };
        // Only the lower hub knows of a cell that has never reported.
        let marked = self.cells().filter(|(_, cell)| {
            let round = cell.round.as_ref();
            cell.has_reported && round.is_some_and(|round| round.is_unreachable)
        });
        self.marks = marked.map(|(name, _)| name).collect();
    }

    fn cells(&self) -> impl Iterator<Item = (String, &CellState)> {
        self.cells.iter().map(|((cluster, cell), state)| {
            let name = match *cell {
                "" => (*cluster).to_owned(),
                cell => format!("{cluster}.{cell}"),
            };
            (name, state)
        })
    }

    /// Returns the item of a Cluster: of a cell, or of a lower hub with the fold of its cells.
    fn report_of(&mut self, cluster: &'static str) -> Value {
        let cells: Vec<_> = self
            .cells
            .iter()
            .filter(|((of, _), _)| *of == cluster)
            .collect();
        if self.silent == Some(cluster) {
            return item(cluster, None);
        }
        if let [((_, ""), cell)] = cells.as_slice() {
            return item(cluster, cell.report(None));
        }
        let items = cells
            .iter()
            .map(|((_, name), cell)| item(name, cell.report(Some(below))));
        let items: Vec<_> = items.collect();
        let shares = cells.iter().map(|(_, cell)| cell.share);
        let share = match self.is_duplicated {
            true => shares.max().unwrap_or_default(),
            false => shares.sum(),
        };
        let generation = below(self.generation);
        let former = self.lower_hubs.entry(cluster).or_default();
        *former = render(&items, &[], generation, share, former.as_deref());
        let mut status: Value = serde_json::from_str(former.as_ref().unwrap()).unwrap();
        status["generation"] = json!(generation);
        status["resourceTemplateGeneration"] = json!(self.generation);
        status["assignedReplicas"] = json!(share);
        item(cluster, Some(status))
    }
}

fn item(name: &str, status: Option<Value>) -> Value {
    json!({"clusterName": name, "applied": true, "status": status.unwrap_or_else(|| json!({}))})
}

fn render(
    items: &[Value],
    marks: &[String],
    generation: i64,
    total: i32,
    former: Option<&str>,
) -> Option<String> {
    let items = Value::from(items.to_vec()).to_string();
    let mut fold = StatusFold::of_items(&items).unwrap();
    fold.mark_unreachable(marks.iter().map(|cell| {
        let mark = Unreachable {
            since: Timestamp::UNIX_EPOCH,
            message: "m".into(),
        };
        (cell.as_str(), mark)
    }));
    let template = ResourceTemplate {
        generation: Some(generation),
        min_replicas: Some(total),
        replicas: Some(total),
        status: former,
        shown: &[],
    };
    fold.render(&template, NOW.parse().unwrap())
}

/// Returns a status without the parts that may differ: a lower hub tells of its silent cells in one message, the status
/// of its only cell has the generation of its own object, and former generations are only known if they were reported in
/// time.
fn comparable(status: &str, generation: i64) -> String {
    let mut status: Value = serde_json::from_str(status).unwrap();
    let no_list = &mut Vec::new();
    let conditions = status["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        if condition["observedGeneration"] != generation {
            condition["observedGeneration"] = Value::Null;
        }
        let is_of_silent = condition["reason"] != "Reason";
        if is_of_silent {
            condition["message"] = Value::Null;
        }
    }
    for cell in status["cells"].as_array_mut().unwrap_or(no_list) {
        if cell["resourceTemplateGeneration"] != generation {
            cell["resourceTemplateGeneration"] = Value::Null;
        }
        if cell["name"] == "m-2.c" {
            for condition in cell["conditions"].as_array_mut().into_iter().flatten() {
                condition
                    .as_object_mut()
                    .unwrap()
                    .remove("observedGeneration");
            }
        }
    }
    status.to_string()
}
