use std::sync::Mutex;
use std::time::Duration;

use tokio::time::sleep;

use super::*;
use crate::clock;

mod anything;
mod outage;
mod retry_after;
mod since;
mod tenants;
mod turns;

/// A key `a` without a project, or a key `x/a` of the project `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TestKey {
    name: &'static str,
    project: &'static str,
}

impl From<&'static str> for TestKey {
    fn from(name: &'static str) -> Self {
        let project = name.split_once('/').map_or("", |(project, _)| project);
        Self { name, project }
    }
}

impl Key for TestKey {
    type Tenant = &'static str;

    fn tenant(&self) -> &&'static str {
        &self.project
    }
}

/// The text of a failure consists of its outage and its Retry-After in seconds, for example `unreachable 7`.
impl Failure for String {
    fn outage(&self) -> Option<Outage> {
        match self.split(' ').next()? {
            "unreachable" => Some(Outage::Unreachable),
            "suspended" => Some(Outage::Suspended),
            _ => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.split(' ').nth(1)?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }
}

/// A queue whose reconciliations return the results of the test.
struct TestQueue {
    queue: Queue<TestKey>,
    may_write: CancellationToken,
    stop: CancellationToken,
    log: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    worker: tokio::task::JoinHandle<Result<(), JoinError>>,
}

type Reconciled = Result<Outcome, String>;

fn test_queue<Fut>(
    concurrency: usize,
    answer: impl Fn(&'static str, usize) -> Fut + Send + Sync + 'static,
) -> TestQueue
where
    Fut: Future<Output = Reconciled> + Send + 'static,
{
    queue_with_context(concurrency, move |name, attempt, _| answer(name, attempt))
}

/// Returns a queue whose reconciliations use their context.
fn queue_with_context<Fut>(
    concurrency: usize,
    answer: impl Fn(&'static str, usize, Arc<ReconcileContext>) -> Fut + Send + Sync + 'static,
) -> TestQueue
where
    Fut: Future<Output = Reconciled> + Send + 'static,
{
    let (queue, workers) = Queue::new("test", &Metrics::default());
    let (stop, may_write) = (CancellationToken::new(), CancellationToken::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let begin = Instant::now();
    let reconcile = {
        let log = Arc::clone(&log);
        move |TestKey { name: key, .. }, context| {
            let mut log = log.lock().unwrap();
            log.push((key, begin.elapsed()));
            answer(key, log.len(), context)
        }
    };
    let worker = tokio::spawn({
        let (stop, may_write) = (stop.clone(), may_write.clone());
        // In a queue with few workers, every reconciliation counts as long as it runs.
        let stalled = match concurrency < Limits::DEFAULT.concurrency {
            true => 0,
            false => Limits::DEFAULT.stalled,
        };
        let limits = Limits {
            concurrency,
            stalled,
            ..Limits::DEFAULT
        };
        async move {
            workers
                .run(limits, clock::now, may_write, stop, reconcile)
                .await
        }
    });
    TestQueue {
        queue,
        may_write,
        stop,
        log,
        worker,
    }
}

impl TestQueue {
    fn add(&self, name: &'static str) {
        self.queue.add(name.into());
    }

    fn open(self) -> Self {
        self.may_write.cancel();
        self
    }

    /// Returns the keys that were reconciled within this time, each with its time in milliseconds.
    async fn after(self, time: Duration) -> Vec<(&'static str, u128)> {
        sleep(time).await;
        self.stop.cancel();
        self.worker.await.unwrap().unwrap();
        let log = self.log.lock().unwrap();
        log.iter().map(|(key, at)| (*key, at.as_millis())).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_at_most_once() {
    let queue = test_queue(1, |_, _| async { Reconciled::Ok(Outcome::Gone) }).open();
    for key in ["a", "b", "a", "a"] {
        queue.add(key);
    }
    assert_eq!(
        queue.after(Duration::from_secs(1)).await,
        [("a", 0), ("b", 0)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_runs_is_reconciled_again() {
    let slow = |_, _| async {
        sleep(Duration::from_millis(100)).await;
        Reconciled::Ok(Outcome::Gone)
    };
    let queue = test_queue(2, slow).open();
    queue.add("a");
    sleep(Duration::from_millis(50)).await;
    queue.add("a");
    queue.add("b");
    assert_eq!(
        queue.after(Duration::from_secs(1)).await,
        [("a", 0), ("b", 50), ("a", 100)]
    );
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_by_key_and_an_event_cuts_the_wait_short() {
    let queue = test_queue(1, |key, _| async move {
        if key == "bad" {
            Err("no".to_owned())
        } else {
            Ok(Outcome::Gone)
        }
    })
    .open();
    queue.add("bad");
    queue.add("good");
    sleep(Duration::from_millis(200)).await;
    queue.add("bad");
    let log = queue.after(Duration::from_millis(700)).await;
    // The wait is 50 ms after the first failure and 100 ms after the second. The event at 200 ms causes the fourth
    // reconciliation, and the wait after it is 400 ms.
    assert_eq!(
        log,
        [
            ("bad", 0),
            ("good", 0),
            ("bad", 50),
            ("bad", 150),
            ("bad", 200),
            ("bad", 600)
        ]
    );
}

/// I-21: pending work has a timer.
#[tokio::test(start_paused = true)]
async fn pending_work_has_a_timer_and_settled_work_is_looked_at_again() {
    let queue = test_queue(1, |key, _| async move {
        Reconciled::Ok(if key == "pending" {
            Outcome::Again(Duration::from_secs(5))
        } else {
            Outcome::Settled
        })
    })
    .open();
    queue.add("pending");
    queue.add("settled");
    let log = queue.after(Duration::from_secs(601)).await;
    assert_eq!(log.iter().filter(|(key, _)| *key == "pending").count(), 121);
    assert_eq!(log.iter().filter(|(key, _)| *key == "settled").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_added_before_the_process_may_write_are_dropped() {
    let queue = test_queue(1, |_, _| async { Reconciled::Ok(Outcome::Gone) });
    queue.add("a");
    sleep(Duration::from_mins(1)).await;
    queue.may_write.cancel();
    queue.add("b");
    assert_eq!(queue.after(Duration::from_secs(1)).await, [("b", 60_000)]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_workers() {
    let queue = test_queue(1, |_, _| async { panic!("oh") }).open();
    queue.add("a");
    assert!(queue.worker.await.unwrap().is_err());
}
