//! Prometheus and promtool, which evaluate the alerts and recording rules of `deploy`.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use multicluster::clock;
use serde_json::{Map, Value, json};

use crate::go::{BuildCache, Module};
use crate::manager::get;
use crate::process::{ChildProcess, Program};
use crate::{checkout, wait};

const MODULE: &str = "prometheus";
/// The programs and their packages.
const PROGRAMS: [(&str, &str); 2] = [
    ("promtool", "github.com/prometheus/prometheus/cmd/promtool"),
    (
        "prometheus",
        "github.com/prometheus/prometheus/cmd/prometheus",
    ),
];
/// The jobs whose scrapes must fail, and the status of the answer.
pub const REFUSED: [(&str, &str); 2] = [("anonymous", "401"), ("stranger", "403")];
/// Of the service discoveries, only the one of Kubernetes is built. Those of the clouds need large libraries.
const TAGS: &str = "-tags=remove_all_sd,enable_kubernetes_sd";
/// The PrometheusRule, from the top of the checkout.
pub const RULES: &str = "deploy/components/alerts-prometheus/prometheus_rule.yaml";
/// The component with the ServiceMonitor.
const COMPONENT: &str = "deploy/components/prometheus";
/// Number of scrapes that a rate needs, with some to spare.
const SCRAPES: u64 = 5;
/// Name of the file that [`write_rules`] writes.
pub const RULE_FILE: &str = "rules.yaml";

/// Prometheus' programs.
#[derive(Clone, Debug)]
pub struct PrometheusPrograms {
    directory: PathBuf,
}

impl PrometheusPrograms {
    /// Returns the programs in the cache. Programs that the cache lacks are built, and `progress` is called for each of
    /// them.
    ///
    /// # Errors
    ///
    /// When Go is missing, or a program cannot be built.
    pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<Self> {
        let module = Module::at(MODULE);
        let mut hasher = DefaultHasher::new();
        module.hash_sources(&mut hasher)?;
        TAGS.hash(&mut hasher);
        module.run(&["env", "GOVERSION"])?.hash(&mut hasher);
        let cache = BuildCache::lock()?;
        let directory = cache
            .directory()
            .join(format!("{MODULE}-{:016x}", hasher.finish()));
        let flags = ["-ldflags", "-s -w", TAGS];
        module.build(&directory, &PROGRAMS, &flags, &mut progress)?;
        Ok(Self { directory })
    }

    /// Returns the names and the paths of the programs.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        PROGRAMS
            .iter()
            .map(|(name, _)| (*name, self.directory.join(name)))
    }

    /// Returns the path of promtool.
    pub fn promtool(&self) -> PathBuf {
        self.directory.join("promtool")
    }
}

/// Returns the groups of rules of the PrometheusRule, as Prometheus reads them.
///
/// # Errors
///
/// When the PrometheusRule cannot be read.
pub fn groups() -> anyhow::Result<Value> {
    let text = fs::read_to_string(checkout::root().join(RULES)).context(RULES)?;
    let rule: Value = serde_saphyr::from_str(&text).context(RULES)?;
    let groups = rule.pointer("/spec/groups");
    Ok(groups.context("no spec.groups").context(RULES)?.clone())
}

/// Writes the groups of rules into a file of this directory. Returns the path.
///
/// # Errors
///
/// When the PrometheusRule cannot be read, or the file cannot be written.
pub fn write_rules(directory: &Path) -> anyhow::Result<PathBuf> {
    let file = directory.join(RULE_FILE);
    // JSON is YAML.
    fs::write(&file, json!({"groups": groups()?}).to_string())?;
    Ok(file)
}

/// The endpoint of the ServiceMonitor, and the Service that it selects.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// The endpoint.
    pub endpoint: Value,
    /// The labels that the ServiceMonitor selects.
    pub selector: Map<String, Value>,
    /// Name of the Service. The operator makes it the label `job`.
    pub service: String,
}

impl Monitor {
    /// Reads the component `prometheus` of `deploy`.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or the ServiceMonitor does not select the Service and its port.
    pub fn read() -> anyhow::Result<Self> {
        let manifest = |name: &str| -> anyhow::Result<Value> {
            let file = format!("{COMPONENT}/{name}.yaml");
            let text = fs::read_to_string(checkout::root().join(&file)).context(file.clone())?;
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).context(file)?;
            objects.into_iter().next().context("no object")
        };
        let (monitor, service) = (manifest("service_monitor")?, manifest("service")?);
        let at = |object: &Value, pointer: &str| {
            let field = object.pointer(pointer).cloned();
            field.with_context(|| format!("no {pointer} in {object}"))
        };
        let endpoint = at(&monitor, "/spec/endpoints/0")?;
        let selector = at(&monitor, "/spec/selector/matchLabels")?;
        let selector = selector.as_object().context("no labels")?.clone();
        let labels = at(&service, "/metadata/labels")?;
        for (label, value) in &selector {
            ensure!(labels.get(label) == Some(value), "{label} of the Service");
        }
        let port = at(&endpoint, "/port")?;
        let ports = at(&service, "/spec/ports")?;
        let mut ports = ports.as_array().into_iter().flatten();
        ensure!(ports.any(|it| it.get("name") == Some(&port)), "port {port}");
        at(&endpoint, "/bearerTokenFile")?;
        let name = at(&service, "/metadata/name")?;
        Ok(Self {
            endpoint,
            selector,
            service: name.as_str().context("no name")?.to_owned(),
        })
    }

    /// Returns the scrape configuration that the operator makes from the endpoint, without the targets. `token` is the
    /// file with the token of Prometheus; `None` sends no token.
    ///
    /// # Errors
    ///
    /// When the endpoint lacks a field.
    pub fn scrape(&self, name: &str, token: Option<&Path>) -> anyhow::Result<Value> {
        let field = |pointer: &str| {
            let field = self.endpoint.pointer(pointer).cloned();
            field.with_context(|| format!("no {pointer} in the endpoint"))
        };
        let mut scrape = json!({
            "job_name": name,
            "metrics_path": field("/path")?,
            "scheme": field("/scheme")?,
            "tls_config": {"insecure_skip_verify": field("/tlsConfig/insecureSkipVerify")?},
        });
        if let (Some(token), Some(scrape)) = (token, scrape.as_object_mut()) {
            let authorization = json!({"credentials_file": token});
            scrape.insert("authorization".to_owned(), authorization);
        }
        Ok(scrape)
    }
}

