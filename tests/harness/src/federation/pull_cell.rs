//! Cells in pull mode: Karmada's agent in the cell connects to the hub, and nothing connects to the cell. A lower hub can
//! be such a cell of the hub, and can have such a cell.
//!
//! The registration of the interpreter has a name. In the cell, it resolves to the interpreter of the cell; beside the
//! hub, to that of the management process.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::identity::{CLUSTER_SEPARATOR, cluster_of};
use api::karmada::Cluster;
use api::labels::{CITY_CODE, LOWER_HUB};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::parts::{manager_ports, our_crds, start_cell, start_etcd, start_in_cell};
use super::proxies::through;
use super::{CellConfig, Config, Federation, Managed, RunningCell, StartInputs};
use crate::manager::{Manager, get, manifest};
use crate::objects::apply_all;
use crate::plane::{Plane, PlanePorts, flag};
use crate::process::{ChildProcess, Program, StartCommand};
use crate::rights::PlaneUser;
use crate::site_proxy::ConnectProxy;
use crate::uplink::{Uplink, UplinkCut};
use crate::webhook_certificate::{INTERPRETER, OF_CELL, WebhookCertificate};
use crate::{karmada, registration, wait};

/// Program of the agent.
const AGENT: &str = "karmada-agent";
/// Address of the interpreter in a cell. Its port is that of the management process.
const IN_CELL: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Time limit for one step of the start.
const WITHIN: Duration = Duration::from_mins(1);

/// The agent of a pull cell, and its connections to the hub.
pub struct PullCell {
    command: StartCommand,
    /// The kubeconfig of the agent for the hub.
    kubeconfig: PathBuf,
    agent: Option<ChildProcess>,
    /// In front of the hub of the agent, and in front of the hub of compute-federation. Only below a lower hub, this is
    /// another one.
    uplinks: [Uplink; 2],
    interpreter: CellInterpreter,
}

/// The interpreter of a cell. Its certificate has an authority of its own.
struct CellInterpreter {
    process: ChildProcess,
    certificate: WebhookCertificate,
    port: u16,
    metrics: u16,
}

impl PullCell {
    /// Cuts all connections of the cell to the hubs, until the returned value is dropped.
    pub fn cut(&self) -> [UplinkCut; 2] {
        self.uplinks.each_ref().map(Uplink::cut)
    }

    /// Returns the certificate of the cell's interpreter.
    pub fn certificate(&mut self) -> &mut WebhookCertificate {
        &mut self.interpreter.certificate
    }

    /// Returns the address of the cell's interpreter.
    pub fn interpreter(&self) -> (Ipv4Addr, u16) {
        (IN_CELL, self.interpreter.port)
    }

    /// Returns the metrics of the cell's interpreter.
    ///
    /// # Errors
    ///
    /// When the interpreter does not answer.
    pub async fn interpreter_metrics(&self) -> anyhow::Result<String> {
        let process = &self.interpreter.process;
        let metrics = async { Ok(get(self.interpreter.metrics, "/metrics").await?.1) };
        process.while_running(metrics).await
    }

    /// Starts the agent. Kills it first if it runs.
    ///
    /// # Errors
    ///
    /// When the agent cannot be started.
    pub async fn restart_agent(&mut self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
        self.agent = Some(self.command.start().await?);
        Ok(())
    }

    /// Restarts the agent. Its requests to the hub then go through this proxy.
    ///
    /// # Errors
    ///
    /// When the agent cannot be started.
    pub async fn put_connect_proxy(&mut self, proxy: &ConnectProxy) -> anyhow::Result<()> {
        let file = self.kubeconfig.with_extension("connect");
        fs::write(
            &file,
            through(&fs::read_to_string(&self.kubeconfig)?, proxy),
        )?;
        let file = file.to_str().context("no UTF-8")?;
        self.command = self.command.with_flag("karmada-kubeconfig", file);
        self.restart_agent().await
    }

