//! Tests of the rules of cells, in a federation with two cells in one city.

use std::time::Duration;

use anyhow::ensure;
use api::karmada::{Cluster, ClusterOverridePolicy, ResourceBinding};
use api::reasons::workload_deployment::FORMER_RULES;
use api::workload_deployment::RULES_APPLIED;
use api::{CellRule, Condition, Instance, WorkloadDeployment, annotations, cell_rules, condition};
use harness::audit::AuditPosition;
use harness::proxy::Direction;
use harness::{CellConfig, Config, Federation, wait};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::fixture::{self, Space, WITHIN, create, is_ready, overrides, patch};
use crate::settled::{self, SILENCE};

const NEAR: &str = "dfw1";
const FAR: &str = "dfw2";
const CITY: &str = "DFW";
const RULE: &str = "far";
/// Name of the ClusterOverridePolicy.
const POLICY: &str = "compute-cell-rules";
const DEPLOYMENT: &str = "web-city-dfw";
const INSTANCE: &str = "web-city-dfw-0";

/// Longer than Karmada waits for the answer of a cell (32 s, docs/concepts/freshness.md#re-application).
const GIVEN_UP: Duration = Duration::from_secs(40);
/// Time limit of the repeated write. Karmada first notices that the cell is back, and the federator waits for a minute.
const REPEATED: Duration = Duration::from_mins(4);

/// A Workload with one Instance in each cell.
struct Fixture<'f> {
    space: Space<'f>,
    hub: Client,
    /// The image of the template.
    image: String,
}

impl Fixture<'_> {
    fn rules(&self) -> Api<CellRule> {
        Api::all(self.hub.clone())
    }

    async fn label(&self, cell: &str, site: Option<&str>) -> anyhow::Result<()> {
        let labels = json!({"metadata": {"labels": {"example.com/site": site}}});
        patch(&Api::<Cluster>::all(self.hub.clone()), cell, labels)
            .await
            .map(drop)
    }

    /// Waits until the Instance of the cell is ready with this image, and with this label.
    async fn until_image(&self, cell: &str, image: &str, site: Option<&str>) -> anyhow::Result<()> {
        let has = |instance: &Instance| {
            let sandbox = instance.spec.runtime.sandbox.as_ref();
            let labels = instance.metadata.labels.clone().unwrap_or_default();
            sandbox.is_some_and(|it| it.containers.iter().all(|it| it.image == image))
                && labels.get("example.com/site").map(String::as_str) == site
                && is_ready(instance)
        };
        let what = format!("ready in {cell} with {image} and {site:?}");
        let instances = self.space.in_cell(cell);
        wait::until(&instances, INSTANCE, &what, WITHIN, has).await?;
        Ok(())
    }

    /// Waits until the condition of the project's WorkloadDeployment is as wanted.
    async fn until_condition(
        &self,
        what: &str,
        wanted: impl Fn(Option<&Condition>) -> bool,
    ) -> anyhow::Result<()> {
        let has = |deployment: &WorkloadDeployment| {
            let status = deployment.status.clone().unwrap_or_default();
            wanted(condition::find(&status.conditions, RULES_APPLIED))
        };
        let deployments = self.space.in_project();
        wait::until(&deployments, DEPLOYMENT, what, WITHIN, has).await?;
        Ok(())
    }

    /// Changes the image of the template.
    async fn set_image(&self, image: &str) -> anyhow::Result<()> {
        let change = fixture::image_change(image);
        let workloads = self.space.in_project::<api::Workload>();
        patch(&workloads, "web", change).await.map(drop)
    }

    /// Waits until each cell reports the stamp that the policy has for it; 0 if it has none.
    async fn until_stamped(&self, within: Duration) -> anyhow::Result<()> {
        let bindings: Api<ResourceBinding> = self.space.on_hub();
        let name = format!("{DEPLOYMENT}-workloaddeployment");
        wait::eventually("the cells report their rules", within, || async {
            let policies: Api<ClusterOverridePolicy> = Api::all(self.hub.clone());
            let policy = json!(policies.get_opt(POLICY).await?);
            let wanted = |cell: &str| {
                let rules = policy["spec"]["overrideRules"].as_array();
                let of_cell = |rule: &&Value| {
                    let names = rule["targetCluster"]["clusterNames"].as_array();
                    names.is_some_and(|names| names.contains(&json!(cell)))
                };
                let rule = rules.and_then(|rules| rules.iter().find(of_cell));
                let value = rule.map(|it| &it["overriders"]["annotationsOverrider"][0]["value"]);
                let stamp = value.and_then(|it| it[annotations::CELL_RULES_STAMP].as_str());
                stamp.map_or(Ok(0), str::parse::<i64>)
            };
            let binding = json!(bindings.get(&name).await?);
            let items = binding["status"]["aggregatedStatus"].as_array();
            for cell in [NEAR, FAR] {
                let mut items = items.into_iter().flatten();
                let item = items.find(|item| item["clusterName"] == cell);
                let reported = item.map(|it| it["status"]["cellRulesStamp"].clone());
                let wanted = wanted(cell)?;
                ensure!(
                    reported == Some(json!(wanted)),
                    "{cell}: {reported:?}, not {wanted}"
                );
            }
            Ok(())
        })
        .await
    }

    async fn until_accepted(&self, cells: i32) -> anyhow::Result<CellRule> {
        let is_accepted = |rule: &CellRule| {
            let status = rule.status.clone().unwrap_or_default();
            status.cells == cells
                && status.observed_generation == rule.metadata.generation
                && condition::is_true(&status.conditions, cell_rules::ACCEPTED)
        };
        let what = format!("accepted for {cells} cells");
        wait::until(&self.rules(), RULE, &what, WITHIN, is_accepted).await
    }
}

