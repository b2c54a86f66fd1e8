//! Tests of the capacity without HTTP.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::metrics::RequestMetrics;
use prometheus_client::registry::Registry;

const MIB: usize = 1 << 20;

fn capacity(limits: Limits) -> Arc<Capacity> {
    let [capacity, _] = Capacity::of_protocols(&limits, 1);
    capacity
}

fn admit(capacity: &Arc<Capacity>) -> Result<RequestPermit, Overloaded> {
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    capacity.admit(None, metrics.in_flight())
}

/// Admits a request with a large body.
fn admit_large(capacity: &Arc<Capacity>) -> RequestPermit {
    let mut permit = admit(capacity).unwrap();
    permit.hold_body(MIB).unwrap();
    permit
}

fn taken(capacity: &Capacity) -> [usize; 4] {
    let decoding = capacity.decoding_max - capacity.decoding.available_permits();
    let Capacity {
        slots,
        small,
        large,
        ..
    } = capacity;
    [slots.taken(), small.taken(), large.taken(), decoding]
}

#[tokio::test]
async fn each_part_is_held_until_the_data_of_the_answer_is_dropped() {
    let capacity = capacity(Limits::default());
    let mut small = admit(&capacity).unwrap();
    small.hold_body(1000).unwrap();
    small.hold_decoded(1000, 12 * 1000).await.unwrap();
    let overhead = REQUEST_OVERHEAD;
    assert_eq!(taken(&capacity), [1, overhead + 1000, 0, 12_000]);
    let small = small.answer(vec![0; 100]).unwrap();
    assert_eq!(taken(&capacity), [0, overhead + 100, 0, 0]);
    let mut large = admit(&capacity).unwrap();
    large.hold_body(MIB).unwrap();
    large.hold_decoded(MIB, 12 * MIB).await.unwrap();
    assert_eq!(
        taken(&capacity),
        [1, overhead + 100, overhead + MIB, 12 * MIB]
    );
    let large = large.answer(vec![0; 100]).unwrap();
    drop(small);
    assert_eq!(taken(&capacity), [0, 0, overhead + 100, 0]);
    drop(large);
    assert_eq!(taken(&capacity), [0; 4]);
}

/// An answer can be several times as large as its body.
#[tokio::test]
async fn a_single_request_of_a_source_address_may_have_a_large_answer() {
    let limits = Limits {
        bytes_in_flight: 32 * MIB,
        ..Limits::default()
    };
    let capacity = capacity(limits);
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    let of = |address| {
        let source = IpAddr::from([10, 0, 0, address]);
        let mut permit = capacity.admit(Some(source), metrics.in_flight()).unwrap();
        permit.hold_body(MIB / 2).unwrap();
        permit
    };
    let part = capacity.large.max();
    assert!(capacity.large_max < part - REQUEST_OVERHEAD, "no test");
    let largest = part - REQUEST_OVERHEAD;
    let answer = of(1).answer(vec![0; largest]).unwrap();
    drop(answer);
    let error = of(1).answer(vec![0; largest + 1]).unwrap_err();
    assert_eq!(error.reason(), "too_large");
    let (_other, one) = (of(1), of(1));
    assert_eq!(
        one.answer(vec![0; largest]).unwrap_err().reason(),
        "overloaded"
    );
}

