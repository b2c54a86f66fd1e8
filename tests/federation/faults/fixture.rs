//! The fixture of the fault tests. It creates, changes and deletes a Workload while compute-federation reaches the API
//! servers through proxies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::Workload;
use harness::audit::{AuditPosition, Write};
use harness::federation::Proxies;
use harness::{Federation, wait};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::fixture::{Space, WITHIN, patch, workload};
use crate::restart::state;
use crate::settled::quiet;

/// Time limit for a phase. The limit is twice [`WITHIN`], because errors increase the back-off between retries.
const CONVERGED: Duration = WITHIN.saturating_mul(2);

/// Resources that may be deleted only when a test expects it.
const KEPT: [&str; 5] = [
    "workloads",
    "workloaddeployments",
    "instances",
    "propagationpolicies",
    "namespaces",
];

/// All objects of a namespace, keyed by plane, kind and name.
type NamespaceState = BTreeMap<String, Value>;

/// A phase in the life of a Workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifecyclePhase {
    /// The customer creates the Workload for two cities.
    Create,
    /// The customer scales one placement and moves the other to another city.
    Update,
    /// The customer deletes the Workload.
    Delete,
}

impl LifecyclePhase {
    pub(super) const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    /// Makes the customer's change that starts the phase.
    async fn begin(self, space: &Space<'_>) -> anyhow::Result<()> {
        let workloads = space.in_project::<Workload>();
        match self {
            Self::Create => {
                let placements: &[(&str, &[&str], i32)] =
                    &[("us", &["DFW"], 1), ("west", &["ORD"], 1)];
                space.create_workload("web", placements).await.map(drop)
            }
            Self::Update => {
                let changed = workload("web", &[("us", &["DFW"], 2), ("west", &["DFW"], 1)]);
                let change = json!({"spec": {"placements": changed["spec"]["placements"]}});
                patch(&workloads, "web", change).await.map(drop)
            }
            Self::Delete => {
                let params = DeleteParams::default();
                workloads.delete("web", &params).await?;
                Ok(())
            }
        }
    }

    /// Waits until the project shows the requested state.
    async fn settled(self, space: &Space<'_>) -> anyhow::Result<()> {
        let names: &[&str] = match self {
            Self::Create => &["web-us-dfw-0", "web-west-ord-0"],
            Self::Update => &["web-us-dfw-0", "web-us-dfw-1", "web-west-dfw-0"],
            Self::Delete => {
                wait::gone(&space.in_project::<Workload>(), "web", CONVERGED).await?;
                return space.until_empty().await;
            }
        };
        let count = i32::try_from(names.len())?;
        space.until_settled("web", count).await?;
        space
            .until_instances(space.in_project(), names)
            .await
            .map(drop)
    }

    /// Returns whether the phase is expected to delete this object.
    fn may_delete(self, write: &Write) -> bool {
        match self {
            Self::Create => false,
            Self::Update => ["/web-west-ord", "/city-ord"]
                .iter()
                .any(|it| write.object.contains(it)),
            Self::Delete => true,
        }
    }
}

/// A federation with proxies in front of the API servers of the management plane.
pub(super) struct FaultFixture<'f> {
    pub(super) federation: &'f Federation,
    pub(super) proxies: Proxies,
}

impl<'f> FaultFixture<'f> {
    pub(super) async fn start(federation: &'f Federation) -> anyhow::Result<Self> {
        let proxies = federation.put_proxies().await?;
        Ok(Self {
            federation,
            proxies,
        })
    }

    /// Removes the proxies and returns the result of the test.
    pub(super) async fn end(self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let taken = self.federation.take_proxies().await;
        // An error of the test explains later errors, so it takes precedence.
        result.and(taken)
    }

    /// Begins a phase. Waits until a quarter of the writes of the phase have happened, or until the phase is over.
    pub(super) async fn until_midst(
        &self,
        step: &FaultyPhase<'_>,
        undisturbed: &Undisturbed,
    ) -> anyhow::Result<()> {
        let writes = &self.proxies.writes;
        let midst = writes.made() + undisturbed.writes(step.phase) / 4;
        step.begin().await?;
        tokio::select! {
            () = writes.reached(midst) => Ok(()),
            over = step.until_as_undisturbed() => over,
        }
    }

