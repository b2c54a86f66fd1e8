//! API servers that were restored from a snapshot, and API servers of different histories that answer in turn, for
//! example two restored API servers behind one address.

use std::time::Duration;

use apiserver::{ApiServer, Fault, KindId, Verb};
use tokio::time::sleep;

use super::following::{Following, config_map, follow_at, following, lists_and_checks};
use super::*;

#[tokio::test(start_paused = true)]
async fn histories_that_alternate_are_listed_with_backoff() {
    let following = following().await;
    following.server.clear_log();
    let mut restored = following.lists.restored();
    let mut is_reported = false;
    for _ in 0..600 {
        following.lists.note_restored(&mut restored);
        sleep(Duration::from_millis(500)).await;
        is_reported |= following.state().contains("410 Expired");
    }
    let lists = || lists_and_checks(&following.server).0;
    assert!((2..=20).contains(&lists()), "{}", lists());
    assert!(is_reported);
    // One restore is followed by a list at once.
    following.until(|it| it.state() == "a@2").await;
    sleep(Duration::from_mins(1)).await;
    let before = lists();
    following.lists.note_restored(&mut restored);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(lists(), before + 1);
}

/// Each cache finds the restore with a check of its own, at another time than the other caches.
#[tokio::test(start_paused = true)]
async fn each_cache_lists_once_after_one_restore() {
    let first = following().await;
    let others = [(); 7].map(|()| follow_at(first.server.clone(), first.lists.for_another_cache()));
    let caches: Vec<_> = others.iter().chain([&first]).collect();
    first.until(|it| it.server.watches() == caches.len()).await;
    for _ in 0..5 {
        let backup = first.server.backup();
        first.server.put(config_map("b"));
        first
            .until(|_| caches.iter().all(|it| it.state() == "a@2 b@3"))
            .await;
        // Longer than the time after which a cache forgets an earlier restore.
        sleep(Duration::from_mins(1)).await;
        first.server.clear_log();
        first.server.restore(&backup);
        let is_expired = |it: &&Following| it.state().contains("410 Expired");
        for _ in 0..6_000 {
            sleep(Duration::from_millis(10)).await;
            assert!(!caches.iter().any(is_expired));
        }
        assert!(caches.iter().all(|it| it.state() == "a@2"));
        assert_eq!(lists_and_checks(&first.server).0, caches.len());
    }
}

/// Changes of the former history after a snapshot with `a@2`, changes of the new history, and the objects at the end.
/// `-` marks a deletion. The new history passes the version of the watch before the cache makes its check.
const HISTORIES: [(&[&str], &[&str], &str); 4] = [
    // The object that changed last changes again.
    (&["b", "c"], &["d", "e", "c"], "a@2 c@5 d@3 e@4"),
    // The object that was deleted last is deleted again.
    (&["b", "-a"], &["d", "e", "-a"], "d@3 e@4"),
    // The object that was deleted last has never existed in the new history.
    (&["b", "-b"], &["d", "e", "f"], "a@2 d@3 e@4 f@5"),
    // The object that was deleted last is created again.
    (&["b", "-b"], &["d", "e", "b"], "a@2 b@5 d@3 e@4"),
];

/// Makes changes. `-` marks a deletion.
fn make(server: &ApiServer, changes: &[&str]) {
    for change in changes {
        match change.strip_prefix('-') {
            Some(name) => server.remove::<ConfigMap>("ns", name),
            None => server.put(config_map(change)),
        }
    }
}

/// Makes changes, each when the cache has the change before it.
async fn make_one_by_one(following: &Following, changes: &[&str]) {
    for change in changes {
        make(&following.server, &[change]);
        until_current(following).await;
    }
}

