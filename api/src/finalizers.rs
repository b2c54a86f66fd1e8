//! Finalizers (compute.md 1.5). Each is removed only by the code path that finished its work (I-8).

/// On a Workload (project) and on a WorkloadDeployment (cell): waits for the children to be gone.
pub const WORKLOAD_CONTROLLER: &str = "compute.datumapis.com/workload-controller";
/// On a WorkloadDeployment (project): removes the hub copy.
pub const FEDERATOR: &str = "compute.datumapis.com/federator";
/// On an Instance (cell): removes the hub copy.
pub const INSTANCE_CONTROLLER: &str = "compute.datumapis.com/instance-controller";
