//! A settled federation is silent, also when every object is looked at once more.

use std::time::Duration;

use harness::Federation;
use harness::audit::{Mark, Write};
use tokio::time::sleep;

use crate::fixture::{DFW, ORD, Space};

/// How long nothing must be written.
const SILENCE: Duration = Duration::from_mins(1);

/// I-3: a settled federation writes nothing, also when everything is looked at anew.
pub(crate) async fn writes_nothing(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "settled").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2), ("south", &["DFW"], 1)])
        .await?;
    let all = Mark::now(federation.planes())?;
    space.until_settled("web", 5).await?;
    let ours = |writes: Vec<Write>| {
        writes
            .into_iter()
            .filter(|write| write.is_ours() && !write.is_lease())
            .collect::<Vec<_>>()
    };
    // The way there shows that our writes are seen.
    assert!(!ours(all.writes()?).is_empty());

    // Other tests leave objects behind that are still on their way.
    quiet(federation).await?;
    let mark = Mark::now(federation.planes())?;
    // A manager that starts reconciles everything that there is.
    for manager in [
        federation.management()?,
        federation.cell_manager(DFW)?,
        federation.cell_manager(ORD)?,
    ] {
        let mut manager = manager.lock().await;
        manager.terminate().await;
        manager.restart().await?;
    }
    // This is not a wait for something to happen, but the span in which nothing may.
    sleep(SILENCE).await;
    let writes: Vec<_> = ours(mark.writes()?).iter().map(Write::to_string).collect();
    assert!(
        writes.is_empty(),
        "{} writes:\n{}",
        writes.len(),
        writes.join("\n")
    );
    Ok(())
}

/// Waits until nothing has been written for a moment, by anyone.
pub(crate) async fn quiet(federation: &Federation) -> anyhow::Result<()> {
    harness::wait::eventually(
        "two seconds without our writes",
        Duration::from_mins(1),
        || async {
            let mark = Mark::now(federation.planes())?;
            sleep(Duration::from_secs(2)).await;
            let writes: Vec<_> = mark
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