fn rule(rules: &Value) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "CellRule", "metadata": {"name": RULE},
        "spec": {"cells": {"matchLabels": {"example.com/site": "far"}}, "rules": rules},
    })
}

/// Returns an OverridePolicy for the deployments in `FAR`.
fn override_policy(name: &str, overriders: &Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": api::API_VERSION, "kind": "WorkloadDeployment"}],
            "overrideRules": [{"targetCluster": {"clusterNames": [FAR]}, "overriders": overriders}],
        },
    })
}

/// A rule follows the labels of the cells, changes only the Instances there, and leaves nothing.
pub(crate) async fn rules_of_one_of_two_cells() -> anyhow::Result<()> {
    let config = Config {
        cells: [NEAR, FAR].map(|name| CellConfig::new(name, CITY)).into(),
        ..fixture::config("rules")?
    };
    let federation = fixture::start_from(&config).await?;
    let fixture = start(&federation).await?;
    let image = fixture.image.as_str();
    let mirrored = &format!("mirror.local/{image}");
    let any = ApiResource::erase::<CellRule>(&());
    the_api_server_refuses_invalid_rules(&Api::all_with(fixture.hub.clone(), &any)).await?;
    let images = json!([{"prefix": image, "replacement": mirrored}]);
    let rules = json!({"images": images, "labels": [{"key": "example.com/site", "value": "a"}]});
    create(&fixture.rules(), rule(&rules)).await?;
    fixture.until_accepted(0).await?;
    let policies: Api<ClusterOverridePolicy> = Api::all(fixture.hub.clone());
    ensure!(
        policies.get_opt(POLICY).await?.is_none(),
        "no cell has rules"
    );

    dry_run(&federation, &images).await?;

    let begin = Instant::now();
    let since = || begin.elapsed().as_secs_f64();
    fixture.label(FAR, Some("far")).await?;
    fixture.until_accepted(1).await?;
    eprintln!("accepted after {:.2} s", since());
    let is_true = |it: Option<&Condition>| it.is_some_and(Condition::is_true);
    fixture.until_condition("rules applied", is_true).await?;
    eprintln!("shown in the project after {:.2} s", since());
    fixture.until_image(FAR, mirrored, Some("a")).await?;
    eprintln!("the Instance is replaced and ready after {:.2} s", since());
    fixture.until_image(NEAR, image, None).await?;
    fixture.space.until_settled("web", 2).await?;
    fixture.until_stamped(WITHIN).await?;

    let changed =
        json!({"spec": {"rules": {"labels": [{"key": "example.com/site", "value": "b"}]}}});
    patch(&fixture.rules(), RULE, changed).await?;
    fixture.until_image(FAR, mirrored, Some("b")).await?;
    more_instances_in_one_cell(&fixture, mirrored).await?;
    fixture.until_stamped(WITHIN).await?;
    rules_that_the_cell_cannot_read(&fixture, mirrored).await?;
    an_override_that_fails(&fixture).await?;

    a_further_rule_changes_nothing(&fixture, &policies).await?;
    // A copy that counted as stale would be applied again after a minute.
    settled::is_silent_after_a_restart(&federation, &[NEAR, FAR], SILENCE * 5 / 4).await?;

    nothing_is_left(&fixture, &policies).await?;
    federation.stop().await;
    Ok(())
}

