//! Kills compute-federation in the management plane after a write, while two Workloads share a source. The API server
//! has executed this write, but has not answered it.

use anyhow::ensure;
use api::{Workload, annotations};
use harness::federation::Proxies;
use harness::{Federation, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{config_map, secret};
use crate::fixture::{DFW, ORD, Space, WITHIN, create, patch, workload};
use crate::settled::quiet;

/// Number of kills in each phase in the ordinary tests. They are spread evenly over the writes.
const SOME: usize = 4;
/// Time limit for a phase. Errors increase the back-off between retries.
const CONVERGED: std::time::Duration = WITHIN.saturating_mul(2);

pub(crate) async fn a_kill_after_some_writes(federation: &Federation) -> anyhow::Result<()> {
    behind_proxies(federation, Some(SOME)).await
}

pub(crate) async fn a_kill_after_each_write(federation: &Federation) -> anyhow::Result<()> {
    behind_proxies(federation, None).await
}

/// A phase in the life of two Workloads that share a ConfigMap. One of them also uses a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The sources and the Workloads are created.
    Create,
    /// The ConfigMap changes, and the template of one Workload does not use it any more.
    Change,
    /// Both Workloads are deleted at once.
    Delete,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Create, Self::Change, Self::Delete];

    async fn begin(self, space: &Space<'_>) -> anyhow::Result<()> {
        let workloads = space.in_project::<Workload>();
        match self {
            Self::Create => {
                let settings = config_map(&json!({"url": "a"}));
                create::<ConfigMap>(&space.in_project(), settings).await?;
                create::<Secret>(&space.in_project(), secret("keys")).await?;
                create(&workloads, using("web", "DFW", &both())).await?;
                create(&workloads, using("api", "ORD", &both()[..1])).await?;
            }
            Self::Change => {
                let change = json!({"data": {"url": "b"}});
                patch::<ConfigMap>(&space.in_project(), "settings", change).await?;
                let changed = using("web", "DFW", &both()[1..]);
                let change = json!({"spec": {"template": changed["spec"]["template"]}});
                patch(&workloads, "web", change).await?;
            }
            Self::Delete => {
                for name in ["web", "api"] {
                    workloads.delete(name, &DeleteParams::default()).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits until the state is that of an undisturbed run.
    async fn over(self, space: &Space<'_>) -> anyhow::Result<()> {
        if self == Self::Delete {
            for name in ["web", "api"] {
                wait::gone(&space.in_project::<Workload>(), name, CONVERGED).await?;
            }
            space.until_empty().await?;
        } else {
            for name in ["web", "api"] {
                space.until_settled(name, 1).await?;
            }
        }
        let (web, api) = ("web-us-dfw", "api-us-ord");
        wait::eventually(&format!("{self:?} is over"), CONVERGED, || async {
            let (settings, keys): (&[&str], &[&str]) = match self {
                Self::Create => (&[api, web], &[web]),
                Self::Change => (&[api], &[web]),
                Self::Delete => (&[], &[]),
            };
            let names = |names: &[&str]| {
                let names = names.iter().map(|it| format!("{}/{it}", space.name));
                names.collect::<Vec<_>>()
            };
            let found = on_hub(space).await?;
            let expected = [names(settings), names(keys)];
            ensure!(found == expected, "{found:?}, not {expected:?}");
            let value = match self {
                Self::Create => "a",
                Self::Change | Self::Delete => "b",
            };
            for (cell, name) in [(DFW, web), (ORD, api)] {
                let copy = space.in_cell::<ConfigMap>(cell).get_opt("settings").await?;
                let copied = copy.map(|it| it.data.unwrap_or_default()["url"].clone());
                let expected = settings.contains(&name).then(|| value.to_owned());
                ensure!(copied == expected, "{cell}: {copied:?}, not {expected:?}");
                let copy = space.in_cell::<Secret>(cell).get_opt("keys").await?;
                ensure!(
                    copy.is_some() == keys.contains(&name),
                    "{cell}: {}",
                    copy.is_some()
                );
            }
            Ok(())
        })
        .await
    }
}

/// Returns the entries of `envFrom`.
fn both() -> [Value; 2] {
    [
        json!({"configMapRef": {"name": "settings"}}),
        json!({"secretRef": {"name": "keys"}}),
    ]
}

fn using(name: &str, city: &str, sources: &[Value]) -> Value {
    let mut workload = workload(name, &[("us", &[city], 1)]);
    workload["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
        json!(sources);
    workload
}

/// Returns who is named by the companions of both sources. Nobody is named by one that does not exist.
async fn on_hub(space: &Space<'_>) -> anyhow::Result<[Vec<String>; 2]> {
    let settings = space.on_hub::<ConfigMap>().get_opt("settings").await?;
    let keys = space.on_hub::<Secret>().get_opt("keys").await?;
    let named = |metadata: Option<&dyn NamedBy>| {
        let named = metadata.and_then(NamedBy::referenced_by);
        named.map_or(Ok(Vec::new()), |it| serde_json::from_str(&it))
    };
    let settings = settings.as_ref().map(|it| it as &dyn NamedBy);
    let keys = keys.as_ref().map(|it| it as &dyn NamedBy);
    Ok([named(settings)?, named(keys)?])
}

trait NamedBy {
    fn referenced_by(&self) -> Option<String>;
}

impl<K: ResourceExt> NamedBy for K {
    fn referenced_by(&self) -> Option<String> {
        self.annotations().get(annotations::REFERENCED_BY).cloned()
    }
}

async fn behind_proxies(federation: &Federation, some: Option<usize>) -> anyhow::Result<()> {
    let proxies = federation.put_proxies().await?;
    let result = kills(federation, &proxies, some).await;
    let taken = federation.take_proxies().await;
    // An error of the test explains later errors.
    result.and(taken)
}

/// Kills the process in each phase. `some` limits the number of kills in a phase. With `None`, the test kills after
/// every write.
async fn kills(
    federation: &Federation,
    proxies: &Proxies,
    some: Option<usize>,
) -> anyhow::Result<()> {
    quiet(federation).await?;
    let mut most = Vec::new();
    let space = Space::create(federation, "data-undisturbed").await?;
    for phase in Phase::ALL {
        let before = proxies.writes.made();
        phase.begin(&space).await?;
        phase.over(&space).await?;
        most.push(proxies.writes.made() - before);
    }
    eprintln!("the phases {:?} take {most:?} writes", Phase::ALL);
    let kills = some
        .or_else(|| most.iter().copied().max())
        .unwrap_or_default();
    for kill in 0..kills {
        let begin = Instant::now();
        let space = Space::create(federation, "data-killed").await?;
        let mut killed = Vec::new();
        for (phase, most) in Phase::ALL.into_iter().zip(&most) {
            let write = 1 + kill * most / kills;
            let is_killed = kill_after(federation, proxies, &space, phase, write).await?;
            phase.over(&space).await?;
            killed.push((write, is_killed));
        }
        // The first write is always made.
        ensure!(kill > 0 || killed.iter().all(|(_, it)| *it), "{killed:?}");
        until_no_binding(&space).await?;
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("killed after the writes {killed:?}: over after {seconds:.1} s");
    }
    Ok(())
}

/// Begins a phase, kills the process after this write, and restarts it. Returns whether the phase had that many writes.
/// Their number varies.
async fn kill_after(
    federation: &Federation,
    proxies: &Proxies,
    space: &Space<'_>,
    phase: Phase,
    write: usize,
) -> anyhow::Result<bool> {
    proxies.writes.stop_after(write);
    phase.begin(space).await?;
    let is_stopped = tokio::select! {
        biased;
        () = proxies.writes.stopped() => true,
        over = phase.over(space) => over.map(|()| false)?,
    };
    let mut manager = federation.management()?.lock().await;
    if is_stopped {
        manager.kill().await;
    }
    proxies.writes.resume();
    if is_stopped {
        manager.restart().await?;
    }
    Ok(is_stopped)
}

/// Waits until Karmada has no binding of the namespace, so none of a companion.
async fn until_no_binding(space: &Space<'_>) -> anyhow::Result<()> {
    let bindings = space.on_hub::<api::karmada::ResourceBinding>();
    wait::eventually("no binding is left", CONVERGED, || async {
        let left = bindings.list(&ListParams::default()).await?;
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
}
