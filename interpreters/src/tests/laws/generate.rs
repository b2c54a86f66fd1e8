//! Generates histories of reports about one WorkloadDeployment. Most reports are valid. Some reports are arbitrary
//! JSON.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Number, Value, json};

use super::COUNTERS;

/// The successive calls about one object.
#[derive(Clone, Debug)]
pub(super) struct ReportHistory {
    pub(super) rounds: Vec<Round>,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) generation: i64,
    pub(super) replicas: Option<i32>,
    pub(super) min_replicas: Option<i32>,
    /// The value of `aggregatedStatus`.
    pub(super) items: Vec<Value>,
    /// The unreachable cells.
    pub(super) marks: Vec<UnreachableMark>,
    /// The cells to which the object is scheduled.
    pub(super) expected: Vec<&'static str>,
}

/// An unreachable cell.
#[derive(Clone, Debug)]
pub(super) struct UnreachableMark {
    pub(super) cell: &'static str,
    /// Time in seconds since 1970.
    pub(super) since: i64,
    pub(super) message: String,
}

const CELLS: [&str; 4] = ["a", "b", "cell-3", "d"];
const TYPES: [&str; 5] = [
    "Available",
    "ReplicasReady",
    "CellsReporting",
    "example.com/Other",
    "-bad-",
];
const STATUSES: [&str; 4] = ["True", "False", "Unknown", "Maybe"];
const TIMES: [&str; 5] = [
    "2026-11-21T09:00:00Z",
    "2026-11-20T09:00:00.123456+01:00",
    "2026-11-20 09:00Z",
    "yesterday",
    "2026-13-20T09:00:00Z",
];
const TEXTS: [&str; 7] = [
    "",
    "",
    "",
    "ok",
    "b: no status reported; c",
    "\u{0}\"\\\u{202e}☃",
    "null",
];
/// Names of cells below lower hubs.
const NAMES_BELOW: [&str; 6] = ["a", "b", "a.b", "", "not a name", LONG_NAME];
const LONG_NAME: &str =
    "us-east-1-with-a-very-long-name.dfw-with-a-very-long-name.a1-with-a-long-name";
const SELECTORS: [&str; 3] = ["uid=a", "uid=b", ""];
const REASONS: [&str; 4] = ["Stable", "A", "not a reason", ""];

pub(super) fn histories() -> impl Strategy<Value = ReportHistory> {
    let round = (
        prop::bool::weighted(0.3),
        option::weighted(0.2, 0..5_i32),
        option::weighted(0.95, 0..5_i32),
        subsequence(CELLS.to_vec(), 0..=3),
        vec(item(), 4),
        prop::bool::weighted(0.05),
        option::weighted(0.7, marks()),
        subsequence(CELLS.to_vec(), 0..=2),
    );
    vec(round, 1..4).prop_map(|rounds| {
        let mut generation = 1;
        let rounds = rounds.into_iter().map(
            |(next, replicas, min_replicas, cells, reports, twice, marks, expected)| {
                generation += i64::from(next);
                let named = cells.into_iter().zip(&reports);
                let mut items: Vec<_> = named.map(|(cell, item)| with_name(cell, item)).collect();
                if let (true, Some(first), Some(other)) = (twice, items.first(), reports.last()) {
                    let same_cell = first["clusterName"].as_str().unwrap_or_default();
                    items.push(with_name(same_cell, other));
                }
                Round {
                    generation,
                    replicas,
                    min_replicas,
                    items,
                    marks: marks.unwrap_or_default(),
                    expected,
                }
            },
        );
        ReportHistory {
            rounds: rounds.collect(),
        }
    })
}

/// Generates histories in which some items claim to be of lower hubs: their status names cells.
pub(super) fn histories_of_lower_hubs() -> impl Strategy<Value = ReportHistory> {
    let name = || select(NAMES_BELOW.to_vec());
    let entry = (status(), name()).prop_map(|(mut entry, name)| {
        entry["name"] = json!(name);
        for counter in COUNTERS {
            let number = entry[counter]
                .as_i64()
                .and_then(|it| i32::try_from(it).ok());
            entry[counter] = json!(number.unwrap_or_default());
        }
        entry
    });
    let claim = (
        option::of(vec(entry, 0..3)),
        option::of(name()),
        prop::bool::weighted(0.7),
    );
    (histories(), vec(claim, 12)).prop_map(|(mut history, claims)| {
        let rounds = history.rounds.iter_mut();
        let statuses = rounds.flat_map(|round| &mut round.items);
        let statuses = statuses.filter_map(|item| item.get_mut("status")?.as_object_mut());
        for (status, (cells, reporting_cell, claims)) in statuses.zip(claims) {
            if claims {
                status.extend(cells.map(|cells| ("cells".to_owned(), json!(cells))));
                let reporting_cell = reporting_cell.map(|it| json!(it));
                status.extend(reporting_cell.map(|it| ("reportingCell".to_owned(), it)));
            }
        }
        history
    })
}

fn marks() -> impl Strategy<Value = Vec<UnreachableMark>> {
    let told = (1_795_000_000..1_795_000_009_i64, message());
    (subsequence(CELLS.to_vec(), 1..=3), vec(told, 3)).prop_map(|(cells, told)| {
        let marks = cells.into_iter().zip(told);
        let mark = |(cell, (since, message))| UnreachableMark {
            cell,
            since,
            message,
        };
        marks.map(mark).collect()
    })
}

