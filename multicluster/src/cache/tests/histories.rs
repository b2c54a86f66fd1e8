//! API servers of different histories that answer in turn, for example two restored API servers behind one address.

use std::time::Duration;

use tokio::time::sleep;

use super::following::{Following, config_map, follow_at, following, lists_and_checks};

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
