//! How long after an event its writes come.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

/// Runs a queue whose reconciliations last 2 s and write at their end, and gives the number of observations and their sum.
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
async fn a_write_is_as_late_as_the_event_is_old() {
    // The second waits for the first, and the third is added while the second runs.
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
async fn a_failure_makes_the_event_older_and_what_no_event_asked_for_is_not_late() {
    let answer = |attempt| match attempt {
        1 => Err("no".into()),
        2 => Ok(Outcome::Again(Duration::from_secs(10))),
        _ => Ok(Outcome::Gone),
    };
    let late = observed(answer, async |queue| queue.add("a"));
    assert_eq!(late.await, ("2".into(), "6.05".into()));
}
