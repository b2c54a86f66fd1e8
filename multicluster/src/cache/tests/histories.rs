//! API servers of different histories that answer in turn, for example two restored API servers behind one address.

use std::time::Duration;

use tokio::time::sleep;

use super::following::{following, lists_and_checks};

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
