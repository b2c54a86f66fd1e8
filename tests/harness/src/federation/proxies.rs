//! Puts proxies between compute-federation and its API servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::karmada::Cluster;
use api::rights::{NAMESPACE, SERVICE_ACCOUNT};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use multicluster::connect;
use serde_json::json;

use super::Federation;
use crate::objects;
use crate::plane::Plane;
use crate::proxy::{Proxy, WriteCounter};
use crate::rights::PlaneUser;
use crate::site_proxy::{ConnectProxy, ConnectionLimits, ReverseProxy};

/// The paths below which the reverse proxies serve the project and the hub.
const PREFIXES: [&str; 2] = ["/sites/project", "/sites/hub"];

/// The proxies in front of the API servers of the management plane.
pub struct Proxies {
    /// In front of the project's API server.
    pub project: Proxy,
    /// In front of Karmada's API server.
    pub hub: Proxy,
    /// Counts the writes through both proxies.
    pub writes: Arc<WriteCounter>,
}

impl Proxies {
    /// Returns both proxies.
    pub fn all(&self) -> [&Proxy; 2] {
        [&self.project, &self.hub]
    }
}

/// The proxies in front of the API servers that compute-federation in a cell uses.
pub struct CellProxies {
    /// In front of the cell's API server.
    pub cell: Proxy,
    /// In front of Karmada's API server.
    pub hub: Proxy,
    /// In front of the project's API server, where the cell claims quota.
    pub quota: Proxy,
    /// Counts the writes through all three proxies.
    pub writes: Arc<WriteCounter>,
}

