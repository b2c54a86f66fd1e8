//! Tests a replica that becomes the leader while it cannot reach a project.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::{Workload, WorkloadDeployment, annotations};
use futures::future::try_join_all;
use harness::manager::Manager;
use harness::proxy::Direction;
use harness::{Federation, wait};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Fleet, FleetProject, until_leading, until_shown};
use crate::fixture::{WITHIN, create, patch, workload};
use crate::version_history::VersionHistory;

/// What the customer wants of a WorkloadDeployment.
#[derive(Clone, Copy)]
struct Wanted {
    replicas: i32,
    image: &'static str,
    /// The annotation of expected referenced data.
    data: Option<&'static str>,
}

const fn replicas(replicas: i32) -> Wanted {
    Wanted {
        replicas,
        image: "app:1",
        data: None,
    }
}

/// A Workload, and what the customer wants before the cut, during the cut and after the cut. With `None`, the Workload
/// is deleted.
struct Changed {
    name: &'static str,
    steps: [Option<Wanted>; 3],
    /// Whether the customer deletes the Workload during the cut and creates it again.
    is_made_again: bool,
}

const fn changed(name: &'static str, steps: [Option<Wanted>; 3]) -> Changed {
    Changed {
        name,
        steps,
        is_made_again: false,
    }
}

/// An older spec of `shrunk` has more Instances, and an older spec of `grown` has fewer. An older spec of `gone` would
/// bring it back. The former WorkloadDeployment of `again` has the generation of the new one, and another template. The
/// annotation of `resolved` changes without its generation.
const CHANGED: [Changed; 5] = [
    changed(
        "shrunk",
        [Some(replicas(3)), Some(replicas(1)), Some(replicas(2))],
    ),
    changed(
        "grown",
        [Some(replicas(1)), Some(replicas(3)), Some(replicas(4))],
    ),
    changed("gone", [Some(replicas(1)), None, None]),
    Changed {
        name: "again",
        steps: [
            Some(replicas(1)),
            Some(Wanted {
                image: "app:2",
                ..replicas(1)
            }),
            Some(Wanted {
                image: "app:2",
                ..replicas(2)
            }),
        ],
        is_made_again: true,
    },
    changed(
        "resolved",
        [
            Some(replicas(1)),
            Some(Wanted {
                data: Some("[]"),
                ..replicas(1)
            }),
            Some(Wanted {
                data: Some("[]"),
                ..replicas(2)
            }),
        ],
    ),
];

/// Time limit for a reconciliation whose project does not answer. It reads the WorkloadDeployment and writes the
/// status, and each request ends after 30 s.
const UNANSWERED: Duration = Duration::from_mins(2);

/// I-23: a replica whose cache of a project is old becomes the leader. It writes no older spec to the hub, and makes no
/// copy again.
pub(crate) async fn a_leader_with_an_old_cache_rolls_nothing_back(
    federation: &Federation,
) -> anyhow::Result<()> {
    let (mut fleet, election) = Fleet::start_led(federation, "cut-off", "cut").await?;
    let project = fleet.project("cut").await?;
    try_join_all(CHANGED.iter().map(|it| it.begin(&project))).await?;
    let copies: Api<WorkloadDeployment> = project.on_hub();
    let histories = CHANGED
        .iter()
        .map(async |it| VersionHistory::begin(copies.clone(), &it.copy()).await);
    let histories = try_join_all(histories).await?;

    let milo = &fleet.milo;
    let (mut other, proxy) = milo
        .management_behind_proxy("other", federation.hub())
        .await?;
    election.join(&mut other);
    other.restart().await?;
    until_shown(&other, "projects_engaged 1").await?;
    until_counted(
        &other,
        r#"cached_objects{plane="projects",kind="WorkloadDeployment"}"#,
        CHANGED.len(),
        WITHIN,
    )
    .await?;
    let cut = proxy.cut(Direction::Both);
    try_join_all(CHANGED.iter().map(|it| it.change(&project, 1))).await?;
    until_shown(&other, "leader 0").await?;

    fleet.management.kill().await;
    until_leading(&other).await?;
    // The new leader reads the project before it writes to the hub. These reads fail.
    let failed = r#"reconciles_total{controller="federator",result="error"}"#;
    until_counted(&other, failed, 1, UNANSWERED).await?;
    let check = async || {
        for (it, history) in CHANGED.iter().zip(&histories) {
            it.was_never_rolled_back(history, &copies).await?;
        }
        anyhow::Ok(())
    };
    check().await.context("during the cut")?;

    drop(cut);
    try_join_all(CHANGED.iter().map(|it| it.change(&project, 2))).await?;
    check().await.context("after the cut")?;
    for Changed { name, steps, .. } in &CHANGED {
        if steps[2].is_some() {
            delete(&project, name).await?;
        }
    }
    other.terminate().await;
    fleet.stop().await;
    Ok(())
}

impl Changed {
    fn copy(&self) -> String {
        format!("{}-us-dfw", self.name)
    }

    async fn begin(&self, project: &FleetProject<'_>) -> anyhow::Result<()> {
        self.create(project, self.steps[0].context("nothing wanted")?)
            .await
    }

    async fn create(&self, project: &FleetProject<'_>, wanted: Wanted) -> anyhow::Result<()> {
        create::<Workload>(&project.api(), self.body(wanted)).await?;
        project.until_available(self.name, wanted.replicas).await
    }

