//! Tests of summaries, in a federation with two cells in one city and one in another.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::karmada::Cluster;
use api::karmada::cluster::READY;
use api::workload_summary::{RowState, Scalar, WorkloadSummaryStatus};
use api::{Condition, Workload, WorkloadDeployment, WorkloadSummary, condition};
use harness::audit::{AuditPosition, Write};
use harness::{CellConfig, Config, checkout, wait};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixture::{self, Space, WITHIN, create, patch};

const CELLS: [(&str, &str); 3] = [("dfw1", "DFW"), ("dfw2", "DFW"), ("ord1", "ORD")];
/// The cell that is cut off.
const CUT: &str = "dfw2";
/// Time limit from the cut until the row shows it, and from the return of the cell.
const CHANGED: Duration = Duration::from_mins(2);
/// Time limit from the change of a cell's WorkloadDeployment to the status of a summary.
const OURS: Duration = Duration::from_secs(10);
/// Time during which no summary may be written.
const SILENCE: Duration = Duration::from_secs(20);

fn summary(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api::API_VERSION, "kind": "WorkloadSummary", "metadata": {"name": name}, "spec": spec})
}

/// Returns the status for the current generation.
fn current(summary: &WorkloadSummary) -> Option<&WorkloadSummaryStatus> {
    let status = summary.status.as_ref()?;
    let is_current = status.observed_generation == summary.metadata.generation
        && condition::is_true(&status.conditions, api::workload_summary::CURRENT);
    is_current.then_some(status)
}

/// Cell, state and the number of ready Instances of each row.
fn rows(summary: &WorkloadSummary) -> Option<Vec<String>> {
    let rows = current(summary)?.rows.iter().map(|row| {
        let ready = row.values.get("ready").map(Scalar::to_string);
        let state = row.state.map_or("-", RowState::as_str);
        let cell = row.cell.as_deref().unwrap_or("-");
        format!("{cell} {state} {}", ready.as_deref().unwrap_or("-"))
    });
    Some(rows.collect())
}

async fn until_rows(
    summaries: &Api<WorkloadSummary>,
    within: Duration,
    expected: &[&str],
) -> anyhow::Result<WorkloadSummary> {
    let has = |summary: &WorkloadSummary| rows(summary).is_some_and(|rows| rows == expected);
    wait::until(summaries, "by-cell", &format!("{expected:?}"), within, has).await
}

/// A summary of the Workload `web` has a row for each of these cells, with two ready Instances.
pub(crate) async fn each_cell_has_a_row(space: &Space<'_>, cells: &[&str]) -> anyhow::Result<()> {
    let summaries: Api<WorkloadSummary> = space.in_project();
    let columns = json!([{"name": "ready", "path": "$.status.readyReplicas"}]);
    let spec = json!({"workload": "web", "rows": "Cells", "columns": columns});
    create(&summaries, summary("by-cell", &spec)).await?;
    let expected: Vec<_> = cells
        .iter()
        .map(|cell| format!("{cell} Reported 2"))
        .collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    until_rows(&summaries, WITHIN, &expected).await?;
    let deletion = DeleteParams::default();
    summaries.delete("by-cell", &deletion).await?;
    Ok(())
}

async fn until_groups(
    summaries: &Api<WorkloadSummary>,
    name: &str,
    expected: &Value,
) -> anyhow::Result<()> {
    let has = |summary: &WorkloadSummary| {
        current(summary).is_some_and(|status| json!(status.groups) == *expected)
    };
    let what = expected.to_string();
    wait::until(summaries, name, &what, WITHIN, has).await?;
    Ok(())
}

