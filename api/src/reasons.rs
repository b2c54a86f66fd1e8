//! Reasons of conditions and events. Each reason is defined only here. [`crate::conditions`] contains its objects and
//! its meaning.

/// Reasons of `Available` of a Workload and of its placements.
pub mod workload {
    /// A placement is available.
    pub const PLACEMENT_FOUND: &str = "AvailablePlacementFound";
    /// No placement is available.
    pub const NO_PLACEMENTS: &str = "NoAvailablePlacements";
    /// A WorkloadDeployment of the placement is available.
    pub const DEPLOYMENT_FOUND: &str = "AvailableDeploymentFound";
    /// No WorkloadDeployment of the placement is available.
    pub const NO_DEPLOYMENTS: &str = "NoAvailableDeployments";
    /// A Network of the template does not exist.
    pub const NETWORK_NOT_FOUND: &str = "NetworkNotFound";
    /// The Workload has too many placements and cities, or its template is too large for so many cities or Instances.
    pub const WORKLOAD_TOO_LARGE: &str = "WorkloadTooLarge";
    /// `KindsListed`: a kind of the project cannot be listed.
    pub const KIND_NOT_LISTED: &str = "KindNotListed";
}

/// Reasons of the conditions of a WorkloadDeployment.
pub mod workload_deployment {
    /// `Available`: an Instance is ready.
    pub const STABLE_INSTANCE_FOUND: &str = "StableInstanceFound";
    /// `Available`: no Instance is ready yet.
    pub const PROVISIONING_INSTANCES: &str = "ProvisioningInstances";
    /// `Available`: zero replicas are desired.
    pub const NO_INSTANCES_DESIRED: &str = "NoInstancesDesired";
    /// `Available`: the cell does not implement the `instanceManagementPolicy`.
    pub const UNSUPPORTED_POLICY: &str = "UnsupportedInstanceManagementPolicy";
    /// `Available`: more Instances are desired than a deployment may have.
    pub const TOO_MANY_REPLICAS: &str = "TooManyReplicas";
    /// `Available`: no Instance is ready, and one of them has no quota.
    pub const PENDING_QUOTA: &str = crate::reasons::instance::PENDING_QUOTA;
    /// `Available`: the service is suspended in the project.
    pub const SUSPENDED: &str = crate::reasons::instance::SUSPENDED;
    /// `ReplicasReady`: no Instance waits for quota.
    pub const REPLICAS_AVAILABLE: &str = "ReplicasAvailable";
    /// `ReplicasReady`: the quota of the project does not cover an Instance.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// `AutoscalingReady`: the autoscaler does not exist yet, or has not been evaluated yet.
    pub const AWAITING_AUTOSCALER: &str = "AwaitingAutoscaler";
    /// `AutoscalingReady`: the autoscaler decides the number of Instances.
    pub const AUTOSCALER_READY: &str = "AutoscalerReady";
    /// `AutoscalingReady`: the cell cannot make the autoscaler.
    pub const AUTOSCALER_RECONCILE_FAILED: &str = "AutoscalerReconcileFailed";
    /// `RulesApplied`: the template of the Instances has the rules of the cell.
    pub const RULES_IN_TEMPLATE: &str = "RulesInTemplate";
    /// `RulesApplied`: the rules of the cell cannot be read.
    pub const INVALID_RULES: &str = "InvalidRules";
    /// `RulesApplied`: Karmada cannot apply an override for a cell, so the cell does not get the current deployment.
    pub const OVERRIDE_FAILED: &str = "OverrideFailed";
    /// `RulesApplied`: the rules of a cell have changed, and the cell still has the former ones.
    pub const FORMER_RULES: &str = "FormerRules";
    /// `Available`: the city code is not a valid label value. Policies select cells by a label with the city code.
    pub const INVALID_CITY_CODE: &str = "InvalidCityCode";
    /// `Available`: the copy on the hub was created again, and no cell has reported since.
    pub const NOT_REPORTED: &str = "NotReported";
    /// `Available`: the records of the hub namespace contradict each other.
    pub const HUB_NAMESPACE_CONTRADICTED: &str = "HubNamespaceContradicted";
    /// `CellsReporting`, and `Available` when the hub has no copy: the hub refuses the copy, its namespace or its
    /// policy.
    pub const HUB_REFUSED: &str = "HubRefused";
    /// `Available`: the deployment was written to another hub than the one in use.
    pub const HUB_CONTRADICTED: &str = "HubContradicted";
    /// `CellsReporting`, and `Available` when it is Unknown: a cell cannot be reached.
    pub const CELL_UNREACHABLE: &str = "CellUnreachable";
    /// `CellsReporting`: it is not known whether the cells below a lower hub can be reached.
    pub const LOWER_HUB_SILENT: &str = "LowerHubSilent";
    /// `CellsReporting`: Karmada has not applied the deployment in a cell.
    pub const CELL_NOT_APPLIED: &str = "CellNotApplied";
    /// `CellsReporting`: Karmada has applied the deployment in a cell, but the cell has not reported a status.
    pub const CELL_NOT_REPORTED: &str = "CellNotReported";
    /// `Available`: the deployment is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// `InstancesEnded`: the deletion waits for cells to end their Instances.
    pub const INSTANCES_REMAIN: &str = "InstancesRemain";
    /// `InstancesEnded`: the deletion does not wait any longer, and Instances may still run in cells.
    pub const INSTANCES_MAY_REMAIN: &str = "InstancesMayRemain";
    /// `CellsReporting`, and `Available` when it is Unknown: no cell matches the deployment.
    pub const NO_MATCHING_CELL: &str = "NoMatchingCell";
}