    /// Returns the results of all phases without a fault.
    pub(super) async fn undisturbed(&self) -> anyhow::Result<&'static Undisturbed> {
        // All tests share one federation, so one measurement is enough for all tests.
        static UNDISTURBED: OnceCell<Undisturbed> = OnceCell::const_new();
        UNDISTURBED.get_or_try_init(|| self.measure()).await
    }

    async fn measure(&self) -> anyhow::Result<Undisturbed> {
        // Other tests may have left objects that are still changing.
        quiet(self.federation).await?;
        let space = Space::create(self.federation, "undisturbed").await?;
        let mut ends = Vec::new();
        for phase in LifecyclePhase::ALL {
            let before = self.proxies.writes.made();
            phase.begin(&space).await?;
            phase.settled(&space).await?;
            quiet(self.federation).await?;
            let writes = self.proxies.writes.made() - before;
            eprintln!("{phase:?} takes {writes} writes");
            let state = state(&space).await?;
            let is_gone = phase == LifecyclePhase::Delete;
            ensure!(state.is_empty() == is_gone, "after {phase:?}: {state:#?}");
            ends.push(PhaseResult { state, writes });
        }
        Ok(Undisturbed(ends))
    }
}

/// The results of all phases without a fault.
pub(super) struct Undisturbed(Vec<PhaseResult>);

struct PhaseResult {
    state: NamespaceState,
    writes: usize,
}

impl Undisturbed {
    /// Returns the number of writes of a phase.
    pub(super) fn writes(&self, phase: LifecyclePhase) -> usize {
        self.0[phase as usize].writes
    }
}

/// A phase during which a fault happens.
pub(super) struct FaultyPhase<'s> {
    pub(super) phase: LifecyclePhase,
    space: &'s Space<'s>,
    expected: NamespaceState,
    position: AuditPosition,
    begin: Instant,
    /// Time to complete the phase.
    within: Duration,
}

impl<'s> FaultyPhase<'s> {
    pub(super) fn new(
        space: &'s Space<'_>,
        phase: LifecyclePhase,
        undisturbed: &Undisturbed,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            phase,
            space,
            expected: undisturbed.0[phase as usize].state.clone(),
            position: AuditPosition::now(space.federation.planes())?,
            begin: Instant::now(),
            within: CONVERGED,
        })
    }

    /// Extends the time to complete the phase.
    pub(super) fn extended_by(self, more: Duration) -> Self {
        Self {
            within: self.within + more,
            ..self
        }
    }

    /// Makes the customer's change that starts the phase.
    pub(super) async fn begin(&self) -> anyhow::Result<()> {
        self.phase.begin(self.space).await
    }

    /// Waits until the state equals the state after an undisturbed run.
    pub(super) async fn until_as_undisturbed(&self) -> anyhow::Result<()> {
        wait::eventually(
            "the state equals that of an undisturbed run",
            self.within,
            || async {
                let (found, expected) = (state(self.space).await?, &self.expected);
                ensure!(found == *expected, "{}", differences(&found, expected));
                Ok(())
            },
        )
        .await
    }

    /// Waits until the state equals the state after an undisturbed run. Then checks that the phase deleted no wanted
    /// object.
    pub(super) async fn finish(self, fault: &str) -> anyhow::Result<()> {
        let what = format!("{:?}, {fault}", self.phase);
        self.until_as_undisturbed()
            .await
            .with_context(|| what.clone())?;
        let here = [&self.space.name, &self.space.hub_name].map(|it| format!("{it}/"));
        let deleted = self.position.writes()?.into_iter().filter(|write| {
            let is_delete = write.verb.starts_with("delete") && write.code < 300;
            let is_kept = KEPT.contains(&write.resource.as_str());
            let is_here = here.iter().any(|it| write.object.starts_with(it));
            is_delete && is_kept && is_here && !self.phase.may_delete(write)
        });
        let deleted: Vec<_> = deleted.map(|write| write.to_string()).collect();
        ensure!(deleted.is_empty(), "{what}: wrongly deleted: {deleted:#?}");
        eprintln!(
            "{what}: over after {:.1} s",
            self.begin.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

/// Describes the differences, object by object.
fn differences(found: &NamespaceState, expected: &NamespaceState) -> String {
    let names: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let different = names
        .into_iter()
        .filter(|name| found.get(*name) != expected.get(*name));
    let shown = different.map(|name| {
        let show = |state: &NamespaceState| {
            state
                .get(name)
                .map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        format!("{name}\n  is  {}\n  not {}\n", show(found), show(expected))
    });
    shown.collect()
}
