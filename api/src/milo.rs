//! The used parts of Milo's API: projects, their suspension, and the claims that name the project of a request. Unknown
//! fields are tolerated. See docs/concepts/milo.md.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// API group of Project, and the value of [`PARENT_API_GROUP`] in a request to a project.
pub const RESOURCE_MANAGER_GROUP: &str = "resourcemanager.miloapis.com";

/// Condition of a Project: its API can be used.
pub const READY: &str = "Ready";
/// Condition of a Project: creates and updates are refused while it is True. Reads and deletes are served.
pub const SUSPENDED: &str = "Suspended";
/// Cause in the details of a 403 that a suspended project answers with.
pub const PROJECT_SUSPENDED: &str = "ProjectSuspended";
/// Condition of a ProjectControlPlane: its API can be used.
pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";

/// Key of a user's Extra: kind of the parent that the request was sent to, `Project` for a project. Each of these keys
/// has one value.
pub const PARENT_TYPE: &str = "iam.miloapis.com/parent-type";
/// Key of a user's Extra: name of the project, without a prefix.
pub const PARENT_NAME: &str = "iam.miloapis.com/parent-name";
/// Key of a user's Extra: the API group of the kind in [`PARENT_TYPE`].
pub const PARENT_API_GROUP: &str = "iam.miloapis.com/parent-api-group";
/// Value of [`PARENT_TYPE`] in a request to a project.
pub const PARENT_TYPE_PROJECT: &str = "Project";

/// A customer's project. It has its own API server.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "resourcemanager.miloapis.com",
    version = "v1alpha1",
    kind = "Project",
    plural = "projects",
    schema = "disabled",
    no_spec,
    derive = "PartialEq",
    status = "ConditionsStatus"
)]
pub struct ProjectSpec {}

/// The API server of the project of the same name. The object is in the infrastructure cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "infrastructure.miloapis.com",
    version = "v1alpha1",
    kind = "ProjectControlPlane",
    plural = "projectcontrolplanes",
    schema = "disabled",
    no_spec,
    derive = "PartialEq",
    status = "ConditionsStatus"
)]
pub struct ProjectControlPlaneSpec {}

/// A status. Only its conditions are used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ConditionsStatus {
    /// Conditions of the object.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use kube::api::ObjectMeta;
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::condition;

    #[test]
    fn projects_are_addressed_as_milo_serves_them() {
        assert_eq!(
            Project::url_path(&(), None),
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects"
        );
        assert_eq!(
            ProjectControlPlane::url_path(&(), None),
            "/apis/infrastructure.miloapis.com/v1alpha1/projectcontrolplanes"
        );
    }

    #[test]
    fn a_project_as_it_is_served_can_be_read() {
        let project: Project = serde_json::from_value(json!({
            "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
            "kind": "Project",
            "metadata": {"name": "p1"},
            "spec": {"ownerRef": {"kind": "Organization", "name": "o"}},
            "status": {
                "conditions": [
                    {
                        "type": "Ready", "status": "Unknown", "reason": "Unknown",
                        "message": "Waiting for control plane to reconcile", "lastTransitionTime": "1970-01-01T00:00:00Z",
                    },
                    {
                        "type": "Suspended", "status": "True", "reason": "Suspended", "message": "",
                        "lastTransitionTime": "2026-11-21T10:00:00Z",
                    },
                ],
                "suspensions": [{"reason": "Fraud", "suspendedAt": "2026-11-21T10:00:00Z", "reinstateAuthority": "staff"}],
            },
        }))
        .unwrap();
        let status = project.status.unwrap();
        assert!(!condition::is_true(&status.conditions, READY));
        assert!(condition::is_true(&status.conditions, SUSPENDED));
    }

    #[test]
    fn what_a_suspended_project_refuses_names_the_cause() {
        let refused: Status = serde_json::from_value(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "project p1 is suspended",
            "details": {"causes": [{"reason": "ProjectSuspended", "message": "project p1 is suspended"}]},
        }))
        .unwrap();
        let causes = refused.details.unwrap().causes;
        assert!(causes.iter().any(|cause| cause.reason == PROJECT_SUSPENDED));
    }

    #[test]
    fn a_control_plane_needs_neither_spec_nor_status() {
        let plane: ProjectControlPlane = serde_json::from_value(json!({
            "apiVersion": "infrastructure.miloapis.com/v1alpha1",
            "kind": "ProjectControlPlane",
            "metadata": {"name": "p1"},
        }))
        .unwrap();
        let metadata = ObjectMeta {
            name: Some("p1".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!((plane.metadata, plane.status), (metadata, None));
    }
}
