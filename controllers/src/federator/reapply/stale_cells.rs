//! Records since when each cell lacks objects that Karmada should have applied there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use api::ProjectName;
use jiff::{SignedDuration, Timestamp};

use crate::federator::override_failures::OverrideFailures;
use crate::lock::lock;
use crate::projects::Engagement;
use crate::runtime::keys::ProjectKey;

/// Time that Karmada gets to apply an object. After that, the federator makes Karmada apply the object again.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
/// Longest interval between two re-applications.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Longest time to wait while the cell receives other objects. Karmada writes the objects of a cell one after the
/// other. So a missing object may simply be late.
const BACKLOG: SignedDuration = SignedDuration::from_mins(10);

/// The observation of one reconciliation about the cells of a copy. If the generation of the copy changes, the time
/// measurement starts again.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) generation: Option<i64>,
    pub(crate) cells: BTreeSet<String>,
    /// The cells that have the copy.
    pub(crate) complete: BTreeSet<String>,
}

/// Records, for the WorkloadDeployments of all projects, since when cells lack them.
#[derive(Debug, Default)]
pub(crate) struct StaleCells {
    deployments: Mutex<HashMap<ProjectKey, Stale>>,
    activity: CellActivity,
    /// Why cells lack them, if an override is the cause.
    pub(in crate::federator) override_failures: OverrideFailures,
}

#[derive(Debug)]
struct Stale {
    /// The engagement of the project during which the observation was made.
    engagement: Engagement,
    generation: Option<i64>,
    since_by_cell: BTreeMap<String, Timestamp>,
}

/// Records when each cell last received an object that it had lacked.
#[derive(Debug, Default)]
struct CellActivity(Mutex<BTreeMap<String, Timestamp>>);

impl StaleCells {
    /// Notes the current observation of a WorkloadDeployment. Returns the earliest time since when Karmada has written
    /// no missing object to one of the stale cells. Returns `None` if no cell is stale. A former observation is ignored
    /// if it is from another engagement of the project, because the project was not observed between the two
    /// engagements.
    pub(super) fn observe(
        &self,
        engagement: &Engagement,
        key: &ProjectKey,
        observation: Observation,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let Observation {
            generation,
            cells,
            complete,
        } = observation;
        let mut deployments = lock(&self.deployments);
        let former = deployments.remove(key);
        let former = former
            .filter(|former| former.engagement == *engagement && former.generation == generation);
        let former = former
            .map(|former| former.since_by_cell)
            .unwrap_or_default();
        for cell in former.keys().filter(|cell| complete.contains(*cell)) {
            self.activity.note(cell, now);
        }
        let since = |cell: String| {
            let since = former.get(&cell).copied().unwrap_or(now);
            (cell, since)
        };
        let since_by_cell: BTreeMap<_, _> = cells.into_iter().map(since).collect();
        let idle = since_by_cell
            .iter()
            .map(|(cell, since)| self.activity.idle_since(cell, *since));
        let idle = idle.min()?;
        let stale = Stale {
            engagement: engagement.clone(),
            generation,
            since_by_cell,
        };
        deployments.insert(key.clone(), stale);
        Some(idle)
    }

    /// Forgets a deleted WorkloadDeployment.
    pub(crate) fn forget(&self, key: &ProjectKey) {
        lock(&self.deployments).remove(key);
        self.override_failures.forget(key);
    }

    /// Forgets a cell whose Cluster was deleted.
    pub(crate) fn forget_cell(&self, cell: &str) {
        lock(&self.activity.0).remove(cell);
    }

    /// Forgets the WorkloadDeployments of a project.
    pub(crate) fn forget_project(&self, project: &ProjectName) {
        lock(&self.deployments).retain(|key, _| key.project != *project);
        self.override_failures.forget_project(project);
    }
}

#[cfg(test)]
impl StaleCells {
    /// Notes that a cell has received an object that it had lacked.
    pub(crate) fn note_activity(&self, cell: &str, now: Timestamp) {
        self.activity.note(cell, now);
    }

    /// Returns the cells whose activity is known.
    pub(crate) fn active(&self) -> Vec<String> {
        lock(&self.activity.0).keys().cloned().collect()
    }
}

impl CellActivity {
    fn note(&self, cell: &str, now: Timestamp) {
        lock(&self.0).insert(cell.to_owned(), now);
    }

    /// Returns since when the cell has received no other object. `since` is the time since when the cell has lacked an
    /// object. The result is at most [`BACKLOG`] later than `since`.
    fn idle_since(&self, cell: &str, since: Timestamp) -> Timestamp {
        let last = lock(&self.0).get(cell).copied().unwrap_or(since);
        let most = since.saturating_add(BACKLOG).unwrap_or(Timestamp::MAX);
        last.clamp(since, most)
    }
}

