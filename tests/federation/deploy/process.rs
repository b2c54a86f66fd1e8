//! Starts the binary with the arguments, variables and files of each Deployment, as the kubelet does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use harness::manager::get;
use harness::manifests;
use harness::ports;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::object;
use crate::fixture::WITHIN;

/// The API server in this kubeconfig does not exist. The process finds that out with its first request, not earlier.
const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";
/// Directory of the webhook server's certificate. All manifests mount the certificate there.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

pub(crate) async fn the_processes_start_as_deployed() -> anyhow::Result<()> {
    let management = manifests::deployed("overlays/management-plane").await?;
    let single = manifests::deployed("overlays/single-cluster").await?;
    for objects in [&management, &single] {
        let problems = starts(objects, "compute-manager").await?;
        ensure!(
            problems.contains("no certificate to serve webhooks with in"),
            "{problems}"
        );
        ensure!(problems.contains(CERTIFICATES), "{problems}");
        ensure!(problems.contains("not listed yet: "), "{problems}");
    }

    // The name of the cell is the only thing that a consumer must add to the overlay of a cell.
    let cell = manifests::deployed("overlays/cell").await?;
    let error = starts(&cell, "compute-manager").await.err();
    let error = error.context("a cell without a name starts")?.to_string();
    ensure!(error.contains("needs discovery.clusterName"), "{error}");
    let directory = TempDir::new()?;
    let config = object(&cell, "ConfigMap", "compute-config")?;
    let config = config["data"]["config.yaml"]
        .as_str()
        .context("no config")?;
    fs::write(
        directory.path().join("config.yaml"),
        format!("{config}discovery: {{clusterName: dfw1}}\n"),
    )?;
    let named = "resources: ['{deploy}/overlays/cell']\nnamespace: compute-system\n\
                 generatorOptions: {disableNameSuffixHash: true}\n\
                 configMapGenerator: [{name: compute-config, behavior: replace, files: [config.yaml]}]\n";
    let cell = manifests::consumed(directory.path(), named).await?;
    let problems = starts(&cell, "compute-manager").await?;
    ensure!(problems.contains("not listed yet: "), "{problems}");
    ensure!(!problems.contains("certificate"), "{problems}");

    let interpreter = "namespace: compute-system\nresources: ['{deploy}/base/manager']\n\
                       components: ['{deploy}/components/interpreter']\n";
    let interpreter = manifests::consumed(directory.path(), interpreter).await?;
    let problems = starts(&interpreter, "compute-interpreter").await?;
    ensure!(problems.contains(CERTIFICATES), "{problems}");
    Ok(())
}

/// Starts the process of a Deployment. Returns the answer of `/readyz`: the process is not ready, because its API
/// servers and its certificate do not exist.
///
/// # Errors
///
/// If the process ends. The error contains its log.
async fn starts(objects: &[Value], deployment: &str) -> anyhow::Result<String> {
    let pod = &object(objects, "Deployment", deployment)?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let files = TempDir::new()?;
    let root = files.path();
    let [health, webhooks] = [ports::reserve()?, ports::reserve()?];
    for mount in container["volumeMounts"].as_array().context("no mounts")? {
        fill(root, objects, pod, mount, webhooks)?;
    }
    // The ports and the paths of the host differ from those in a pod.
    let args = arguments(container)?.into_iter().map(|arg| {
        let arg = arg.replace("=:8081", &format!("=localhost:{health}"));
        let arg = arg.replace("=:8080", "=localhost:0");
        let arg = arg.replace("--port=9443", &format!("--port={webhooks}"));
        arg.replace("=/", &format!("={}/", root.display()))
    });
    let args: Vec<_> = args.collect();
    let kubeconfig = root.join("own.kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_compute-federation"));
    if deployment == "compute-manager" {
        // In a pod, the process reads the namespace from the files of the service account.
        command.arg("--leader-elect-namespace=compute-system");
    }
    let process = command
        .args(&args)
        .env_clear()
        .env("KUBECONFIG", &kubeconfig)
        .env("TMPDIR", root.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = process.wait_with_output();
    tokio::select! {
        ended = output => {
            let Output { status, stderr, .. } = ended?;
            bail!("{args:?}: {status}\n{}", String::from_utf8_lossy(&stderr))
        }
        problems = timeout(WITHIN, unready(health)) => Ok(problems.context("the process does not answer")?),
    }
}

/// Waits until the process lives, and returns why it is not ready.
async fn unready(health: u16) -> String {
    loop {
        if let Ok((200, _)) = get(health, "/healthz").await
            && let Ok((503, problems)) = get(health, "/readyz").await
        {
            return problems;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Creates the files of a mounted volume below `root`.
fn fill(
    root: &Path,
    objects: &[Value],
    pod: &Value,
    mount: &Value,
    webhooks: u16,
) -> anyhow::Result<()> {
    let path = mount["mountPath"].as_str().context("no mountPath")?;
    let directory = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(&directory)?;
    let volumes = pod["volumes"].as_array().context("no volumes")?;
    let volume = volumes
        .iter()
        .find(|volume| volume["name"] == mount["name"])
        .with_context(|| format!("no volume for {path}"))?;
    match volume["configMap"]["name"].as_str() {
        Some("compute-downstream-kubeconfig") => {
            fs::write(directory.join("downstream-kubeconfig.yaml"), KUBECONFIG)?;
        }
        Some(name) => {
            let config = object(objects, "ConfigMap", name)?;
            for (file, text) in config["data"].as_object().context("no data")? {
                let text = text.as_str().context("no text")?;
                let text = text.replace(
                    "webhookServer: {}",
                    &format!("webhookServer: {{port: {webhooks}}}"),
                );
                fs::write(
                    directory.join(file),
                    text.replace("\":8443\"", "localhost:0"),
                )?;
            }
        }
        // The files of Secrets, tokens and the CSI driver appear later, or never.
        None => {}
    }
    // The infrastructure of a cell mounts the kubeconfig of the hub.
    let hub = root.join("etc/kubernetes/upstream/auth");
    fs::create_dir_all(&hub)?;
    Ok(fs::write(hub.join("kubeconfig"), KUBECONFIG)?)
}

/// Returns the arguments of a container. `$(NAME)` is replaced by the value of the variable, as the kubelet does.
pub(super) fn arguments(container: &Value) -> anyhow::Result<Vec<String>> {
    let mut variables = BTreeMap::new();
    for variable in container["env"].as_array().context("no env")? {
        let name = variable["name"].as_str().context("no name")?;
        let Some(value) = variable["value"].as_str() else {
            let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
            ensure!(field.is_string(), "{name} has no value");
            // No argument uses a field of the Pod.
            continue;
        };
        // A value may use the variables before it.
        variables.insert(name.to_owned(), expanded(value, &variables));
    }
    let args = container["args"].as_array().context("no args")?.iter();
    args.map(|arg| {
        let arg = expanded(arg.as_str().context("no text")?, &variables);
        ensure!(!arg.contains("$("), "{arg}: no such variable");
        Ok(arg)
    })
    .collect()
}

fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    variables
        .iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("$({name})"), value)
        })
}
