//! Groups whose API servers cannot be reached, and tenants that are suspended.

use super::turns::{Numbered, SETTLED, add, state, take};
use super::*;
use crate::queue::state::Counts;
use crate::queue::tenant::RESYNC;

type State = state::State<Numbered>;

const UNREACHABLE: &str = "unreachable";
const SUSPENDED: &str = "suspended";

fn fail(state: &mut State, key: &Arc<Numbered>, failure: &str) {
    state.finished(key, false, &Answer::Err(failure.into()));
}

fn write(state: &mut State, key: &Arc<Numbered>) {
    state.finished(key, true, &SETTLED);
}

/// Takes all keys that may be taken.
fn take_all(state: &mut State) -> Vec<Arc<Numbered>> {
    std::iter::from_fn(|| take(state)).collect()
}

async fn pass(state: &mut State, time: Duration) {
    tokio::time::advance(time).await;
    state.expire(Instant::now());
}

fn objects(keys: &[Arc<Numbered>]) -> Vec<u32> {
    keys.iter().map(|key| key.object).collect()
}

/// The project 1 with as many objects, of which the first could not be reached.
fn unreachable(objects: u32) -> State {
    let mut state = state();
    add(&mut state, 1, objects);
    let running = take_all(&mut state);
    fail(&mut state, &running[0], UNREACHABLE);
    for key in &running[1..] {
        fail(&mut state, key, UNREACHABLE);
    }
    state
}

