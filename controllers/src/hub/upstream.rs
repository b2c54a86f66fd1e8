//! The project's namespace that a hub object belongs to. It is read from the labels of the object
//! (docs/concepts/identity.md).

use std::fmt;

use api::identity::IdentityError;
use api::{ProjectName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::objects::{Namespace, StringMap};

/// A namespace of a project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Upstream {
    pub(crate) project: ProjectName,
    pub(crate) namespace: String,
}

impl Upstream {
    /// Reads the project and the namespace from their labels, in every form that a released version wrote.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] when a label is missing, empty or undecodable. The identity is never guessed (I-16).
    pub(crate) fn of(metadata: &ObjectMeta) -> Result<Self, IdentityError> {
        Ok(Self {
            project: ProjectName::from_label(read(metadata, labels::UPSTREAM_CLUSTER_NAME)?)?,
            namespace: read(metadata, labels::UPSTREAM_NAMESPACE)?.to_owned(),
        })
    }

    /// Returns the labels that identify this namespace.
    pub(crate) fn labels(&self) -> StringMap {
        let cluster = (
            labels::UPSTREAM_CLUSTER_NAME.to_owned(),
            self.project.to_label(),
        );
        let namespace = (
            labels::UPSTREAM_NAMESPACE.to_owned(),
            self.namespace.clone(),
        );
        StringMap::from([cluster, namespace])
    }

    /// Returns whether the labels of the hub namespace identify this namespace of the project.
    pub(crate) fn is_proved_by(&self, hub_namespace: Option<&Namespace>) -> bool {
        hub_namespace
            .is_some_and(|it| Self::of(it.meta()).is_ok_and(|identified| identified == *self))
    }

    /// Returns whether a label of the object identifies another project or another namespace. A missing or undecodable
    /// label is no contradiction.
    pub(crate) fn is_contradicted_by(&self, metadata: &ObjectMeta) -> bool {
        let namespace = read(metadata, labels::UPSTREAM_NAMESPACE);
        project(metadata).is_some_and(|project| project != self.project)
            || namespace.is_ok_and(|namespace| namespace != self.namespace)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.project, self.namespace)
    }
}

/// Returns the project that the labels identify.
pub(crate) fn project(metadata: &ObjectMeta) -> Option<ProjectName> {
    let label = read(metadata, labels::UPSTREAM_CLUSTER_NAME);
    label.and_then(ProjectName::from_label).ok()
}

fn read<'m>(metadata: &'m ObjectMeta, label: &'static str) -> Result<&'m str, IdentityError> {
    let value = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label));
    value
        .map(String::as_str)
        .filter(|value| !value.is_empty())
        .ok_or(IdentityError::LabelMissing { label })
}