/// Each expected cell has a row, also while it is cut off. Groups follow, and nothing is written at rest.
pub(crate) async fn cells_and_instances() -> anyhow::Result<()> {
    let config = Config {
        cells: CELLS.map(|(name, city)| CellConfig::new(name, city)).into(),
        ..fixture::config("summaries")?
    };
    let mut federation = fixture::start_from(&config).await?;
    let space = Space::create(&federation, "summaries").await?;
    let summaries: Api<WorkloadSummary> = space.in_project();
    let workloads: Api<Workload> = space.in_project();
    the_api_server_refuses_invalid_queries(&space).await?;
    create_summaries(&summaries).await?;
    until_rows(&summaries, WITHIN, &[]).await?;

    let placements: [(&str, &[&str], i32); 1] = [("us", &["DFW", "ORD"], 1)];
    space.create_workload("web", &placements).await?;
    let one_each = ["dfw1 Reported 1", "dfw2 Reported 1", "ord1 Reported 1"];
    until_rows(&summaries, WITHIN, &one_each).await?;
    let by_city = |dfw: i32, ord: i32| {
        json!([
            {"keys": {"city": "DFW"}, "rows": 2, "values": {"ready": dfw}},
            {"keys": {"city": "ORD"}, "rows": 1, "values": {"ready": ord}},
        ])
    };
    until_groups(&summaries, "by-city", &by_city(2, 1)).await?;
    let running = json!([
        {"keys": {"city": "DFW", "reason": "Running"}, "rows": 2},
        {"keys": {"city": "ORD", "reason": "Running"}, "rows": 1},
    ]);
    until_groups(&summaries, "by-reason", &running).await?;
    a_wrong_path_is_shown(&summaries).await?;

    let two_each = ["dfw1 Reported 2", "dfw2 Reported 2", "ord1 Reported 2"];
    follow_a_cell(&space, &summaries, &workloads, &two_each).await?;
    until_groups(&summaries, "by-city", &by_city(4, 2)).await?;
    nothing_is_written(&space).await?;

    let clusters: Api<Cluster> = Api::all(federation.hub().client());
    let cut = Instant::now();
    federation.cell_mut(CUT)?.kill_apiserver().await;
    let unreachable = ["dfw1 Reported 2", "dfw2 Unreachable 2", "ord1 Reported 2"];
    let shown = until_rows(&summaries, CHANGED, &unreachable).await?;
    let after = cut.elapsed().as_secs_f64();
    eprintln!("a cut is shown after {after:.1} s");
    let status = clusters.get(CUT).await?.status.unwrap_or_default();
    let ready = condition::find(&status.conditions, READY).context("no condition Ready")?;
    let shown = current(&shown).and_then(|it| it.rows.get(1)).cloned();
    let shown = shown.context("no row")?;
    assert_eq!(shown.reason.as_deref(), Some("CellUnreachable"));
    assert_eq!(shown.since, Some(ready.last_transition_time.clone()));
    assert!(shown.message.is_some_and(|it| !it.is_empty()));
    let reported = json!([
        {"keys": {"city": "DFW"}, "rows": 1, "values": {"ready": 2}},
        {"keys": {"city": "ORD"}, "rows": 1, "values": {"ready": 2}},
    ]);
    until_groups(&summaries, "by-city", &reported).await?;

    federation.cell_mut(CUT)?.restart_apiserver().await?;
    until_rows(&summaries, CHANGED, &two_each).await?;
    workloads.delete("web", &DeleteParams::default()).await?;
    until_rows(&summaries, CHANGED, &[]).await?;
    until_groups(&summaries, "by-city", &json!([])).await?;
    federation.stop().await;
    Ok(())
}

/// Creates the summaries of docs/operate/summaries.md.
async fn create_summaries(summaries: &Api<WorkloadSummary>) -> anyhow::Result<()> {
    let page = checkout::root().join("docs/operate/summaries.md");
    let page = fs::read_to_string(page)?;
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|it| it.split("```").next());
    let queries: Vec<_> = blocks
        .filter(|it| it.contains("\nspec:") || it.starts_with("spec:"))
        .collect();
    let names = ["by-cell", "by-reason", "by-city"];
    ensure!(queries.len() == names.len(), "{queries:?}");
    for (name, query) in names.into_iter().zip(queries) {
        let object: Value = serde_saphyr::from_str(query)?;
        create(summaries, summary(name, &object["spec"])).await?;
    }
    Ok(())
}

