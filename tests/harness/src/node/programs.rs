//! The programs of a node: Kubernetes' programs on a node, the container runtime, DNS, and cert-manager with its CSI
//! driver. Each program is built once, into a cache outside the checkout.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::debian;
use super::system::run;
use crate::go::{BuildCache, Module};

/// The modules below `tests/tools/node`. Their dependencies differ, so they are separate.
const MODULES: [&str; 6] = [
    "kubernetes",
    "runtime",
    "runc",
    "cert-manager",
    "dns",
    "probe",
];
const CSI_DRIVER: &str = "github.com/cert-manager/csi-driver";
/// Folder of cert-manager's CRDs, next to the programs.
const CERT_MANAGER_CRDS: &str = "cert-manager-crds";
/// File that is written after all programs have been built.
const COMPLETE: &str = "complete";

/// The programs of a node.
#[derive(Clone, Debug)]
pub struct NodePrograms {
    directory: PathBuf,
}

impl NodePrograms {
    /// Returns the programs in the cache. Programs that the cache lacks are built, and `progress` is called for each of
    /// them.
    ///
    /// # Errors
    ///
    /// When Go or a C compiler is missing, or a program cannot be built.
    pub fn find_or_build(mut progress: impl FnMut(&str)) -> anyhow::Result<Self> {
        let cache = BuildCache::lock()?;
        let programs = Self {
            directory: cache.directory().join(format!("node-{}", version()?)),
        };
        let complete = programs.directory.join(COMPLETE);
        if !complete.exists() {
            programs.build(&mut progress)?;
            fs::write(complete, "")?;
        }
        Ok(programs)
    }

    /// Returns the directory of the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the directory of the CNI plugins.
    pub(crate) fn cni(&self) -> PathBuf {
        self.directory.join("cni")
    }

    /// Returns the files of cert-manager's CRDs.
    ///
    /// # Errors
    ///
    /// When the files cannot be listed.
    pub(crate) fn cert_manager_crds(&self) -> anyhow::Result<Vec<PathBuf>> {
        let folder = self.directory.join(CERT_MANAGER_CRDS);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .with_context(|| folder.display().to_string())?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        files.sort();
        Ok(files)
    }

    fn build(&self, progress: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory)?;
        self.build_kubernetes(progress)?;
        self.build_runtime(progress)?;
        self.build_cert_manager(progress)?;
        let small = ["-ldflags", "-s -w"];
        module("dns").build(&self.directory, &[("coredns", ".")], &small, progress)?;
        module("probe").build(&self.directory, &[("probe", ".")], &small, progress)?;
        debian::install_iptables(&self.directory, progress)
    }

    fn build_kubernetes(&self, progress: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        let module = module("kubernetes");
        let version = module.version_of("k8s.io/kubernetes")?;
        let flags = format!(
            "-s -w -X k8s.io/component-base/version.gitVersion={version} \
             -X k8s.io/client-go/pkg/version.gitVersion={version}"
        );
        let programs = [
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        ];
        module.build(&self.directory, &programs, &["-ldflags", &flags], progress)?;
        // The first process of a Pod. It must be small and static, so that its image needs nothing else.
        let pause = module
            .sources("k8s.io/kubernetes")?
            .join("build/pause/linux/pause.c");
        run(
            "cc",
            [
                "-Os".as_ref(),
                "-static".as_ref(),
                format!("-DVERSION={version}").as_ref(),
                "-o".as_ref(),
                self.program("pause").as_os_str(),
                pause.as_os_str(),
            ],
        )
        .map(drop)
    }

    fn build_runtime(&self, progress: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        let containerd = "github.com/containerd/containerd/v2/cmd";
        let plugins = "github.com/containernetworking/plugins/plugins";
        let packages = [
            ("containerd", format!("{containerd}/containerd")),
            (
                "containerd-shim-runc-v2",
                format!("{containerd}/containerd-shim-runc-v2"),
            ),
            ("ctr", format!("{containerd}/ctr")),
            ("cni/bridge", format!("{plugins}/main/bridge")),
            ("cni/loopback", format!("{plugins}/main/loopback")),
            ("cni/host-local", format!("{plugins}/ipam/host-local")),
            ("cni/portmap", format!("{plugins}/meta/portmap")),
        ];
        let programs: Vec<_> = packages
            .iter()
            .map(|(name, package)| (*name, package.as_str()))
            .collect();
        let flags = ["-ldflags", "-s -w", "-tags=no_btrfs no_devmapper no_zfs"];
        module("runtime").build(&self.directory, &programs, &flags, progress)?;
        let seccomp = debian::libseccomp(&self.directory, progress)?;
        module("runc").with_cgo(seccomp).build(
            &self.directory,
            &[("runc", "github.com/opencontainers/runc")],
            &[
                "-ldflags",
                "-s -w -extldflags -static",
                "-tags=seccomp netgo osusergo urfave_cli_no_docs",
            ],
            progress,
        )
    }

    fn build_cert_manager(&self, progress: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        let module = module("cert-manager");
        // The driver answers the kubelet only if it knows its version.
        let flags = format!(
            "-s -w -X {CSI_DRIVER}/internal/version.AppVersion={}",
            module.version_of(CSI_DRIVER)?
        );
        let driver = format!("{CSI_DRIVER}/cmd");
        let programs = [
            ("cert-manager-controller", "./controller"),
            ("csi-driver-registrar", "./registrar"),
            ("cert-manager-csi-driver", driver.as_str()),
        ];
        module.build(&self.directory, &programs, &["-ldflags", &flags], progress)?;
        let sources = module
            .sources("github.com/cert-manager/cert-manager")?
            .join("deploy/crds");
        let crds = self.directory.join(CERT_MANAGER_CRDS);
        fs::create_dir_all(&crds)?;
        let mut copied = 0;
        for entry in fs::read_dir(&sources)? {
            let file = entry?.path();
            let Some(name) = file.file_name() else {
                continue;
            };
            if file
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                fs::write(crds.join(name), fs::read(&file)?)?;
                copied += 1;
            }
        }
        ensure!(copied > 0, "{} has no CRDs", sources.display());
        Ok(())
    }
}

fn module(name: &str) -> Module {
    Module::at(&format!("node/{name}"))
}

/// Returns a hash of the modules and of the Go version.
fn version() -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    for name in MODULES {
        module(name).hash_sources(&mut hasher)?;
    }
    module("probe")
        .run(&["env", "GOVERSION"])?
        .hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server and the kubelet come from different modules.
    #[test]
    fn a_node_has_the_kubernetes_version_of_the_federation() {
        let pinned = |module: &Path| {
            let text = fs::read_to_string(module.join("go.mod")).unwrap();
            let version = text.split("k8s.io/kubernetes v").nth(1)?;
            version.split_whitespace().next().map(str::to_owned)
        };
        let tools = crate::go::tools();
        let ours = pinned(&tools.join("node/kubernetes"));
        assert!(ours.is_some());
        assert_eq!(ours, pinned(&tools));
    }
}
