//! Prepares the managers that use Milo's projects.

use std::path::Path;
use std::sync::Arc;

use super::{Milo, MiloUser, lock};
use crate::federation::parts::manager_ports;
use crate::manager::{Manager, Role};
use crate::plane::Plane;
use crate::proxy::Proxy;

impl Milo {
    /// Prepares a replica for admission in all projects. Call `launch` to start it. It ends when it is dropped.
    ///
    /// # Errors
    ///
    /// When the files of the replica cannot be written.
    pub fn replica(&self, name: &str) -> anyhow::Result<Manager> {
        self.manager(name, None)
    }

    /// Prepares the management controllers for all projects, on this hub. Call `launch` to start them.
    ///
    /// # Errors
    ///
    /// When the files of the manager cannot be written.
    pub fn management(&self, name: &str, hub: &Plane) -> anyhow::Result<Manager> {
        self.manager(name, Some(hub))
    }

    /// Prepares the management controllers for the projects whose kubeconfigs are in a directory, on this hub. Call
    /// `launch` to start them.
    ///
    /// # Errors
    ///
    /// When the files of the manager cannot be written.
    pub fn management_of_directory(
        &self,
        name: &str,
        hub: &Plane,
        directory: &Path,
    ) -> anyhow::Result<Manager> {
        let role = Role::Kubeconfigs {
            name,
            directory,
            hub,
        };
        let ports = manager_ports(&mut lock(&self.ports))?;
        Manager::prepare(&self.paths.setup(), role, ports)
    }

    /// Prepares the management controllers for all projects, on this hub. The manager reaches the projects through the
    /// returned proxy, and the root without it.
    ///
    /// # Errors
    ///
    /// When the files of the manager cannot be written.
    pub async fn management_behind_proxy(
        &self,
        name: &str,
        hub: &Plane,
    ) -> anyhow::Result<(Manager, Proxy)> {
        let front = self.kubeconfig(&MiloUser::management(), None)?;
        let (pki, directory) = (self.paths.pki(), self.directory());
        let proxy = Proxy::start(pki, name, &front, directory, &Arc::default()).await?;
        let manager = self.manager_with(name, Some(hub), proxy.kubeconfig())?;
        Ok((manager, proxy))
    }

    fn manager(&self, name: &str, hub: Option<&Plane>) -> anyhow::Result<Manager> {
        // The manager must replace the path of this URL. The front serves nothing at the path itself.
        let path = "/projects/none/control-plane";
        let projects = self.kubeconfig_at(&user_of(hub), path)?;
        self.manager_with(name, hub, &projects)
    }

    fn manager_with(
        &self,
        name: &str,
        hub: Option<&Plane>,
        projects: &Path,
    ) -> anyhow::Result<Manager> {
        let discovery = self.kubeconfig(&user_of(hub), None)?;
        let role = Role::Milo {
            name,
            discovery: &discovery,
            projects,
            hub,
        };
        let ports = manager_ports(&mut lock(&self.ports))?;
        Manager::prepare(&self.paths.setup(), role, ports)
    }
}

/// Returns the user of a manager. A manager without a hub is a webhook server.
fn user_of(hub: Option<&Plane>) -> MiloUser {
    match hub {
        Some(_) => MiloUser::management(),
        None => MiloUser::webhook_server(),
    }
}