/// Reasons of `Accepted` of a `CellRule`.
pub mod cell_rule {
    /// The cells that the rule selects have it.
    pub const ACCEPTED: &str = "Accepted";
    /// A value of the rule is not allowed.
    pub const INVALID: &str = "Invalid";
    /// The rules of a cell would be too large together.
    pub const TOO_LARGE: &str = "TooLarge";
    /// The hub refuses the policy with the rules.
    pub const POLICY_REFUSED: &str = "PolicyRefused";
    /// A rule cannot be decoded, so the rules of all cells stay as they are.
    pub const UNDECODABLE: &str = "Undecodable";
}

/// Reasons of `Reporting` of a `LowerHub`.
pub mod lower_hub {
    /// The process of the lower hub reports the cells.
    pub const PROCESS_REPORTS: &str = "ProcessReports";
    /// The process of the lower hub has sent no heartbeat for some time.
    pub const PROCESS_SILENT: &str = "ProcessSilent";
}

/// Reasons of `Current` of a `WorkloadSummary`.
pub mod workload_summary {
    /// The status is the result of the query.
    pub const EVALUATED: &str = "Evaluated";
    /// A field of the query is not valid.
    pub const INVALID_QUERY: &str = "InvalidQuery";
    /// The query selects more rows than one summary may have.
    pub const TOO_MANY_ROWS: &str = "TooManyRows";
    /// The query needs more work than one summary may cause.
    pub const TOO_EXPENSIVE: &str = "TooExpensive";
    /// The namespace has more summaries than are evaluated.
    pub const TOO_MANY_SUMMARIES: &str = "TooManySummaries";
}

/// Reasons of `Ready` of an Instance.
pub mod instance {
    /// The quota of the project does not cover the Instance.
    pub const PENDING_QUOTA: &str = "PendingQuota";
    /// The service is suspended in the project.
    pub const SUSPENDED: &str = "Suspended";
    /// A scheduling gate holds the Instance back.
    pub const SCHEDULING_GATES_PRESENT: &str = "SchedulingGatesPresent";
    /// The infrastructure provider has not programmed the Instance.
    pub const PENDING_PROGRAMMING: &str = "PendingProgramming";
    /// The Instance is not running.
    pub const PENDING: &str = "Pending";
    /// In the project only: the cell of the Instance cannot be reached.
    pub const CELL_UNREACHABLE: &str = crate::reasons::workload_deployment::CELL_UNREACHABLE;
    /// The Instance is ready to use.
    pub const RUNNING: &str = "Running";
}