impl Federation {
    /// Restarts compute-federation in the management plane. Its requests then go through proxies.
    ///
    /// # Errors
    ///
    /// When compute-federation does not become ready.
    pub async fn put_proxies(&self) -> anyhow::Result<Proxies> {
        let (writes, user) = (Arc::default(), PlaneUser::manager());
        let proxy = |plane: &'_ Plane| {
            let (name, upstream) = (plane.name().to_owned(), plane.kubeconfig_of(&user));
            let writes = &writes;
            async move { Proxy::start(&self.pki, &name, &upstream?, &self.directory, writes).await }
        };
        let (project, hub) = tokio::try_join!(proxy(&self.project), proxy(&self.hub))?;
        self.reach(project.kubeconfig(), hub.kubeconfig()).await?;
        Ok(Proxies {
            project,
            hub,
            writes,
        })
    }

    /// Restarts compute-federation in the management plane. Its requests then go through reverse proxies, with a token
    /// for each API server. The first proxy is in front of the project, the second in front of the hub.
    ///
    /// # Errors
    ///
    /// When compute-federation does not become ready.
    pub async fn put_reverse_proxies(
        &self,
        limits: ConnectionLimits,
    ) -> anyhow::Result<[ReverseProxy; 2]> {
        let [project, hub] = [(&self.project, PREFIXES[0]), (&self.hub, PREFIXES[1])].map(
            async |(plane, prefix)| {
                let proxy =
                    ReverseProxy::start(&self.pki, plane, prefix, limits, &self.directory).await?;
                let metadata = json!({"name": NAMESPACE});
                let namespace =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
                objects::apply(&plane.client(), &namespace).await?;
                let token = objects::token(&plane.client(), NAMESPACE, SERVICE_ACCOUNT).await?;
                let credentials = format!("{{token: {token}}}");
                let file = format!("{}-reverse-proxy.kubeconfig", plane.name());
                let file = self.directory.join(file);
                fs::write(&file, self.pki.kubeconfig_of(&proxy.url(), &credentials))?;
                anyhow::Ok((proxy, file))
            },
        );
        let ((project, of_project), (hub, of_hub)) = tokio::try_join!(project, hub)?;
        self.reach(&of_project, &of_hub).await?;
        Ok([project, hub])
    }

    /// Restarts compute-federation in a cell. Its requests to the hub then go through this proxy.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or compute-federation does not become ready.
    pub async fn put_connect_proxy(&self, cell: &str, proxy: &ConnectProxy) -> anyhow::Result<()> {
        let direct = self
            .pki
            .user_kubeconfig(self.hub.port(), &PlaneUser::cell(cell))?;
        let file = self.directory.join(format!("{cell}-connect.kubeconfig"));
        fs::write(&file, through(&direct, proxy))?;
        let mut manager = self.cell_manager(cell)?.lock().await;
        manager.kill().await;
        manager.set_path("federation-kubeconfig", &file);
        manager.restart().await
    }

    /// Returns a client that reaches the hub through a reverse proxy with a client certificate of all rights.
    ///
    /// # Errors
    ///
    /// When the client cannot be made.
    pub async fn with_client_certificate(&self, proxy: &ReverseProxy) -> anyhow::Result<Client> {
        let direct = fs::read_to_string(self.hub.kubeconfig())?;
        let server = format!("https://127.0.0.1:{}", self.hub.port());
        let file = self.directory.join("certificate-reverse-proxy.kubeconfig");
        fs::write(&file, direct.replace(&server, &proxy.url()))?;
        let config = connect::kubeconfig(&file, None).await?;
        Ok(connect::client(config, "harness")?)
    }

    /// Leads the requests of Karmada to a push cell through a proxy. Watches that are open already stay as they are.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or the hub refuses the change of its Cluster.
    pub async fn put_proxy_before_cell(&self, cell: &str) -> anyhow::Result<Proxy> {
        let (name, upstream) = (format!("karmada-{cell}"), self.cell(cell)?.kubeconfig());
        let writes = Arc::default();
        let proxy = Proxy::start(&self.pki, &name, upstream, &self.directory, &writes).await?;
        let through = connect::kubeconfig(proxy.kubeconfig(), None).await?;
        let url = through.config.cluster_url.to_string();
        let change = json!({"spec": {"apiEndpoint": url.trim_end_matches('/')}});
        let clusters: Api<Cluster> = Api::all(self.hub.client());
        let params = PatchParams::default();
        clusters.patch(cell, &params, &Patch::Merge(change)).await?;
        Ok(proxy)
    }

    /// Undoes [`put_proxies`](Self::put_proxies). Restarts compute-federation again.
    ///
    /// # Errors
    ///
    /// When compute-federation does not become ready.
    pub async fn take_proxies(&self) -> anyhow::Result<()> {
        self.manage_with(&self.hub).await
    }

    /// Restarts compute-federation in a cell that enforces quota. Its requests then go through proxies.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or compute-federation does not become ready.
    pub async fn put_cell_proxies(&self, name: &str) -> anyhow::Result<CellProxies> {
        let writes = Arc::<WriteCounter>::default();
        let [of_cell, of_hub, of_quota] = cell_users(name);
        let upstreams = [
            (self.cell(name)?, of_cell, name.to_owned()),
            (&self.hub, of_hub, format!("{name}-hub")),
            (&self.project, of_quota, format!("{name}-quota")),
        ];
        let proxies =
            upstreams.map(|(plane, user, label)| {
                let (upstream, writes) = (plane.kubeconfig_of(&user), Arc::clone(&writes));
                async move {
                    Proxy::start(&self.pki, &label, &upstream?, &self.directory, &writes).await
                }
            });
        let [cell, hub, quota] = proxies;
        let (cell, hub, quota) = tokio::try_join!(cell, hub, quota)?;
        let proxies = CellProxies {
            cell,
            hub,
            quota,
            writes,
        };
        self.use_cell_proxies(name, &proxies).await?;
        Ok(proxies)
    }

    /// Restarts compute-federation in a cell behind these proxies of the cell.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or compute-federation does not become ready.
    pub async fn use_cell_proxies(&self, name: &str, proxies: &CellProxies) -> anyhow::Result<()> {
        let CellProxies {
            cell, hub, quota, ..
        } = proxies;
        let reached = [cell, hub, quota].map(Proxy::kubeconfig);
        self.reach_from_cell(name, reached).await
    }

    /// Restarts compute-federation in a cell that enforces quota. Its requests then go through no proxy.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or compute-federation does not become ready.
    pub async fn take_cell_proxies(&self, name: &str) -> anyhow::Result<()> {
        let [of_cell, of_hub, of_quota] = cell_users(name);
        let reached = [
            self.cell(name)?.kubeconfig_of(&of_cell)?,
            self.hub.kubeconfig_of(&of_hub)?,
            self.project.kubeconfig_of(&of_quota)?,
        ];
        let reached = reached.each_ref().map(PathBuf::as_path);
        self.reach_from_cell(name, reached).await
    }

    /// Restarts compute-federation in a cell with these kubeconfigs of the cell, of the hub and for quota.
    async fn reach_from_cell(
        &self,
        name: &str,
        [cell, hub, quota]: [&Path; 3],
    ) -> anyhow::Result<()> {
        let mut manager = self.cell_manager(name)?.lock().await;
        manager.kill().await;
        manager.set_path("kubeconfig", cell);
        manager.set_path("federation-kubeconfig", hub);
        manager.set_quota_kubeconfig(quota)?;
        manager.restart().await
    }

    pub(super) async fn reach(&self, project: &Path, hub: &Path) -> anyhow::Result<()> {
        let mut management = self.management()?.lock().await;
        management.kill().await;
        management.set_path("kubeconfig", project);
        management.set_path("federation-kubeconfig", hub);
        management.restart().await
    }
}

/// Returns the kubeconfig of the harness with this proxy.
pub(super) fn through(direct: &str, proxy: &ConnectProxy) -> String {
    direct.replace("server:", &format!("proxy-url: '{}', server:", proxy.url()))
}

/// Returns the users of compute-federation of a cell: in the cell, on the hub and in the project.
fn cell_users(name: &str) -> [PlaneUser; 3] {
    [
        PlaneUser::manager(),
        PlaneUser::cell(name),
        PlaneUser::quota(),
    ]
}