fn with_name(cell: &str, item: &Value) -> Value {
    let mut item = item.clone();
    item["clusterName"] = json!(cell);
    item
}

fn item() -> impl Strategy<Value = Value> {
    let applied = rare_other(
        0.1,
        prop_oneof![9 => Just(json!(true)), 1 => Just(json!(false))],
    );
    let message = option::weighted(0.1, rare_other(0.1, message().prop_map(Value::from)));
    let status = prop_oneof![17 => status(), 1 => Just(json!({})), 2 => other()];
    let unknown = option::weighted(0.1, other());
    (
        option::weighted(0.95, applied),
        message,
        option::weighted(0.9, status),
        unknown,
    )
        .prop_map(|(applied, applied_message, status, unknown)| {
            object([
                ("applied", applied),
                ("appliedMessage", applied_message),
                ("status", status),
                ("unknown", unknown),
            ])
        })
}

fn status() -> impl Strategy<Value = Value> {
    let number = || rare_field(prop_oneof![15 => 0..5_i64, 1 => huge()].prop_map(Value::from));
    let generation = || rare_field((1..4_i64).prop_map(Value::from));
    let conditions = rare_field(vec(rare_other(0.01, condition()), 0..4).prop_map(Value::from));
    let own = || option::weighted(0.05, other()).boxed();
    // A status that names its cells is that of a lower hub.
    let reporting_cell = other().prop_filter("names a cell", |it| !it.is_string());
    let location = option::weighted(
        0.1,
        rare_other(0.2, Just(json!({"name": "dfw", "namespace": "default"}))),
    );
    let selector = rare_field(select(SELECTORS.to_vec()).prop_map(Value::from));
    let suspended = option::weighted(0.3, rare_other(0.02, any::<bool>().prop_map(Value::from)));
    let updated = option::weighted(0.5, number().prop_map(Option::unwrap_or_default));
    (
        [number(), number(), number(), number(), updated.boxed()],
        [
            generation(),
            generation(),
            generation(),
            number(),
            number(),
            generation(),
        ],
        conditions,
        [
            own(),
            own(),
            option::weighted(0.05, reporting_cell).boxed(),
            location.boxed(),
            selector,
            suspended.boxed(),
        ],
    )
        .prop_map(|(counters, generations, conditions, others)| {
            let [current, desired, ready, replicas, updated] = counters;
            let [
                generation,
                observed,
                template,
                assigned,
                assigned_min,
                stamp,
            ] = generations;
            let [
                unknown,
                cells,
                reporting_cell,
                location,
                selector,
                suspended,
            ] = others;
            object([
                ("currentReplicas", current),
                ("desiredReplicas", desired),
                ("readyReplicas", ready),
                ("replicas", replicas),
                ("generation", generation),
                ("observedGeneration", observed),
                ("resourceTemplateGeneration", template),
                ("assignedReplicas", assigned),
                ("assignedMinReplicas", assigned_min),
                ("cellRulesStamp", stamp),
                ("conditions", conditions),
                ("unknown", unknown),
                ("cells", cells),
                ("reportingCell", reporting_cell),
                ("location", location),
                ("selector", selector),
                ("suspended", suspended),
                ("updatedReplicas", updated),
            ])
        })
}

fn condition() -> impl Strategy<Value = Value> {
    let mostly = |values: &'static [&'static str], good: usize| {
        let (good, bad) = values.split_at(good);
        prop_oneof![60 => select(good), 1 => select(bad)].prop_map(|text| Some(json!(text)))
    };
    (
        mostly(&TYPES, 4),
        mostly(&STATUSES, 3),
        mostly(&REASONS, 2),
        mostly(&TIMES, 2),
        option::weighted(0.9, message().prop_map(Value::from)),
        option::weighted(0.8, rare_other(0.02, (1..4_i64).prop_map(Value::from))),
    )
        .prop_map(|(type_, status, reason, time, message, generation)| {
            object([
                ("type", type_),
                ("status", status),
                ("reason", reason),
                ("lastTransitionTime", time),
                ("message", message),
                ("observedGeneration", generation),
            ])
        })
}

/// Generates a short message. About one message in 1001 has the maximum length.
fn message() -> impl Strategy<Value = String> {
    prop_oneof![
        1000 => select(TEXTS.to_vec()).prop_map(str::to_owned),
        1 => Just("ä".repeat(api::condition::MESSAGE_MAX)),
    ]
}

fn huge() -> impl Strategy<Value = i64> {
    select(vec![
        i64::MIN,
        i64::from(i32::MIN),
        -1,
        i64::from(i32::MAX),
        i64::MAX,
    ])
}

/// Generates a value of any type.
fn other() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        select(vec![-1.5, 1e30, 3.0]).prop_map(|number| Number::from_f64(number).into()),
        huge().prop_map(Value::from),
        Just(json!(u64::MAX)),
        select(TEXTS.to_vec()).prop_map(Value::from),
    ];
    prop_oneof![
        6 => leaf.clone(),
        1 => vec(leaf.clone(), 0..2).prop_map(Value::from),
        1 => leaf.prop_map(|value| json!({"name": value})),
    ]
}

fn rare_other(
    probability: f64,
    usual: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    (prop::bool::weighted(probability), usual, other())
        .prop_map(|(odd, usual, other)| if odd { other } else { usual })
}

/// Generates a field. The field is usually present and usually valid.
fn rare_field(usual: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    option::weighted(0.95, rare_other(0.01, usual)).boxed()
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}
