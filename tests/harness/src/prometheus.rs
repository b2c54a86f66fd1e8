//! Prometheus and promtool, which evaluate the alerts and recording rules of `deploy`.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::checkout;
use crate::go::{BuildCache, Module};
use crate::manager::get;
use crate::process::{ChildProcess, Program};

const MODULE: &str = "prometheus";
/// The programs and their packages.
const PROGRAMS: [(&str, &str); 2] = [
    ("promtool", "github.com/prometheus/prometheus/cmd/promtool"),
    (
        "prometheus",
        "github.com/prometheus/prometheus/cmd/prometheus",
    ),
];
/// Of the service discoveries, only the one of Kubernetes is built. Those of the clouds need large libraries.
const TAGS: &str = "-tags=remove_all_sd,enable_kubernetes_sd";
/// The PrometheusRule, from the top of the checkout.
pub const RULES: &str = "deploy/components/alerts-prometheus/prometheus_rule.yaml";
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

/// A running Prometheus.
pub struct Prometheus {
    process: ChildProcess,
    port: u16,
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

    /// Ends Prometheus.
    pub async fn stop(self) {
        self.process.kill().await;
    }
}
