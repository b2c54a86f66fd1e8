//! The cities of a project whose API server fails.

use super::*;

#[tokio::test(start_paused = true)]
async fn after_an_error_cities_are_unknown_until_the_next_list() {
    let bench = bench().await;
    let lists = bench.planes["a"].requests();
    bench.planes["a"].fail(Fault::refuse(500));
    bench.planes["a"].interrupt();
    let problem = |bench: &Bench, text: &str| bench.cities("a").contains(text);
    bench
        .until(|bench| problem(bench, "connection reset"))
        .await;
    bench
        .until(|bench| problem(bench, "500 InternalError: not now"))
        .await;
    assert_eq!(
        (bench.cities("b"), bench.counts()),
        ("LHR".to_owned(), (2, 1))
    );
    bench.planes["a"].remove::<api::networking::LocationBinding>("", "here");
    bench.planes["a"].put(location_binding("there", "ORD", "True"));
    bench.planes["a"].heal();
    bench.until(|bench| bench.cities("a") == "ORD").await;
    assert_eq!(bench.counts(), (2, 0));
    assert!(bench.planes["a"].requests() > lists);
}

#[tokio::test(start_paused = true)]
async fn admission_uses_the_known_cities_for_a_minute_after_the_watch_has_failed() {
    let bench = bench().await;
    let project = bench.projects.get(&ProjectName::new("a").unwrap()).unwrap();
    bench.planes["a"].fail(Fault::disconnect());
    bench.planes["a"].interrupt();
    bench
        .until(|bench| bench.cities("a").contains("connection reset"))
        .await;
    let begin = Instant::now();
    let mut answered = Duration::ZERO;
    while let Ok((cities, problem)) = project.cities_now() {
        assert!(cities.contains("DFW") && problem.is_some());
        // The placement of Workloads does not use them.
        assert!(project.cities().is_err());
        answered = begin.elapsed();
        sleep(Duration::from_secs(1)).await;
        assert!(begin.elapsed() < WITHIN);
    }
    assert!((59..=60).contains(&answered.as_secs()), "{answered:?}");
    bench.planes["a"].heal();
    bench.until(|bench| bench.cities("a") == "DFW").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_order_is_resumed_without_a_list() {
    let bench = bench().await;
    let plane = &bench.planes["a"];
    bench.until(|bench| bench.planes["a"].watches() == 1).await;
    let requests = plane.requests();
    plane.end_watches();
    plane.put(location_binding("there", "AMS", "True"));
    bench
        .until(|bench| {
            let cities = bench.cities("a");
            assert!(cities == "DFW" || cities == "AMS DFW", "{cities}");
            cities == "AMS DFW"
        })
        .await;
    // The watch ended early, so a check precedes the new watch.
    assert_eq!(plane.requests(), requests + 2);
}