/// A cell hangs exactly while Karmada writes its new rules. Karmada takes the write for done.
pub(crate) async fn a_lost_write_of_rules_is_repeated() -> anyhow::Result<()> {
    let config = Config {
        cells: [NEAR, FAR].map(|name| CellConfig::new(name, CITY)).into(),
        ..fixture::config("lost-rules")?
    };
    let federation = fixture::start_from(&config).await?;
    let fixture = start(&federation).await?;
    let image = fixture.image.as_str();
    let mirrored = &format!("mirror.local/{image}");
    let images = json!([{"prefix": image, "replacement": mirrored}]);
    create(&fixture.rules(), rule(&json!({"images": images}))).await?;
    let proxy = federation.put_proxy_before_cell(FAR).await?;
    let cut = proxy.cut(Direction::Requests);
    let begin = Instant::now();
    fixture.label(FAR, Some("far")).await?;
    fixture.until_accepted(1).await?;
    // Nothing shows when Karmada has given up.
    sleep(GIVEN_UP).await;
    let in_cell: Api<WorkloadDeployment> = fixture.space.in_cell(FAR);
    let has = in_cell.get(DEPLOYMENT).await?.metadata.annotations;
    let has = has.unwrap_or_default();
    ensure!(!has.contains_key(annotations::CELL_RULES), "{has:?}");
    drop(cut);
    let has_former = |it: Option<&Condition>| it.is_some_and(|it| it.reason == FORMER_RULES);
    fixture.until_condition("former rules", has_former).await?;
    fixture.until_stamped(REPEATED).await?;
    fixture.until_image(FAR, mirrored, None).await?;
    let is_applied = |it: Option<&Condition>| it.is_some_and(Condition::is_true);
    fixture.until_condition("applied", is_applied).await?;
    eprintln!("repeated after {:.0} s", begin.elapsed().as_secs_f64());
    let copy: WorkloadDeployment = fixture.space.on_hub().get(DEPLOYMENT).await?;
    let is_repeated = copy.annotations().contains_key(annotations::REAPPLIED_AT);
    ensure!(is_repeated, "Karmada has not lost the write: {copy:?}");
    federation.stop().await;
    Ok(())
}

/// The command shows what a rule for all cells would change, and writes nothing.
async fn dry_run(federation: &Federation, images: &Value) -> anyhow::Result<()> {
    let mut all = rule(&json!({"images": images}));
    all["spec"]["cells"] = json!({});
    let directory = TempDir::new()?;
    let file = directory.path().join("rule.json");
    std::fs::write(&file, all.to_string())?;
    let position = AuditPosition::now(federation.planes())?;
    let output = Command::new(env!("CARGO_BIN_EXE_compute-federation"))
        .args(["rules", "--dry-run", "-f"])
        .arg(&file)
        .arg("--federation-kubeconfig")
        .arg(federation.hub().kubeconfig())
        .kill_on_drop(true)
        .output()
        .await?;
    let shown = String::from_utf8(output.stdout)?;
    let change = "far; changed: images; 1 of 1 WorkloadDeployments are rolled out again";
    let expected = format!("{NEAR}: {change}\n{FAR}: {change}\n");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        shown == expected && output.status.success(),
        "{shown}{error}"
    );
    let mut writes = position.writes()?;
    writes.retain(|write| write.user_agent.contains("(rules)"));
    ensure!(writes.is_empty(), "{writes:?}");
    Ok(())
}

