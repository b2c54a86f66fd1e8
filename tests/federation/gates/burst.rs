//! Many Instances wait for quota and get it at once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use api::condition;
use api::instance::{QUOTA_GATE, QUOTA_GRANTED};
use api::{Instance, Workload};
use harness::audit::{AuditPosition, Write};
use harness::wait;
use kube::api::{DeleteParams, ListParams};
use tokio::time::Instant;

use super::claims::gates;
use super::fixture::GatedFederation;
use crate::fixture::{DFW, Space, is_ready};
use crate::settled::quiet;

/// A deployment makes one Instance at a time, so each Instance has a deployment of its own.
const WORKLOADS: usize = 10;
const PLACEMENTS: usize = 20;
const ALL: usize = WORKLOADS * PLACEMENTS;
/// Time limit for Karmada and the networks.
const MADE: Duration = Duration::from_mins(5);

/// Makes 200 Instances whose claims are all decided at the end. Prints the time from the last grant to the last gate,
/// and checks the number of writes. The proxies let one write pass at a time, so they are not used.
pub(crate) async fn two_hundred_at_once(gated: &GatedFederation) -> anyhow::Result<()> {
    let federation = &gated.federation;
    federation.take_cell_proxies(DFW).await?;
    let tested = burst(gated).await;
    let proxied = federation.use_cell_proxies(DFW, &gated.proxies).await;
    tested.and(proxied)
}

async fn burst(gated: &GatedFederation) -> anyhow::Result<()> {
    let space = gated.space("burst").await?;
    let made = AuditPosition::now(gated.federation.planes())?;
    gated.quota.pause().await;
    let names: Vec<_> = (0..PLACEMENTS).map(|it| format!("p{it}")).collect();
    let placements: Vec<(&str, &[&str], i32)> = names
        .iter()
        .map(|name| (name.as_str(), &["DFW"][..], 1))
        .collect();
    let begin = Instant::now();
    for workload in 0..WORKLOADS {
        space
            .create_workload(&format!("w{workload}"), &placements)
            .await?;
    }
    // Nothing is written after a minute without a decision.
    until_all(&space, "all wait only for quota", |it| {
        let status = it.status.clone().unwrap_or_default();
        let granted = condition::find(&status.conditions, QUOTA_GRANTED);
        gates(it) == [QUOTA_GATE] && granted.is_some_and(|it| it.reason == "QuotaNoBudget")
    })
    .await?;
    wait::eventually("each has a claim", MADE, || async {
        let claims = gated.claims(&space).await?.len();
        ensure!(claims == ALL, "{claims} claims");
        Ok(())
    })
    .await?;
    quiet(&gated.federation).await?;
    eprintln!(
        "{ALL} Instances wait after {:.1} s",
        begin.elapsed().as_secs_f64()
    );

    let opened = AuditPosition::now(gated.federation.planes())?;
    let decided = Instant::now();
    gated.quota.resume().await;
    until_all(&space, "all gates are open", |it| gates(it).is_empty()).await?;
    let all_open = decided.elapsed();
    let between = gated.between_grants_and_gates()?;
    until_all(&space, "all run", is_ready).await?;
    eprintln!(
        "all gates open {:.1} s after the first decision, {:.2} s after the last grant; all run after {:.1} s",
        all_open.as_secs_f64(),
        between.as_secs_f64(),
        decided.elapsed().as_secs_f64()
    );
    quiet(&gated.federation).await?;
    show(&made.writes()?, &opened.writes()?);
    check(&made.writes()?, &opened.writes()?)?;

    let workloads = space.in_project::<Workload>();
    workloads
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    wait::eventually("no Workload", MADE, || async {
        let left = workloads.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} Workloads");
        Ok(())
    })
    .await?;
    gated.until_nothing_is_left(&space).await
}

/// Waits until all Instances of the cell are so.
async fn until_all(
    space: &Space<'_>,
    what: &str,
    is_so: impl Fn(&Instance) -> bool,
) -> anyhow::Result<()> {
    let instances = space.in_cell::<Instance>(DFW);
    wait::eventually(what, MADE, || async {
        let all = instances.list(&ListParams::default()).await?.items;
        let those = all.iter().filter(|it| is_so(it)).count();
        ensure!(those == ALL, "{those} of {}", all.len());
        Ok(())
    })
    .await
}

/// The writes of compute-federation by plane, controller, verb and resource.
type Counts = BTreeMap<String, usize>;

fn counts(writes: &[Write]) -> Counts {
    let mut counts = Counts::new();
    for write in writes.iter().filter(|it| it.is_ours() && !it.is_lease()) {
        let Write {
            plane,
            field_manager,
            verb,
            resource,
            ..
        } = write;
        let controller = field_manager.trim_start_matches("compute-federation-");
        let refused = if write.code < 300 { "" } else { ", refused" };
        let what = format!("{plane}: {controller}: {verb} {resource}{refused}");
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// Prints the writes of all Instances. `opened` are those after the quota system began to decide.
fn show(all: &[Write], opened: &[Write]) {
    let opened = counts(opened);
    eprintln!("writes for {ALL} Instances, and how many of them after the decisions:");
    for (what, count) in counts(all) {
        let later = opened.get(&what).copied().unwrap_or_default();
        eprintln!("{count:6} {later:6}  {what}");
    }
}

/// The cell makes one claim per Instance and opens each gate once. After the decision, it writes the condition once.
fn check(all: &[Write], opened: &[Write]) -> anyhow::Result<()> {
    let (all, opened) = (counts(all), counts(opened));
    for (of, writes, expected) in [
        (&all, "project: quota: create resourceclaims", ALL),
        (&opened, "project: quota: create resourceclaims", 0),
        (&all, "dfw1: network: patch instances", ALL),
        (&all, "dfw1: quota: patch instances", ALL),
        (&opened, "dfw1: quota: patch instances", ALL),
        (&opened, "dfw1: quota: patch instances/status", ALL),
    ] {
        let count = of.get(writes).copied().unwrap_or_default();
        ensure!(count == expected, "{writes}: {count} times, not {expected}");
    }
    Ok(())
}
