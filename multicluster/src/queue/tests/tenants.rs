//! Tenants that are slow, and tenants that are forgotten.

use super::*;

/// Returns a queue in which reconciliations of `slow` last one hour, and all others end immediately.
fn slow_project() -> TestQueue {
    let answer = |name: &'static str, _| async move {
        if name.starts_with("slow/") {
            sleep(Duration::from_hours(1)).await;
        }
        Reconciled::Ok(Outcome::Gone)
    };
    test_queue(Limits::DEFAULT.concurrency, answer).open()
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_hangs_holds_four_workers() {
    let queue = slow_project();
    for name in ["slow/1", "slow/2", "slow/3", "slow/4", "slow/5", "slow/6"] {
        queue.add(name);
    }
    sleep(Duration::from_secs(1)).await;
    queue.add("quick/1");
    sleep(Duration::from_secs(3598)).await;
    assert_eq!(
        *queue.log.lock().unwrap(),
        [
            ("slow/1", Duration::ZERO),
            ("slow/2", Duration::ZERO),
            ("slow/3", Duration::ZERO),
            ("slow/4", Duration::ZERO),
            ("quick/1", Duration::from_secs(1)),
        ]
    );
    let log = queue.after(Duration::from_secs(2)).await;
    assert_eq!(log[5..], [("slow/5", 3_600_000), ("slow/6", 3_600_000)]);
}

#[tokio::test(start_paused = true)]
async fn forgotten_keys_are_not_reconciled() {
    let fails = |_, _| async { Err("no".to_owned()) };
    let queue = test_queue(1, fails).open();
    queue.add("x/waits");
    queue.add("y/waits");
    sleep(Duration::from_millis(10)).await;
    queue.add("x/is ready");
    queue.queue.forget(&"x");
    let log = queue.after(Duration::from_millis(60)).await;
    assert_eq!(log, [("x/waits", 0), ("y/waits", 0), ("y/waits", 50)]);
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_forgotten_key_is_ignored() {
    let queue = slow_project();
    queue.add("slow/1");
    sleep(Duration::from_millis(10)).await;
    queue.add("slow/1");
    queue.queue.forget(&"slow");
    let log = queue.after(Duration::from_hours(2)).await;
    assert_eq!(log, [("slow/1", 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_after_it_was_forgotten_waits_for_its_running_reconciliation() {
    let queue = slow_project();
    queue.add("slow/1");
    sleep(Duration::from_millis(10)).await;
    queue.queue.forget(&"slow");
    queue.add("slow/1");
    queue.add("slow/2");
    let log = queue.after(Duration::from_hours(3)).await;
    assert_eq!(log, [("slow/1", 0), ("slow/2", 10), ("slow/1", 3_600_000)]);
}

/// Returns the mean and the longest time in milliseconds from an event of project `healthy` to its reconciliation. The
/// project has an event every 500 ms for ten minutes. Its reconciliations last 100 ms. Beside it, each of `hanging`
/// projects has five keys with an event every second. Their reconciliations end after 30 s without an answer.
async fn waits_beside(hanging: usize) -> (u128, u128) {
    const EVENTS: u64 = 1_200;
    let answer = |name: &'static str, _| async move {
        if name.starts_with("hangs") {
            sleep(Duration::from_secs(30)).await;
            return Err("unreachable".to_owned());
        }
        sleep(Duration::from_millis(100)).await;
        Reconciled::Ok(Outcome::Gone)
    };
    let queue = test_queue(Limits::DEFAULT.concurrency, answer).open();
    let hanging: Vec<_> = (0..hanging * 5)
        .map(|key| &*format!("hangs{}/{}", key / 5, key % 5).leak())
        .collect();
    for event in 0..EVENTS {
        if event % 2 == 0 {
            for name in &hanging {
                queue.add(name);
            }
        }
        queue.add("healthy/web");
        sleep(Duration::from_millis(500)).await;
    }
    let log = queue.after(Duration::from_mins(1)).await;
    let begun = log.iter().filter(|(name, _)| *name == "healthy/web");
    let begun: Vec<_> = begun.map(|(_, at)| *at).collect();
    // Events that arrive while the key waits are one reconciliation. Each event is followed by the next one.
    let waits: Vec<_> = (0..u128::from(EVENTS))
        .map(|event| {
            let at = event * 500;
            begun.iter().find(|begun| **begun >= at).unwrap() - at + 100
        })
        .collect();
    let mean = waits.iter().sum::<u128>() / u128::from(EVENTS);
    (mean, *waits.iter().max().unwrap())
}

#[tokio::test(start_paused = true)]
async fn twenty_projects_that_hang_do_not_delay_a_healthy_project() {
    let (alone, _) = waits_beside(0).await;
    let (beside, longest) = waits_beside(20).await;
    assert!(
        10 * beside <= 13 * alone,
        "{beside} ms while the other projects hang, {alone} ms alone"
    );
    assert!(longest <= 2_000, "{longest} ms");
}
