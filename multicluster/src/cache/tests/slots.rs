//! Which caches wait for a slot of the list limiter, and for how long.

use std::future::pending;
use std::time::Duration;

use apiserver::{ApiServer, Fault, Verb};
use tokio::time::{sleep, timeout};

use super::following::{WITHIN, config_map, follow_at, following};
use super::*;
use crate::cache::list_limiter::{LISTS, ListPermit};

/// Takes all slots of caches that are not slow.
async fn take_slots(lists: &ListLimiter) -> Vec<ListPermit> {
    let mut taken = Vec::new();
    for _ in 0..LISTS {
        taken.push(lists.permit().await);
    }
    taken
}

/// Takes all slots of slow caches.
async fn take_slow_slots(lists: &ListLimiter) -> Vec<ListPermit> {
    let mut hung = lists.permit().await;
    let request = timeout(Duration::from_secs(30), hung.hold(pending::<()>()));
    assert!(request.await.is_err());
    let mut taken = Vec::new();
    for _ in 0..LISTS {
        taken.push(lists.permit_after(&hung).await);
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_cache_whose_list_took_long_once_does_not_wait_for_caches_that_hang() {
    let server = ApiServer::new();
    server.put(config_map("a"));
    let slow = Fault::delay(Duration::from_secs(10)).on(&[Verb::List]);
    server.fail(slow.times(1));
    let following = follow_at(server, ListLimiter::default());
    following.until(|it| it.server.watches() == 1).await;
    let _slow = take_slow_slots(&following.lists).await;
    following.server.interrupt();
    following.until(|it| it.state().contains("reset")).await;
    following.server.put(config_map("b"));
    following.until(|it| it.state() == "a@2 b@3").await;
}

/// Follows an API server with a cache for each of these many projects, until each cache has a watch.
async fn follow_projects(projects: usize) -> ApiServer {
    let (server, lists) = (ApiServer::new(), ListLimiter::default());
    server.put(config_map("a"));
    for project in 0..projects {
        let plane = format!("project/{project}");
        let reflector = Reflector::<ConfigMap>::new(&plane, &Metrics::default());
        tokio::spawn(reflector.run(server.client(), lists.for_another_server()));
    }
    let connected = async {
        while server.watches() < projects {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WITHIN, connected).await.unwrap();
    // A watch that ends sooner is resumed later.
    sleep(Duration::from_secs(10)).await;
    server
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_together_are_resumed_some_at_a_time() {
    let second = Duration::from_secs(1);
    let server = follow_projects(100).await;
    let before = server.count_requests(Verb::Watch);
    server.fail(Fault::delay(second).on(&[Verb::Watch]));
    server.end_watches();
    sleep(second * 3 / 4).await;
    for resumed in [32, 64, 96, 100] {
        assert_eq!(server.count_requests(Verb::Watch) - before, resumed);
        sleep(second).await;
    }
    assert_eq!(server.watches(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_few_watches_that_end_are_resumed_soon_and_not_in_the_same_moment() {
    let server = follow_projects(20).await;
    let before = server.count_requests(Verb::Watch);
    let resumed = || server.count_requests(Verb::Watch) - before;
    server.end_watches();
    sleep(Duration::from_millis(125)).await;
    assert!((1..20).contains(&resumed()), "{}", resumed());
    sleep(Duration::from_millis(130)).await;
    assert_eq!((resumed(), server.watches()), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_a_lost_history_is_not_current_until_it_is_listed() {
    let following = following().await;
    let taken = take_slots(&following.lists).await;
    let mut restored = following.lists.restored();
    following.lists.note_restored(&mut restored);
    following.until(|it| it.state().contains("restored")).await;
    sleep(Duration::from_mins(1)).await;
    assert!(following.state().starts_with("Failing"));
    // The objects of the former history stay until the list is complete.
    assert_eq!(following.known(), "a@2");
    let stale_for = following.cache.stale_for().unwrap();
    assert!(stale_for >= Duration::from_mins(1), "{stale_for:?}");
    drop(taken);
    following.until(|it| it.state() == "a@2").await;
}

/// Without a watch, the objects become out of date.
#[tokio::test(start_paused = true)]
async fn a_cache_that_waits_long_for_a_slot_of_its_watch_is_not_current() {
    let following = following().await;
    let taken = take_slots(&following.lists).await;
    following.server.end_watches();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        (following.state().as_str(), following.server.watches()),
        ("a@2", 0)
    );
    following.server.put(config_map("b"));
    following
        .until(|it| it.state().starts_with("Failing"))
        .await;
    drop(taken);
    following.until(|it| it.state() == "a@2 b@3").await;
}
