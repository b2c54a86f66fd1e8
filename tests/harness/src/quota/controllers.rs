//! Runs the controllers of one project.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::kinds::{QuotaBucket, QuotaClaim, QuotaGrant};
use super::{QuotaDelays, buckets, claims, grants};
use crate::wait::SteadyBackoff;

/// Starts the watches and the controllers. They end when the returned tasks are dropped.
pub(super) fn start(
    project: &str,
    client: &Client,
    delays: QuotaDelays,
    gate: &Arc<RwLock<()>>,
) -> JoinSet<()> {
    let changes = watch::Sender::new(());
    let mut tasks = JoinSet::new();
    let controller = |name: &str, delay| Controller {
        name: format!("the {name} controller of project {project}"),
        delay,
        changes: changes.subscribe(),
        gate: Arc::clone(gate),
    };
    let (of_grants, of_buckets, of_claims) = (client.clone(), client.clone(), client.clone());
    tasks.spawn(
        controller("grant", delays.grants).run(move || grants::reconcile(of_grants.clone())),
    );
    tasks.spawn(
        controller("bucket", delays.buckets).run(move || buckets::reconcile(of_buckets.clone())),
    );
    tasks.spawn(
        controller("claim", delays.claims).run(move || claims::reconcile(of_claims.clone())),
    );
    tasks.spawn(observe::<QuotaClaim>(client.clone(), changes.clone()));
    tasks.spawn(observe::<QuotaGrant>(client.clone(), changes.clone()));
    tasks.spawn(observe::<QuotaBucket>(client.clone(), changes));
    tasks
}

/// Reports all changes of a kind.
async fn observe<K>(client: Client, changes: watch::Sender<()>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut events = watcher(Api::<K>::all(client), watcher::Config::default())
        .backoff(SteadyBackoff)
        .boxed();
    while let Some(event) = events.next().await {
        // A broken watch restarts with a list, whose events report what changed meanwhile.
        if event.is_ok() {
            changes.send_replace(());
        }
    }
}

/// Reacts to each change of a claim, a grant or a bucket with a look at all of them.
struct Controller {
    name: String,
    delay: Duration,
    changes: watch::Receiver<()>,
    gate: Arc<RwLock<()>>,
}

impl Controller {
    async fn run<F>(mut self, reconcile: impl Fn() -> F)
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        // A controller repeats what fails until it succeeds. Each error is printed once.
        let mut last = String::new();
        while self.changes.changed().await.is_ok() {
            loop {
                sleep(self.delay).await;
                let _working = self.gate.read().await;
                // A change after this line leads to another look.
                self.changes.mark_unchanged();
                match reconcile().await.map_err(|error| format!("{error:#}")) {
                    Ok(()) => break,
                    Err(error) if error == last => {}
                    Err(error) => {
                        eprintln!("{}: {error}", self.name);
                        last = error;
                    }
                }
            }
        }
    }
}
