//! Serves the Lua scripts in the files of a directory (docs/operate/serve-lua-customizations.md).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::karmada::ResourceInterpreterCustomization;
use interpreters::lua::LuaInterpreter;
use interpreters::{InterpretedKind, Operation};
use kube::ResourceExt;
use multicluster::mounted;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};
use webhooks::Scripts;

use crate::object_files;
use crate::serving::Servers;

/// How often the directory is read.
const POLL: Duration = Duration::from_secs(1);
/// The endings of the files that are read.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];
/// Largest file, in bytes. It is larger than what a ConfigMap can have.
const FILE_MAX: u64 = 2 << 20;

/// The contents of the files, by name.
type Contents = BTreeMap<PathBuf, String>;

/// The metrics of the served customizations.
#[derive(Default)]
pub(crate) struct Metrics {
    served: Gauge,
    refused: Gauge,
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "interpreter_customizations",
            "Customizations whose Lua scripts are served",
            metrics.served.clone(),
        );
        registry.register(
            "interpreter_customizations_refused",
            "1 if the files of the customizations cannot be used, so that former ones are served",
            metrics.refused.clone(),
        );
        metrics
    }
}

/// Customizations to serve.
pub(crate) struct Served {
    /// The directory with their files.
    pub(crate) directory: PathBuf,
    /// Receives the rules with which the webhook is registered for them, when they are in service and not empty.
    pub(crate) rules: watch::Sender<Option<Value>>,
}

/// Serves the customizations of a directory.
struct Loader {
    directory: PathBuf,
    rules: watch::Sender<Option<Value>>,
    scripts: Arc<Scripts>,
    metrics: Metrics,
    /// The result of the last reading.
    last: Option<Result<Contents, String>>,
    /// Whether `last` was loaded.
    is_loaded: bool,
}

/// Starts to serve the customizations of a directory. The directory is read again when its files change. While a file
/// is wrong, the former customizations stay in service.
///
/// # Errors
///
/// If the threads for scripts cannot be started.
pub(crate) fn serve(
    servers: &Servers,
    registry: &mut Registry,
    served: Served,
) -> io::Result<Arc<Scripts>> {
    let scripts = Arc::new(Scripts::new(servers.script_runtime()?));
    let Served { directory, rules } = served;
    let mut loader = Loader {
        directory,
        rules,
        scripts: Arc::clone(&scripts),
        metrics: Metrics::register(registry),
        last: None,
        is_loaded: false,
    };
    // Without a second look, because calls may come at once.
    loader.look();
    loader.load();
    let stop = servers.tasks.stop();
    servers.tasks.spawn("customizations", async move {
        let follow = async {
            loop {
                sleep(POLL).await;
                let load = spawn_blocking(move || {
                    if loader.look() && !loader.is_loaded {
                        loader.load();
                    }
                    loader
                });
                match load.await {
                    Ok(after) => loader = after,
                    Err(error) => return Err(error),
                }
            }
        };
        match stop.run_until_cancelled(follow).await {
            None => Ok(()),
            Some(ended) => ended,
        }
    });
    Ok(scripts)
}

impl Loader {
    /// Reads the files. Returns whether they are as before: files that are being written, or a volume that is being
    /// replaced, can be half old and half new.
    fn look(&mut self) -> bool {
        let read = read(&self.directory).map_err(|error| format!("{error:#}"));
        let is_same = self.last.as_ref() == Some(&read);
        if !is_same {
            (self.last, self.is_loaded) = (Some(read), false);
        }
        is_same
    }

    /// Serves what was read last.
    fn load(&mut self) {
        self.is_loaded = true;
        let Some(read) = &self.last else {
            return;
        };
        let compiled = match read {
            Ok(contents) => compile(contents).map_err(|error| format!("{error:#}")),
            Err(problem) => Err(problem.clone()),
        };
        let directory = self.directory.display();
        match compiled {
            Ok((count, interpreter)) => {
                let rules = rules(&interpreter);
                let has_rules = rules.as_array().is_some_and(|rules| !rules.is_empty());
                self.scripts.replace(interpreter);
                self.metrics
                    .served
                    .set(i64::try_from(count).unwrap_or(i64::MAX));
                self.metrics.refused.set(0);
                info!(%directory, count, "customizations served");
                // A directory can be empty because it is not filled yet. Without the rules, Karmada would not keep fields
                // of the cells.
                if has_rules {
                    self.rules.send_replace(Some(rules));
                } else {
                    warn!(%directory, "the directory has no script; the rules of the registration stay");
                }
            }
            Err(problem) => {
                self.metrics.refused.set(1);
                error!(%directory, problem, "customizations refused; the former ones stay in service");
            }
        }
    }
}

/// Returns the rules of a webhook that answers for the kinds of these customizations: each kind with the operations
/// that have a script.
pub(crate) fn rules(interpreter: &LuaInterpreter) -> Value {
    let rules = interpreter.kinds().into_iter().map(|(api_version, kind)| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let has_script =
            |it: &Operation| !interpreter.customizations_for(&api_version, &kind, *it).is_empty();
        let operations = Operation::ALL.into_iter().filter(has_script);
        let operations: Vec<_> = operations.map(Operation::as_str).collect();
        json!({"apiGroups": [group], "apiVersions": [version], "kinds": [kind], "operations": operations})
    });
    rules.collect()
}