/// After the deletion of the rule, the Instances are as the customer wants them.
async fn nothing_is_left(
    fixture: &Fixture<'_>,
    policies: &Api<ClusterOverridePolicy>,
) -> anyhow::Result<()> {
    let params = DeleteParams::default();
    fixture.rules().delete(RULE, &params).await?;
    wait::gone(policies, POLICY, WITHIN).await?;
    fixture.until_image(FAR, "app:next", None).await?;
    fixture.until_condition("gone", |it| it.is_none()).await?;
    let in_cell: Api<WorkloadDeployment> = fixture.space.in_cell(FAR);
    let left = in_cell.get(DEPLOYMENT).await?.metadata.annotations;
    let left = left.unwrap_or_default();
    for key in [annotations::CELL_RULES, annotations::CELL_RULES_STAMP] {
        ensure!(!left.contains_key(key), "{left:?}");
    }
    fixture.until_stamped(WITHIN).await?;
    fixture.space.until_settled("web", 2).await?;
    Ok(())
}

/// A rule that selects no cell gets its status in a pass over all rules, and that pass writes nothing else.
async fn a_further_rule_changes_nothing(
    fixture: &Fixture<'_>,
    policies: &Api<ClusterOverridePolicy>,
) -> anyhow::Result<()> {
    let versions = async || {
        let rule = fixture.rules().get(RULE).await?;
        let policy = policies.get(POLICY).await?;
        anyhow::Ok([rule.metadata, policy.metadata].map(|it| it.resource_version))
    };
    let before = versions().await?;
    let mut nowhere = rule(&json!({}));
    nowhere["metadata"]["name"] = json!("nowhere");
    nowhere["spec"]["cells"] = json!({"matchLabels": {"example.com/site": "nowhere"}});
    create(&fixture.rules(), nowhere).await?;
    let is_accepted = |rule: &CellRule| {
        let status = rule.status.clone().unwrap_or_default();
        condition::is_true(&status.conditions, cell_rules::ACCEPTED)
    };
    wait::until(&fixture.rules(), "nowhere", "accepted", WITHIN, is_accepted).await?;
    ensure!(
        versions().await? == before,
        "the rule or the policy was written"
    );
    fixture
        .rules()
        .delete("nowhere", &DeleteParams::default())
        .await?;
    Ok(())
}

async fn start(federation: &Federation) -> anyhow::Result<Fixture<'_>> {
    let space = Space::create(federation, "rules").await?;
    let workload = space
        .create_workload("web", &[("city", &[CITY], 1)])
        .await?;
    space.until_settled("web", 2).await?;
    let sandbox = workload
        .spec
        .template
        .spec
        .runtime
        .sandbox
        .unwrap_or_default();
    let image = sandbox.containers.first().map(|it| it.image.clone());
    Ok(Fixture {
        space,
        hub: federation.hub().client(),
        image: image.unwrap_or_default(),
    })
}

/// Rules that no cell could use are refused when they are written.
async fn the_api_server_refuses_invalid_rules(rules: &Api<DynamicObject>) -> anyhow::Result<()> {
    for (invalid, expected) in [
        (
            json!({"labels": [{"key": "compute.datumapis.com/x", "value": "a"}]}),
            "spec.rules.labels[0].key",
        ),
        (
            json!({"labels": [{"key": "a b", "value": "a"}]}),
            "spec.rules.labels[0].key",
        ),
        (
            json!({"labels": [{"key": "a".repeat(64), "value": "a"}]}),
            "spec.rules.labels[0].key",
        ),
        (
            json!({"labels": [{"key": "a..b/c", "value": "a"}]}),
            "spec.rules.labels[0].key",
        ),
        (
            json!({"labels": [{"key": "a", "value": "a b"}]}),
            "spec.rules.labels[0].value",
        ),
        (
            json!({"env": [{"name": "A=B", "value": ""}]}),
            "spec.rules.env[0].name",
        ),
        (
            json!({"env": [{"name": "A", "value": ""}, {"name": "A", "value": ""}]}),
            "Duplicate value",
        ),
        (
            json!({"images": [{"prefix": "", "replacement": "b"}]}),
            "spec.rules.images[0].prefix",
        ),
        (
            json!({"instanceTypes": [{"from": "a"}]}),
            "spec.rules.instanceTypes[0].to",
        ),
        (json!({"replicas": {"min": 0}}), "spec.rules.replicas.min"),
        (
            json!({"replicas": {"min": 2, "max": 1}}),
            "min must not be greater than max",
        ),
    ] {
        let object: DynamicObject = serde_json::from_value(rule(&invalid))?;
        let created = rules.create(&PostParams::default(), &object).await;
        let refusal = created.err().map(|error| error.to_string());
        let refusal = refusal.unwrap_or_default();
        ensure!(refusal.contains(expected), "{invalid}: {refusal:?}");
    }
    Ok(())
}