/// Returns when to apply an object again. The object has been missing since `since`. It was last applied again at
/// `reapplied`. The interval grows with the time that the object has been missing. A `reapplied` in the future or
/// before `since` is ignored.
pub(crate) fn due(since: Timestamp, reapplied: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let (from, wait) = match reapplied.filter(|at| (since..=now).contains(at)) {
        None => (since, PATIENCE),
        Some(at) => (at, at.duration_since(since).clamp(PATIENCE, LONGEST)),
    };
    from.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn reapplication_starts_after_a_minute_and_slows_down() {
        let mut times = Vec::new();
        let mut last = Some(at(-1_000));
        while times.len() < 9 {
            let next = due(at(0), last, at(100_000));
            times.push(next.duration_since(at(0)).as_mins());
            last = Some(next);
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 124, 184]);
        assert_eq!(due(at(0), None, at(1)), at(60));
        // The writer's clock was wrong.
        assert_eq!(due(at(0), Some(at(1_000)), at(999)), at(60));
    }

    #[test]
    fn staleness_restarts_per_generation_and_counts_per_cell() {
        let project = ProjectName::new("p").unwrap();
        let key = |name| ProjectKey::new(&project, "default", name);
        let case = |generation, cells: &[&str]| Observation {
            generation: Some(generation),
            cells: cells.iter().map(|&cell| cell.to_owned()).collect(),
            complete: BTreeSet::new(),
        };
        let stale = StaleCells::default();
        let engagement = Engagement::default();
        let note = |name, case, now| stale.observe(&engagement, &key(name), case, at(now));
        assert_eq!(note("a", case(1, &["dfw1"]), 1), Some(at(1)));
        assert_eq!(note("b", case(1, &["dfw1"]), 2), Some(at(2)));
        assert_eq!(note("a", case(1, &["dfw1"]), 3), Some(at(1)));
        assert_eq!(note("a", case(2, &["dfw1"]), 4), Some(at(4)));
        // A second cell becomes stale and recovers.
        assert_eq!(note("a", case(2, &["dfw1", "dfw2"]), 5), Some(at(4)));
        assert_eq!(note("a", case(2, &["dfw1"]), 6), Some(at(4)));
        assert_eq!(note("a", case(2, &["dfw1", "dfw2"]), 7), Some(at(4)));
        stale.forget(&key("a"));
        assert_eq!(lock(&stale.deployments).len(), 1);
        assert_eq!(note("a", case(2, &["dfw1"]), 8), Some(at(8)));
        assert_eq!(note("b", case(1, &[]), 9), None);
        assert_eq!(lock(&stale.deployments).len(), 1);
    }

    #[test]
    fn staleness_ends_with_the_engagement_of_the_project() {
        let [project, other] = ["p", "other"].map(|name| ProjectName::new(name).unwrap());
        let stale = StaleCells::default();
        let [former, current] = [Engagement::default(), Engagement::default()];
        let note = |engagement: &Engagement, project, cells: &[&str], now| {
            let case = Observation {
                generation: Some(1),
                cells: cells.iter().map(|&cell| cell.to_owned()).collect(),
                complete: BTreeSet::new(),
            };
            let key = ProjectKey::new(project, "default", "web");
            stale.observe(engagement, &key, case, at(now))
        };
        assert_eq!(note(&former, &project, &["dfw1"], 0), Some(at(0)));
        assert_eq!(note(&former.clone(), &project, &["dfw1"], 1), Some(at(0)));
        assert_eq!(note(&current, &project, &["dfw1"], 500), Some(at(500)));
        assert_eq!(note(&current, &project, &["dfw1"], 501), Some(at(500)));
        // A reconciliation of the former engagement ends after the new engagement began.
        assert_eq!(note(&former, &project, &["dfw1"], 502), Some(at(502)));
        assert_eq!(note(&current, &project, &["dfw1"], 503), Some(at(503)));
        assert_eq!(note(&current, &other, &["dfw1"], 504), Some(at(504)));
        stale.forget_project(&project);
        assert_eq!(note(&current, &project, &["dfw1"], 505), Some(at(505)));
        assert_eq!(note(&current, &other, &["dfw1"], 506), Some(at(504)));
    }

    #[test]
    fn a_busy_cell_delays_reapplication_by_some_minutes() {
        let project = ProjectName::new("p").unwrap();
        let stale = StaleCells::default();
        let engagement = Engagement::default();
        let set = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let note = |name, (cells, complete): (&[&str], &[&str]), now| {
            let case = Observation {
                generation: Some(1),
                cells: set(cells),
                complete: set(complete),
            };
            let key = ProjectKey::new(&project, "default", name);
            stale.observe(&engagement, &key, case, at(now))
        };
        let lost: (&[&str], &[&str]) = (&["dfw1"], &[]);
        assert_eq!(note("lost", lost, 0), Some(at(0)));
        for now in [30, 300, 599, 3_000] {
            let before = Some(at(now - 1));
            assert_eq!(note("other", (&["dfw1", "dfw2"], &[]), now - 1), before);
            // Only `dfw1` receives the object.
            assert_eq!(note("other", (&["dfw2"], &["dfw1"]), now), before);
            assert_eq!(note("other", (&[], &["dfw1", "dfw2"]), now), None);
            assert_eq!(note("lost", lost, now), Some(at(now.min(600))));
        }
        // A cell that is unreachable, or is no longer a target, has received nothing.
        let stale = StaleCells::default();
        let note = |name, cells, now| {
            let key = ProjectKey::new(&project, "default", name);
            let case = Observation {
                generation: Some(1),
                cells: set(cells),
                complete: BTreeSet::new(),
            };
            stale.observe(&engagement, &key, case, at(now))
        };
        assert_eq!(note("lost", &["dfw1"], 0), Some(at(0)));
        assert_eq!(note("other", &["dfw1"], 1), Some(at(1)));
        assert_eq!(note("other", &[], 2), None);
        assert_eq!(note("lost", &["dfw1"], 3), Some(at(0)));
    }
}
