//! Tests that a settled federation makes no writes, even when the controllers reconcile every object again.

use std::time::Duration;

use anyhow::ensure;
use api::WorkloadSummary;
use harness::Federation;
use harness::audit::{AuditPosition, Write};
use harness::wait;
use serde_json::json;
use tokio::time::sleep;

use crate::fixture::{DFW, ORD, Space, create};

/// Time during which no write may happen.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);

/// I-3: a settled federation writes nothing, even when every object is reconciled again.
pub(crate) async fn writes_nothing(federation: &Federation) -> anyhow::Result<()> {
    is_silent(federation, SILENCE).await
}

/// I-3: as above, beyond every interval of the controllers and of the watches.
pub(crate) async fn an_hour_without_a_write(federation: &Federation) -> anyhow::Result<()> {
    is_silent(federation, Duration::from_hours(1)).await
}

/// Checks that compute-federation makes no write for this time after a restart.
async fn is_silent(federation: &Federation, time: Duration) -> anyhow::Result<()> {
    let space = Space::create(federation, "settled").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2), ("south", &["DFW"], 1)])
        .await?;
    let summary = json!({
        "apiVersion": api::API_VERSION, "kind": "WorkloadSummary", "metadata": {"name": "by-cell"},
        "spec": {"selector": {}, "rows": "Cells", "columns": [{"name": "ready", "path": "$.status.readyReplicas"}]},
    });
    create(&space.in_project::<WorkloadSummary>(), summary).await?;
    let all = AuditPosition::now(federation.planes())?;
    space.until_settled("web", 5).await?;
    // The status can arrive before the Instances.
    let names = [
        "web-south-dfw-0",
        "web-us-dfw-0",
        "web-us-dfw-1",
        "web-us-ord-0",
        "web-us-ord-1",
    ];
    space.until_instances(space.in_project(), &names).await?;
    // The earlier writes prove that the test counts the writes of compute-federation.
    assert!(!ours(all.writes()?).is_empty());

    is_silent_after_a_restart(federation, &[DFW, ORD], time).await
}

/// Checks that compute-federation makes no write on any plane for this time after its processes of management and of
/// these cells were restarted.
pub(crate) async fn is_silent_after_a_restart(
    federation: &Federation,
    cells: &[&str],
    time: Duration,
) -> anyhow::Result<()> {
    // Other tests may have left objects that are still changing.
    quiet(federation).await?;
    let position = AuditPosition::now(federation.planes())?;
    // A restarted manager reconciles every object.
    let mut managers = vec![federation.management()?];
    for cell in cells {
        managers.push(federation.cell_manager(cell)?);
    }
    for manager in managers {
        let mut manager = manager.lock().await;
        manager.terminate().await;
        manager.restart().await?;
    }
    // This sleep does not wait for an event. No write may happen during this time.
    sleep(time).await;
    let writes: Vec<_> = ours(position.writes()?)
        .iter()
        .map(Write::to_string)
        .collect();
    ensure!(
        writes.is_empty(),
        "{} writes:\n{}",
        writes.len(),
        writes.join("\n")
    );
    Ok(())
}

/// Returns the writes of compute-federation, without those of leases.
fn ours(writes: Vec<Write>) -> Vec<Write> {
    let writes = writes.into_iter();
    writes
        .filter(|write| write.is_ours() && !write.is_lease())
        .collect()
}

/// Waits until compute-federation has made no write for two seconds.
pub(crate) async fn quiet(federation: &Federation) -> anyhow::Result<()> {
    wait::eventually(
        "two seconds without our writes",
        Duration::from_mins(1),
        || async {
            let position = AuditPosition::now(federation.planes())?;
            sleep(Duration::from_secs(2)).await;
            let writes: Vec<_> = position
                .writes()?
                .into_iter()
                .filter(Write::is_ours)
                .map(|write| write.to_string())
                .collect();
            anyhow::ensure!(writes.is_empty(), "{}", writes.join("\n"));
            Ok(())
        },
    )
    .await
}
