//! Builds the external programs from the Go module in `tests/tools`. Each program is built once, into a cache outside
//! the checkout.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::go::{self, tools};

/// Environment variable with the path of a directory that contains the built programs.
pub const PEERS_VARIABLE: &str = "COMPUTE_FEDERATION_PEERS";

/// The programs and their packages. The slowest builds come first.
const PROGRAMS: [(&str, &str); 9] = [
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    (
        "karmada-controller-manager",
        "github.com/karmada-io/karmada/cmd/controller-manager",
    ),
    (
        "karmada-aggregated-apiserver",
        "github.com/karmada-io/karmada/cmd/aggregated-apiserver",
    ),
    ("karmada-agent", "github.com/karmada-io/karmada/cmd/agent"),
    (
        "karmada-webhook",
        "github.com/karmada-io/karmada/cmd/webhook",
    ),
    (
        "karmada-scheduler",
        "github.com/karmada-io/karmada/cmd/scheduler",
    ),
];
/// Directory of Karmada's manifests, next to the programs.
const MANIFESTS: &str = "karmada";

/// The external programs.
#[derive(Clone, Debug)]
pub struct Peers {
    directory: PathBuf,
}

impl Peers {
    /// Returns the programs. If the environment variable is set, they come from its directory. Otherwise they come from
    /// the cache. Programs that the cache lacks are built, and `progress` is called for each of them.
    ///
    /// # Errors
    ///
    /// When Go is missing, a program cannot be built, or the directory of the environment variable lacks a program.
    pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<Self> {
        if let Some(directory) = std::env::var_os(PEERS_VARIABLE).filter(|value| !value.is_empty())
        {
            return Self::at(Path::new(&directory)).context(PEERS_VARIABLE);
        }
        let cache = go::BuildCache::lock()?;
        let peers = Self {
            directory: cache.directory().join(format!("peers-{}", version()?)),
        };
        if !peers.missing().is_empty() {
            peers.build(&mut progress)?;
        }
        Ok(peers)
    }

    /// Returns the programs in a directory.
    ///
    /// # Errors
    ///
    /// When a program is missing.
    pub fn at(directory: &Path) -> anyhow::Result<Self> {
        let peers = Self {
            directory: directory.to_owned(),
        };
        let missing = peers.missing();
        ensure!(
            missing.is_empty(),
            "{} lacks {}",
            directory.display(),
            missing.join(", ")
        );
        Ok(peers)
    }

    /// Returns the directory of the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the names and the paths of all programs.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        PROGRAMS.iter().map(|(name, _)| (*name, self.program(name)))
    }

    /// Returns the files of Karmada's CRDs. Each YAML file contains one CRD.
    ///
    /// # Errors
    ///
    /// When the files cannot be listed.
    pub(crate) fn karmada_crds(&self) -> anyhow::Result<Vec<PathBuf>> {
        yaml_files(&self.directory.join(MANIFESTS).join("crds"))
    }

    /// Returns the file of Karmada's webhook configurations. The file contains placeholders.
    pub(crate) fn karmada_webhooks(&self) -> PathBuf {
        self.directory
            .join(MANIFESTS)
            .join("webhook-configuration.yaml")
    }

    fn missing(&self) -> Vec<String> {
        let programs = self.programs().map(|(_, path)| path);
        let expected = programs.chain([
            self.karmada_webhooks(),
            self.directory.join(MANIFESTS).join("crds"),
        ]);
        let missing = expected.filter(|path| !path.exists());
        missing
            .filter_map(|path| {
                Some(
                    path.strip_prefix(&self.directory)
                        .ok()?
                        .display()
                        .to_string(),
                )
            })
            .collect()
    }

    fn build(&self, progress: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let kubernetes = go::run(&["list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"])?;
        let version = "gitVersion=".to_owned() + &kubernetes;
        let flags = format!(
            "-s -w -X k8s.io/component-base/version.{version} -X k8s.io/client-go/pkg/version.{version}"
        );
        go::build(&self.directory, &PROGRAMS, &flags, progress)?;
        self.copy_manifests()
    }

    fn copy_manifests(&self) -> anyhow::Result<()> {
        let module: PathBuf = go::run(&[
            "list",
            "-m",
            "-f",
            "{{.Dir}}",
            "github.com/karmada-io/karmada",
        ])?
        .into();
        let crds = self.directory.join(MANIFESTS).join("crds");
        fs::create_dir_all(&crds)?;
        for group in fs::read_dir(module.join("charts/karmada/_crds/bases"))? {
            for file in yaml_files(&group?.path())? {
                let name = file.file_name().context("the file has no name")?;
                // The code writes a new file instead of a copy. Files of the module cache are read-only, and a copy
                // would be read-only too.
                fs::write(crds.join(name), fs::read(&file)?)?;
            }
        }
        let webhooks = module.join("artifacts/deploy/webhook-configuration.yaml");
        fs::write(self.karmada_webhooks(), fs::read(webhooks)?)?;
        Ok(())
    }
}

fn yaml_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut files: Vec<_> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    Ok(files)
}

/// Returns a hash of the module files and of the Go version.
fn version() -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in ["go.mod", "go.sum", "tools.go"] {
        fs::read(tools().join(file))
            .with_context(|| file.to_owned())?
            .hash(&mut hasher);
    }
    PROGRAMS.hash(&mut hasher);
    go::run(&["env", "GOVERSION"])?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