#[tokio::test]
async fn large_bodies_leave_capacity_for_small_ones() {
    let capacity = capacity(Limits::default());
    let body = capacity.body_max();
    assert!(body >= Limits::default().body, "{body}");
    let mut held = Vec::new();
    let mut decoded = admit(&capacity).unwrap();
    decoded.hold_body(body).unwrap();
    decoded.hold_decoded(body, 12 * body).await.unwrap();
    while let Ok(mut permit) = admit(&capacity)
        && permit.hold_body(MIB).is_ok()
    {
        held.push(permit);
    }
    let mut small = admit(&capacity).unwrap();
    small.hold_body(10_000).unwrap();
    small.hold_decoded(10_000, 12 * 10_000).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_large_body_waits_for_its_turn_and_then_is_refused() {
    let capacity = capacity(Limits::default());
    let body = capacity.body_max();
    let large = || admit_large(&capacity);
    let (mut first, mut second, mut third) = (large(), large(), large());
    first.hold_decoded(body, 12 * body).await.unwrap();
    assert_eq!(second.hold_decoded(body, 12 * body).await, Err(Overloaded));
    let begin = Instant::now();
    let wait = async {
        tokio::time::sleep(QUEUE_MAX / 2).await;
        drop(first);
    };
    let ((), waited) = tokio::join!(wait, third.hold_decoded(body, 12 * body));
    waited.unwrap();
    assert_eq!(begin.elapsed(), QUEUE_MAX / 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_longer_than_its_caller() {
    let capacity = capacity(Limits::default());
    let body = capacity.body_max();
    let large = || admit_large(&capacity);
    let mut first = large();
    first.hold_decoded(body, 12 * body).await.unwrap();
    // A body without an announced size can be large although its work is not long.
    for is_long in [true, false] {
        let (mut second, begin) = (large(), Instant::now());
        second.end_queue(is_long, begin + QUEUE_MAX / 4);
        assert_eq!(second.hold_decoded(body, 12 * body).await, Err(Overloaded));
        assert_eq!(begin.elapsed(), QUEUE_MAX / 4);
    }
}

#[tokio::test(start_paused = true)]
async fn all_waits_of_one_request_are_bounded_together() {
    let capacity = capacity(Limits::default());
    let body = capacity.body_max();
    let large = || admit_large(&capacity);
    let (mut first, mut second) = (large(), large());
    first.hold_decoded(body, 12 * body).await.unwrap();
    let workers = Arc::clone(&capacity.workers);
    let count = u32::try_from(workers.available_permits()).unwrap();
    let _busy = workers.acquire_many_owned(count).await.unwrap();
    let begin = Instant::now();
    let wait = async {
        tokio::time::sleep(QUEUE_MAX * 3 / 4).await;
        drop(first);
    };
    let ((), waited) = tokio::join!(wait, second.hold_decoded(body, 12 * body));
    waited.unwrap();
    assert_eq!(second.run(true, || ()).await, Err(Overloaded));
    assert_eq!(begin.elapsed(), QUEUE_MAX);
}

#[tokio::test(start_paused = true)]
async fn the_last_part_of_the_work_waits_until_the_deadline() {
    let capacity = capacity(Limits::default());
    let mut permit = admit(&capacity).unwrap();
    let workers = Arc::clone(&capacity.workers);
    let count = u32::try_from(workers.available_permits()).unwrap();
    let busy = workers.acquire_many_owned(count).await.unwrap();
    let mut work = Work {
        permit: &mut permit,
        body: MIB,
        is_long: true,
    };
    assert_eq!(work.run(|| ()).await, Err(Overloaded));
    let begin = Instant::now();
    let deadline = begin + 3 * QUEUE_MAX;
    assert_eq!(work.run_last(deadline, || ()).await, Err(Overloaded));
    assert_eq!(begin.elapsed(), 3 * QUEUE_MAX);
    drop(busy);
    // The deadline is over, but a CPU is free.
    assert_eq!(work.run_last(deadline, || ()).await, Ok(()));
}

#[test]
fn many_values_make_the_work_on_a_small_body_long() {
    let body = |values: usize, size: usize| {
        let mut body = "0,".repeat(values).into_bytes();
        body.resize(size, b' ');
        body
    };
    let cases = [
        (BRIEF_BODY / 2, BRIEF_BODY, false),
        (BRIEF_SEPARATORS, SMALL_BODY, false),
        (BRIEF_SEPARATORS + 1, SMALL_BODY, true),
        (BRIEF_BODY / 2 + 1, BRIEF_BODY + 2, true),
        (0, SMALL_BODY + 1, true),
    ];
    for (values, size, is_long) in cases {
        let body = body(values, size);
        assert_eq!(is_long_work(&body), is_long, "{values} in {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_bodies_of_all_protocols_use_half_of_the_cpus() {
    let [interpreter, admission] = Capacity::of_protocols(&Limits::default(), 2);
    let cpus = available_parallelism().unwrap().get();
    let mut busy = Vec::new();
    while let Ok(worker) = Arc::clone(&interpreter.workers).try_acquire_owned() {
        busy.push(worker);
    }
    assert_eq!(busy.len(), (cpus / 2).max(1));
    let mut permit = admit(&admission).unwrap();
    assert_eq!(permit.run(true, || ()).await, Err(Overloaded));
    busy.pop();
    assert_eq!(permit.run(true, || ()).await, Ok(()));
}

/// The requests of one source address wait for its only place in the queue.
#[tokio::test(start_paused = true)]
async fn requests_of_one_source_address_do_not_fill_the_queue() {
    let capacity = capacity(Limits::default());
    let workers = Arc::clone(&capacity.workers);
    let count = u32::try_from(workers.available_permits()).unwrap();
    let busy = workers.acquire_many_owned(count).await.unwrap();
    let turns = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for address in [1, 1, 1, 2] {
        let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
        let source = IpAddr::from([10, 0, 0, address]);
        let mut permit = capacity.admit(Some(source), metrics.in_flight()).unwrap();
        let turns = Arc::clone(&turns);
        waiting.push(tokio::spawn(async move {
            let turn = || turns.lock().unwrap().push(address);
            permit.run(true, turn).await
        }));
        tokio::task::yield_now().await;
    }
    drop(busy);
    for turn in waiting {
        assert_eq!(turn.await.unwrap(), Ok(()));
    }
    assert_eq!(turns.lock().unwrap()[..2], [1, 2]);
}

#[test]
fn a_dropped_permit_returns_its_capacity() {
    let capacity = capacity(Limits {
        requests: 2,
        bytes_in_flight: 8 * (2 * REQUEST_OVERHEAD + 100),
        ..Limits::default()
    });
    let mut first = admit(&capacity).unwrap();
    let mut second = admit(&capacity).unwrap();
    assert!(admit(&capacity).is_err());
    first.hold_body(60).unwrap();
    first.hold_body(90).unwrap();
    assert!(second.hold_body(11).is_err());
    second.hold_body(10).unwrap();
    second.release_slot();
    // A slot is free, but no bytes are.
    assert!(admit(&capacity).is_err());
    drop((first, second));
    assert_eq!(taken(&capacity), [0; 4]);
}

#[test]
fn one_source_address_leaves_capacity_for_others() {
    let capacity = capacity(Limits::default());
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    let admit = |host: u8| {
        let address = Some([192, 0, 2, host].into());
        capacity.admit(address, metrics.in_flight())
    };
    for body in [0, MIB] {
        let mut held = Vec::new();
        while let Ok(mut permit) = admit(1)
            && permit.hold_body(body).is_ok()
        {
            held.push(permit);
        }
        let mut other = admit(2).unwrap();
        other.hold_body(body).unwrap();
        assert!(held.len() > 20, "{}", held.len());
        assert_eq!(capacity.sources.count(), 2);
        drop((held, other));
        assert_eq!(capacity.sources.count(), 0);
    }
    assert_eq!(taken(&capacity), [0; 4]);
}

#[test]
fn a_few_source_addresses_leave_capacity_for_another_one() {
    let [_, capacity] = Capacity::of_protocols(&Limits::default(), 2);
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    let admit_all = |host: u8| {
        let address = Some([192, 0, 2, host].into());
        let requests = std::iter::from_fn(|| capacity.admit(address, metrics.in_flight()).ok());
        requests.collect::<Vec<_>>()
    };
    let held = [1, 2, 3, 4].map(admit_all);
    let counts = held.each_ref().map(Vec::len);
    // Three quarters of what the former ones left.
    assert_eq!(counts, [1536, 384, 96, 24]);
    assert_eq!(admit_all(5).len(), 6);
}

#[test]
fn one_source_address_leaves_room_for_the_largest_body_of_another_one() {
    let [_, capacity] = Capacity::of_protocols(&Limits::default(), 2);
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    let admit = |host: u8| {
        let address = Some([192, 0, 2, host].into());
        capacity.admit(address, metrics.in_flight())
    };
    let mut held = Vec::new();
    while let Ok(mut permit) = admit(1)
        && permit.hold_body(MIB).is_ok()
    {
        held.push(permit);
    }
    assert!(held.len() >= 7, "{}", held.len());
    admit(2).unwrap().hold_body(Limits::default().body).unwrap();
    drop(held);
    admit(1).unwrap().hold_body(Limits::default().body).unwrap();
}

#[test]
fn a_source_address_is_forgotten_when_its_last_requests_end_at_the_same_time() {
    let capacity = capacity(Limits::default());
    let metrics = RequestMetrics::register("p", "Requests", &mut Registry::default());
    // A lock would wake one thread long after the other.
    let arrived = AtomicU32::new(0);
    let requests = || {
        for round in 0..20_000_u32 {
            let address = Some(IpAddr::from(round.to_be_bytes()));
            let permit = capacity.admit(address, metrics.in_flight()).unwrap();
            arrived.fetch_add(1, Ordering::AcqRel);
            let mut spins = 0_u32;
            while arrived.load(Ordering::Acquire) < 2 * (round + 1) {
                spins += 1;
                match spins % 1024 {
                    0 => std::thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
            }
            drop(permit);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(requests);
        scope.spawn(requests);
    });
    assert_eq!(capacity.sources.count(), 0);
}
