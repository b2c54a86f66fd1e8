//! The keys of the work queues.

use std::fmt;

use api::references::Source;
use api::{HubNamespace, ProjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::queue::Key;

use crate::hub::upstream::Upstream;

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

    /// Returns the key of the object with this metadata.
    pub(crate) fn of(project: &ProjectName, metadata: &ObjectMeta) -> Self {
        Self::new(
            project,
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl Key for ProjectKey {
    type Tenant = ProjectName;

    fn tenant(&self) -> &ProjectName {
        &self.project
    }
}

impl fmt::Debug for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.project, self.namespace, self.name)
    }
}

/// A ConfigMap or a Secret of a project.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourceKey {
    pub(crate) project: ProjectName,
    pub(crate) namespace: String,
    pub(crate) source: Source,
}

impl SourceKey {
    /// Returns the key of a source in the namespace of an object.
    pub(crate) fn new(of: &ProjectKey, source: &Source) -> Self {
        Self {
            project: of.project.clone(),
            namespace: of.namespace.clone(),
            source: source.clone(),
        }
    }
}

impl Key for SourceKey {
    type Tenant = ProjectName;

    fn tenant(&self) -> &ProjectName {
        &self.project
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.project, self.namespace, self.source)
    }
}

/// An Instance on the hub, and its projection of the same name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct InstanceKey {
    /// The project. `None` if the labels of the hub namespace identify no project.
    pub(crate) project: Option<ProjectName>,
    /// The namespace in the project. If `project` is `None`, the namespace on the hub.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl InstanceKey {
    /// Returns the key of an Instance whose project is known.
    pub(crate) fn of(upstream: &Upstream, name: &str) -> Self {
        Self {
            project: Some(upstream.project.clone()),
            namespace: upstream.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns the key of an Instance in a hub namespace without identity.
    pub(crate) fn on_hub(namespace: &str, name: &str) -> Self {
        Self {
            project: None,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl From<ProjectKey> for InstanceKey {
    fn from(key: ProjectKey) -> Self {
        Self {
            project: Some(key.project),
            namespace: key.namespace,
            name: key.name,
        }
    }
}

impl Key for InstanceKey {
    type Tenant = Option<ProjectName>;

    fn tenant(&self) -> &Option<ProjectName> {
        &self.project
    }
}

impl fmt::Debug for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plane = self.project.as_ref().map_or("hub", ProjectName::as_str);
        write!(f, "{plane}/{}/{}", self.namespace, self.name)
    }
}

/// An Instance in a cell, and the project whose quota it uses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimKey {
    /// The project. `None` if the Namespace in the cell does not identify it, or if the cell does not need to know it.
    pub(crate) project: Option<ProjectName>,
    /// The namespace in the cell.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ClaimKey {
    /// Returns the Instance.
    pub(crate) fn object(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl Key for ClaimKey {
    type Tenant = Option<ProjectName>;

    fn tenant(&self) -> &Option<ProjectName> {
        &self.project
    }
}

impl fmt::Debug for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The claims of the cell in a project.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LedgerKey(pub(crate) ProjectName);

impl Key for LedgerKey {
    type Tenant = ProjectName;

    fn tenant(&self) -> &ProjectName {
        &self.0
    }
}

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A hub namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HubKey {
    /// The project. `None` if the labels of the hub namespace identify no project.
    pub(crate) project: Option<ProjectName>,
    pub(crate) namespace: HubNamespace,
}

impl Key for HubKey {
    type Tenant = Option<ProjectName>;

    fn tenant(&self) -> &Option<ProjectName> {
        &self.project
    }
}

impl fmt::Debug for HubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.namespace)
    }
}

/// A namespaced object of the single API server that a controller works with.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    /// Returns the key of the object with this metadata.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl Key for ObjectKey {
    type Tenant = ();

    fn tenant(&self) -> &() {
        &()
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