#[tokio::test(start_paused = true)]
async fn one_key_at_a_time_is_tried_with_growing_waits() {
    let answer = |name: &'static str, _| async move {
        match name.starts_with("x/") {
            true => Err(UNREACHABLE.to_owned()),
            false => Ok(Outcome::Gone),
        }
    };
    let bench = bench(64, answer).open();
    for name in ["x/1", "x/2", "x/3"] {
        bench.add(name);
    }
    sleep(Duration::from_millis(60)).await;
    bench.add("y/1");
    // Events do not make it faster.
    for _ in 0..50 {
        bench.add("x/2");
        sleep(Duration::from_millis(1)).await;
    }
    let log = bench.after(Duration::from_millis(700)).await;
    let times: Vec<_> = log.iter().filter(|(name, _)| *name != "y/1").collect();
    let times: Vec<_> = times.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, [0, 0, 0, 50, 150, 350, 750]);
    // Each gets its turn.
    let names: Vec<_> = log.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["x/1", "x/2", "x/3", "x/1", "y/1", "x/2", "x/3", "x/1"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_is_left_in_peace_for_as_long_as_it_asks() {
    let asks = |seconds| {
        let answer = move |_, attempt| async move {
            if attempt > 2 {
                return Ok(Outcome::Gone);
            }
            Err(format!("{UNREACHABLE} {seconds}"))
        };
        bench(1, answer).open()
    };
    for (seconds, expected) in [
        (0, [("a", 0), ("a", 50), ("a", 150)]),
        (7, [("a", 0), ("a", 7_000), ("a", 14_000)]),
        (86_400, [("a", 0), ("a", 30_000), ("a", 60_000)]),
    ] {
        let bench = asks(seconds);
        bench.add("a");
        assert_eq!(bench.after(Duration::from_mins(2)).await, expected);
    }
    // Other tenants are not deferred, nor a key whose failure says nothing of the API server.
    let bench = bench(1, |name, attempt| async move {
        match (name, attempt) {
            ("x/a", 1) => Err(format!("{UNREACHABLE} 7")),
            ("x/a", _) => Ok(Outcome::Again(Duration::from_secs(1))),
            ("y/c", 3) => Err("no 7".to_owned()),
            _ => Ok(Outcome::Gone),
        }
    });
    let bench = bench.open();
    for name in ["x/a", "b", "y/c"] {
        bench.add(name);
    }
    let log = bench.after(Duration::from_millis(8_500)).await;
    let expected = [
        ("x/a", 0),
        ("b", 0),
        ("y/c", 0),
        ("y/c", 50),
        ("x/a", 7_000),
        ("x/a", 8_000),
    ];
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_is_tried_every_half_minute_at_least_and_one_write_ends_the_trouble() {
    let mut state = unreachable(100);
    for _ in 0..20 {
        pass(&mut state, Duration::from_secs(30)).await;
        let probe = take_all(&mut state);
        assert_eq!((probe.len(), state.counts().probing), (1, 1));
        fail(&mut state, &probe[0], UNREACHABLE);
    }
    assert_eq!(state.counts().unreachable, 1);
    pass(&mut state, Duration::from_secs(30)).await;
    let probe = take_all(&mut state);
    write(&mut state, &probe[0]);
    let counts = Counts {
        ready: 99,
        ..Counts::default()
    };
    assert_eq!(state.counts(), counts);
    assert_eq!(take_all(&mut state).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn many_groups_that_hang_have_an_eighth_of_the_places() {
    let mut state = state();
    for project in 0..20 {
        add(&mut state, project, 1);
    }
    for key in take_all(&mut state) {
        fail(&mut state, &key, UNREACHABLE);
    }
    assert_eq!(state.counts().unreachable, 20);
    pass(&mut state, Duration::from_secs(1)).await;
    let probes = take_all(&mut state);
    assert_eq!((probes.len(), state.counts().probing), (8, 8));
    // The others go on, and those that could not be tried come next.
    add(&mut state, 100, 1);
    assert_eq!(take_all(&mut state).len(), 1);
    fail(&mut state, &probes[0], UNREACHABLE);
    write(&mut state, &probes[1]);
    let projects: Vec<_> = take_all(&mut state).iter().map(|key| key.project).collect();
    assert_eq!(projects, [8, 9]);
}

#[tokio::test(start_paused = true)]
async fn what_did_not_ask_the_api_server_says_nothing_of_it() {
    let mut state = unreachable(1);
    for object in 1..=3 {
        state.add(Numbered { project: 1, object }, Instant::now());
    }
    assert_eq!(objects(&take_all(&mut state)), [0_u32; 0]);
    pass(&mut state, Duration::from_millis(50)).await;
    for object in [3, 2, 1] {
        let probe = take_all(&mut state);
        assert_eq!(objects(&probe), [object]);
        state.finished(&probe[0], false, &SETTLED);
        assert_eq!(state.counts().unreachable, 1);
    }
    // This one had asked.
    let probe = take_all(&mut state);
    assert_eq!(objects(&probe), [0]);
    state.finished(&probe[0], false, &SETTLED);
    assert_eq!(state.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_while_others_do_not_is_not_in_their_way() {
    let mut state = unreachable(1);
    let (other, now) = (
        Numbered {
            project: 1,
            object: 7,
        },
        Instant::now(),
    );
    state.add(other, now);
    pass(&mut state, Duration::from_millis(50)).await;
    let probe = take_all(&mut state);
    assert_eq!(objects(&probe), [7]);
    write(&mut state, &probe[0]);
    // It backs off by itself, and does so longer each time.
    for wait in [50, 100, 200] {
        let failing = take_all(&mut state);
        assert_eq!(objects(&failing), [0]);
        fail(&mut state, &failing[0], UNREACHABLE);
        assert_eq!(state.counts(), Counts::default());
        pass(&mut state, Duration::from_millis(wait - 1)).await;
        assert_eq!(objects(&take_all(&mut state)), [0_u32; 0]);
        pass(&mut state, Duration::from_millis(1)).await;
    }
    let last = take_all(&mut state);
    write(&mut state, &last[0]);
    // Once it was written, it speaks for the tenant again.
    state.add(*last[0], now);
    let again = take_all(&mut state);
    fail(&mut state, &again[0], UNREACHABLE);
    assert_eq!(state.counts().unreachable, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_suspended_group_may_not_write_waits_until_it_is_released() {
    let mut state = state();
    add(&mut state, 1, 10);
    for _ in 0..9 {
        let key = take(&mut state).unwrap();
        fail(&mut state, &key, SUSPENDED);
    }
    // What may be written goes on, such as a finalizer that is removed.
    let key = take(&mut state).unwrap();
    write(&mut state, &key);
    let counts = Counts {
        suspended: 1,
        ..Counts::default()
    };
    assert_eq!((state.counts(), take(&mut state)), (counts, None));
    pass(&mut state, RESYNC / 3).await;
    assert_eq!(take(&mut state), None);

    state.release(&1);
    let released = Counts {
        ready: 9,
        ..Counts::default()
    };
    assert_eq!(state.counts(), released);
    while let Some(key) = take(&mut state) {
        assert_ne!(key.object, 9);
        write(&mut state, &key);
    }
    assert_eq!(state.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn the_resync_and_events_find_that_a_group_is_suspended_no_more() {
    let mut state = state();
    add(&mut state, 1, 2);
    for key in take_all(&mut state) {
        fail(&mut state, &key, SUSPENDED);
    }
    add(&mut state, 1, 1);
    let key = take(&mut state).unwrap();
    fail(&mut state, &key, SUSPENDED);
    assert_eq!(state.counts().suspended, 1);
    pass(&mut state, RESYNC).await;
    let keys = take_all(&mut state);
    assert_eq!(objects(&keys).len(), 2);
    for key in keys {
        write(&mut state, &key);
    }
    assert_eq!(state.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_released_is_tried_at_once() {
    let mut state = unreachable(10);
    assert_eq!(take_all(&mut state).len(), 0);
    state.release(&1);
    assert_eq!(take_all(&mut state).len(), 4);
    state.release(&2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_trouble_with_what_is_forgotten() {
    for failure in [UNREACHABLE, SUSPENDED] {
        let mut state = state();
        add(&mut state, 1, 10);
        let running = take_all(&mut state);
        fail(&mut state, &running[0], failure);
        state.forget(&1);
        assert_eq!(state.counts(), Counts::default());
        // What ends now does not count, also not against a tenant of the same name.
        add(&mut state, 1, 1);
        for key in &running[1..] {
            fail(&mut state, key, failure);
        }
        let counts = Counts {
            ready: 1,
            ..Counts::default()
        };
        assert_eq!(state.counts(), counts);
        state.forget(&1);
        assert_eq!((state.counts(), state.sizes()), (Counts::default(), [0; 3]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_does_not_end_the_trouble_of_a_successor() {
    let mut state = state();
    add(&mut state, 1, 1);
    let former = take(&mut state).unwrap();
    state.forget(&1);
    state.add(
        Numbered {
            project: 1,
            object: 1,
        },
        Instant::now(),
    );
    let successor = take(&mut state).unwrap();
    fail(&mut state, &successor, UNREACHABLE);
    write(&mut state, &former);
    assert_eq!(state.counts().unreachable, 1);
}
