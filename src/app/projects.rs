//! The projects of this process: a single project, the projects of Milo, or those of a directory of kubeconfigs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use api::ProjectName;
use controllers::management_controllers::Management;
use kube::Client;
use multicluster::projects::{
    DiscoveryKind, KubeconfigDirectory, ProjectHandler, RegistryBuilder, RegistryContext,
};
use multicluster::{ProjectRegistry, connect};

use super::clusters;
use super::context::AppContext;
use crate::config::DiscoveryMode;
use crate::user_agent::user_agent;

/// Name of the only project in `discovery.mode: single` (docs/reference/config.md).
const SINGLE: &str = "single";

/// The project registry before discovery has begun (`RegistryBuilder`) or after that (`ProjectRegistry`).
pub(super) struct DiscoveredProjects<P> {
    pub(super) projects: P,
    /// The only project, in `discovery.mode: single`.
    pub(super) only: Option<ProjectName>,
    /// A client of the API server with the registration of the admission webhooks. `None` with internal service
    /// discovery, because the process has no kubeconfig of that API server, and with a directory of kubeconfigs, because
    /// each project has its own registration.
    pub(super) registered: Option<Client>,
}

impl DiscoveredProjects<RegistryBuilder> {
    /// Begins to discover projects. If the management controllers are enabled, they handle each project.
    pub(super) fn begin(
        self,
        management: Option<Management>,
    ) -> DiscoveredProjects<ProjectRegistry> {
        let handler = management.map(|management| Arc::new(management) as Arc<dyn ProjectHandler>);
        DiscoveredProjects {
            projects: self.projects.begin(handler),
            only: self.only,
            registered: self.registered,
        }
    }
}

/// Returns the registry. Returns `None` if the own cluster would be the only project and there is no own cluster.
///
/// # Errors
///
/// If a kubeconfig cannot be loaded, or if no client can be made from it.
pub(super) async fn registry(
    context: &AppContext,
    discovery: &DiscoveryMode,
    own: Option<Client>,
) -> anyhow::Result<Option<DiscoveredProjects<RegistryBuilder>>> {
    let role = match context.args.roles.enable_management_controllers {
        true => "management",
        false => "admission",
    };
    let registry = RegistryContext {
        // Admission reads the projects until the last request is answered. The tasks of the registry therefore stop
        // with the servers.
        tasks: &context.servers.tasks,
        metrics: &context.planes_metrics,
    };
    let milo = match discovery {
        DiscoveryMode::Single => {
            let Some(client) = own else {
                return Ok(None);
            };
            let name = ProjectName::new(SINGLE)?;
            return Ok(Some(DiscoveredProjects {
                projects: ProjectRegistry::single(&registry, name.clone(), client.clone()),
                only: Some(name),
                registered: Some(client),
            }));
        }
        DiscoveryMode::Kubeconfigs(directory) => {
            let directory = KubeconfigDirectory {
                directory: directory.clone(),
                user_agent: user_agent(role),
                leadership: context.leadership.clone(),
            };
            return Ok(Some(DiscoveredProjects {
                projects: ProjectRegistry::of_directory(&registry, directory),
                only: None,
                registered: None,
            }));
        }
        DiscoveryMode::Milo(milo) => milo,
    };
    let config = async |field, path: &Option<PathBuf>| {
        let path = path.as_deref().or(context.args.kubeconfig.0.as_deref());
        let config = connect::own_cluster(path).await;
        config.with_context(|| format!("discovery.{field}"))
    };
    let root = config("discoveryKubeconfigPath", &milo.discovery_kubeconfig).await?;
    let client = clusters::client(context, &root, "discovery")?;
    let discovery = multicluster::projects::DiscoveryConfig {
        client: client.clone(),
        kind: match milo.internal_service_discovery {
            true => DiscoveryKind::ProjectControlPlane,
            false => DiscoveryKind::Project,
        },
        template: config("projectKubeconfigPath", &milo.project_kubeconfig).await?,
        user_agent: user_agent(role),
        leadership: context.leadership.clone(),
    };
    Ok(Some(DiscoveredProjects {
        projects: ProjectRegistry::discover(&registry, discovery)
            .context("discovery.projectKubeconfigPath")?,
        only: None,
        // Webhooks are registered in Milo's root API server. With internal service discovery, the discovery client
        // reaches the infrastructure cluster instead.
        registered: (!milo.internal_service_discovery).then_some(client),
    }))
}
