//! Puts proxies between the management controllers and their API servers.

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

    pub(super) async fn reach(&self, project: &Path, hub: &Path) -> anyhow::Result<()> {
        let mut management = self.management()?.lock().await;
        management.kill().await;
        management.set_path("kubeconfig", project);
        management.set_path("federation-kubeconfig", hub);
        management.restart().await
    }
}