/// Compiles the customizations of a directory.
///
/// # Errors
///
/// If a file cannot be read, is not valid, or is for a native kind.
pub(crate) fn of_directory(directory: &Path) -> anyhow::Result<LuaInterpreter> {
    let (_, interpreter) = compile(&read(directory)?)?;
    Ok(interpreter)
}

fn read(directory: &Path) -> anyhow::Result<Contents> {
    let read = mounted::read(directory, &ENDINGS, FILE_MAX);
    let read = read.with_context(|| directory.display().to_string())?;
    let texts = read.into_iter().map(|(path, text)| Ok((path, text?)));
    texts.collect()
}

/// Returns the number of customizations, and their interpreter.
fn compile(contents: &Contents) -> anyhow::Result<(usize, LuaInterpreter)> {
    let mut all = Vec::new();
    let mut files = BTreeMap::new();
    for (path, text) in contents {
        let file = path.display().to_string();
        let of_file = object_files::customizations_in(&file, text)?;
        for customization in &of_file {
            let checked = require_other_kind(customization);
            let checked = checked.and_then(|()| require_exact_target(customization));
            checked.with_context(|| file.clone())?;
            let name = customization.name_any();
            if let Some(other) = files.insert(name.clone(), file.clone()) {
                bail!("{file}: ResourceInterpreterCustomization {name} is in {other}, too");
            }
        }
        all.extend(of_file);
    }
    let compiled = LuaInterpreter::new(&all, Scripts::limits()).map_err(|errors| {
        let file = |name: &str| files.get(name).map_or("", String::as_str);
        let named = errors
            .iter()
            .map(|error| format!("{}: {error}", file(&error.customization)));
        anyhow!(named.collect::<Vec<_>>().join("\n"))
    });
    Ok((all.len(), compiled?))
}

/// Checks that a customization is for exactly one kind: in the rules of a webhook, `*` means all.
fn require_exact_target(customization: &ResourceInterpreterCustomization) -> anyhow::Result<()> {
    let target = &customization.spec.target;
    let mut parts = target.api_version.split('/').chain([target.kind.as_str()]);
    let is_exact = parts.all(|part| !part.is_empty() && part != "*");
    if !is_exact || target.api_version.matches('/').count() > 1 {
        bail!(
            "ResourceInterpreterCustomization {}: spec.target: {} {} must be a version, such as apps/v1 or v1, and a kind",
            customization.name_any(),
            target.api_version,
            target.kind
        );
    }
    Ok(())
}

/// Checks that the native interpreter does not answer for the kind of a customization.
fn require_other_kind(customization: &ResourceInterpreterCustomization) -> anyhow::Result<()> {
    let target = &customization.spec.target;
    if InterpretedKind::of_target(&target.api_version, &target.kind).is_some() {
        bail!(
            "ResourceInterpreterCustomization {}: spec.target: {} is interpreted natively, so the scripts would never run: \
             remove the customization",
            customization.name_any(),
            target.kind
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn customization(name: &str, kind: &str, script: &str) -> String {
        format!(
            "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {{name: {name}}}\nspec:\n  target: {{apiVersion: example.com/v1, kind: {kind}}}\n  customizations: {{healthInterpretation: {{luaScript: '{script}'}}}}\n"
        )
    }

    #[test]
    fn only_files_of_customizations_are_read() {
        let directory = TempDir::new().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write(
            "a.yaml",
            &customization("a", "A", "function InterpretHealth() return true end"),
        );
        write("b.json", "");
        write(".hidden.yaml", "nonsense");
        write("README", "nonsense");
        // A directory, and a file without customization.
        fs::create_dir(directory.path().join("c.yaml")).unwrap();
        let error = of_directory(directory.path())
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("c.yaml is not a file"), "{error}");
        fs::remove_dir(directory.path().join("c.yaml")).unwrap();
        let error = of_directory(directory.path()).unwrap_err().to_string();
        assert!(error.contains("b.json is empty"), "{error}");
        fs::remove_file(directory.path().join("b.json")).unwrap();
        let kinds = of_directory(directory.path()).unwrap().kinds();
        assert_eq!(kinds, [("example.com/v1".to_owned(), "A".to_owned())]);
    }

    #[test]
    fn a_wrong_customization_is_named() {
        let native = customization("deployments", "WorkloadDeployment", "")
            .replace("example.com/v1", api::API_VERSION);
        let health = "function InterpretHealth(";
        for (text, problem) in [
            (native, "WorkloadDeployment is interpreted natively"),
            (
                customization("broken", "A", health),
                "broken: spec.customizations.healthInterpretation.luaScript",
            ),
            ("kind: Pod".to_owned(), "kind is Pod"),
            (customization("all", "'*'", ""), "example.com/v1 * must be"),
            (
                customization("all", "A", "").replace("example.com/v1", "'example.com/'"),
                "example.com/ A must be",
            ),
        ] {
            let contents = Contents::from([(PathBuf::from("a.yaml"), text)]);
            let error = compile(&contents).map(drop).unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.starts_with("a.yaml") && error.contains(problem),
                "{error}"
            );
        }
        let twice =
            ["a.yaml", "b.yaml"].map(|file| (PathBuf::from(file), customization("a", "A", "")));
        let error = compile(&Contents::from(twice)).map(drop).unwrap_err();
        let expected = "b.yaml: ResourceInterpreterCustomization a is in a.yaml, too";
        assert_eq!(error.to_string(), expected);
    }
}
