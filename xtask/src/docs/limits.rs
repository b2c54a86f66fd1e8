//! The fixed limits: constants in the sources, with their values.

use std::fs;

use anyhow::{Context, ensure};
use harness::checkout::root;

use super::Section;
use super::citations::rust_files;

/// Crate, name and meaning of a constant. The name is unique in its crate.
const CONSTANTS: [(&str, &str, &str); 105] = [
    (
        "webhooks",
        "RESPONSE_MARGIN",
        "Time of the caller's `timeout` that is reserved for the transfer of the response.",
    ),
    (
        "webhooks",
        "REQUEST_OVERHEAD",
        "Bytes that a request reserves besides its body, its decoded form and its answer.",
    ),
    (
        "interpreters",
        "PEAK_BYTES_PER_BYTE",
        "Bytes that a request of the interpreter reserves for its decoded form, as a multiple of the size of its body.",
    ),
    (
        "webhooks",
        "SMALL_BODY",
        "Largest body that is interpreted on a thread that serves connections, in bytes.",
    ),
    (
        "webhooks",
        "BRIEF_BODY",
        "Largest body that is always interpreted on a thread that serves connections, in bytes.",
    ),
    (
        "webhooks",
        "BRIEF_SEPARATORS",
        "Maximum number of values in a body that is larger than `BRIEF_BODY` and is interpreted on a thread that serves connections.",
    ),
    (
        "webhooks",
        "SOURCE_PER_FREE",
        "Bytes of the part `small` that a source address may hold for each byte that is free.",
    ),
    (
        "webhooks",
        "QUEUE_MAX",
        "Longest time for which a request with a larger body or with more values waits for memory and for a thread, in all.",
    ),
    (
        "webhooks",
        "VALUES_MAX",
        "Values in the spec of a Workload that admission checks.",
    ),
    (
        "webhooks",
        "USER_INFO_MAX",
        "Largest `userInfo` in a request of admission, in bytes.",
    ),
    (
        "interpreters",
        "RESOURCES_MAX",
        "Resources of one container, and of one Instance.",
    ),
    (
        "webhooks",
        "SCRIPTS_AT_ONCE",
        "Lua scripts that run at the same time.",
    ),
    (
        "webhooks",
        "OF_KIND_AT_ONCE",
        "Lua scripts of one kind that run at the same time.",
    ),
    (
        "webhooks",
        "OF_SOURCE_AT_ONCE",
        "Lua scripts that run at the same time for one source address.",
    ),
    (
        "webhooks",
        "OF_KIND_AND_SOURCE_AT_ONCE",
        "Lua scripts of one kind that run at the same time for one source address.",
    ),
    (
        "webhooks",
        "SERVED_MEMORY_MAX",
        "`SCRIPT_MEMORY_MAX` of a script that is served.",
    ),
    (
        "webhooks",
        "SERVED_RESULT_MAX",
        "`RESULT_MAX` of a script that is served.",
    ),
    (
        "interpreters",
        "SCRIPT_MAX",
        "Size of a Lua script, in bytes.",
    ),
    (
        "interpreters",
        "INSTRUCTIONS_MAX",
        "Instructions of one call of a Lua script, with the steps of pattern matching.",
    ),
    (
        "interpreters",
        "SCRIPT_MEMORY_MAX",
        "Memory of one call of a Lua script, with the objects of the request, in bytes.",
    ),
    (
        "interpreters",
        "RESULT_MAX",
        "Memory of the result of a Lua script, of the patch that it makes, and of the object that it changes, in bytes.",
    ),
    (
        "interpreters",
        "LEVELS_MAX",
        "Levels of tables in the result of a Lua script.",
    ),
    (
        "interpreters",
        "SEARCHED_MAX",
        "Longest text in which a Lua script searches, in bytes. Karmada's engine has the same limit.",
    ),
    (
        "webhooks",
        "LISTED_MAX",
        "Maximum number of errors of a Workload in one answer.",
    ),
    (
        "webhooks",
        "QUOTED_MAX",
        "Bytes of a value that an error shows.",
    ),
    (
        "webhooks",
        "MESSAGE_MAX",
        "Bytes of an authorizer's message that an error quotes.",
    ),
    (
        "webhooks",
        "SUPPORTED_MAX",
        "Bytes of the supported values that an error lists.",
    ),
    (
        "webhooks",
        "REVIEWS_MAX",
        "Maximum number of access reviews of one request. Further Networks are refused.",
    ),
    (
        "webhooks",
        "CONCURRENT_REVIEWS",
        "Concurrent access reviews of one request. If the `userInfo` of the request is large, fewer run at the same time.",
    ),
    (
        "webhooks",
        "REMEMBERED_MAX",
        "Problems that are remembered, so that each is logged once.",
    ),
    (
        "api",
        "REPLICAS_MAX",
        "Largest `minReplicas` that the CRD and admission accept.",
    ),
    (
        "certs",
        "HEADER_MAX",
        "Bytes of the headers of an HTTP/2 request.",
    ),
    (
        "certs",
        "WINDOW",
        "Flow-control window of an HTTP/2 connection, and of each of its streams, in bytes.",
    ),
    (
        "certs",
        "BUFFER_MAX",
        "Read buffer of an HTTP/1.1 connection, and largest header of its requests, in bytes.",
    ),
    (
        "certs",
        "TLS_BUFFER",
        "Bytes of answers that TLS holds for one connection.",
    ),
    ("certs", "HANDSHAKES", "TLS handshakes at a time."),
    (
        "certs",
        "SLOW",
        "Time after which a TLS handshake ends if another one waits.",
    ),
    (
        "certs",
        "UNFINISHED_IDLE",
        "Time after which a connection that only waits for its client counts as idle.",
    ),
    (
        "certs",
        "LINGER",
        "Time for which the rest of an HTTP/1.1 body is discarded after its request was answered. The connection is then closed.",
    ),
    (
        "certs",
        "LINGER_MAX",
        "Maximum number of bytes that are discarded so.",
    ),
    (
        "certs",
        "DISCARD_AT_ONCE",
        "Bytes that are discarded so without a pause.",
    ),
    ("certs", "DISCARD_PAUSE", "The pause."),
    (
        "certs",
        "DISCARDS",
        "Maximum number of connections whose bodies are discarded at a time. One source address may have a quarter of them. The others are closed after `LINGER` too.",
    ),
    (
        "certs",
        "INTERMEDIATES_MAX",
        "Maximum number of intermediate certificates of a client.",
    ),
    (
        "certs",
        "PARTS",
        "Divisor: one source address may use the maximum of requests, TLS handshakes, early answers and discards, divided by this number.",
    ),
    (
        "certs",
        "NEW_PART",
        "Divisor: connections without a request may use the connection slots divided by this number.",
    ),
    ("api", "MESSAGE_MAX", "Characters of a condition's message."),
    (
        "controllers",
        "ENDING_MAX",
        "How long the deletion of a WorkloadDeployment waits for cells to end its Instances.",
    ),
    (
        "controllers",
        "ENDING_SHOWN_AFTER",
        "How long the deletion of a WorkloadDeployment waits for cells before `InstancesEnded` says so.",
    ),
    (
        "controllers",
        "ENDING_NAMED_MAX",
        "How many cells the message of `InstancesEnded` names.",
    ),
    (
        "controllers",
        "GRACE",
        "Time for which an Instance of the hub may lack its WorkloadDeployment before it is quarantined.",
    ),
    (
        "controllers",
        "PAUSE_MIN",
        "First pause after a copy to the hub was refused.",
    ),
    (
        "controllers",
        "PAUSE_MAX",
        "Longest pause after a copy to the hub was refused.",
    ),
    (
        "controllers",
        "CELL_RULES_MAX",
        "Most bytes of the rules of a cell together.",
    ),
    (
        "controllers",
        "POLICY_MAX",
        "Most bytes of the ClusterOverridePolicy with the rules of all cells.",
    ),
    (
        "api",
        "RULES_MAX",
        "Most entries in one list of a CellRule.",
    ),
    (
        "api",
        "CELLS_BELOW_MAX",
        "Most cells in the list of a LowerHub.",
    ),
    (
        "api",
        "CELL_BELOW_MESSAGE_MAX",
        "Most bytes of the message about a cell in a LowerHub.",
    ),
    (
        "api",
        "SILENT_LOWER_HUBS_MAX",
        "Most lower hubs with silent processes in the list of a LowerHub.",
    ),
    (
        "multicluster",
        "BEAT_INTERVAL",
        "Pause between two heartbeats of the process of a lower hub.",
    ),
    (
        "multicluster",
        "GRACE",
        "How long the process of a lower hub may send no heartbeat before it counts as silent.",
    ),
    (
        "controllers",
        "LIST_MAX",
        "Most bytes of the list of a LowerHub, with its messages. A list without messages can be longer.",
    ),
    (
        "controllers",
        "PAUSE_PER_CELL",
        "Pause after a write of a LowerHub, for each cell in its list.",
    ),
    ("api", "COLUMNS_MAX", "Most columns of a WorkloadSummary."),
    (
        "api",
        "FILTERS_MAX",
        "Most entries of `where` of a WorkloadSummary, and most values of one entry.",
    ),
    (
        "api",
        "GROUP_BY_MAX",
        "Most columns in `groupBy` of a WorkloadSummary.",
    ),
    (
        "api",
        "AGGREGATES_MAX",
        "Most aggregates of a WorkloadSummary.",
    ),
    (
        "api",
        "SELECTOR_MAX",
        "Most entries of `matchLabels` and of `matchExpressions` of a WorkloadSummary, and most values of one entry.",
    ),
    (
        "api",
        "TEXT_MAX",
        "Longest path of a column and longest value of `where` of a WorkloadSummary, in characters.",
    ),
    (
        "controllers",
        "SUMMARIES_MAX",
        "WorkloadSummaries of one namespace that are evaluated.",
    ),
    (
        "controllers",
        "EVALUATED_EVERY",
        "Shortest time between two evaluations of a WorkloadSummary.",
    ),
    (
        "controllers",
        "BYTES_PER_SECOND",
        "Bytes of its status that a WorkloadSummary writes per second at most, on average.",
    ),
    (
        "controllers",
        "EVALUATION_PAUSE_MAX",
        "The longest pause of all WorkloadSummaries of a project after an evaluation.",
    ),
    (
        "controllers",
        "PAUSE_PER_EVALUATION",
        "The pause of all WorkloadSummaries of a project after an evaluation, as a multiple of the time that it took.",
    ),
    (
        "controllers",
        "ROWS_EVALUATED_MAX",
        "Most rows that a WorkloadSummary evaluates.",
    ),
    (
        "controllers",
        "WORK_MAX",
        "Most units of work of one evaluation of a WorkloadSummary: values of documents, visited values, comparisons and 64 \
         bytes of text.",
    ),
    (
        "controllers",
        "ROWS_TEXT_MAX",
        "Most bytes of text in the rows of one evaluation of a WorkloadSummary: values, messages and errors.",
    ),
    (
        "controllers",
        "EVALUATIONS_MAX",
        "Most evaluations of WorkloadSummaries at a time.",
    ),
    (
        "controllers",
        "ROWS_SHOWN_MAX",
        "Most rows or groups in the status of a WorkloadSummary.",
    ),
    (
        "controllers",
        "ROWS_BYTES_MAX",
        "Most bytes of the rows or groups in the status of a WorkloadSummary.",
    ),
    (
        "controllers",
        "VALUE_MAX",
        "Longest value in a row of a WorkloadSummary, in bytes.",
    ),
    (
        "controllers",
        "LINE",
        "Maximum number of events that wait in one project. Further events are dropped.",
    ),
    (
        "controllers",
        "NAMED_MAX",
        "Maximum number of cities or Networks that a message about a Workload names for one cause.",
    ),
    (
        "controllers",
        "PAIRS_MAX",
        "Maximum number of placements of a Workload, and of cities in all its placements.",
    ),
    (
        "controllers",
        "COPIES_MAX",
        "Maximum size of the template and the scale settings of a Workload, as JSON in bytes, for all cities together.",
    ),
    (
        "controllers",
        "INSTANCES_MAX",
        "Maximum size of all Instances of a Workload, as JSON in bytes. An Instance counts as its template and `INSTANCE_OVERHEAD`.",
    ),
    (
        "controllers",
        "INSTANCE_OVERHEAD",
        "Bytes of an Instance besides its template: its metadata and its status.",
    ),
    (
        "controllers",
        "OPTIONAL",
        "Time for which a list of an optional kind may fail before the controllers start without the kind, or with an old cache of it.",
    ),
    ("multicluster", "LISTS", "Concurrent LISTs."),
    ("multicluster", "PAGE", "Objects of one page of a LIST."),
    (
        "multicluster",
        "PER_CONNECTION",
        "Requests and watches of one HTTP/2 connection to an API server.",
    ),
    (
        "multicluster",
        "CONNECT",
        "Time limit to establish a connection to an API server.",
    ),
    (
        "multicluster",
        "REQUEST",
        "Time limit until the answer of an API server begins, and between two parts of an answer.",
    ),
    (
        "multicluster",
        "WATCH_SILENCE",
        "Time without any event or bookmark after which a watch is restarted.",
    ),
    (
        "multicluster",
        "REQUESTS",
        "Concurrent access reviews of one project.",
    ),
    (
        "multicluster",
        "RESYNC",
        "Longest time until an object is reconciled again without an event. Each object has its own time, between 5 and 10 minutes.",
    ),
    (
        "multicluster",
        "BACKOFF_MIN",
        "First pause after a failed reconciliation.",
    ),
    (
        "multicluster",
        "BACKOFF_MAX",
        "Longest pause after a failed reconciliation.",
    ),
    (
        "multicluster",
        "KUBECONFIG_MAX",
        "Largest kubeconfig of a project in a directory, in bytes.",
    ),
    (
        "multicluster",
        "PROJECT_NAME_MAX",
        "Longest name of a project from a kubeconfig in a directory, in characters.",
    ),
    (
        "multicluster",
        "KUBECONFIG_WAIT",
        "Longest wait for the client of a kubeconfig of a project, and for the command that it names.",
    ),
    (
        "multicluster",
        "KUBECONFIG_CONNECTS",
        "Most kubeconfigs of projects whose clients are made, and whose commands run, at the same time.",
    ),
    (
        "multicluster",
        "RENEW_DEADLINE",
        "Time without a renewal of the lease after which the process stops writing.",
    ),
    (
        "controllers",
        "HANDOVER_MAX",
        "Longest time for which a claim of quota waits for the next Instance of the same name.",
    ),
    (
        "controllers",
        "PROMISED_MAX",
        "Longest time for which quota is promised to a larger replacement that has no claim.",
    ),
];