    /// Waits until the agent ends. Returns its exit code.
    ///
    /// # Errors
    ///
    /// When the agent does not run.
    pub async fn agent_ended(&self) -> anyhow::Result<i32> {
        let agent = self.agent.as_ref();
        let agent = agent.with_context(|| format!("{} does not run", self.command.name()))?;
        Ok(agent.ended().await)
    }
}

impl Federation {
    /// Adds a cell in pull mode to the running federation, with compute-federation. The agent of the cell `dfw.a1` connects
    /// to the lower hub `dfw`. A federation can have one such cell, because its interpreter has a fixed address.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends.
    pub async fn add_pull_cell(
        &mut self,
        config: &Config,
        cell: &CellConfig,
    ) -> anyhow::Result<PullCell> {
        require_mounts().await?;
        let (etcd_port, peer_port) = (self.ports.next()?, self.ports.next()?);
        let ports = PlanePorts::take(&mut self.ports, etcd_port)?;
        let manager_ports = manager_ports(&mut self.ports)?;
        let setup = self.setup(config);
        let etcd = format!("{}-etcd", cell.name);
        let etcd = start_etcd(&setup, &etcd, etcd_port, peer_port).await?;
        let crds = our_crds()?;
        let plane = etcd
            .while_running(start_cell(&setup, cell, ports, &crds))
            .await?;
        let planes = [&self.project, &self.hub, &plane];
        let (manager, provider) = start_in_cell(&setup, config, planes, manager_ports).await?;
        self.others.push(etcd);
        let running = RunningCell {
            plane,
            manager: Some(Managed::from(manager)),
            provider: Some(provider),
        };
        self.cells.insert(cell.name.clone(), running);
        let label = [CITY_CODE, &cell.city];
        self.start_agent(config, &cell.name, label).await
    }

    /// Adds a lower hub of the hub in pull mode, as [`add_lower_hub`](Self::add_lower_hub) adds one in push mode. Its cells
    /// are push cells of the lower hub. A federation can have one such lower hub, and no pull cell beside it.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends.
    pub async fn add_pull_lower_hub(
        &mut self,
        config: &Config,
        name: &str,
        city: &str,
        cells: &[&str],
    ) -> anyhow::Result<PullCell> {
        require_mounts().await?;
        self.start_lower_hub(config, name, city, cells).await?;
        let label = [LOWER_HUB, "true"];
        let pull = self.start_agent(config, name, label).await?;
        let labels = json!({"metadata": {"labels": {CITY_CODE: city}}});
        let clusters: Api<Cluster> = Api::all(self.hub.client());
        clusters
            .patch(name, &PatchParams::default(), &Patch::Merge(labels))
            .await?;
        Ok(pull)
    }

