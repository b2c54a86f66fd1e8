//! Waits that begin with a Retry-After.

use super::turns::{Numbered, add, scheduler, take};
use super::*;
use crate::queue::tenant::RESYNC;

type Scheduler = scheduler::Scheduler<Numbered>;

const SECOND: Duration = Duration::from_secs(1);

/// Takes the only key, and fails it.
fn fail(scheduler: &mut Scheduler, failure: &str) {
    let key = take(scheduler).unwrap();
    scheduler.finished(&key, Writes::None, &Reconciled::Err(failure.to_owned()));
}

async fn pass(scheduler: &mut Scheduler, time: Duration) {
    tokio::time::advance(time).await;
    scheduler.expire(Instant::now());
}

/// A reconciliation with two requests: the first answer is the refusal of a suspended project, the second is a 429.
#[tokio::test(start_paused = true)]
async fn a_suspended_key_with_a_retry_after_is_released_and_follows_events() {
    let ends: [fn(&mut Scheduler); 2] = [
        |scheduler| scheduler.release(&1),
        |scheduler| add(scheduler, 1, 1),
    ];
    for end in ends {
        for before in [SECOND / 2, 5 * SECOND] {
            let mut scheduler = scheduler();
            add(&mut scheduler, 1, 1);
            fail(&mut scheduler, "suspended 1");
            pass(&mut scheduler, before).await;
            assert_eq!(take(&mut scheduler), None);
            end(&mut scheduler);
            pass(&mut scheduler, SECOND / 2).await;
            assert!(take(&mut scheduler).is_some());
        }
    }
    // Without an event, the resync follows.
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 1);
    fail(&mut scheduler, "suspended 1");
    pass(&mut scheduler, RESYNC / 3).await;
    assert_eq!(take(&mut scheduler), None);
    pass(&mut scheduler, RESYNC).await;
    assert!(take(&mut scheduler).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_retry_after_ends_the_backoff_that_follows() {
    let mut scheduler = scheduler();
    add(&mut scheduler, 1, 1);
    // The backoff gets as long as it can be.
    for _ in 0..20 {
        fail(&mut scheduler, "no 1");
        pass(&mut scheduler, SECOND).await;
        pass(&mut scheduler, 59 * SECOND).await;
    }
    fail(&mut scheduler, "no 1");
    add(&mut scheduler, 1, 1);
    assert_eq!(take(&mut scheduler), None);
    pass(&mut scheduler, SECOND).await;
    fail(&mut scheduler, "no 1");
    // Without an event, the backoff follows the Retry-After.
    pass(&mut scheduler, SECOND).await;
    pass(&mut scheduler, 58 * SECOND).await;
    assert_eq!(take(&mut scheduler), None);
    pass(&mut scheduler, SECOND).await;
    assert!(take(&mut scheduler).is_some());
}