pub(super) fn fixed() -> anyhow::Result<Section> {
    let rows = CONSTANTS.map(|(crate_, name, meaning)| {
        let (file, value) = constant(crate_, name)?;
        Ok(vec![
            value,
            meaning.to_owned(),
            format!("`{name}` in `{file}`"),
        ])
    });
    Ok(Section {
        heading: Some("Fixed limits".to_owned()),
        paragraphs: vec!["No flag changes these values.".to_owned()],
        columns: ["value", "meaning", "source"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().collect::<anyhow::Result<_>>()?,
    })
}

/// Returns the file and the value of a constant.
fn constant(crate_: &str, name: &str) -> anyhow::Result<(String, String)> {
    let mut found = Vec::new();
    for file in rust_files(&format!("{crate_}/src"))? {
        let text = fs::read_to_string(root().join(&file))?;
        let lines = text.lines().filter(|line| !line.starts_with("    "));
        let declared = lines.filter_map(|line| line.split_once(&format!("const {name}: ")));
        let values = declared.filter_map(|(_, rest)| rest.split_once(" = "));
        found.extend(values.map(|(_, value)| (file.clone(), shown(value.trim_end_matches(';')))));
    }
    ensure!(
        found.len() <= 1,
        "xtask/src/docs/limits.rs: {crate_} has more than one constant {name}"
    );
    found
        .pop()
        .with_context(|| format!("xtask/src/docs/limits.rs: {crate_} has no constant {name}"))
}

/// Returns the value in a readable form.
fn shown(value: &str) -> String {
    let units = [
        ("Duration::from_millis(", "ms"),
        ("Duration::from_secs(", "s"),
        ("Duration::from_mins(", "min"),
        ("Duration::from_hours(", "h"),
    ];
    for (constructor, unit) in units {
        let number = value
            .strip_prefix(constructor)
            .and_then(|rest| rest.strip_suffix(')'));
        if let Some(number) = number {
            return format!("{} {unit}", number.replace('_', ""));
        }
    }
    match value.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        true => value.replace('_', ""),
        false => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        assert_eq!(shown("Duration::from_mins(15)"), "15 min");
        assert_eq!(shown("1_024"), "1024");
        assert_eq!(shown("16 << 10"), "`16 << 10`");
    }

    #[test]
    fn every_constant_exists() {
        fixed().unwrap();
    }
}
