//! Caches that follow an in-memory API server, on a paused clock.

use std::time::Duration;

use apiserver::{ApiServer, Fault, Logged, Verb};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use tokio::time::{Instant, sleep};

use super::*;
use crate::cache::list_limiter::LISTS;

/// Time limit of a wait. The clock is paused, so waiting costs nothing.
pub(super) const WITHIN: Duration = Duration::from_mins(5);

pub(super) struct Following {
    pub(super) server: ApiServer,
    pub(super) cache: Cache<ConfigMap>,
    pub(super) lists: ListLimiter,
}

/// Follows an API server with a ConfigMap `a` until the cache has `a`.
pub(super) async fn following() -> Following {
    let server = ApiServer::new();
    server.put(config_map("a"));
    let following = follow(server);
    following.until(|it| it.state() == "a@2").await;
    following.until(|it| it.server.watches() == 1).await;
    following
}

fn follow(server: ApiServer) -> Following {
    follow_at(server, ListLimiter::default())
}

pub(super) fn follow_at(server: ApiServer, lists: ListLimiter) -> Following {
    let reflector = Reflector::new("test", &Metrics::default());
    let cache = reflector.cache();
    tokio::spawn(reflector.run(server.client(), lists.clone()));
    Following {
        server,
        cache,
        lists,
    }
}