    fn body(&self, wanted: Wanted) -> Value {
        let mut body = workload(self.name, &[("us", &["DFW"], wanted.replicas)]);
        body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
            json!(wanted.image);
        body
    }

    /// Makes the customer's change and waits until it has arrived everywhere.
    async fn change(&self, project: &FleetProject<'_>, step: usize) -> anyhow::Result<()> {
        let Some(wanted) = self.steps[step] else {
            return match self.steps[step - 1] {
                Some(_) => delete(project, self.name).await,
                None => Ok(()),
            };
        };
        if self.is_made_again && step == 1 {
            delete(project, self.name).await?;
            return self.create(project, wanted).await;
        }
        let change = json!({"spec": {"placements": self.body(wanted)["spec"]["placements"]}});
        patch::<Workload>(&project.api(), self.name, change).await?;
        if let Some(data) = wanted.data {
            let key = annotations::EXPECTED_REFERENCED_DATA;
            let change = json!({"metadata": {"annotations": {key: data}}});
            patch::<WorkloadDeployment>(&project.api(), &self.copy(), change).await?;
            let has = |copy: &WorkloadDeployment| {
                copy.annotations().get(key).map(String::as_str) == Some(data)
            };
            let copies = project.on_hub();
            wait::until(&copies, &self.copy(), "annotated", WITHIN, has).await?;
        }
        project.until_available(self.name, wanted.replicas).await
    }

    /// Checks all versions of the copy so far, except those in which its Instances end. The generation that the copy
    /// carries never falls, and the copy never returns to an earlier step. A copy that is gone stays gone, unless the
    /// customer creates the Workload again.
    async fn was_never_rolled_back(
        &self,
        history: &VersionHistory,
        copies: &Api<WorkloadDeployment>,
    ) -> anyhow::Result<()> {
        let seen = history.until_now(copies, &self.copy()).await?;
        ensure!(seen.lists == 1, "versions of {} may be missing", self.name);
        let may_end = self.is_made_again || self.steps.iter().any(Option::is_none);
        let mut versions = seen.versions.iter().filter(|it| !it.gone);
        let has_ended = versions.any(|it| it.object.is_ending());
        ensure!(
            may_end || !has_ended,
            "the Instances of {} ended",
            self.name
        );
        let mut before = None;
        let mut described = Vec::new();
        let versions = seen.versions.iter();
        for version in versions.filter(|it| it.gone || !it.object.is_ending()) {
            let now = self.carried(&version.object)?;
            described.push(format!("{now:?} gone {}", version.gone));
            if let Some((was_gone, before)) = &before {
                ensure!(
                    now.is_not_before(before) && (!was_gone || now.step > before.step),
                    "{} was rolled back: {described:#?}",
                    self.name
                );
            }
            before = Some((version.gone, now));
        }
        Ok(())
    }

    fn carried(&self, copy: &WorkloadDeployment) -> anyhow::Result<Carried> {
        let annotation = |key| copy.annotations().get(key).map(String::as_str);
        let generation = annotation(annotations::UPSTREAM_GENERATION);
        let data = annotation(annotations::EXPECTED_REFERENCED_DATA);
        let template = json!(copy.spec.template);
        let image = template.pointer("/spec/runtime/sandbox/containers/0/image");
        let replicas = copy.spec.scale_settings.min_replicas;
        let is_ending = copy.is_ending();
        let is_of = |wanted: &Option<Wanted>| {
            wanted.is_some_and(|it| {
                (is_ending || it.replicas == replicas)
                    && it.data == data
                    && image == Some(&json!(it.image))
            })
        };
        // A copy whose Instances end has the last state.
        let step = match is_ending {
            true => self.steps.iter().rposition(is_of),
            false => self.steps.iter().position(is_of),
        };
        Ok(Carried {
            uid: annotation(annotations::UPSTREAM_UID)
                .context("no upstream UID")?
                .to_owned(),
            generation: generation.context("no upstream generation")?.parse()?,
            step: step.context("a state that was never wanted")?,
        })
    }
}

/// What a version of a copy carries.
#[derive(Debug)]
struct Carried {
    uid: String,
    generation: i64,
    step: usize,
}

impl Carried {
    fn is_not_before(&self, former: &Self) -> bool {
        let is_older = self.uid == former.uid && self.generation < former.generation;
        !is_older && self.step >= former.step
    }
}

async fn delete(project: &FleetProject<'_>, name: &str) -> anyhow::Result<()> {
    let workloads: Api<Workload> = project.api();
    workloads.delete(name, &DeleteParams::default()).await?;
    wait::gone(&workloads, name, WITHIN).await?;
    let copies: Api<WorkloadDeployment> = project.on_hub();
    wait::gone(&copies, &format!("{name}-us-dfw"), WITHIN).await
}

/// Waits until a metric of the manager has at least this value.
async fn until_counted(
    manager: &Manager,
    metric: &str,
    least: usize,
    within: Duration,
) -> anyhow::Result<()> {
    let metric = format!("compute_federation_{metric} ");
    wait::eventually(&metric, within, || async {
        let metrics = manager.metrics().await?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(&metric));
        let value = value.and_then(|value| value.parse::<f64>().ok());
        let value = value.context("the metrics do not contain it")?;
        ensure!(value >= f64::from(u32::try_from(least)?), "{value}");
        Ok(())
    })
    .await
}