    /// Lets a cell or a lower hub join its hub in pull mode, with this label. The agent and the processes of
    /// compute-federation connect through uplinks.
    async fn start_agent(
        &mut self,
        config: &Config,
        name: &str,
        label: [&str; 2],
    ) -> anyhow::Result<PullCell> {
        let metrics = self.ports.next()?;
        let upper = self.upper_of(name)?.0.port();
        let uplinks = [
            Uplink::start(upper).await?,
            Uplink::start(self.hub.port()).await?,
        ];
        let [of_agent, of_managers] = &uplinks;
        for (user, manager) in self.managers_at(name) {
            let kubeconfig = self.through(of_managers, &user)?;
            let mut manager = manager.lock().await;
            manager.kill().await;
            manager.set_path("federation-kubeconfig", &kubeconfig);
            manager.restart().await?;
        }

        let beside_hub = match name.rsplit_once(CLUSTER_SEPARATOR) {
            Some((lower_hub, _)) => self.lower_hub_manager(lower_hub)?,
            None => self.management()?,
        };
        let webhook = beside_hub.lock().await.webhook_port();
        let setup = self.setup(config);
        let interpreter = CellInterpreter::start(&setup, name, webhook, metrics).await?;
        let (upper, _) = self.upper_of(name)?;
        self.join_authority(upper, &interpreter.certificate).await?;
        let of_hub = hosts(&self.directory, "hub", Ipv4Addr::LOCALHOST)?;
        let controllers = karmada::controllers_of(upper);
        resolve_in_controllers(&mut self.others, &controllers, &of_hub).await?;
        let (upper, cluster) = self.upper_of(name)?;
        // The hub has no such Service, so Karmada uses its DNS name.
        registration::lead_to_service(upper, webhook).await?;

        let plane = self.lower_hub(name).or_else(|_| self.cell(name))?;
        register(upper, plane, cluster, label).await?;
        let kubeconfig = self.through(of_agent, &PlaneUser::agent(cluster))?;
        let command = StartCommand::new(Program {
            name: &format!("{name}-agent"),
            path: config.peers.program(AGENT),
            args: karmada::agent_flags(cluster, plane.kubeconfig(), &kubeconfig),
            logs: &self.logs,
            remove: None,
        });
        let command = command.resolving(&hosts(&self.directory, name, IN_CELL)?);
        let agent = command.start().await?;
        agent
            .while_running(async {
                karmada::joined(upper, cluster).await?;
                karmada::renews_its_lease(upper, cluster).await
            })
            .await?;
        Ok(PullCell {
            command,
            kubeconfig,
            agent: Some(agent),
            uplinks,
            interpreter,
        })
    }

    /// Returns the processes of compute-federation in a cell, or of a lower hub and in its cells, and their users on the
    /// hub of the federation.
    fn managers_at(&self, name: &str) -> impl Iterator<Item = (PlaneUser, &Mutex<Manager>)> {
        let lower_hub = self.lower_hubs.get(name);
        let lower_hub = lower_hub.map(|it| (PlaneUser::lower_hub(name), &it.manager.manager));
        let cells = self.cells.iter();
        let cells = cells.filter(move |(cell, _)| *cell == name || cluster_of(cell) == name);
        let cells = cells.filter_map(|(cell, running)| {
            let manager = running.manager.as_ref()?;
            Some((PlaneUser::cell(cell), &manager.manager))
        });
        lower_hub.into_iter().chain(cells)
    }

    /// Adds the authority of the cell's interpreter to those of the processes beside the hubs, and waits until this hub has
    /// it.
    async fn join_authority(
        &self,
        hub: &Plane,
        of_cell: &WebhookCertificate,
    ) -> anyhow::Result<()> {
        let mut certificate = self.webhook_certificate.lock().await;
        certificate.join_authorities(vec![of_cell.authority_pem()])?;
        until_trusted_by(hub, &[certificate.authority_pem(), of_cell.authority_pem()]).await
    }

    /// Waits until the interpreter's registration on the hub has exactly these authorities, in PEM.
    ///
    /// # Errors
    ///
    /// When the time is over.
    pub async fn until_trusted(&self, authorities: &[String]) -> anyhow::Result<()> {
        until_trusted_by(&self.hub, authorities).await
    }

    /// Writes a kubeconfig of this user that leads through the uplink to the hub.
    fn through(&self, uplink: &Uplink, user: &PlaneUser) -> anyhow::Result<PathBuf> {
        let name = format!("uplink-{}.kubeconfig", user.name.replace(':', "-"));
        let file = self.directory.join(name);
        fs::write(&file, self.pki.user_kubeconfig(uplink.port(), user)?)
            .with_context(|| file.display().to_string())?;
        Ok(file)
    }
}