pub(super) fn config_map(name: &str) -> Value {
    let metadata = json!({"namespace": "ns", "name": name, "uid": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

impl Following {
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < WITHIN, "{}", self.state());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns names and versions of the cached objects, or the reason why the cache is not current.
    pub(super) fn state(&self) -> String {
        match &*self.cache.sync_state().borrow() {
            SyncState::Current => self.known(),
            other => format!("{other:?}"),
        }
    }

    pub(super) fn known(&self) -> String {
        let objects = self.cache.readable("ns").into_iter();
        let objects: Vec<_> = objects.map(|object| describe(&object.metadata)).collect();
        objects.join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_labelled_objects_has_no_others() {
    let labelled = |name: &str, cell: &str| {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"cell": cell});
        object
    };
    let (server, lists) = (ApiServer::new(), ListLimiter::default());
    for (name, cell) in [("a", "one"), ("b", "two")] {
        server.put(labelled(name, cell));
    }
    let reflector = Reflector::new("test", &Metrics::default()).labelled("cell", "one");
    let cache = reflector.cache();
    tokio::spawn(reflector.run(server.client(), lists.clone()));
    let following = Following {
        server,
        cache,
        lists,
    };
    following.until(|it| it.state() == "a@2").await;
    following.until(|it| it.server.watches() == 1).await;
    following.server.put(labelled("c", "two"));
    following.server.put(labelled("d", "one"));
    following.until(|it| it.state() == "a@2 d@5").await;
    // A broken watch is checked and resumed.
    following.server.interrupt();
    following.server.put(labelled("e", "two"));
    following.server.put(labelled("f", "one"));
    following.until(|it| it.state() == "a@2 d@5 f@7").await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_although_it_accepts_the_former_version() {
    let following = following().await;
    let backup = following.server.backup();
    for name in ["b", "c", "a"] {
        following.server.put(config_map(name));
    }
    following.until(|it| it.state() == "a@5 b@3 c@4").await;
    following.server.restore(&backup);
    following.server.put(config_map("d"));
    following.until(|it| it.state() == "a@2 d@3").await;
    following.server.put(config_map("e"));
    following.until(|it| it.state() == "a@2 d@3 e@4").await;
}

/// Returns the number of pages of lists, and the number of requests of checks.
pub(super) fn lists_and_checks(server: &ApiServer) -> (usize, usize) {
    let log = server.log().into_iter();
    let lists = log.filter(|request| request.verb == Verb::List);
    let of_metadata = |request: &Logged| request.accept.contains("as=PartialObjectMetadataList");
    let (checks, lists): (Vec<_>, Vec<_>) = lists.partition(of_metadata);
    (lists.len(), checks.len())
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_although_it_has_passed_the_former_version() {
    let following = following().await;
    let backup = following.server.backup();
    for name in ["b", "c"] {
        following.server.put(config_map(name));
    }
    following.until(|it| it.state() == "a@2 b@3 c@4").await;
    following.server.restore(&backup);
    for name in ["d", "e", "f", "g"] {
        following.server.put(config_map(name));
    }
    following
        .until(|it| it.state() == "a@2 d@3 e@4 f@5 g@6")
        .await;
    // The deletion of the object that changed last is lost.
    let backup = following.server.backup();
    following.server.remove::<ConfigMap>("ns", "g");
    following.until(|it| it.state() == "a@2 d@3 e@4 f@5").await;
    following.server.restore(&backup);
    for name in ["h", "i"] {
        following.server.put(config_map(name));
    }
    following
        .until(|it| it.state() == "a@2 d@3 e@4 f@5 g@6 h@7 i@8")
        .await;
}

/// A cache must not hold a slot while it waits for one. Otherwise the caches of many API servers wait for each other.
#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_with_the_last_free_slot() {
    let following = following().await;
    let backup = following.server.backup();
    following.server.put(config_map("b"));
    following.until(|it| it.state() == "a@2 b@3").await;
    let mut taken = Vec::new();
    for _ in 1..LISTS {
        taken.push(following.lists.permit().await);
    }
    following.server.restore(&backup);
    following.until(|it| it.state() == "a@2").await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_that_finds_a_restore_makes_the_others_list() {
    let first = following().await;
    let other = Reflector::<Secret>::new("test", &Metrics::default());
    let secrets = other.cache();
    tokio::spawn(other.run(first.server.client(), first.lists.for_another_cache()));
    first.until(|it| it.server.watches() == 2).await;
    let backup = first.server.backup();
    for name in ["b", "c"] {
        first.server.put(config_map(name));
    }
    first.until(|it| it.state() == "a@2 b@3 c@4").await;
    first.server.restore(&backup);
    // No Secret has changed before the restore. The Secrets that are created afterwards have versions that the watch of
    // Secrets has passed.
    for name in ["s", "t", "u"] {
        let metadata = json!({"namespace": "ns", "name": name, "uid": name});
        first
            .server
            .put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
    }
    first.until(|it| it.state() == "a@2").await;
    first.until(|_| secrets.readable("ns").len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_resumes_without_a_list() {
    let following = following().await;
    following.server.clear_log();
    for (round, change) in ["b", "", "c", "", ""].into_iter().enumerate() {
        following.server.interrupt();
        following.until(|it| it.state().contains("reset")).await;
        if !change.is_empty() {
            following.server.put(config_map(change));
        }
        following
            .until(|it| it.cache.sync_state().borrow().is_current())
            .await;
        assert_eq!(lists_and_checks(&following.server), (0, round + 1));
    }
    assert_eq!(following.state(), "a@2 b@3 c@4");
    // The object that changed last is deleted while the connection is broken.
    following.server.interrupt();
    following.server.remove::<ConfigMap>("ns", "c");
    following.until(|it| it.state() == "a@2 b@3").await;
    // This check reads the state at the version of the watch.
    assert_eq!(lists_and_checks(&following.server), (0, 7));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_resumes_without_a_list() {
    let following = following().await;
    following.server.clear_log();
    for (code, checks) in [(429, 0), (503, 1), (500, 1), (403, 1)] {
        following.server.clear_log();
        let fault = Fault::refuse(code).on(&[Verb::Watch]);
        following.server.fail(fault.times(3));
        // The watch ends when its duration is over.
        following
            .until(|it| it.state().contains(&code.to_string()))
            .await;
        following.until(|it| it.state() == "a@2").await;
        assert_eq!(lists_and_checks(&following.server), (0, checks), "{code}");
    }
    // A version that the API server no longer has is followed by one list.
    following.server.clear_log();
    following
        .server
        .fail(Fault::refuse(410).on(&[Verb::Watch]).times(1));
    following.server.end_watches();
    following
        .until(|it| lists_and_checks(&it.server).0 == 1)
        .await;
    following.until(|it| it.state() == "a@2").await;
    assert_eq!(lists_and_checks(&following.server).0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_410_is_followed_by_a_list_at_once() {
    let following = following().await;
    sleep(Duration::from_mins(1)).await;
    following.server.clear_log();
    let fault = || Fault::refuse(410).on(&[Verb::Watch]).times(1);
    following.server.fail(fault());
    following.server.end_watches();
    let refused = |it: &Following| it.server.watches() == 0;
    following.until(refused).await;
    // The watch is resumed at once, or after up to 250 ms if it ended early. The shortest backoff is 800 ms.
    sleep(Duration::from_millis(300)).await;
    assert_eq!(lists_and_checks(&following.server).0, 1);
    assert_eq!(following.state(), "a@2");
}

/// Lists succeed, and each watch is refused: first with 429, then with 410.
#[tokio::test(start_paused = true)]
async fn watches_that_are_always_refused_cause_few_lists() {
    let following = following().await;
    following.server.clear_log();
    for _ in 0..600 {
        following
            .server
            .fail(Fault::refuse(429).on(&[Verb::Watch]).times(1));
        following
            .server
            .fail(Fault::refuse(410).on(&[Verb::Watch]).times(1));
    }
    following.server.end_watches();
    sleep(Duration::from_mins(5)).await;
    let lists = lists_and_checks(&following.server).0;
    assert!((2..=20).contains(&lists), "{lists}");
}

/// After a change of a CRD, an API server ends the watches, answers 429 for a while, and then has no former version.
#[tokio::test(start_paused = true)]
async fn changes_of_a_crd_one_after_the_other_are_followed_without_long_waits() {
    let following = following().await;
    for round in 0..20 {
        let watch = |code| Fault::refuse(code).on(&[Verb::Watch]);
        following.server.fail(watch(429).times(2));
        following.server.fail(watch(410).times(1));
        following.server.end_watches();
        following.server.put(config_map("a"));
        let begin = Instant::now();
        let expected = format!("a@{}", round + 3);
        following.until(|it| it.state() == expected).await;
        // Two waits after the 429, and one after the 410.
        assert!(begin.elapsed() < Duration::from_secs(15), "{round}");
        following.until(|it| it.server.watches() == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_front_of_many_projects_costs_no_list() {
    const PROJECTS: usize = 1_000;
    let (server, all) = (ApiServer::new(), ListLimiter::default());
    server.put(config_map("a"));
    let caches: Vec<_> = (0..PROJECTS)
        .map(|project| {
            let plane = format!("project/{project}");
            let reflector = Reflector::<ConfigMap>::new(&plane, &Metrics::default());
            let cache = reflector.cache();
            tokio::spawn(reflector.run(server.client(), all.for_another_server()));
            cache
        })
        .collect();
    let until = async |watches| {
        let begin = Instant::now();
        while server.watches() != watches {
            assert!(begin.elapsed() < WITHIN, "{}", server.watches());
            sleep(Duration::from_millis(10)).await;
        }
    };
    until(PROJECTS).await;
    server.clear_log();
    // The front is away for 20 s. Then each answer takes 100 ms.
    server.fail(Fault::disconnect());
    server.interrupt();
    until(0).await;
    sleep(Duration::from_secs(20)).await;
    server.heal();
    server.fail(Fault::delay(Duration::from_millis(100)));
    until(PROJECTS).await;
    sleep(Duration::from_secs(1)).await;
    assert!(
        caches
            .iter()
            .all(|cache| cache.sync_state().borrow().is_current())
    );
    assert_eq!(lists_and_checks(&server), (0, PROJECTS));
}

#[tokio::test(start_paused = true)]
async fn an_object_with_odd_managed_fields_does_not_stop_its_kind() {
    let following = following().await;
    let mut fields = json!({});
    for _ in 0..200 {
        fields = json!({"f:a": fields});
    }
    let late = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
    let deep = json!([{"manager": "x", "operation": "Update", "fieldsV1": fields}]);
    for (name, managed) in [("late", late), ("deep", deep)] {
        let mut odd = config_map(name);
        odd["metadata"]["managedFields"] = managed;
        following.server.put(odd);
    }
    following.server.put(config_map("b"));
    following.until(|it| it.state() == "a@2 b@5").await;
    // A broken connection needs a check. The object that changed last is an odd one.
    following.server.remove::<ConfigMap>("ns", "b");
    let mut odd = config_map("late");
    odd["metadata"]["managedFields"] =
        json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
    following.server.put(odd);
    following.until(|it| it.state() == "a@2").await;
    following.server.interrupt();
    following.server.put(config_map("c"));
    following.until(|it| it.state().starts_with("a@2 c@")).await;
    // So does a cache that begins now.
    let other = follow(following.server.clone());
    other.until(|it| it.state().starts_with("a@2 c@")).await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_metadata_requests_only_metadata() {
    let server = ApiServer::new();
    server.put(config_map("a"));
    let reflector = Reflector::<PartialObjectMeta<ConfigMap>>::new("test", &Metrics::default());
    let cache = reflector.cache();
    tokio::spawn(reflector.run(server.client(), ListLimiter::default()));
    let mut sync_state = cache.sync_state();
    sync_state.wait_for(SyncState::is_current).await.unwrap();
    assert_eq!(
        describe(cache.get("ns", "a").unwrap().unwrap().meta()),
        "a@2"
    );
    let other = follow(server.clone());
    other.until(|it| it.server.watches() == 2).await;
    let log = server.log().into_iter();
    let asked: Vec<_> = log.map(|request| request.accept).collect();
    let of_metadata = |accept: &&String| accept.contains("as=PartialObjectMetadata");
    assert_eq!(
        (asked.len(), asked.iter().filter(of_metadata).count()),
        (4, 2)
    );
    assert!(
        asked[0].contains("as=PartialObjectMetadataList"),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn watches_that_begin_together_end_at_different_times() {
    let server = ApiServer::new();
    for plane in 0..400 {
        let reflector =
            Reflector::<ConfigMap>::new(&format!("project/{plane}"), &Metrics::default());
        tokio::spawn(reflector.run(server.client(), ListLimiter::default()));
    }
    let begin = Instant::now();
    while server.watches() < 400 {
        assert!(begin.elapsed() < WITHIN);
        sleep(Duration::from_millis(10)).await;
    }
    let mut ends = [0; 291];
    for request in server.log() {
        let uri = request.uri.to_string();
        if let Some((_, timeout)) = uri.split_once("timeoutSeconds=") {
            let timeout = timeout.split('&').next().unwrap();
            ends[timeout.parse::<usize>().unwrap()] += 1;
        } else {
            assert!(uri.contains("limit=500"), "{uri}");
        }
    }
    assert_eq!(ends.iter().sum::<usize>(), 400);
    assert_eq!(ends[..171].iter().sum::<usize>(), 0);
    assert!(*ends.iter().max().unwrap() < 20, "{ends:?}");
}

/// I-24: caches are filled a bounded number at a time.
#[tokio::test(start_paused = true)]
async fn caches_of_many_api_servers_are_listed_some_at_a_time() {
    let second = Duration::from_secs(1);
    let server = ApiServer::new();
    server.fail(Fault::delay(second).on(&[Verb::List]));
    let lists = ListLimiter::default();
    for _ in 0..100 {
        follow_at(server.clone(), lists.for_another_server());
    }
    sleep(second / 2).await;
    for listed in [32, 64, 96, 100] {
        assert_eq!(server.count_requests(Verb::List), listed);
        sleep(second).await;
    }
}

/// I-20: a kind that is not served is detected when it appears.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_keeps_its_objects_and_is_listed_every_minute() {
    let following = following().await;
    let not_served = "NotServed { problem: \"the API server does not serve configmaps yet\" }";
    following.server.fail(Fault::refuse(404));
    following.server.end_watches();
    following.until(|it| it.state() == not_served).await;
    assert_eq!(following.known(), "a@2");
    let requests = following.server.requests();
    sleep(Duration::from_mins(10)).await;
    let requests = following.server.requests() - requests;
    assert!((9..=20).contains(&requests), "{requests}");
    following.server.put(config_map("b"));
    following.server.heal();
    let begin = Instant::now();
    following.until(|it| it.state() == "a@2 b@3").await;
    assert!(begin.elapsed() <= Duration::from_secs(61));
    // The wait is shorter if a caller requests the cache.
    following.server.fail(Fault::refuse(404));
    following.server.end_watches();
    following.until(|it| it.state() == not_served).await;
    following.server.heal();
    let begin = Instant::now();
    following.lists.retry_soon();
    following.until(|it| it.state() == "a@2 b@3").await;
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn the_first_cache_that_reaches_an_api_server_again_wakes_the_others() {
    let first = following().await;
    let others = [(); 4].map(|()| follow_at(first.server.clone(), first.lists.for_another_cache()));
    first.until(|it| it.server.watches() == 5).await;
    first.server.fail(Fault::refuse(503));
    first.server.end_watches();
    // Waits until the backoff of all caches is long.
    sleep(Duration::from_mins(5)).await;
    let unavailable = |it: &Following| it.state().contains("503");
    assert!(others.iter().all(unavailable) && unavailable(&first));
    first.server.heal();
    let begin = Instant::now();
    first.lists.retry_soon();
    for following in others.iter().chain([&first]) {
        following.until(|it| it.state() == "a@2").await;
    }
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}
