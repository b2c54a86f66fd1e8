//! Finalizers. Each is removed only by the code path that finished its work (I-8).

use crate::metadata_key::{MetadataKey, metadata_key};

/// On a Workload (project) and on a WorkloadDeployment (cell): waits until the children are deleted, and in a cell until
/// the hub has no outdated copy of an Instance.
pub const WORKLOAD_CONTROLLER: &str = "compute.datumapis.com/workload-controller";
/// On a WorkloadDeployment (project): waits until the hub copy is deleted.
pub const FEDERATOR: &str = "compute.datumapis.com/federator";
/// On a WorkloadDeployment (project): waits until no companion on the hub names it.
pub const REFERENCED_DATA: &str = "compute.datumapis.com/referenced-data-controller";
/// On an Instance (cell): waits until the hub copy is deleted, or is recorded as outdated.
pub const INSTANCE_CONTROLLER: &str = "compute.datumapis.com/instance-controller";
/// On an Instance (cell): waits until no finalizer of another program is left, and then until the ResourceClaim
/// is deleted.
pub const QUOTA_CLAIM: &str = "quota.compute.datumapis.com/claim-cleanup";

/// Every finalizer, as `docs/reference/labels.md` describes it.
pub const ALL: &[MetadataKey] = &[
    metadata_key(
        WORKLOAD_CONTROLLER,
        "Workload; project. WorkloadDeployment; cell",
        "`workload`, `deployment`",
        "Waits until the children are deleted: WorkloadDeployments in the project, Instances in the cell. In the cell also until `outdated-copies` is empty.",
    ),
    metadata_key(
        FEDERATOR,
        "WorkloadDeployment; project",
        "`federator`",
        "Waits until the hub's copy is deleted.",
    ),
    metadata_key(
        REFERENCED_DATA,
        "WorkloadDeployment; project",
        "`referenced-data`",
        "Waits until no companion on the hub names the WorkloadDeployment.",
    ),
    metadata_key(
        INSTANCE_CONTROLLER,
        "Instance; cell",
        "`deployment`, `instance-writeback`",
        "Waits until the hub's copy is deleted, or is recorded in `outdated-copies`.",
    ),
    metadata_key(
        QUOTA_CLAIM,
        "Instance; cell",
        "`deployment`, `quota`",
        "Waits until the Instance has no finalizer of another program, and then until its ResourceClaim is deleted in its project.",
    ),
];