async fn the_api_server_refuses_invalid_queries(space: &Space<'_>) -> anyhow::Result<()> {
    let any = ApiResource::erase::<WorkloadSummary>(&());
    let client = space.federation.project().client();
    let summaries: Api<DynamicObject> = Api::namespaced_with(client, &space.name, &any);
    let columns = json!([{"name": "a", "path": "$.city"}]);
    let expressions = vec![json!({"key": "a", "operator": "Exists"}); 17];
    let filter = |operator: &str, values: Option<Vec<&str>>| {
        let mut filter = json!({"column": "a", "operator": operator});
        if let Some(values) = values {
            filter["values"] = json!(values);
        }
        json!({"workload": "web", "rows": "Cells", "columns": columns, "where": [filter]})
    };
    for (spec, problem) in [
        (
            json!({"rows": "Cells"}),
            "exactly one of workload and selector",
        ),
        (
            json!({"rows": "Cells", "workload": "w", "selector": {}}),
            "exactly one of workload and selector",
        ),
        (
            json!({"rows": "Cells", "selector": {"matchExpressions": expressions}}),
            "must have at most 16 items",
        ),
        (json!({"workload": "w"}), "spec.rows: Required value"),
        (
            json!({"workload": "w", "rows": "Nodes"}),
            "supported values: \"Cells\", \"Instances\"",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "groupBy": ["b"], "columns": columns}),
            "groupBy: a column is not in columns",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "aggregates": [{"name": "n", "function": "Sum", "column": "b"}]}),
            "aggregates: a column is not in columns",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "aggregates": [{"name": "n", "function": "Sum"}]}),
            "Sum, Min and Max need a column",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "where": [{"column": "b", "operator": "Exists"}]}),
            "where: a column is not in columns",
        ),
        (filter("In", None), "In and NotIn need values"),
        (
            filter("Exists", Some(vec!["x"])),
            "In and NotIn need values",
        ),
        (
            filter("LessThan", Some(vec!["1", "2"])),
            "In and NotIn need values",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "columns": [{"name": "A b", "path": "$"}]}),
            "spec.columns[0].name",
        ),
        (
            json!({"workload": "w", "rows": "Cells", "columns": [{"name": "a", "path": "$"}, {"name": "a", "path": "$"}]}),
            "Duplicate value",
        ),
    ] {
        let object = serde_json::from_value(summary("refused", &spec))?;
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let error = match summaries.create(&dry, &object).await {
            Ok(_) => anyhow::bail!("accepted: {spec}"),
            Err(error) => error.to_string(),
        };
        ensure!(error.contains(problem), "{spec}: {error}");
    }
    Ok(())
}

async fn a_wrong_path_is_shown(summaries: &Api<WorkloadSummary>) -> anyhow::Result<()> {
    let columns = json!([{"name": "ready", "path": "status.readyReplicas"}]);
    let spec = json!({"workload": "web", "rows": "Cells", "columns": columns});
    create(summaries, summary("wrong", &spec)).await?;
    let is_shown = |summary: &WorkloadSummary| {
        let status = summary.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        condition::find(conditions, api::workload_summary::CURRENT).is_some_and(|it: &Condition| {
            it.is_false()
                && it.reason == "InvalidQuery"
                && it.message.starts_with("spec.columns[0].path: character 1")
        })
    };
    wait::until(summaries, "wrong", "invalid", WITHIN, is_shown).await?;
    let corrected =
        json!({"spec": {"columns": [{"name": "ready", "path": "$.status.readyReplicas"}]}});
    patch(summaries, "wrong", corrected).await?;
    let is_current = |summary: &WorkloadSummary| current(summary).is_some();
    wait::until(summaries, "wrong", "current", WITHIN, is_current).await?;
    Ok(())
}

/// Scales the Workload to two Instances in each cell. Measures the time from the last change in a cell to the summary.
async fn follow_a_cell(
    space: &Space<'_>,
    summaries: &Api<WorkloadSummary>,
    workloads: &Api<Workload>,
    expected: &[&str],
) -> anyhow::Result<()> {
    let scaled = json!([{"op": "replace", "path": "/spec/placements/0/scaleSettings/minReplicas", "value": 2}]);
    let scaled = kube::api::Patch::<()>::Json(serde_json::from_value(scaled)?);
    workloads
        .patch("web", &kube::api::PatchParams::default(), &scaled)
        .await?;
    let in_cells = async {
        for (cell, city) in CELLS {
            let deployments = space.in_cell::<WorkloadDeployment>(cell);
            let name = format!("web-us-{}", city.to_lowercase());
            let is_ready = |it: &WorkloadDeployment| {
                it.status.as_ref().is_some_and(|it| it.ready_replicas == 2)
            };
            wait::until(&deployments, &name, "ready", WITHIN, is_ready).await?;
        }
        anyhow::Ok(Instant::now())
    };
    let in_summary = async {
        until_rows(summaries, WITHIN, expected).await?;
        anyhow::Ok(Instant::now())
    };
    let (in_cells, in_summary) = tokio::try_join!(in_cells, in_summary)?;
    let after = in_summary.saturating_duration_since(in_cells);
    eprintln!("summary after {:.2} s", after.as_secs_f64());
    ensure!(after < OURS, "{after:?}");
    Ok(())
}

/// I-3: a settled summary is not written.
async fn nothing_is_written(space: &Space<'_>) -> anyhow::Result<()> {
    let of_summaries = |position: &AuditPosition| {
        let writes = position.writes()?.into_iter();
        let ours = writes.filter(|it| it.is_ours() && it.resource == "workloadsummaries");
        anyhow::Ok(ours.map(|it: Write| it.to_string()).collect::<Vec<_>>())
    };
    let position = AuditPosition::now(space.federation.planes())?;
    // This sleep does not wait for an event. No write may happen during this time.
    sleep(SILENCE).await;
    assert_eq!(of_summaries(&position)?, [""; 0]);
    Ok(())
}
