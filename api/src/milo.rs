//! The parts of Milo's API that are used: where projects are (platform.md 1.1, 1.2), whether they are suspended (platform.md 1.8)
//! and what a request says of its project (platform.md 2.1). Fields that are not listed are tolerated when they are read.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// API group of Project, and what [`PARENT_API_GROUP`] says in a request to a project.
pub const RESOURCE_MANAGER_GROUP: &str = "resourcemanager.miloapis.com";

/// Condition of a Project whose API can be used.
pub const READY: &str = "Ready";
/// Condition of a Project which refuses to create and to update, while it is True. Reads and deletes go on.
pub const SUSPENDED: &str = "Suspended";
/// The cause, in the details of a 403, of what a suspended project refuses.
pub const PROJECT_SUSPENDED: &str = "ProjectSuspended";
/// Condition of a ProjectControlPlane whose API can be used.
pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";

/// Key of a user's Extra: the kind that the request was sent to, `Project` for a project. Each of these keys has one value.
pub const PARENT_TYPE: &str = "iam.miloapis.com/parent-type";
/// Key of a user's Extra: the bare name of the project.
pub const PARENT_NAME: &str = "iam.miloapis.com/parent-name";
/// Key of a user's Extra: the API group of the kind in [`PARENT_TYPE`].
pub const PARENT_API_GROUP: &str = "iam.miloapis.com/parent-api-group";
/// What [`PARENT_TYPE`] says in a request to a project.
pub const PARENT_TYPE_PROJECT: &str = "Project";

/// A customer's project, which has an API server of its own.
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

/// The API server of the project of the same name, as the infrastructure cluster knows it.
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

/// A status of which only the conditions are used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ConditionsStatus {
    /// What holds of the object.
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
