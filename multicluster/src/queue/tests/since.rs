//! Tests of the propagation time: the time from an event to the write that follows the event.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

/// Runs a queue whose reconciliations last 2 s and write at their end. Returns the count and the sum of the propagation
/// metric.
async fn observed(
    answer: fn(usize) -> Reconciled,
    add: impl AsyncFnOnce(&TestQueue),
) -> (String, String) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let queue = queue_with_context(1, move |_, attempt, context| {
        let metrics = metrics.clone();
        async move {
            sleep(Duration::from_secs(2)).await;
            metrics.wrote("test", "apply", "Pod", context.note_write());
            answer(attempt)
        }
    });
    let queue = queue.open();
    add(&queue).await;
    queue.after(Duration::from_mins(1)).await;
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let value = |name: &str| {
        let labels = r#"{controller="test",verb="apply",kind="Pod"} "#;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(labels));
        line.unwrap_or("0").to_owned()
    };
    (
        value("propagation_seconds_count"),
        value("propagation_seconds_sum"),
    )
}

#[tokio::test(start_paused = true)]
async fn the_propagation_time_begins_with_the_first_event() {
    // Key `b` waits for the end of `a`. Then `b` is added again while it is reconciled.
    let late = observed(
        |_| Ok(Outcome::Gone),
        async |queue| {
            queue.add("a");
            queue.add("b");
            sleep(Duration::from_secs(3)).await;
            queue.add("b");
        },
    );
    assert_eq!(late.await, ("3".into(), "9.0".into()));
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_the_time_of_the_event_and_a_resync_has_none() {
    let answer = |attempt| match attempt {
        1 => Err("no".into()),
        2 => Ok(Outcome::Again(Duration::from_secs(10))),
        _ => Ok(Outcome::Gone),
    };
    let late = observed(answer, async |queue| queue.add("a"));
    assert_eq!(late.await, ("2".into(), "6.05".into()));
}
