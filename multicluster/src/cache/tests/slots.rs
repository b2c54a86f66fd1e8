//! Which caches wait for a slot of the list limiter, and for how long.

use std::future::pending;
use std::time::Duration;

use apiserver::{ApiServer, Fault, Verb};
use tokio::time::timeout;

use super::following::{config_map, follow_at};
use super::*;
use crate::cache::list_limiter::{LISTS, ListPermit};

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
