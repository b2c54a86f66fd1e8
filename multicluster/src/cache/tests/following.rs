//! Caches that follow an API server from memory, on a paused clock.

use std::time::Duration;

use kube::core::PartialObjectMeta;
use tokio::time::{Instant, sleep};

use super::*;
use crate::fake::{Fake, Mood};

/// What is awaited comes within this time, if it comes; the clock is paused, so it costs nothing.
const WITHIN: Duration = Duration::from_mins(5);

struct Following {
    fake: Fake,
    cache: Cache<ConfigMap>,
    lists: ListLimiter,
}

/// Follows an API server that has ConfigMap `a`, until `a` is known.
async fn following() -> Following {
    let fake = Fake::default();
    fake.put(config_map("a"));
    let following = follow(fake);
    following.until(|it| it.state() == "a@1").await;
    following.until(|it| it.fake.watches() == 1).await;
    following
}

fn follow(fake: Fake) -> Following {
    follow_at(fake, ListLimiter::default())
}

fn follow_at(fake: Fake, lists: ListLimiter) -> Following {
    let reflector = Reflector::new("test", &Metrics::default());
    let cache = reflector.cache();
    tokio::spawn(reflector.run(fake.client(), lists.clone()));
    Following { fake, cache, lists }
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name}})
}

impl Following {
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < WITHIN, "{}", self.state());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Names and versions of what there is, or why that is not known.
    fn state(&self) -> String {
        match &*self.cache.sync_state().borrow() {
            SyncState::Current => self.known(),
            other => format!("{other:?}"),
        }
    }

    fn known(&self) -> String {
        let objects = self.cache.readable("ns").into_iter();
        let objects: Vec<_> = objects.map(|object| describe(&object.metadata)).collect();
        objects.join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_api_server_is_listed_though_it_takes_the_version_of_the_former_one() {
    let following = following().await;
    let backup = following.fake.backup();
    for name in ["b", "c", "a"] {
        following.fake.put(config_map(name));
    }
    following.until(|it| it.state() == "a@4 b@2 c@3").await;
    following.fake.restore(&backup);
    following.fake.put(config_map("d"));
    following.until(|it| it.state() == "a@1 d@2").await;
    following.fake.put(config_map("e"));
    following.until(|it| it.state() == "a@1 d@2 e@3").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_broke_goes_on_once_it_tells_of_something() {
    let following = following().await;
    let requests = following.fake.requests();
    following.fake.interrupt();
    following.until(|it| it.state().contains("reset")).await;
    sleep(Duration::from_millis(500)).await;
    assert!(following.state().contains("reset"), "nothing proves it");
    following.fake.put(config_map("b"));
    following.until(|it| it.state() == "a@1 b@2").await;
    assert_eq!(following.fake.requests(), requests + 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_broke_and_that_tells_of_nothing_is_listed_soon() {
    let following = following().await;
    let begin = Instant::now();
    following.fake.interrupt();
    following.until(|it| it.state().contains("reset")).await;
    following.until(|it| it.state() == "a@1").await;
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_breaks_again_and_again_is_not_resumed() {
    let following = following().await;
    for _ in 0..5 {
        following.fake.interrupt();
        following.until(|it| it.state().contains("reset")).await;
        following.until(|it| it.state() == "a@1").await;
        following.until(|it| it.fake.watches() == 1).await;
    }
    following.fake.interrupt();
    following.until(|it| it.state().contains("reset")).await;
    following.fake.put(config_map("b"));
    assert_eq!(following.fake.watches(), 0);
    sleep(Duration::from_secs(1)).await;
    assert!(following.state().contains("reset"));
    following.until(|it| it.state() == "a@1 b@2").await;
}

#[tokio::test(start_paused = true)]
async fn of_a_cache_of_metadata_only_metadata_are_asked_for() {
    let fake = Fake::default();
    fake.put(config_map("a"));
    let reflector = Reflector::<PartialObjectMeta<ConfigMap>>::new("test", &Metrics::default());
    let cache = reflector.cache();
    tokio::spawn(reflector.run(fake.client(), ListLimiter::default()));
    let mut sync_state = cache.sync_state();
    sync_state.wait_for(SyncState::is_current).await.unwrap();
    assert_eq!(
        describe(cache.get("ns", "a").unwrap().unwrap().meta()),
        "a@1"
    );
    let other = follow(fake.clone());
    other.until(|it| it.fake.watches() == 2).await;
    let asked: Vec<_> = fake.asked().into_iter().map(|(_, accept)| accept).collect();
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
    let fake = Fake::default();
    for plane in 0..400 {
        let reflector =
            Reflector::<ConfigMap>::new(&format!("project/{plane}"), &Metrics::default());
        tokio::spawn(reflector.run(fake.client(), ListLimiter::default()));
    }
    let begin = Instant::now();
    while fake.watches() < 400 {
        assert!(begin.elapsed() < WITHIN);
        sleep(Duration::from_millis(10)).await;
    }
    let mut ends = [0; 291];
    for (uri, _) in fake.asked() {
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

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_no_kind_without_objects_and_is_looked_for_every_minute() {
    let following = following().await;
    let not_served = "NotServed { problem: \"the API server does not serve configmaps yet\" }";
    following.fake.set(Mood::Refuses(404));
    following.fake.end_watches();
    following.until(|it| it.state() == not_served).await;
    assert_eq!(following.known(), "a@1");
    let requests = following.fake.requests();
    sleep(Duration::from_mins(10)).await;
    let requests = following.fake.requests() - requests;
    assert!((9..=20).contains(&requests), "{requests}");
    following.fake.put(config_map("b"));
    following.fake.set(Mood::Serves);
    let begin = Instant::now();
    following.until(|it| it.state() == "a@1 b@2").await;
    assert!(begin.elapsed() <= Duration::from_secs(61));
    // Who wants it does not wait for so long.
    following.fake.set(Mood::Refuses(404));
    following.fake.end_watches();
    following.until(|it| it.state() == not_served).await;
    following.fake.set(Mood::Serves);
    let begin = Instant::now();
    following.lists.retry_soon();
    following.until(|it| it.state() == "a@1 b@2").await;
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn the_first_cache_that_reaches_an_api_server_again_takes_the_others_with_it() {
    let first = following().await;
    let others = [(); 4].map(|()| follow_at(first.fake.clone(), first.lists.for_another_cache()));
    first.until(|it| it.fake.watches() == 5).await;
    first.fake.set(Mood::Refuses(503));
    first.fake.end_watches();
    // Long enough for all of them to wait long.
    sleep(Duration::from_mins(5)).await;
    let unavailable = |it: &Following| it.state().contains("503");
    assert!(others.iter().all(unavailable) && unavailable(&first));
    first.fake.set(Mood::Serves);
    let begin = Instant::now();
    first.lists.retry_soon();
    for following in others.iter().chain([&first]) {
        following.until(|it| it.state() == "a@1").await;
    }
    let elapsed = begin.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}
