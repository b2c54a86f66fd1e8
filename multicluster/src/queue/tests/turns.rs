//! The scheduler alone: which key is taken next.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::queue::scheduler::Scheduler;
use crate::queue::tenant::{RESYNC, resync_after};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbered {
    pub(super) project: u32,
    pub(super) object: u32,
}

impl Key for Numbered {
    type Tenant = u32;

    fn tenant(&self) -> &u32 {
        &self.project
    }
}

pub(super) const SETTLED: Result<Outcome, String> = Ok(Outcome::Settled);
pub(super) const GONE: Result<Outcome, String> = Ok(Outcome::Gone);

pub(super) fn scheduler() -> Scheduler<Numbered> {
    Scheduler::new("test", Limits::DEFAULT)
}

pub(super) fn add(scheduler: &mut Scheduler<Numbered>, project: u32, objects: u32) {
    for object in 0..objects {
        scheduler.add(Numbered { project, object }, Instant::now());
    }
}

pub(super) fn take(scheduler: &mut Scheduler<Numbered>) -> Option<Arc<Numbered>> {
    scheduler.take().map(|(key, _)| key)
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_much_work_does_not_delay_the_key_of_another() {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 10_000);
    for _ in 0..100 {
        let key = take(&mut scheduler).unwrap();
        scheduler.finished(&key, Writes::None, &SETTLED);
    }
    add(&mut scheduler, 2, 1);
    let round = [take(&mut scheduler).unwrap(), take(&mut scheduler).unwrap()];
    assert_eq!(round.map(|key| key.project), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns() {
    let mut scheduler = scheduler();
    for project in 1..=3 {
        add(&mut scheduler, project, 6);
    }
    let taken: Vec<_> = std::iter::from_fn(|| take(&mut scheduler)).collect();
    let projects: Vec<_> = taken.iter().map(|key| key.project).collect();
    assert_eq!(projects, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
    let objects: Vec<_> = taken.iter().map(|key| key.object).collect();
    assert_eq!(objects, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    // A reconciliation ends.
    scheduler.finished(&taken[1], Writes::None, &SETTLED);
    let next = Numbered {
        project: 2,
        object: 4,
    };
    assert_eq!(take(&mut scheduler).as_deref(), Some(&next));
    assert_eq!(take(&mut scheduler), None);
    assert_eq!(scheduler.counts().ready, 5);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_writes_much_is_throttled_alone() {
    let mut scheduler = Scheduler::new(
        "test",
        Limits {
            writing_per_second: 500,
            writing_at_once: 200,
            ..Limits::DEFAULT
        },
    );
    let work_off = |scheduler: &mut Scheduler<Numbered>, wrote| {
        let mut count = 0;
        while let Some(key) = take(scheduler) {
            scheduler.finished(&key, wrote, &SETTLED);
            count += 1;
        }
        count
    };
    add(&mut scheduler, 1, 10_000);
    assert_eq!(work_off(&mut scheduler, Writes::Done), 200);
    assert_eq!(
        (scheduler.counts().busy, scheduler.counts()),
        (1, scheduler.recount())
    );
    add(&mut scheduler, 2, 200);
    assert_eq!(work_off(&mut scheduler, Writes::Done), 200);
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(20)).await;
        scheduler.expire(Instant::now());
        assert_eq!(work_off(&mut scheduler, Writes::Done), 10);
    }
    // Reconciliations that do not write do not use the write budget.
    tokio::time::advance(Duration::from_millis(2)).await;
    scheduler.expire(Instant::now());
    assert_eq!(work_off(&mut scheduler, Writes::None), 10_000 - 200 - 1_000);
    assert_eq!(
        (scheduler.counts().busy, scheduler.counts()),
        (0, scheduler.recount())
    );
    // A write that fails uses the budget too.
    add(&mut scheduler, 4, 1_000);
    assert_eq!(work_off(&mut scheduler, Writes::Failed), 200);
    scheduler.forget(&4);
    // A throttled tenant that is forgotten has no timer afterwards.
    add(&mut scheduler, 3, 1_000);
    assert_eq!(work_off(&mut scheduler, Writes::Done), 200);
    scheduler.forget(&3);
    assert_eq!(
        (scheduler.counts().busy, scheduler.counts()),
        (0, scheduler.recount())
    );
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_are_each_taken_once_and_leave_nothing() {
    const PROJECTS: u32 = 3_000;
    const OBJECTS: u32 = 34;
    let mut scheduler = scheduler();
    for _ in 0..2 {
        for project in 0..PROJECTS {
            add(&mut scheduler, project, OBJECTS);
        }
    }
    let all = (PROJECTS * OBJECTS) as usize;
    assert_eq!(scheduler.counts().ready, all);
    let (mut taken, mut begun) = (HashSet::new(), HashMap::<u32, usize>::new());
    while let Some(key) = take(&mut scheduler) {
        assert!(taken.insert(*key));
        // The numbers of keys taken from two tenants differ by one at most.
        *begun.entry(key.project).or_default() += 1;
        assert!(begun[&key.project] <= taken.len().div_ceil(PROJECTS as usize));
        scheduler.finished(&key, Writes::None, &SETTLED);
    }
    assert_eq!(taken.len(), all);
    assert_eq!(scheduler.sizes(), [PROJECTS as usize, all, all]);

    tokio::time::advance(RESYNC).await;
    scheduler.expire(Instant::now());
    assert_eq!(scheduler.counts().ready, all);
    while let Some(key) = take(&mut scheduler) {
        scheduler.finished(&key, Writes::None, &GONE);
    }
    assert_eq!(scheduler.sizes(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn forgotten_tenants_leave_nothing_behind() {
    let limits = Limits {
        concurrency: 300,
        ..Limits::DEFAULT
    };
    let mut scheduler = Scheduler::new("test", limits);
    for project in 0..100 {
        add(&mut scheduler, project, 10);
    }
    let running: Vec<_> = std::iter::from_fn(|| take(&mut scheduler))
        .take(300)
        .collect();
    for key in &running[..200] {
        scheduler.finished(key, Writes::None, &SETTLED);
    }
    for project in 0..100 {
        scheduler.forget(&project);
    }
    assert_eq!(
        (scheduler.counts().ready, scheduler.sizes()),
        (0, [100, 100, 100])
    );
    assert!(take(&mut scheduler).is_none());
    for key in &running[200..] {
        scheduler.finished(key, Writes::None, &SETTLED);
    }
    assert_eq!(
        (scheduler.counts().ready, scheduler.sizes()),
        (0, [0, 0, 0])
    );
}

#[test]
fn resyncs_of_keys_that_settled_together_are_spread() {
    const SLOTS: usize = 100;
    let half = RESYNC / 2;
    let mut slots = [0_u32; SLOTS];
    for number in 0..100_000 {
        let key = Numbered {
            project: number % 3_000,
            object: number,
        };
        let rest = resync_after(&key);
        assert!(rest >= half && rest < RESYNC, "{rest:?}");
        let beyond = rest.as_millis() - half.as_millis();
        slots[(beyond * SLOTS as u128 / half.as_millis()) as usize] += 1;
    }
    // A thousand keys are expected in each tenth.
    assert!(
        slots.iter().all(|keys| (800..1200).contains(keys)),
        "{slots:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_becomes_idle_keeps_its_spent_write_budget() {
    let mut scheduler = scheduler();
    let mut taken = 0;
    for _ in 0..1_000 {
        add(&mut scheduler, 1, 1);
        let Some(key) = take(&mut scheduler) else {
            break;
        };
        taken += 1;
        scheduler.finished(&key, Writes::Done, &GONE);
    }
    assert_eq!(taken, Limits::DEFAULT.writing_at_once);
    // When the budget is whole again, nothing of the tenant is left.
    for _ in 0..2 {
        tokio::time::advance(Duration::from_mins(1)).await;
        scheduler.expire(Instant::now());
        while let Some(key) = take(&mut scheduler) {
            scheduler.finished(&key, Writes::None, &GONE);
        }
    }
    assert_eq!(
        (scheduler.counts(), scheduler.sizes()),
        (scheduler.recount(), [0; 3])
    );
}
