//! Records every version of a WorkloadDeployment on one plane.

use anyhow::Context;
use api::WorkloadDeployment;
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fixture::WITHIN;

/// A version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The revision of etcd.
    pub(crate) revision: u64,
    /// Whether the object was deleted.
    pub(crate) gone: bool,
    pub(crate) object: WorkloadDeployment,
}

/// The versions of an object that a watch has reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenVersions {
    /// Number of lists. After a second list, versions may be missing.
    pub(crate) lists: usize,
    pub(crate) versions: Vec<Version>,
}

/// All versions of an object on one plane.
pub(crate) struct VersionHistory {
    seen: watch::Receiver<SeenVersions>,
    task: JoinHandle<()>,
}

impl Drop for VersionHistory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl VersionHistory {
    /// Starts with the current object, if it exists.
    pub(crate) async fn begin(api: Api<WorkloadDeployment>, name: &str) -> anyhow::Result<Self> {
        let (sender, mut seen) = watch::channel(SeenVersions::default());
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api, config).backoff(SteadyBackoff).boxed();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                sender.send_if_modified(|seen| match event {
                    Ok(Event::InitDone) => {
                        seen.lists += 1;
                        true
                    }
                    Ok(Event::InitApply(object) | Event::Apply(object)) => seen.add(object, false),
                    Ok(Event::Delete(object)) => seen.add(object, true),
                    // The watcher restarts a broken watch.
                    Ok(Event::Init) | Err(_) => false,
                });
            }
        });
        let listed = seen.wait_for(|seen| seen.lists > 0);
        timeout(WITHIN, listed).await??;
        Ok(Self { seen, task })
    }

    /// Returns all versions up to the current version of the object.
    pub(crate) async fn until_now(
        &self,
        api: &Api<WorkloadDeployment>,
        name: &str,
    ) -> anyhow::Result<SeenVersions> {
        let now = api.get_opt(name).await?;
        let now = now.as_ref().map(revision).transpose()?;
        let mut seen = self.seen.clone();
        let complete = seen.wait_for(|seen| match (seen.versions.last(), now) {
            (Some(last), Some(now)) => last.revision >= now,
            (last, None) => last.is_none_or(|last| last.gone),
            (None, Some(_)) => false,
        });
        Ok(timeout(WITHIN, complete)
            .await
            .context("the watch is behind")??
            .clone())
    }
}

impl SeenVersions {
    fn add(&mut self, object: WorkloadDeployment, gone: bool) -> bool {
        let Ok(revision) = revision(&object) else {
            return false;
        };
        // A restarted watch also returns versions that the history already has.
        let last = self.versions.last();
        let is_new = last.is_none_or(|last| last.revision < revision);
        if is_new {
            self.versions.push(Version {
                revision,
                gone,
                object,
            });
        }
        is_new
    }
}

fn revision(object: &WorkloadDeployment) -> anyhow::Result<u64> {
    let version = object.resource_version().context("no resource version")?;
    Ok(version.parse()?)
}