/// Waits until the cache has all objects of the API server.
async fn until_current(following: &Following) {
    following
        .until(|it| {
            let keys = it.server.keys(KindId::of::<ConfigMap>());
            let stored = keys
                .iter()
                .filter_map(|(_, name)| it.server.get("ns", name));
            let stored: Vec<_> = stored.map(|it: ConfigMap| describe(&it.metadata)).collect();
            it.state() == stored.join(" ")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_although_the_last_change_is_repeated() {
    for (former, new, expected) in HISTORIES {
        let following = following().await;
        let backup = following.server.backup();
        make_one_by_one(&following, former).await;
        following.server.restore(&backup);
        make(&following.server, new);
        following.until(|it| it.state() == expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_before_the_list_is_found_after_a_restore() {
    let server = ApiServer::new();
    make(&server, &["a", "b"]);
    let backup = server.backup();
    make(&server, &["-b"]);
    let following = follow_at(server, ListLimiter::default());
    following.until(|it| it.state() == "a@2").await;
    following.until(|it| it.server.watches() == 1).await;
    following.server.restore(&backup);
    for name in ["s", "t"] {
        let metadata = json!({"namespace": "ns", "name": name, "uid": name});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        following.server.put(secret);
    }
    following.until(|it| it.state() == "a@2 b@3").await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_by_a_cache_without_objects() {
    let server = ApiServer::new();
    let backup = server.backup();
    for name in ["s", "t"] {
        let metadata = json!({"namespace": "ns", "name": name, "uid": name});
        server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
    }
    let following = follow_at(server, ListLimiter::default());
    following.until(|it| it.server.watches() == 1).await;
    following.server.restore(&backup);
    // The first object in the order of the names is newer than the version of the watch.
    make(&following.server, &["y", "z", "a"]);
    following.until(|it| it.state() == "a@4 y@2 z@3").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_without_a_list_after_a_deletion() {
    let following = following().await;
    make_one_by_one(&following, &["b", "c", "-b"]).await;
    following.server.clear_log();
    let changes: [&[&str]; 5] = [&[], &["b"], &["b", "c"], &["-c"], &["-b", "d"]];
    for (round, changes) in changes.into_iter().enumerate() {
        following.server.interrupt();
        following.until(|it| it.state().contains("reset")).await;
        make(&following.server, changes);
        until_current(&following).await;
        let (lists, checks) = lists_and_checks(&following.server);
        // A check is followed by at most one read of the state at the version of the watch.
        assert!(lists == 0 && checks <= 2 * (round + 1), "{lists} {checks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_of_several_pages_is_compared_completely() {
    let following = following().await;
    let names: Vec<_> = (100..700).map(|n| n.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    make(&following.server, &names);
    make_one_by_one(&following, &["b", "-b"]).await;
    following.server.clear_log();
    following.server.interrupt();
    following.until(|it| it.state().contains("reset")).await;
    until_current(&following).await;
    assert_eq!(lists_and_checks(&following.server), (0, 3));
    // Only the last page differs.
    let backup = following.server.backup();
    make_one_by_one(&following, &["y", "-y"]).await;
    following.server.restore(&backup);
    make(&following.server, &["x", "y", "z"]);
    following.until(|it| it.state().contains("x@")).await;
    until_current(&following).await;
    // One list has two pages.
    assert_eq!(lists_and_checks(&following.server).0, 2);
}

/// The API server had the known objects, so it was not restored.
#[tokio::test(start_paused = true)]
async fn a_change_that_a_slow_watch_reports_late_costs_one_list_of_one_kind() {
    let first = following().await;
    let other = follow_at(first.server.clone(), first.lists.for_another_cache());
    first.until(|it| it.server.watches() == 2).await;
    first.server.clear_log();
    let late = Fault::delay_body(Duration::from_secs(20)).on(&[Verb::Watch]);
    first.server.fail(late.times(1));
    first.server.interrupt();
    first.until(|it| it.server.watches() == 0).await;
    make(&first.server, &["a"]);
    for following in [&first, &other] {
        following.until(|it| it.state() == "a@3").await;
    }
    sleep(Duration::from_mins(1)).await;
    assert_eq!([first.state(), other.state()], ["a@3", "a@3"]);
    assert_eq!(lists_and_checks(&first.server).0, 1);
}

/// Without the state, the cache cannot find out whether the API server was restored.
#[tokio::test(start_paused = true)]
async fn a_state_that_the_api_server_no_longer_has_costs_one_list_of_one_kind() {
    let first = following().await;
    let other = follow_at(first.server.clone(), first.lists.for_another_cache());
    first.until(|it| it.server.watches() == 2).await;
    for change in ["b", "-b"] {
        make(&first.server, &[change]);
        until_current(&first).await;
        until_current(&other).await;
    }
    first.server.clear_log();
    first
        .server
        .fail(Fault::refuse(410).at_a_version().times(1));
    first.server.interrupt();
    first.until(|it| it.server.watches() == 0).await;
    for _ in 0..6_000 {
        sleep(Duration::from_millis(10)).await;
        assert!(![&first, &other].iter().any(|it| it.state().contains("410")));
    }
    until_current(&first).await;
    until_current(&other).await;
    // Each cache has made a check and has requested the state.
    assert_eq!(lists_and_checks(&first.server), (1, 4));
}
