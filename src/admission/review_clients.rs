//! The clients that send access reviews.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::ProjectName;
use kube::Client;
use multicluster::connect::ConnectError;
use multicluster::projects::EngagedProject;

/// Makes a client of the API server of a project.
pub(crate) type ConnectProject =
    Box<dyn Fn(&ProjectName) -> Result<Client, ConnectError> + Send + Sync>;

/// Makes the clients of access reviews at their first use, in the runtime of the webhook server. They share no
/// connection with the clients of the main runtime. So a review changes no threads, and neither runtime depends on the
/// other.
pub(crate) struct ReviewClients {
    connect: ConnectProject,
    /// The client of each project that was reviewed. A project that is engaged anew can have another address.
    known: Mutex<HashMap<ProjectName, (Weak<EngagedProject>, Client)>>,
}

impl ReviewClients {
    pub(crate) fn new(connect: ConnectProject) -> Self {
        Self {
            connect,
            known: Mutex::default(),
        }
    }

    /// Returns the client for a project.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if no client can be made.
    pub(super) fn client(&self, project: &Arc<EngagedProject>) -> Result<Client, ConnectError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, client)) = known.get(project.name())
            && of.as_ptr() == Arc::as_ptr(project)
        {
            return Ok(client.clone());
        }
        let client = (self.connect)(project.name())?;
        known.retain(|_, (of, _)| of.strong_count() > 0);
        let of = Arc::downgrade(project);
        known.insert(project.name().clone(), (of, client.clone()));
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apiserver::ApiServer;
    use multicluster::projects::RegistryContext;
    use multicluster::{Metrics, ProjectRegistry, Tasks};

    use super::*;

    /// Engages the project `p`, and returns it with what keeps it engaged.
    fn engaged(server: &ApiServer) -> (ProjectRegistry, Tasks, Arc<EngagedProject>) {
        let (tasks, metrics) = (Tasks::default(), Metrics::default());
        let context = RegistryContext {
            tasks: &tasks,
            metrics: &metrics,
        };
        let name = ProjectName::new("p").unwrap();
        let registry = ProjectRegistry::single(&context, name.clone(), server.client());
        let registry = registry.begin(None);
        let project = registry.get(&name).unwrap();
        (registry, tasks, project)
    }

    #[tokio::test]
    async fn a_project_has_one_client_until_it_is_engaged_anew() {
        let server = ApiServer::new();
        let made = Arc::new(AtomicUsize::new(0));
        let clients = ReviewClients::new(Box::new({
            let (server, made) = (server.clone(), Arc::clone(&made));
            move |_| {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(server.client())
            }
        }));
        let made = || made.load(Ordering::Relaxed);
        let first = engaged(&server);
        for _ in 0..2 {
            clients.client(&first.2).unwrap();
            assert_eq!(made(), 1);
        }
        let second = engaged(&server);
        for _ in 0..2 {
            clients.client(&second.2).unwrap();
            assert_eq!(made(), 2);
        }
        assert_eq!(clients.known.lock().unwrap().len(), 1);
    }
}
