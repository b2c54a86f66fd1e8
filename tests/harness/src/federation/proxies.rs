//! Puts proxies between compute-federation and its API servers.

use std::path::Path;
use std::sync::Arc;

use super::Federation;
use crate::plane::Plane;
use crate::proxy::{Proxy, WriteCounter};
use crate::rights::PlaneUser;

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
        let users = [
            (self.cell(name)?, PlaneUser::manager(), name.to_owned()),
            (&self.hub, PlaneUser::cell(name), format!("{name}-hub")),
            (&self.project, PlaneUser::quota(), format!("{name}-quota")),
        ];
        let proxies =
            users.map(|(plane, user, label)| {
                let (upstream, writes) = (plane.kubeconfig_of(&user), Arc::clone(&writes));
                async move {
                    Proxy::start(&self.pki, &label, &upstream?, &self.directory, &writes).await
                }
            });
        let [cell, hub, quota] = proxies;
        let (cell, hub, quota) = tokio::try_join!(cell, hub, quota)?;
        let mut manager = self.cell_manager(name)?.lock().await;
        manager.kill().await;
        manager.set_path("kubeconfig", cell.kubeconfig());
        manager.set_path("federation-kubeconfig", hub.kubeconfig());
        manager.set_quota_kubeconfig(quota.kubeconfig())?;
        manager.restart().await?;
        Ok(CellProxies {
            cell,
            hub,
            quota,
            writes,
        })
    }

    pub(super) async fn reach(&self, project: &Path, hub: &Path) -> anyhow::Result<()> {
        let mut management = self.management()?.lock().await;
        management.kill().await;
        management.set_path("kubeconfig", project);
        management.set_path("federation-kubeconfig", hub);
        management.restart().await
    }
}
