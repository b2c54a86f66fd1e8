//! How long cells have not got what they are meant to have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::ProjectName;
use jiff::{SignedDuration, Timestamp};

use crate::runtime::keys::ProjectKey;

/// For how long Karmada is left to itself at first, and at most.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// For how long it is left to itself while the cell gets something else: it does one thing after the other.
const BACKLOG: SignedDuration = SignedDuration::from_mins(10);

/// What has not been applied: with another generation of the copy it is another case.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) generation: Option<i64>,
    pub(crate) cells: BTreeSet<String>,
    /// The cells that have got it.
    pub(crate) complete: BTreeSet<String>,
}

/// Since when cells have not got deployments as these are, in all projects.
#[derive(Debug, Default)]
pub(crate) struct StaleCells {
    deployments: Mutex<HashMap<ProjectKey, Stale>>,
    activity: CellActivity,
}

#[derive(Debug)]
struct Stale {
    generation: Option<i64>,
    since_by_cell: BTreeMap<String, Timestamp>,
}

/// When each cell last got something that it had been without.
#[derive(Debug, Default)]
struct CellActivity(Mutex<BTreeMap<String, Timestamp>>);

impl StaleCells {
    /// Notes what is observed of a deployment now. Returns the time since when Karmada has done nothing for one of its stale
    /// cells; `None` where no cell is stale.
    pub(super) fn observe(
        &self,
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
        let former = former.filter(|former| former.generation == generation);
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
            generation,
            since_by_cell,
        };
        deployments.insert(key.clone(), stale);
        Some(idle)
    }

    /// Forgets a deployment that is gone.
    pub(crate) fn forget(&self, key: &ProjectKey) {
        lock(&self.deployments).remove(key);
    }

    /// Forgets the deployments of a project that is not served any more.
    pub(crate) fn forget_project(&self, project: &ProjectName) {
        lock(&self.deployments).retain(|key, _| key.project != *project);
    }
}

impl CellActivity {
    fn note(&self, cell: &str, now: Timestamp) {
        lock(&self.0).insert(cell.to_owned(), now);
    }

    /// Since when nothing has come to a cell that is without something since then.
    fn idle_since(&self, cell: &str, since: Timestamp) -> Timestamp {
        let last = lock(&self.0).get(cell).copied().unwrap_or(since);
        let most = since.saturating_add(BACKLOG).unwrap_or(Timestamp::MAX);
        last.clamp(since, most)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When something is to be applied again that has been missing since then, and was applied again last at this time: the
/// longer it has been so, the less often. A time to come proves nothing.
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
    fn what_is_missing_is_applied_again_after_a_minute_and_then_less_and_less_often() {
        let mut times = Vec::new();
        let mut last = Some(at(-1_000));
        while times.len() < 9 {
            let next = due(at(0), last, at(100_000));
            times.push(next.duration_since(at(0)).as_mins());
            last = Some(next);
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 124, 184]);
        assert_eq!(due(at(0), None, at(1)), at(60));
        // The clock of who wrote it was wrong.
        assert_eq!(due(at(0), Some(at(1_000)), at(999)), at(60));
    }

    #[test]
    fn what_changes_is_another_case_and_each_cell_is_one_of_its_own() {
        let project = ProjectName::new("p").unwrap();
        let key = |name| ProjectKey::new(&project, "default", name);
        let case = |generation, cells: &[&str]| Observation {
            generation: Some(generation),
            cells: cells.iter().map(|&cell| cell.to_owned()).collect(),
            complete: BTreeSet::new(),
        };
        let stale = StaleCells::default();
        let note = |name, case, now| stale.observe(&key(name), case, at(now));
        assert_eq!(note("a", case(1, &["dfw1"]), 1), Some(at(1)));
        assert_eq!(note("b", case(1, &["dfw1"]), 2), Some(at(2)));
        assert_eq!(note("a", case(1, &["dfw1"]), 3), Some(at(1)));
        assert_eq!(note("a", case(2, &["dfw1"]), 4), Some(at(4)));
        // Another cell comes and goes.
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
    fn while_a_cell_gets_other_things_karmada_is_left_to_itself_for_some_minutes() {
        let project = ProjectName::new("p").unwrap();
        let stale = StaleCells::default();
        let set = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let note = |name, (cells, complete): (&[&str], &[&str]), now| {
            let case = Observation {
                generation: Some(1),
                cells: set(cells),
                complete: set(complete),
            };
            let key = ProjectKey::new(&project, "default", name);
            stale.observe(&key, case, at(now))
        };
        let lost: (&[&str], &[&str]) = (&["dfw1"], &[]);
        assert_eq!(note("lost", lost, 0), Some(at(0)));
        for now in [30, 300, 599, 3_000] {
            let before = Some(at(now - 1));
            assert_eq!(note("other", (&["dfw1", "dfw2"], &[]), now - 1), before);
            // It comes to this cell alone.
            assert_eq!(note("other", (&["dfw2"], &["dfw1"]), now), before);
            assert_eq!(note("other", (&[], &["dfw1", "dfw2"]), now), None);
            assert_eq!(note("lost", lost, now), Some(at(now.min(600))));
        }
        // To a cell that is cut off, or not meant to have it any more, nothing has come.
        let stale = StaleCells::default();
        let note = |name, cells, now| {
            let key = ProjectKey::new(&project, "default", name);
            let case = Observation {
                generation: Some(1),
                cells: set(cells),
                complete: BTreeSet::new(),
            };
            stale.observe(&key, case, at(now))
        };
        assert_eq!(note("lost", &["dfw1"], 0), Some(at(0)));
        assert_eq!(note("other", &["dfw1"], 1), Some(at(1)));
        assert_eq!(note("other", &[], 2), None);
        assert_eq!(note("lost", &["dfw1"], 3), Some(at(0)));
    }
}
