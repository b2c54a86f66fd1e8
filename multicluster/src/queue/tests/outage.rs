//! Tenants whose API servers are unreachable, and suspended tenants.

use super::turns::{Numbered, SETTLED, add, scheduler, take};
use super::*;
use crate::queue::scheduler::QueueCounts;
use crate::queue::tenant::RESYNC;

type Scheduler = scheduler::Scheduler<Numbered>;

const UNREACHABLE: &str = "unreachable";
const SUSPENDED: &str = "suspended";

fn fail(scheduler: &mut Scheduler, key: &Arc<Numbered>, failure: &str) {
    scheduler.finished(key, Writes::None, &Reconciled::Err(failure.into()));
}

fn write(scheduler: &mut Scheduler, key: &Arc<Numbered>) {
    scheduler.finished(key, Writes::Done, &SETTLED);
}

/// Takes all keys that may be taken.
fn take_all(scheduler: &mut Scheduler) -> Vec<Arc<Numbered>> {
    std::iter::from_fn(|| take(scheduler)).collect()
}

async fn pass(scheduler: &mut Scheduler, time: Duration) {
    tokio::time::advance(time).await;
    scheduler.expire(Instant::now());
}

fn objects(keys: &[Arc<Numbered>]) -> Vec<u32> {
    keys.iter().map(|key| key.object).collect()
}

