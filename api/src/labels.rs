//! Label keys. See docs/concepts/identity.md.

use crate::metadata_key::{MetadataKey, metadata_key};

/// UID of the Workload on the project plane. On WorkloadDeployments and Instances.
pub const WORKLOAD_UID: &str = "compute.datumapis.com/workload-uid";
/// Name of the Workload. On WorkloadDeployments and Instances.
pub const WORKLOAD_NAME: &str = "compute.datumapis.com/workload-name";
/// UID of the WorkloadDeployment on the plane of the Instance that has the label. Each plane has another UID, so the
/// UIDs of two planes are never compared (I-15). On Instances.
pub const WORKLOAD_DEPLOYMENT_UID: &str = "compute.datumapis.com/workload-deployment-uid";
/// Name of the WorkloadDeployment, equal on every plane. On Instances.
pub const WORKLOAD_DEPLOYMENT_NAME: &str = "compute.datumapis.com/workload-deployment-name";
/// Name of the placement of the Workload. On WorkloadDeployments and Instances.
pub const PLACEMENT_NAME: &str = "compute.datumapis.com/placement-name";
/// City code of the WorkloadDeployment. On Instances.
pub const INSTANCE_CITY_CODE: &str = "compute.datumapis.com/city-code";
/// Decimal ordinal of the Instance within its WorkloadDeployment.
pub const INSTANCE_INDEX: &str = "compute.datumapis.com/instance-index";
/// Name of the cell that wrote the hub's copy of the Instance. On hub Instances and projections. On a ResourceClaim,
/// the cell of the Instance that the claim is for.
pub const SOURCE_CLUSTER: &str = "compute.datumapis.com/source-cluster";
/// Namespace in the cell of the Instance that a ResourceClaim is for.
pub const INSTANCE_NAMESPACE: &str = "compute.datumapis.com/instance-namespace";

/// City code, case preserved. On hub WorkloadDeployments, their copies in the cells, PropagationPolicies and Karmada
/// Clusters. PropagationPolicies select WorkloadDeployments and cells by this label.
pub const CITY_CODE: &str = "topology.datum.net/city-code";

/// On the Karmada Cluster of a lower hub: `true`. A ClusterOverridePolicy of `deploy/lower-hub` selects Clusters by this
/// label.
pub const LOWER_HUB: &str = "compute.datumapis.com/lower-hub";

/// Encoded project name, see [`crate::identity::ProjectName::to_label`]. On hub Namespaces, their copies in the cells,
/// hub Instances and projections.
pub const UPSTREAM_CLUSTER_NAME: &str = "meta.datumapis.com/upstream-cluster-name";
/// Name of the project namespace. On hub Namespaces and hub WorkloadDeployments, their copies in the cells, hub
/// Instances and projections.
pub const UPSTREAM_NAMESPACE: &str = "meta.datumapis.com/upstream-namespace";

/// Identity of a PropagationPolicy for its lifetime. Karmada writes it on the policy and on the objects that the policy
/// has claimed.
pub const POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";

/// On the hub's copy of a ConfigMap or a Secret of a project, and on its copies in the cells: `true`.
pub const REFERENCED_DATA: &str = "compute.datumapis.com/referenced-data";

/// Name of the service that an object belongs to: [`crate::GROUP`]. On WorkloadDeployments of a project. The service
/// catalogue finds by it what it suspends.
pub const SERVICE_NAME: &str = "services.miloapis.com/service-name";

/// The labels that link an Instance to its deployment. An Instance that lacks one of them is not copied to the hub.
pub const INSTANCE_LINKING: [&str; 7] = [
    WORKLOAD_UID,
    WORKLOAD_NAME,
    PLACEMENT_NAME,
    INSTANCE_CITY_CODE,
    WORKLOAD_DEPLOYMENT_UID,
    WORKLOAD_DEPLOYMENT_NAME,
    INSTANCE_INDEX,
];

/// Every label, as `docs/reference/labels.md` describes it.
pub const ALL: &[MetadataKey] = &[
    metadata_key(
        SERVICE_NAME,
        "WorkloadDeployment; project",
        "`workload`",
        "`compute.datumapis.com`: the service that the object belongs to. See [Suspension](../concepts/flow.md#suspension).",
    ),
    metadata_key(
        WORKLOAD_UID,
        "WorkloadDeployment; project. Instance; all planes",
        "`workload`, `deployment`",
        "UID of the Workload in the project.",
    ),
    metadata_key(
        WORKLOAD_NAME,
        "WorkloadDeployment; project. Instance; all planes",
        "`workload`, `deployment`",
        "Name of the Workload.",
    ),
    metadata_key(
        WORKLOAD_DEPLOYMENT_UID,
        "Instance; all planes",
        "`deployment`, `instance-writeback`, `projector`",
        "UID of the WorkloadDeployment on the same plane. It differs from plane to plane.",
    ),
    metadata_key(
        WORKLOAD_DEPLOYMENT_NAME,
        "Instance; all planes",
        "`deployment`",
        "Name of the WorkloadDeployment, which is equal on every plane.",
    ),
    metadata_key(
        PLACEMENT_NAME,
        "WorkloadDeployment; project. Instance; all planes",
        "`workload`, `deployment`",
        "Name of the placement of the Workload.",
    ),
    metadata_key(
        INSTANCE_CITY_CODE,
        "Instance; all planes",
        "`deployment`",
        "City code of the WorkloadDeployment.",
    ),
    metadata_key(
        INSTANCE_INDEX,
        "Instance; all planes",
        "`deployment`",
        "Decimal ordinal of the Instance within its WorkloadDeployment.",
    ),
    metadata_key(
        SOURCE_CLUSTER,
        "Instance; hub, project. ResourceClaim; project",
        "`instance-writeback`, `quota`",
        "Name of the cell that wrote the hub's copy of the Instance. On a ResourceClaim, the cell of its Instance.",
    ),
    metadata_key(
        INSTANCE_NAMESPACE,
        "ResourceClaim; project",
        "`quota`",
        "Namespace in the cell of the Instance that the claim is for.",
    ),
    metadata_key(
        CITY_CODE,
        "WorkloadDeployment; hub, cell. PropagationPolicy, Cluster; hub",
        "`federator`, `policy`; on Clusters an operator",
        "City code, case preserved. PropagationPolicies select WorkloadDeployments and cells by this label.",
    ),
    metadata_key(
        LOWER_HUB,
        "Cluster; hub",
        "an operator",
        "`true`: the Cluster is a [lower hub](../operate/lower-hub.md).",
    ),
    metadata_key(
        UPSTREAM_CLUSTER_NAME,
        "Namespace; hub, cell. Instance; hub, project",
        "`federator`, `instance-writeback`, `projector`",
        "Encoded name of the project.",
    ),
    metadata_key(
        UPSTREAM_NAMESPACE,
        "Namespace, WorkloadDeployment; hub, cell. Instance; hub, project",
        "`federator`, `instance-writeback`, `projector`",
        "Name of the project's namespace.",
    ),
    metadata_key(
        POLICY_PERMANENT_ID,
        "PropagationPolicy, ResourceBinding; hub. WorkloadDeployment; hub, cell",
        "Karmada",
        "Identity of the PropagationPolicy that has claimed the object.",
    ),
    metadata_key(
        REFERENCED_DATA,
        "ConfigMap, Secret; hub, cell",
        "`companion`",
        "`true` on a copy of a ConfigMap or a Secret of a project.",
    ),
];