/// Returns a list in an answer.
fn list<'v>(value: &'v Value, field: &str) -> anyhow::Result<&'v Vec<Value>> {
    let list = value.get(field).and_then(Value::as_array);
    list.with_context(|| format!("no {field} in {value}"))
}

/// A running Prometheus.
pub struct Prometheus {
    process: ChildProcess,
    port: u16,
}

/// Checks that a target is scraped, or that it is refused if its job is in [`REFUSED`]. Returns whether it is scraped.
///
/// # Errors
///
/// When the state of the target is another one. The error contains the target.
pub fn check_target(target: &Value) -> anyhow::Result<bool> {
    let member = |name: &str| target.get(name).and_then(Value::as_str);
    let error = member("lastError").context("no lastError")?;
    let mut refused = REFUSED.iter();
    match refused.find(|(job, _)| member("scrapePool") == Some(job)) {
        Some((_, status)) => {
            ensure!(error.contains(status), "{target}");
            Ok(false)
        }
        None => {
            ensure!(member("health") == Some("up"), "{target}");
            Ok(true)
        }
    }
}

impl Prometheus {
    /// Starts Prometheus with this configuration. Its files are written into the directory `name` of `directory`, and
    /// its log into `directory/logs`.
    ///
    /// # Errors
    ///
    /// When the files cannot be written, or Prometheus cannot be started.
    pub async fn start(
        programs: &PrometheusPrograms,
        directory: &Path,
        name: &str,
        port: u16,
        config: &Value,
    ) -> anyhow::Result<Self> {
        let files = directory.join(name);
        fs::create_dir_all(&files)?;
        let file = files.join("prometheus.yaml");
        fs::write(&file, config.to_string())?;
        let process = ChildProcess::start(Program {
            name,
            path: programs.directory.join("prometheus"),
            args: vec![
                format!("--config.file={}", file.display()).into(),
                format!("--storage.tsdb.path={}", files.join("data").display()).into(),
                format!("--web.listen-address=127.0.0.1:{port}").into(),
            ],
            logs: &directory.join("logs"),
            remove: None,
        })
        .await?;
        Ok(Self { process, port })
    }

    /// Calls the API, such as `targets`. Returns the data of the answer.
    ///
    /// # Errors
    ///
    /// When Prometheus does not answer, or answers with an error.
    pub async fn api(&self, path: &str) -> anyhow::Result<Value> {
        let (code, body) = get(self.port, &format!("/api/v1/{path}")).await?;
        ensure!(code == 200, "{path}: {code} {body}");
        let mut answer: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        let data = answer.get_mut("data").map(Value::take);
        data.with_context(|| format!("{path}: no data in {body}"))
    }

    /// Waits until each target has been scraped several times. Calls `check` with the state of each target.
    ///
    /// # Errors
    ///
    /// When the time is over. The error is the last one of `check`.
    pub async fn until_scraped(
        &self,
        targets: usize,
        within: Duration,
        check: impl Fn(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let check = &check;
        wait::eventually("scraped", within, || async move {
            let answer = self.api("query?query=count_over_time(up[5m])").await?;
            let counts = list(&answer, "result")?;
            ensure!(counts.len() == targets, "{answer}");
            for series in counts {
                let count = series.pointer("/value/1").and_then(Value::as_str);
                ensure!(
                    count.context("no value")?.parse::<u64>()? >= SCRAPES,
                    "{series}"
                );
            }
            let answer = self.api("targets?state=active").await?;
            list(&answer, "activeTargets")?.iter().try_for_each(check)
        })
        .await
    }

    /// Waits until each rule has been evaluated after this call without an error, and no alert is active or pending.
    ///
    /// # Errors
    ///
    /// When the time is over. The error contains the rule.
    pub async fn until_silent(&self, within: Duration) -> anyhow::Result<()> {
        let begin = clock::now();
        wait::eventually(
            "every rule is evaluated without an alert",
            within,
            || async {
                let answer = self.api("rules").await?;
                let loaded = list(&answer, "groups")?;
                let expected = groups()?.as_array().map(Vec::len);
                ensure!(Some(loaded.len()) == expected, "{answer}");
                for group in loaded {
                    for rule in list(group, "rules")? {
                        let text = |field: &str| rule.get(field).and_then(Value::as_str);
                        let evaluated = text("lastEvaluation").context("no time")?;
                        ensure!(
                            evaluated.parse::<Timestamp>()? > begin,
                            "not evaluated: {rule}"
                        );
                        ensure!(text("health") == Some("ok"), "{rule}");
                        ensure!(text("lastError").is_none_or(str::is_empty), "{rule}");
                        let is_silent =
                            text("type") == Some("recording") || text("state") == Some("inactive");
                        ensure!(is_silent, "{rule}");
                    }
                }
                Ok(())
            },
        )
        .await
    }

    /// Ends Prometheus.
    pub async fn stop(self) {
        self.process.kill().await;
    }
}
