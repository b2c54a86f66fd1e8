//! Watches an object until it reaches a state.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::plane::POLL;

/// Restarts a broken watch after a constant delay. The backoff of kube's client grows to a minute while a server is
/// down. It is not reset when the server is back, and not when the server then rejects the old resource version.
#[derive(Debug)]
pub struct SteadyBackoff;

impl Iterator for SteadyBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(POLL)
    }
}

impl Backoff for SteadyBackoff {
    fn reset(&mut self) {}
}

/// Waits until the object satisfies `predicate`, and returns it. `what` completes the error "NAME is not …".
///
/// # Errors
///
/// When the time is over. The error contains the last version of the object.
pub async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    within: Duration,
    predicate: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut last = None;
    let found = timeout(within, async {
        let mut versions = watch_object(api.clone(), name)
            .backoff(SteadyBackoff)
            .boxed();
        while let Some(version) = versions.next().await {
            // The watcher restarts a broken watch.
            let Ok(Some(object)) = version else { continue };
            if predicate(&object) {
                return Some(object);
            }
            last = Some(object);
        }
        None
    })
    .await;
    match found {
        Ok(Some(object)) => Ok(object),
        _ => bail!(
            "{name} is not {what} after {} s; it is:\n{}",
            within.as_secs(),
            describe(last.as_ref())
        ),
    }
}

/// Waits until the object does not exist.
///
/// # Errors
///
/// When the time is over. The error contains the last version of the object.
pub async fn gone<K>(api: &Api<K>, name: &str, within: Duration) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut last = None;
    let gone = timeout(within, async {
        let mut versions = watch_object(api.clone(), name)
            .backoff(SteadyBackoff)
            .boxed();
        while let Some(version) = versions.next().await {
            match version {
                Ok(None) => return true,
                Ok(Some(object)) => last = Some(object),
                Err(_) => {}
            }
        }
        false
    })
    .await;
    match gone {
        Ok(true) => Ok(()),
        _ => bail!(
            "{name} is not gone after {} s; it is:\n{}",
            within.as_secs(),
            describe(last.as_ref())
        ),
    }
}

/// Polls until `check` succeeds. Use it for a state that a watch of one object cannot find.
///
/// # Errors
///
/// The last error of `check`, when the time is over.
pub async fn eventually<T, F>(
    what: &str,
    within: Duration,
    check: impl Fn() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut last = None;
    let found = timeout(within, async {
        loop {
            match check().await {
                Ok(found) => return found,
                Err(error) => last = Some(error),
            }
            sleep(POLL).await;
        }
    })
    .await;
    match (found, last) {
        (Ok(found), _) => Ok(found),
        (Err(_), Some(error)) => {
            Err(error.context(format!("not within {} s: {what}", within.as_secs())))
        }
        (Err(_), None) => bail!("not within {} s: {what}: no answer", within.as_secs()),
    }
}

fn describe<K: Serialize>(object: Option<&K>) -> String {
    match object {
        Some(object) => serde_saphyr::to_string(object).unwrap_or_else(|error| error.to_string()),
        None => "not there".to_owned(),
    }
}
