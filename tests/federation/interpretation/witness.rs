//! Checks every version of an object on the hub against the versions in its cells.
//!
//! All planes keep their objects in one etcd, and a resource version is a revision of this etcd. So versions have an
//! order across planes. A version on the hub is explained if there is a choice of one version per cell with these
//! properties:
//!
//! - Each chosen version is older than the version on the hub. It is not older than the choice for the same cell that
//!   explains the previous version on the hub.
//! - The counters on the hub are the sums of the counters of the chosen versions.
//! - If the status on the hub is for the current generation, each cell with a share in this generation has acted on the
//!   current template with its share, and no other cell counts.

use std::collections::BTreeMap;

use anyhow::ensure;
use api::annotations::RESOURCE_TEMPLATE_GENERATION;
use api::workload_deployment::{AVAILABLE, WorkloadDeploymentStatus};
use api::{WorkloadDeployment, condition};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::version_history::{SeenVersions, Version, VersionHistory};

/// The expected replicas of each cell.
pub(super) type ExpectedShares = BTreeMap<&'static str, i32>;

/// Records every version of an object on the hub and in its cells.
pub(super) struct Witness {
    name: String,
    hub: (Api<WorkloadDeployment>, VersionHistory),
    cells: BTreeMap<&'static str, (Api<WorkloadDeployment>, VersionHistory)>,
    /// The expected shares, by generation on the hub. A change of the policy adds other shares for the same generation.
    shares: BTreeMap<i64, Vec<ExpectedShares>>,
}

impl Witness {
    /// Starts before the object is created on the hub.
    pub(super) async fn begin(
        name: &str,
        hub: &Api<WorkloadDeployment>,
        cells: &BTreeMap<&'static str, Api<WorkloadDeployment>>,
    ) -> anyhow::Result<Self> {
        let mut histories = BTreeMap::new();
        for (cell, api) in cells {
            let history = VersionHistory::begin(api.clone(), name).await?;
            histories.insert(*cell, (api.clone(), history));
        }
        Ok(Self {
            name: name.to_owned(),
            hub: (hub.clone(), VersionHistory::begin(hub.clone(), name).await?),
            cells: histories,
            shares: BTreeMap::new(),
        })
    }

    /// Records the expected shares of a generation.
    pub(super) fn meant(&mut self, generation: i64, shares: &[(&'static str, i32)]) {
        let shares = shares.iter().copied().collect();
        self.shares.entry(generation).or_default().push(shares);
    }

    /// Returns the expected shares of the last generation.
    pub(super) fn shares(&self) -> ExpectedShares {
        let last = self.shares.values().next_back();
        last.and_then(|shares| shares.last())
            .cloned()
            .unwrap_or_default()
    }

    /// Checks all versions on the hub so far.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        let (api, history) = &self.hub;
        let SeenVersions { lists, versions } = history.until_now(api, &self.name).await?;
        ensure!(lists == 1, "versions on the hub may have been missed");
        let mut in_cells = CellVersions::default();
        for (cell, (api, history)) in &self.cells {
            let seen = history.until_now(api, &self.name).await?;
            in_cells.cells.push((*cell, seen.versions));
        }
        let mut reached = vec![vec![0; in_cells.cells.len()]];
        let mut observed = None;
        for version in versions.iter().filter(|version| !version.gone) {
            let explained = self.explanations(&in_cells, version, &reached);
            let status = version.object.status.clone().unwrap_or_default();
            ensure!(
                !explained.is_empty()
                    && (status.observed_generation == observed
                        || status.observed_generation == version.object.metadata.generation),
                "no versions in the cells explain the hub's version:\n{}\nthe versions before it, on the hub:\n{}\nin the cells:\n{}",
                version.line(),
                lines(&versions, version.revision),
                in_cells.lines(version.revision),
            );
            reached = minimal(&explained);
            observed = status.observed_generation;
        }
        Ok(())
    }

    /// Returns the choices that explain a version. Each choice is at or after a choice in `reached`. A choice is the
    /// number of relevant versions for each cell. The last of these versions is the status of the cell.
    fn explanations(
        &self,
        in_cells: &CellVersions,
        version: &Version,
        reached: &[Vec<usize>],
    ) -> Vec<Vec<usize>> {
        let mut choices = vec![Vec::new()];
        for (_, versions) in &in_cells.cells {
            let older = versions.partition_point(|cell| cell.revision < version.revision);
            choices = choices
                .iter()
                .flat_map(|choice: &Vec<usize>| {
                    (0..=older).map(move |count| [choice.as_slice(), &[count]].concat())
                })
                .collect();
        }
        let meant = version.object.metadata.generation.unwrap_or_default();
        let meant = self.shares.get(&meant).map_or(&[][..], Vec::as_slice);
        choices.retain(|choice| {
            reached.iter().any(|before| is_at_or_after(choice, before))
                && meant
                    .iter()
                    .any(|shares| in_cells.explain(choice, shares, &version.object))
        });
        choices
    }
}

fn is_at_or_after(choice: &[usize], before: &[usize]) -> bool {
    choice
        .iter()
        .zip(before)
        .all(|(count, before)| count >= before)
}

/// Returns the choices that are not at or after another choice.
fn minimal(choices: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let first = |choice: &&Vec<usize>| {
        !choices
            .iter()
            .any(|other| other != *choice && is_at_or_after(choice, other))
    };
    choices.iter().filter(first).cloned().collect()
}

/// The versions in the cells.
#[derive(Default)]
struct CellVersions {
    cells: Vec<(&'static str, Vec<Version>)>,
}

impl CellVersions {
    fn explain(&self, choice: &[usize], shares: &ExpectedShares, hub: &WorkloadDeployment) -> bool {
        let Some(status) = &hub.status else {
            return true;
        };
        // A cell without a share in this generation may still report. So the status on the hub may contain this cell or
        // not.
        let leaving: Vec<_> = self
            .cells
            .iter()
            .map(|(cell, _)| *cell)
            .filter(|cell| !shares.contains_key(cell))
            .collect();
        (0..1_usize << leaving.len()).any(|left| {
            let left = |cell: &str| {
                let index = leaving.iter().position(|leaving| *leaving == cell);
                index.is_some_and(|index| left >> index & 1 == 1)
            };
            let chosen = self.cells.iter().zip(choice);
            let statuses: Vec<_> = chosen
                .filter(|((cell, _), _)| !left(cell))
                .filter_map(|((cell, versions), count)| {
                    let last = versions.get(count.checked_sub(1)?)?;
                    Some((*cell, last.live_status()?))
                })
                .collect();
            adds_up(status, &statuses)
                && claims(hub).into_iter().all(|acted| {
                    statuses.iter().all(|(cell, _)| shares.contains_key(cell))
                        && self
                            .all_acted(choice, shares, |version, share| acted(version, hub, share))
                })
        })
    }