/// A rule about the number changes it in one cell, and the status stays current.
async fn more_instances_in_one_cell(fixture: &Fixture<'_>, mirrored: &str) -> anyhow::Result<()> {
    for (replicas, all) in [(json!({"min": 2}), 3), (json!(null), 2)] {
        let change = json!({"spec": {"rules": {"replicas": replicas}}});
        patch(&fixture.rules(), RULE, change).await?;
        fixture.space.until_settled("web", all).await?;
        let near: Api<Instance> = fixture.space.in_cell(NEAR);
        let count = near.list(&ListParams::default()).await?.items.len();
        ensure!(count == 1, "{count} Instances in {NEAR}");
    }
    fixture.until_image(FAR, mirrored, Some("b")).await
}

/// Rules that the cell cannot read hold up this cell alone. An OverridePolicy of an operator counts after ours.
async fn rules_that_the_cell_cannot_read(
    fixture: &Fixture<'_>,
    mirrored: &str,
) -> anyhow::Result<()> {
    let space = &fixture.space;
    let value = json!({annotations::CELL_RULES: r#"{"later":[]}"#});
    let overrider = json!({"annotationsOverrider": [{"operator": "add", "value": value}]});
    let begin = Instant::now();
    create(&overrides(space), override_policy("later", &overrider)).await?;
    let is_named = |it: Option<&Condition>| {
        it.is_some_and(|it| {
            it.is_false() && it.message.contains(FAR) && it.message.contains("later")
        })
    };
    fixture
        .until_condition("the field is named", is_named)
        .await?;
    let shown = begin.elapsed();
    eprintln!("unreadable rules shown after {:.2} s", shown.as_secs_f64());
    ensure!(shown.as_secs() < 5, "shown after {shown:?}");

    fixture.set_image("app:new").await?;
    fixture.until_image(NEAR, "app:new", None).await?;
    fixture.until_image(FAR, mirrored, Some("b")).await?;
    overrides(space)
        .delete("later", &DeleteParams::default())
        .await?;
    fixture.until_image(FAR, "app:new", Some("b")).await?;
    let is_true = |it: Option<&Condition>| it.is_some_and(Condition::is_true);
    fixture
        .until_condition("rules applied again", is_true)
        .await?;
    space.until_settled("web", 2).await?;
    Ok(())
}

/// An OverridePolicy of an operator that fails holds up its cell alone, and the project shows cell, policy and cause.
async fn an_override_that_fails(fixture: &Fixture<'_>) -> anyhow::Result<()> {
    let space = &fixture.space;
    let missing = json!({"plaintext": [{"path": "/spec/missing/field", "operator": "replace", "value": "a"}]});
    create(&overrides(space), override_policy("broken", &missing)).await?;
    let events: Api<Event> = space.on_hub();
    wait::eventually("Karmada says that the override fails", WITHIN, || async {
        let failed = ListParams::default().fields("reason=ApplyOverridePolicyFailed");
        let failed = events.list(&failed).await?;
        ensure!(!failed.items.is_empty(), "no Event");
        Ok(())
    })
    .await?;
    let begin = Instant::now();
    fixture.set_image("app:next").await?;
    let policy = format!("{FAR}: OverridePolicy {}/broken fails: ", space.hub_name);
    let is_named = |it: Option<&Condition>| {
        it.is_some_and(|it| {
            it.is_false() && it.message.starts_with(&policy) && it.message.contains("missing")
        })
    };
    fixture
        .until_condition("the policy is named", is_named)
        .await?;
    let shown = begin.elapsed();
    eprintln!(
        "a failing override shown after {:.2} s",
        shown.as_secs_f64()
    );
    fixture.until_image(NEAR, "app:next", None).await?;
    fixture.until_image(FAR, "app:new", Some("b")).await?;

    overrides(space)
        .delete("broken", &DeleteParams::default())
        .await?;
    fixture.until_image(FAR, "app:next", Some("b")).await?;
    let is_true = |it: Option<&Condition>| it.is_some_and(Condition::is_true);
    fixture
        .until_condition("rules applied again", is_true)
        .await?;
    space.until_settled("web", 2).await?;
    Ok(())
}