/// Reasons of `NetworkReady` of an Instance. The reasons of False are also those of `Ready` of the Instance while the
/// gate is closed, and of `Available` of its WorkloadDeployment.
pub mod network_ready {
    /// All networks of the Instance are there.
    pub const NETWORK_AVAILABLE: &str = "NetworkAvailable";
    /// The cell makes no networks.
    pub const NETWORK_DISABLED: &str = "NetworkDisabled";
    /// The networks are being made.
    pub const PROVISIONING: &str = "NetworkProvisioning";
    /// The cell does not say which location it serves, or no location has the city code.
    pub const NO_MATCHING_LOCATION: &str = "NoMatchingLocation";
    /// The cell says that it serves several locations.
    pub const AMBIGUOUS_LOCATION: &str = "AmbiguousServingLocation";
    /// The cell serves another city, or another location than that of the Instance.
    pub const LOCATION_MISMATCH: &str = "LocationMismatch";
    /// A Location or ServingLocation cannot be decoded, so the location is not known.
    pub const LOCATION_UNREADABLE: &str = "LocationUnreadable";
    /// An object of the network operator cannot be decoded, and has the name of one that the Instance needs. Or objects of
    /// a kind cannot be listed.
    pub const NETWORK_UNREADABLE: &str = "NetworkUnreadable";
    /// The network operator refuses an interface or a network.
    pub const FAILED_TO_CREATE: &str = "NetworkFailedToCreate";
    /// The network operator does not find the Network.
    pub const NETWORK_NOT_FOUND: &str = crate::reasons::workload::NETWORK_NOT_FOUND;
    /// The API server of the cell does not serve a kind of the network operator.
    pub const KIND_NOT_SERVED: &str = "NetworkKindNotServed";
}

/// Reasons of `ReferencedDataReady` of a WorkloadDeployment in the project, and of an Instance. The reasons of False are
/// also those of `Ready` of the Instance while the gate is closed, and of `Available` of its WorkloadDeployment.
pub mod referenced_data {
    /// All ConfigMaps and Secrets are there.
    pub const READY: &str = "Ready";
    /// The ConfigMaps and Secrets have not been determined yet.
    pub const RESOLVING: &str = "Resolving";
    /// The name of a ConfigMap or a Secret is too long for a companion.
    pub const NAME_TOO_LONG: &str = "SourceNameTooLong";
    /// The project does not have a ConfigMap or a Secret.
    pub const NOT_FOUND: &str = "SourceNotFound";
    /// compute-federation may not read a ConfigMap or a Secret of the project.
    pub const UNAUTHORIZED: &str = "SourceUnauthorized";
    /// A ConfigMap or a Secret is too large, or all of them together are.
    pub const TOO_LARGE: &str = "SourceTooLarge";
    /// A ConfigMap or a Secret does not have a key that the template uses.
    pub const KEY_NOT_FOUND: &str = "SourceKeyNotFound";
    /// A value that the template uses as an environment variable is not UTF-8.
    pub const VALUE_NOT_TEXT: &str = "SourceValueNotText";
    /// The hub refuses the companion of a ConfigMap or a Secret.
    pub const NOT_COPIED: &str = "SourceNotCopied";
    /// A ConfigMap or a Secret, or the version of it that is needed, has not reached the cell.
    pub const AWAITING_PROPAGATION: &str = "AwaitingPropagation";
    /// The cell does not hold Instances back for their data.
    pub const DISABLED: &str = "ReferencedDataDisabled";
}

/// Reasons of `HolderAvailable` of a NetworkInterface. Other reasons are copied from the Instance.
pub mod holder {
    /// The Instance runs.
    pub const AVAILABLE: &str = "Available";
    /// The infrastructure provider has not reported about the Instance.
    pub const NOT_REPORTED: &str = "HolderNotReported";
    /// The Instance does not run, and gives no reason.
    pub const UNAVAILABLE: &str = "HolderUnavailable";
    /// The Instance is being deleted.
    pub const TERMINATING: &str = "HolderTerminating";
}

/// Reasons of `QuotaGranted` of an Instance.
pub mod quota_granted {
    /// The quota system has granted the claim.
    pub const QUOTA_AVAILABLE: &str = "QuotaAvailable";
    /// The cell does not enforce quota.
    pub const QUOTA_DISABLED: &str = "QuotaDisabled";
    /// The quota system has not decided about the claim yet.
    pub const PENDING_EVALUATION: &str = "PendingEvaluation";
    /// The quota system has not decided about the claim for long.
    pub const NO_BUDGET: &str = "QuotaNoBudget";
    /// The quota of the project does not have the amounts.
    pub const QUOTA_EXCEEDED: &str = crate::reasons::workload_deployment::QUOTA_EXCEEDED;
    /// The quota system refuses the claim itself.
    pub const VALIDATION_FAILED: &str = "ValidationFailed";
    /// The project does not have the namespace of the claim.
    pub const NAMESPACE_NOT_FOUND: &str = "QuotaNamespaceNotFound";
    /// The API server of the project is not there, or does not serve ResourceClaims.
    pub const PROJECT_NOT_FOUND: &str = "QuotaProjectNotFound";
    /// The API server of the project refuses the claim.
    pub const MISCONFIGURED: &str = "QuotaMisconfigured";
    /// The API server of the project does not answer.
    pub const BACKEND_UNAVAILABLE: &str = "QuotaBackendUnavailable";
    /// The Namespace in the cell does not identify the project.
    pub const PROJECT_ID_UNRESOLVABLE: &str = "QuotaProjectIDUnresolvable";
}