/// Returns project 1 with this many objects. Every key that could be taken has failed as unreachable.
fn unreachable(objects: u32) -> Scheduler {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, objects);
    let running = take_all(&mut scheduler);
    fail(&mut scheduler, &running[0], UNREACHABLE);
    for key in &running[1..] {
        fail(&mut scheduler, key, UNREACHABLE);
    }
    scheduler
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_api_server_is_probed_with_one_key_and_growing_waits() {
    let answer = |name: &'static str, _| async move {
        match name.starts_with("x/") {
            true => Err(UNREACHABLE.to_owned()),
            false => Ok(Outcome::Gone),
        }
    };
    let queue = test_queue(64, answer).open();
    for name in ["x/1", "x/2", "x/3"] {
        queue.add(name);
    }
    sleep(Duration::from_millis(60)).await;
    queue.add("y/1");
    // Events do not shorten the wait.
    for _ in 0..50 {
        queue.add("x/2");
        sleep(Duration::from_millis(1)).await;
    }
    let log = queue.after(Duration::from_millis(700)).await;
    let times: Vec<_> = log.iter().filter(|(name, _)| *name != "y/1").collect();
    let times: Vec<_> = times.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, [0, 0, 0, 50, 150, 350, 750]);
    // The keys are probed in turn.
    let names: Vec<_> = log.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["x/1", "x/2", "x/3", "x/1", "y/1", "x/2", "x/3", "x/1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_defers_the_next_probe() {
    let asks = |seconds| {
        let answer = move |_, attempt| async move {
            if attempt > 2 {
                return Ok(Outcome::Gone);
            }
            Err(format!("{UNREACHABLE} {seconds}"))
        };
        test_queue(1, answer).open()
    };
    for (seconds, expected) in [
        (0, [("a", 0), ("a", 50), ("a", 150)]),
        (7, [("a", 0), ("a", 7_000), ("a", 14_000)]),
        (86_400, [("a", 0), ("a", 30_000), ("a", 60_000)]),
    ] {
        let queue = asks(seconds);
        queue.add("a");
        assert_eq!(queue.after(Duration::from_mins(2)).await, expected);
    }
    // Other tenants are not deferred. If a failure is not an outage, only its key is deferred.
    let queue = test_queue(1, |name, attempt| async move {
        match (name, attempt) {
            ("x/a", 1) => Err(format!("{UNREACHABLE} 7")),
            ("x/a", _) => Ok(Outcome::Again(Duration::from_secs(1))),
            ("y/c", 3) => Err("no 7".to_owned()),
            _ => Ok(Outcome::Gone),
        }
    });
    let queue = queue.open();
    for name in ["x/a", "b", "y/c"] {
        queue.add(name);
    }
    let log = queue.after(Duration::from_millis(8_500)).await;
    let expected = [
        ("x/a", 0),
        ("b", 0),
        ("y/c", 0),
        ("x/a", 7_000),
        ("y/c", 7_000),
        ("x/a", 8_000),
    ];
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_is_probed_every_30_s_at_least_and_one_write_ends_the_outage() {
    let mut scheduler = unreachable(100);
    for _ in 0..20 {
        pass(&mut scheduler, Duration::from_secs(30)).await;
        let probe = take_all(&mut scheduler);
        assert_eq!((probe.len(), scheduler.counts().probing), (1, 1));
        fail(&mut scheduler, &probe[0], UNREACHABLE);
    }
    assert_eq!(scheduler.counts().unreachable, 1);
    pass(&mut scheduler, Duration::from_secs(30)).await;
    let probe = take_all(&mut scheduler);
    write(&mut scheduler, &probe[0]);
    let counts = QueueCounts {
        ready: 99,
        ..QueueCounts::default()
    };
    assert_eq!(scheduler.counts(), counts);
    assert_eq!(take_all(&mut scheduler).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn all_unreachable_tenants_hold_an_eighth_of_the_workers() {
    let mut scheduler = scheduler();
    for project in 0..20 {
        add(&mut scheduler, project, 1);
    }
    for key in take_all(&mut scheduler) {
        fail(&mut scheduler, &key, UNREACHABLE);
    }
    assert_eq!(scheduler.counts().unreachable, 20);
    pass(&mut scheduler, Duration::from_secs(1)).await;
    let probes = take_all(&mut scheduler);
    assert_eq!((probes.len(), scheduler.counts().probing), (8, 8));
    // Other tenants continue. Unreachable tenants that have not been probed yet come next.
    add(&mut scheduler, 100, 1);
    assert_eq!(take_all(&mut scheduler).len(), 1);
    fail(&mut scheduler, &probes[0], UNREACHABLE);
    write(&mut scheduler, &probes[1]);
    let projects: Vec<_> = take_all(&mut scheduler)
        .iter()
        .map(|key| key.project)
        .collect();
    assert_eq!(projects, [8, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_success_without_a_request_does_not_end_an_outage() {
    let mut scheduler = unreachable(1);
    for object in 1..=3 {
        scheduler.add(Numbered { project: 1, object }, Instant::now());
    }
    assert_eq!(objects(&take_all(&mut scheduler)), [0_u32; 0]);
    pass(&mut scheduler, Duration::from_millis(50)).await;
    for object in [3, 2, 1] {
        let probe = take_all(&mut scheduler);
        assert_eq!(objects(&probe), [object]);
        scheduler.finished(&probe[0], Writes::None, &SETTLED);
        assert_eq!(scheduler.counts().unreachable, 1);
    }
    // This key had failed to reach the API server before, so its success is an answer.
    let probe = take_all(&mut scheduler);
    assert_eq!(objects(&probe), [0]);
    scheduler.finished(&probe[0], Writes::None, &SETTLED);
    assert_eq!(scheduler.counts(), QueueCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_alone_backs_off_alone() {
    let mut scheduler = unreachable(1);
    let (other, now) = (
        Numbered {
            project: 1,
            object: 7,
        },
        Instant::now(),
    );
    scheduler.add(other, now);
    pass(&mut scheduler, Duration::from_millis(50)).await;
    let probe = take_all(&mut scheduler);
    assert_eq!(objects(&probe), [7]);
    write(&mut scheduler, &probe[0]);
    // The key has its own backoff, which gets longer each time.
    for wait in [50, 100, 200] {
        let failing = take_all(&mut scheduler);
        assert_eq!(objects(&failing), [0]);
        fail(&mut scheduler, &failing[0], UNREACHABLE);
        assert_eq!(scheduler.counts(), QueueCounts::default());
        pass(&mut scheduler, Duration::from_millis(wait - 1)).await;
        assert_eq!(objects(&take_all(&mut scheduler)), [0_u32; 0]);
        pass(&mut scheduler, Duration::from_millis(1)).await;
    }
    let last = take_all(&mut scheduler);
    write(&mut scheduler, &last[0]);
    // After a success, the next failure of the key shows an outage of the tenant again.
    scheduler.add(*last[0], now);
    let again = take_all(&mut scheduler);
    fail(&mut scheduler, &again[0], UNREACHABLE);
    assert_eq!(scheduler.counts().unreachable, 1);
}

#[tokio::test(start_paused = true)]
async fn refused_writes_of_a_suspended_tenant_wait_until_it_is_released() {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 10);
    for _ in 0..9 {
        let key = take(&mut scheduler).unwrap();
        fail(&mut scheduler, &key, SUSPENDED);
    }
    // Writes that are still permitted continue, for example the removal of a finalizer.
    let key = take(&mut scheduler).unwrap();
    write(&mut scheduler, &key);
    let counts = QueueCounts {
        suspended: 1,
        ..QueueCounts::default()
    };
    assert_eq!((scheduler.counts(), take(&mut scheduler)), (counts, None));
    pass(&mut scheduler, RESYNC / 3).await;
    assert_eq!(take(&mut scheduler), None);

    scheduler.release(&1);
    let released = QueueCounts {
        ready: 9,
        ..QueueCounts::default()
    };
    assert_eq!(scheduler.counts(), released);
    while let Some(key) = take(&mut scheduler) {
        assert_ne!(key.object, 9);
        write(&mut scheduler, &key);
    }
    assert_eq!(scheduler.counts(), QueueCounts::default());
}

#[tokio::test(start_paused = true)]
async fn the_resync_and_events_find_the_end_of_a_suspension() {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 2);
    for key in take_all(&mut scheduler) {
        fail(&mut scheduler, &key, SUSPENDED);
    }
    add(&mut scheduler, 1, 1);
    let key = take(&mut scheduler).unwrap();
    fail(&mut scheduler, &key, SUSPENDED);
    assert_eq!(scheduler.counts().suspended, 1);
    pass(&mut scheduler, RESYNC).await;
    let keys = take_all(&mut scheduler);
    assert_eq!(objects(&keys).len(), 2);
    for key in keys {
        write(&mut scheduler, &key);
    }
    assert_eq!(scheduler.counts(), QueueCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_released_tenant_is_tried_at_once() {
    let mut scheduler = unreachable(10);
    assert_eq!(take_all(&mut scheduler).len(), 0);
    scheduler.release(&1);
    assert_eq!(take_all(&mut scheduler).len(), 4);
    scheduler.release(&2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_forgotten_tenant_leaves_nothing_behind() {
    for failure in [UNREACHABLE, SUSPENDED] {
        let mut scheduler = scheduler();
        add(&mut scheduler, 1, 10);
        let running = take_all(&mut scheduler);
        fail(&mut scheduler, &running[0], failure);
        scheduler.forget(&1);
        assert_eq!(scheduler.counts(), QueueCounts::default());
        // A reconciliation that ends now does not count, not even for a new tenant with the same name.
        add(&mut scheduler, 1, 1);
        for key in &running[1..] {
            fail(&mut scheduler, key, failure);
        }
        let counts = QueueCounts {
            ready: 1,
            ..QueueCounts::default()
        };
        assert_eq!(scheduler.counts(), counts);
        scheduler.forget(&1);
        assert_eq!(
            (scheduler.counts(), scheduler.sizes()),
            (QueueCounts::default(), [0; 3])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_key_does_not_end_the_outage_of_its_successor() {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 1);
    let former = take(&mut scheduler).unwrap();
    scheduler.forget(&1);
    scheduler.add(
        Numbered {
            project: 1,
            object: 1,
        },
        Instant::now(),
    );
    let successor = take(&mut scheduler).unwrap();
    fail(&mut scheduler, &successor, UNREACHABLE);
    write(&mut scheduler, &former);
    assert_eq!(scheduler.counts().unreachable, 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_holds_its_key_although_other_keys_reach_the_api_server() {
    let answer = |name: &'static str, attempt, context: Arc<ReconcileContext>| async move {
        if name == "throttled" && attempt == 1 {
            return Err(format!("{UNREACHABLE} 7"));
        }
        sleep(Duration::from_millis(10)).await;
        context.note_write();
        Ok(Outcome::Gone)
    };
    let queue = queue_with_context(4, answer).open();
    queue.add("throttled");
    queue.add("served");
    sleep(Duration::from_secs(1)).await;
    // Neither the success of another key nor an event shortens the wait.
    queue.add("throttled");
    queue.add("served");
    let log = queue.after(Duration::from_secs(10)).await;
    let expected = [
        ("throttled", 0),
        ("served", 0),
        ("served", 1_000),
        ("throttled", 7_000),
    ];
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_holds_a_key_that_is_added_while_it_runs() {
    let answer = |_, attempt| async move {
        sleep(Duration::from_millis(10)).await;
        match attempt {
            1 => Err(format!("{UNREACHABLE} 7")),
            _ => Ok(Outcome::Gone),
        }
    };
    let queue = test_queue(4, answer).open();
    queue.add("a");
    sleep(Duration::from_millis(5)).await;
    queue.add("a");
    assert_eq!(
        queue.after(Duration::from_secs(10)).await,
        [("a", 0), ("a", 7_010)]
    );
}

/// An API server that hangs answers no probe within a second. A project whose API server failed once does not wait for
/// the probes of 1,000 such projects.
#[tokio::test(start_paused = true)]
async fn the_first_probe_of_an_outage_does_not_wait_for_api_servers_that_hang() {
    let mut scheduler = scheduler();
    for project in 1..=1_000 {
        add(&mut scheduler, project, 1);
    }
    // Each project fails twice, so its outage is no longer new.
    for _ in 0..2 {
        while let Some(key) = take(&mut scheduler) {
            fail(&mut scheduler, &key, UNREACHABLE);
        }
        pass(&mut scheduler, Duration::from_mins(1)).await;
    }
    // These probes hang.
    assert_eq!(take_all(&mut scheduler).len(), Limits::DEFAULT.probing);
    pass(&mut scheduler, Duration::from_secs(1)).await;
    add(&mut scheduler, 2_000, 1);
    let hanging = take_all(&mut scheduler);
    assert_eq!(hanging.len(), Limits::DEFAULT.probing + 1);
    let healthy = hanging.iter().find(|key| key.project == 2_000).unwrap();
    fail(&mut scheduler, healthy, UNREACHABLE);
    pass(&mut scheduler, Duration::from_secs(1)).await;
    assert_eq!(scheduler.counts(), scheduler.recount());
    assert_eq!(take(&mut scheduler).unwrap().project, 2_000);
}