impl CellInterpreter {
    async fn start(
        setup: &StartInputs<'_>,
        cell: &str,
        port: u16,
        metrics: u16,
    ) -> anyhow::Result<Self> {
        let directory = setup
            .directory
            .join(format!("{cell}-interpreter-certificate"));
        let certificate = WebhookCertificate::create(&directory, OF_CELL)?;
        let process = ChildProcess::start(Program {
            name: &format!("{cell}-interpreter"),
            path: setup.binary.to_owned(),
            args: vec![
                "interpreter".into(),
                format!("--bind-address={IN_CELL}").into(),
                format!("--port={port}").into(),
                flag("cert-dir", &directory),
                format!("--metrics-bind-address=127.0.0.1:{metrics}").into(),
                "--certificate-poll=100ms".into(),
            ],
            logs: setup.logs,
            remove: None,
        })
        .await?;
        let answers = async {
            wait::eventually("the interpreter of the cell serves", WITHIN, || async {
                TcpStream::connect((IN_CELL, port)).await?;
                Ok(())
            })
            .await
        };
        process.while_running(answers).await?;
        Ok(Self {
            process,
            certificate,
            port,
            metrics,
        })
    }
}

/// Waits until the interpreter's registration on this hub has exactly these authorities, in PEM.
async fn until_trusted_by(hub: &Plane, authorities: &[String]) -> anyhow::Result<()> {
    let wanted = authorities.iter().map(|pem| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())?;
        anyhow::Ok(der.to_vec())
    });
    let wanted: BTreeSet<_> = wanted.collect::<anyhow::Result<_>>()?;
    wait::eventually("the caBundle is joined", WITHIN, || async {
        let bundle = registration::ca_bundle(hub).await?;
        let authorities = CertificateDer::pem_slice_iter(&bundle);
        let bundle = authorities.map(|it| anyhow::Ok(it?.to_vec()));
        let bundle: BTreeSet<_> = bundle.collect::<anyhow::Result<_>>()?;
        let count = bundle.len();
        ensure!(bundle == wanted, "it has {count} authorities");
        Ok(())
    })
    .await
}

/// Checks that this user may mount in a namespace of its own.
async fn require_mounts() -> anyhow::Result<()> {
    let command = StartCommand::new(Program {
        name: "mounts",
        path: "true".into(),
        args: Vec::new(),
        logs: &std::env::temp_dir(),
        remove: None,
    });
    let hosts = Path::new("/etc/hosts");
    let output = command.resolving(hosts).output().await?;
    ensure!(
        output.status.success(),
        "tests of pull cells mount a file in a namespace of their own, and this user may not: run as root with \
         CAP_SYS_ADMIN, or allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0): {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Writes a file in which the name of the interpreter's Service resolves to this address.
fn hosts(directory: &Path, name: &str, address: Ipv4Addr) -> anyhow::Result<PathBuf> {
    let (service, namespace) = INTERPRETER;
    let file = directory.join(format!("{name}-hosts"));
    let lines = format!("127.0.0.1 localhost\n{address} {service}.{namespace}.svc\n");
    fs::write(&file, lines).with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Restarts Karmada's controllers, a process of this name, with this file of host names.
async fn resolve_in_controllers(
    processes: &mut Vec<ChildProcess>,
    name: &str,
    hosts: &Path,
) -> anyhow::Result<()> {
    let is_it = |it: &ChildProcess| it.name() == name;
    let index = processes.iter().position(is_it);
    let index = index.context("Karmada's controllers do not run")?;
    let controllers = processes.remove(index);
    let command = controllers.again().resolving(hosts);
    controllers.kill().await;
    processes.push(command.start().await?);
    Ok(())
}

/// Applies the objects and the roles of the cell to the hub. Its Cluster has this name and gets this label.
async fn register(
    hub: &Plane,
    cell: &Plane,
    cluster: &str,
    [label, value]: [&str; 2],
) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(cell.client());
    let system = namespaces.get("kube-system").await?;
    let text = manifest("pull-cell/hub.yaml")?
        .replace("CELL-NAME", cluster)
        .replace("CELL-UID", &system.uid().context("no UID")?)
        .replace(
            &format!("{CITY_CODE}: CITY-CODE"),
            &format!("{label}: {value:?}"),
        );
    apply_all(&hub.client(), &text).await
}
