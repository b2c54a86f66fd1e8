//! What the work queues hold.

use std::fmt;

use api::{HubNamespace, ProjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planes::queue::Key;

/// An object of a project's API server.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProjectKey {
    pub(crate) project: ProjectName,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ProjectKey {
    pub(crate) fn new(project: &ProjectName, namespace: &str, name: &str) -> Self {
        Self {
            project: project.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key of the object with this metadata.
    pub(crate) fn of(project: &ProjectName, metadata: &ObjectMeta) -> Self {
        Self::new(
            project,
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl Key for ProjectKey {
    type Group = ProjectName;

    fn group(&self) -> &ProjectName {
        &self.project
    }
}

impl fmt::Debug for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.project, self.namespace, self.name)
    }
}

/// A namespace on the hub.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HubKey {
    /// Whose it is; nothing where its labels do not say so.
    pub(crate) project: Option<ProjectName>,
    pub(crate) namespace: HubNamespace,
}

impl Key for HubKey {
    type Group = Option<ProjectName>;

    fn group(&self) -> &Option<ProjectName> {
        &self.project
    }
}

impl fmt::Debug for HubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.namespace)
    }
}

/// A namespaced object of the one API server that a controller works on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of the object with this metadata.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl Key for ObjectKey {
    type Group = ();

    fn group(&self) -> &() {
        &()
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