    /// Returns whether each cell has acted with its share.
    fn all_acted(
        &self,
        choice: &[usize],
        shares: &ExpectedShares,
        acted: impl Fn(&Version, i32) -> bool,
    ) -> bool {
        let mut cells = self.cells.iter().zip(choice);
        cells.all(|((cell, versions), count)| {
            let share = shares.get(cell);
            share.is_none_or(|share| {
                let mut before = versions.iter().take(*count);
                before.any(|version| acted(version, *share))
            })
        })
    }

    fn lines(&self, until: u64) -> String {
        let cells = self.cells.iter();
        cells
            .flat_map(|(cell, versions)| {
                [(*cell).to_owned(), ":\n".to_owned(), lines(versions, until)]
            })
            .collect()
    }
}

/// Checks whether a version in a cell supports the hub's status, for a cell with this share.
type Acted = fn(&Version, &WorkloadDeployment, i32) -> bool;

/// Returns the checks that every cell must pass to support the hub's status of its current generation.
fn claims(hub: &WorkloadDeployment) -> Vec<Acted> {
    let status = hub.status.clone().unwrap_or_default();
    let generation = hub.metadata.generation;
    let available = condition::find(&status.conditions, AVAILABLE);
    let available =
        available.is_some_and(|it| it.is_true() && it.observed_generation == generation);
    let mut claims: Vec<Acted> = Vec::new();
    if status.observed_generation == generation {
        claims.push(Version::acted);
    }
    if available {
        claims.push(Version::judged);
    }
    claims
}

/// Returns whether the status on the hub is the sum of the statuses of these cells.
fn adds_up(hub: &WorkloadDeploymentStatus, cells: &[(&str, &WorkloadDeploymentStatus)]) -> bool {
    let sums = |counter: fn(&WorkloadDeploymentStatus) -> i32| {
        cells.iter().map(|(_, status)| counter(status)).sum::<i32>() == counter(hub)
    };
    let available =
        |status: &WorkloadDeploymentStatus| condition::is_true(&status.conditions, AVAILABLE);
    sums(|status| status.replicas)
        && sums(|status| status.desired_replicas)
        && sums(|status| status.current_replicas)
        && sums(|status| status.ready_replicas)
        && cells.iter().any(|(_, status)| available(status)) == available(hub)
}

impl Version {
    /// Returns the status, unless the object is being deleted.
    fn live_status(&self) -> Option<&WorkloadDeploymentStatus> {
        let stays = !self.gone && self.object.metadata.deletion_timestamp.is_none();
        self.object.status.as_ref().filter(|_| stays)
    }

    /// Returns whether the cell has acted on the current template of the hub with this share.
    fn acted(&self, hub: &WorkloadDeployment, share: i32) -> bool {
        let of_template = self.object.annotations().get(RESOURCE_TEMPLATE_GENERATION);
        let of_template = of_template.and_then(|generation| generation.parse().ok());
        self.live_status().is_some_and(|status| {
            status.observed_generation == self.object.metadata.generation
                && of_template == hub.metadata.generation
                && self.object.spec.template == hub.spec.template
                && self.object.spec.scale_settings.min_replicas == share
        })
    }

    /// Returns whether the cell has acted with this share and its condition `Available` is for the current template
    /// too.
    fn judged(&self, hub: &WorkloadDeployment, share: i32) -> bool {
        let available = self
            .live_status()
            .and_then(|status| condition::find(&status.conditions, AVAILABLE));
        self.acted(hub, share)
            && available.is_some_and(|it| it.observed_generation == self.object.metadata.generation)
    }

    fn line(&self) -> String {
        let object = &self.object;
        let status = object.status.clone().unwrap_or_default();
        let available = condition::find(&status.conditions, AVAILABLE);
        let available = available.map(|it| (it.is_true(), it.observed_generation));
        let version = json!({
            "gone": self.gone,
            "terminating": object.metadata.deletion_timestamp.is_some(),
            "generation": object.metadata.generation,
            "templateGeneration": object.annotations().get(RESOURCE_TEMPLATE_GENERATION),
            "minReplicas": object.spec.scale_settings.min_replicas,
            "replicas": object.spec.replicas,
            "observedGeneration": status.observed_generation,
            "available": available,
            "desired": status.desired_replicas,
            "ready": status.ready_replicas,
        });
        format!("  {}: {version}", self.revision)
    }
}

fn lines(versions: &[Version], until: u64) -> String {
    let before = versions.iter().filter(|version| version.revision < until);
    before.map(|version| version.line() + "\n").collect()
}
