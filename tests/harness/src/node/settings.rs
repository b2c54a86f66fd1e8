//! The command lines and configuration files of a node's programs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::init::NodeCommand;
use super::pki::FRONT_PROXY;
use super::programs::NodePrograms;
use super::slot::Slot;
use crate::peers::Peers;
use crate::plane::{audit_policy, flag};

/// The image of the first process of a Pod.
pub(crate) const PAUSE: &str = "localhost/pause:1";
/// The socket of containerd, as the node sees it.
pub(crate) const CONTAINERD: &str = "/run/containerd/containerd.sock";
/// Folder of the certificates in the directory of a node.
pub(crate) const PKI: &str = "pki";

/// Where the programs and the files of a node are.
pub(crate) struct Settings<'a> {
    pub(crate) name: &'a str,
    pub(crate) slot: Slot,
    pub(crate) directory: &'a Path,
    pub(crate) peers: &'a Peers,
    pub(crate) programs: &'a NodePrograms,
}

impl Settings<'_> {
    /// Returns the programs that start first: etcd, containerd and the API server with these additional flags.
    pub(crate) fn control_plane(&self, apiserver_flags: &[OsString]) -> Vec<NodeCommand> {
        let etcd = [
            flag("data-dir", self.data("etcd")),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ];
        let containerd = [flag("config", self.file("containerd.toml"))];
        let apiserver = [self.apiserver(), apiserver_flags.to_vec()].concat();
        vec![
            self.command(self.peers.program("etcd"), etcd.into()),
            self.command(self.programs.program("containerd"), containerd.into()),
            self.command(self.peers.program("kube-apiserver"), apiserver),
        ]
    }

    /// Returns the programs that start when the API server is ready.
    pub(crate) fn others(&self) -> Vec<NodeCommand> {
        let own = |name: &str, args: Vec<OsString>| self.command(self.programs.program(name), args);
        let controller_manager = self.peers.program("kube-controller-manager");
        vec![
            self.command(controller_manager, self.controller_manager()),
            own(
                "kube-scheduler",
                vec![
                    flag("kubeconfig", self.pki("scheduler.kubeconfig")),
                    "--leader-elect=false".into(),
                    "--profiling=false".into(),
                ],
            ),
            own(
                "kubelet",
                vec![
                    flag("config", self.file("kubelet.yaml")),
                    flag("kubeconfig", self.pki("kubelet.kubeconfig")),
                    flag("hostname-override", self.name),
                    flag("node-ip", self.slot.address().to_string()),
                ],
            ),
            own(
                "kube-proxy",
                vec![flag("config", self.file("kube-proxy.yaml"))],
            ),
        ]
    }

    fn command(&self, program: PathBuf, args: Vec<OsString>) -> NodeCommand {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let log = self.file("logs").join(format!("{name}.log"));
        NodeCommand { program, args, log }
    }

    fn apiserver(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = [
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0",
            "--secure-port=6443",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            "--kubelet-preferred-address-types=InternalIP",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--profiling=false",
            "--audit-log-mode=blocking",
        ]
        .map(OsString::from)
        .into();
        args.extend([
            flag("advertise-address", self.slot.address().to_string()),
            // Other API servers can find the keys of this issuer.
            flag("service-account-issuer", self.slot.url()),
            flag("service-cluster-ip-range", self.slot.services()),
            flag("client-ca-file", self.pki("ca.crt")),
            flag("tls-cert-file", self.pki("server.crt")),
            flag("tls-private-key-file", self.pki("server.key")),
            flag(
                "kubelet-client-certificate",
                self.pki("apiserver-kubelet.crt"),
            ),
            flag("kubelet-client-key", self.pki("apiserver-kubelet.key")),
            flag("kubelet-certificate-authority", self.pki("ca.crt")),
            flag("service-account-key-file", self.pki("sa.pub")),
            flag("service-account-signing-key-file", self.pki("sa.key")),
            flag("proxy-client-cert-file", self.pki("front-proxy.crt")),
            flag("proxy-client-key-file", self.pki("front-proxy.key")),
            flag("requestheader-client-ca-file", self.pki("ca.crt")),
            flag("requestheader-allowed-names", FRONT_PROXY),
            flag("audit-policy-file", self.file("audit-policy.yaml")),
            flag("audit-log-path", self.audit_log()),
        ]);
        args
    }

    fn controller_manager(&self) -> Vec<OsString> {
        vec![
            flag("kubeconfig", self.pki("controller-manager.kubeconfig")),
            flag("service-account-private-key-file", self.pki("sa.key")),
            flag("root-ca-file", self.pki("ca.crt")),
            flag("cluster-signing-cert-file", self.pki("ca.crt")),
            flag("cluster-signing-key-file", self.pki("ca.key")),
            // The default is a directory of the host.
            flag("flex-volume-plugin-dir", VOLUME_PLUGINS),
            "--use-service-account-credentials".into(),
            "--leader-elect=false".into(),
            "--profiling=false".into(),
        ]
    }

    /// Returns the path of the audit log.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.file("logs").join("audit.log")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn data(&self, name: &str) -> PathBuf {
        self.directory.join("data").join(name)
    }

    fn pki(&self, name: &str) -> PathBuf {
        self.directory.join(PKI).join(name)
    }

    /// Writes the configuration files.
    pub(crate) fn write_files(&self) -> anyhow::Result<()> {
        let network = "cni/10-pods.conflist";
        for (name, text) in [
            ("audit-policy.yaml", audit_policy()),
            ("containerd.toml", self.containerd()),
            ("kubelet.yaml", self.kubelet()),
            ("kube-proxy.yaml", self.kube_proxy()),
            (network, self.pod_network()),
        ] {
            let path = self.file(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    fn containerd(&self) -> String {
        let root = self.data("containerd");
        let (opt, cni) = (self.data("opt"), self.file("cni"));
        format!(
            "version = 3\n\
             root = '{}'\n\
             state = '/run/containerd'\n\
             [plugins.'io.containerd.internal.v1.opt']\n\
             path = '{}'\n\
             [plugins.'io.containerd.nri.v1.nri']\n\
             disable = true\n\
             [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
             sandbox = '{PAUSE}'\n\
             [plugins.'io.containerd.cri.v1.runtime']\n\
             disable_apparmor = true\n\
             # Without the capability CAP_SYS_RESOURCE, runc could not lower the value.\n\
             restrict_oom_score_adj = true\n\
             [plugins.'io.containerd.cri.v1.runtime'.cni]\n\
             bin_dirs = ['{}']\n\
             conf_dir = '{}'\n\
             [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n\
             runtime_type = 'io.containerd.runc.v2'\n\
             [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n\
             BinaryName = '{}'\n\
             SystemdCgroup = false\n",
            root.display(),
            opt.display(),
            self.programs.cni().display(),
            cni.display(),
            self.programs.program("runc").display(),
        )
    }

    fn kubelet(&self) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             address: {}\n\
             authentication:\n\
             \x20 anonymous: {{enabled: false}}\n\
             \x20 webhook: {{enabled: true}}\n\
             \x20 x509: {{clientCAFile: '{}'}}\n\
             authorization: {{mode: Webhook}}\n\
             tlsCertFile: '{}'\n\
             tlsPrivateKeyFile: '{}'\n\
             containerRuntimeEndpoint: 'unix://{CONTAINERD}'\n\
             cgroupDriver: cgroupfs\n\
             cgroupRoot: /{}\n\
             failCgroupV1: false\n\
             failSwapOn: false\n\
             clusterDomain: cluster.local\n\
             clusterDNS: ['{}']\n\
             resolvConf: ''\n\
             volumePluginDir: {VOLUME_PLUGINS}\n\
             imageGCHighThresholdPercent: 100\n\
             evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}\n",
            self.slot.address(),
            self.pki("ca.crt").display(),
            self.pki("kubelet-server.crt").display(),
            self.pki("kubelet-server.key").display(),
            self.slot.name(),
            self.slot.dns_service(),
        )
    }

    /// The limits of the connection tracking belong to the host, so kube-proxy must not set them.
    fn kube_proxy(&self) -> String {
        format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
             kind: KubeProxyConfiguration\n\
             clientConnection: {{kubeconfig: '{}'}}\n\
             mode: iptables\n\
             clusterCIDR: {}\n\
             hostnameOverride: {}\n\
             conntrack: {{maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}\n",
            self.pki("proxy.kubeconfig").display(),
            self.slot.pods(),
            self.name,
        )
    }

    fn pod_network(&self) -> String {
        let network = serde_json::json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": true,
                    "ipMasq": true,
                    "hairpinMode": true,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": self.slot.pods()}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        });
        network.to_string()
    }
}

/// Directory for volume plugins that are programs. No node has such plugins.
const VOLUME_PLUGINS: &str = "/var/lib/kubelet/volume-plugins";
