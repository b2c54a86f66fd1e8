//! Label keys (compute.md 1.5).

/// UID of the Workload on the project plane. On WorkloadDeployments and Instances.
pub const WORKLOAD_UID: &str = "compute.datumapis.com/workload-uid";
/// Name of the Workload. On WorkloadDeployments and Instances.
pub const WORKLOAD_NAME: &str = "compute.datumapis.com/workload-name";
/// UID of the WorkloadDeployment on the same plane. It differs from plane to plane and is never compared across planes (I-15).
pub const WORKLOAD_DEPLOYMENT_UID: &str = "compute.datumapis.com/workload-deployment-uid";
/// Name of the WorkloadDeployment, equal on every plane. On Instances.
pub const WORKLOAD_DEPLOYMENT_NAME: &str = "compute.datumapis.com/workload-deployment-name";
/// Name of the placement of the Workload. On WorkloadDeployments and Instances.
pub const PLACEMENT_NAME: &str = "compute.datumapis.com/placement-name";
/// City code of the WorkloadDeployment. On Instances.
pub const INSTANCE_CITY_CODE: &str = "compute.datumapis.com/city-code";
/// Decimal ordinal of the Instance within its WorkloadDeployment.
pub const INSTANCE_INDEX: &str = "compute.datumapis.com/instance-index";
/// Name of the cell that wrote a hub copy.
pub const SOURCE_CLUSTER: &str = "compute.datumapis.com/source-cluster";

/// Raw city code, case preserved. On hub WorkloadDeployments and Karmada Clusters; PropagationPolicies select by it.
pub const CITY_CODE: &str = "topology.datum.net/city-code";

/// Encoded project name, see [`crate::identity::ProjectName::to_label`]. On hub Namespaces, hub Instances and projections.
pub const UPSTREAM_CLUSTER_NAME: &str = "meta.datumapis.com/upstream-cluster-name";
/// Name of the project namespace. On hub Namespaces, hub WorkloadDeployments, hub Instances and projections.
pub const UPSTREAM_NAMESPACE: &str = "meta.datumapis.com/upstream-namespace";

/// Identity of a PropagationPolicy for as long as it lives. Written by Karmada on the policy, and on what it has claimed.
pub const POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";

/// The labels that link an Instance to its deployment; each must be present before an Instance is copied to the hub (P-11).
pub const INSTANCE_LINKING: [&str; 7] = [
    WORKLOAD_UID,
    WORKLOAD_NAME,
    PLACEMENT_NAME,
    INSTANCE_CITY_CODE,
    WORKLOAD_DEPLOYMENT_UID,
    WORKLOAD_DEPLOYMENT_NAME,
    INSTANCE_INDEX,
];