/// Reasons of `CopiedToHub` of an Instance.
pub mod copied_to_hub {
    /// The Instance lacks labels that link it to its WorkloadDeployment.
    pub const LINKING_LABELS_MISSING: &str = "LinkingLabelsMissing";
    /// The hub has no Namespace with the name of the Instance's namespace.
    pub const HUB_NAMESPACE_MISSING: &str = "HubNamespaceMissing";
    /// The hub's Namespace does not name its project and namespace.
    pub const HUB_NAMESPACE_UNIDENTIFIED: &str = "HubNamespaceUnidentified";
    /// The hub does not have the Instance's WorkloadDeployment.
    pub const HUB_DEPLOYMENT_MISSING: &str = "HubDeploymentMissing";
    /// The hub's Instance of this name was written by another cell.
    pub const HELD_BY_ANOTHER_CELL: &str = "HeldByAnotherCell";
    /// The hub's Instance of this name has another controller.
    pub const HELD_BY_ANOTHER_OWNER: &str = "HeldByAnotherOwner";
    /// The hub refuses the copy or its status, or does not store the whole copy.
    pub const HUB_REFUSED: &str = crate::reasons::workload_deployment::HUB_REFUSED;
}

/// Reasons for which an Instance of the hub is quarantined: it is not projected until someone corrects it.
pub mod quarantine {
    /// The labels of the hub namespace do not identify a project and namespace.
    pub const NAMESPACE_UNIDENTIFIED: &str = "NamespaceUnidentified";
    /// The labels of the Instance name another project or namespace than those of its hub namespace.
    pub const IDENTITY_CONTRADICTED: &str = "IdentityContradicted";
    /// The Instance does not name its WorkloadDeployment.
    pub const DEPLOYMENT_NAME_MISSING: &str = "DeploymentNameMissing";
    /// The project does not have the WorkloadDeployment.
    pub const DEPLOYMENT_MISSING: &str = "DeploymentMissing";
}

/// Reasons of the events about the life of Instances and WorkloadDeployments in a cell, which customers read.
pub mod lifecycle {
    /// The Instance is ready.
    pub const AVAILABLE: &str = "Available";
    /// The process of the Instance ends.
    pub const STOPPING: &str = "Stopping";
    /// The infrastructure provider cannot get the image.
    pub const IMAGE_UNAVAILABLE: &str = "ImageUnavailable";
    /// The infrastructure provider cannot use the template.
    pub const CONFIGURATION_ERROR: &str = "ConfigurationError";
    /// The process of the Instance ends again and again.
    pub const INSTANCE_CRASHING: &str = "InstanceCrashing";
    /// The Instance is not ready any more, for another reason.
    pub const FAILED: &str = "Failed";
    /// The Instance is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// The desired number of Instances has changed.
    pub const SCALED: &str = "Scaled";
    /// The service is suspended in the project.
    pub const PROJECT_PAUSED: &str = "ProjectPaused";
    /// The service is no longer suspended in the project.
    pub const PROJECT_RESUMED: &str = "ProjectResumed";
    /// The cell cannot suspend an Instance.
    pub const PAUSE_FAILED: &str = "PauseFailed";
    /// All of them.
    pub const ALL: [&str; 11] = [
        AVAILABLE,
        STOPPING,
        IMAGE_UNAVAILABLE,
        CONFIGURATION_ERROR,
        INSTANCE_CRASHING,
        FAILED,
        TERMINATING,
        SCALED,
        PROJECT_PAUSED,
        PROJECT_RESUMED,
        PAUSE_FAILED,
    ];
}

/// Reason of the event on a ResourceInterpreterCustomization: Karmada runs its Lua script instead of calling the
/// webhook.
pub const SHADOWS_WEBHOOK: &str = "ShadowsWebhook";
