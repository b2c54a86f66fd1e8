//! Every condition and event that compute-federation writes or acts on, with its meaning and its remedy.
//!
//! `cargo xtask docs` writes `docs/reference/conditions.md` from these lists.

mod referenced_data;
mod written_condition;

use crate::condition::ConditionStatus::{False, True, Unknown};
use crate::reasons::{
    self, cell_rule, copied_to_hub, holder, lifecycle, lower_hub as of_lower_hub, network_ready,
    quarantine, quota_granted,
};
use crate::{
    cell_rules, instance, karmada, lower_hub, milo, networking, workload, workload_deployment,
    workload_summary,
};
use reasons::{
    instance as of_instance, workload as of_workload, workload_deployment as of_deployment,
    workload_summary as of_summary,
};
use written_condition::{
    CELL, CELL_RULE, DEPLOYMENT, EVERYWHERE, HUB, HUB_AND_PROJECT, INSTANCE, INTERFACE,
    INTERFACE_CLAIM, LOWER_HUB, NETWORK_OPERATOR, NOTHING, PLACEMENT, PROJECT, SUMMARY, WORKLOAD,
    written,
};
pub use written_condition::{PlaneKind, WrittenCondition};

/// A condition that compute-federation reads, written by others.
#[derive(Clone, Copy, Debug)]
pub struct ReadCondition {
    /// Kind of the object.
    pub kind: &'static str,
    /// Plane of the object.
    pub plane: PlaneKind,
    /// Type of the condition.
    pub type_: &'static str,
    /// Reason. `None` if the effect does not depend on the reason.
    pub reason: Option<&'static str>,
    /// The program that writes the condition.
    pub writer: &'static str,
    /// How compute-federation uses the condition.
    pub effect: &'static str,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Information.
    Normal,
    /// Something that may have to be corrected.
    Warning,
}

/// A family of events that compute-federation publishes.
#[derive(Clone, Copy, Debug)]
pub struct PublishedEvent {
    /// Kind of the object.
    pub kind: &'static str,
    /// Plane of the object and of the event.
    pub plane: PlaneKind,
    /// Severity.
    pub type_: EventType,
    /// Reasons of the events.
    pub reasons: &'static [&'static str],
    /// When the event is published.
    pub when: &'static str,
}

const HELD_BY_NETWORK: (&str, &str) = (
    "`NetworkReady` is not True, with this reason and message, and the gate `Network` holds the Instance back.",
    "As for `NetworkReady`.",
);
const NO_INSTANCE_FOR_NETWORK: (&str, &str) = (
    "No Instance is ready, and one of them has no network. The message names this Instance, and has the message of its condition `NetworkReady`.",
    "As for `NetworkReady` of the Instance.",
);

/// Returns the conditions that compute-federation writes, one entry for each object kind, type and reason.
pub fn written_conditions() -> impl Iterator<Item = &'static WrittenCondition> + Clone {
    WRITTEN.iter().chain(referenced_data::WRITTEN)
}

const WRITTEN: &[WrittenCondition] = &[
    written(
        WORKLOAD,
        PROJECT,
        workload::AVAILABLE,
        True,
        of_workload::PLACEMENT_FOUND,
        (
            "At least one placement is available. The message also names the first WorkloadDeployment without quota for all its Instances.",
            "If it lacks quota, raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        WORKLOAD,
        PROJECT,
        workload::AVAILABLE,
        False,
        of_workload::NO_PLACEMENTS,
        (
            "No placement is available. The message contains the message of the first placement.",
            "Follow the reason in the message.",
        ),
    ),
    written(
        WORKLOAD,
        PROJECT,
        workload::AVAILABLE,
        False,
        of_workload::NETWORK_NOT_FOUND,
        (
            "A Network of the template does not exist in the Workload's namespace. The message names it.",
            "Create the Network, or correct the template. Until then, no WorkloadDeployment of the Workload is created, changed or deleted. The only exception is the deletion of the Workload itself.",
        ),
    ),
    written(
        WORKLOAD,
        PROJECT,
        workload::AVAILABLE,
        False,
        of_workload::WORKLOAD_TOO_LARGE,
        (
            "The Workload has too many placements and cities, or its template is too large for so many cities or Instances. The message contains the numbers.",
            "Make the template smaller, or use several Workloads. Until then, no WorkloadDeployment of the Workload is created, changed or deleted. The only exception is the deletion of the Workload itself.",
        ),
    ),
    written(
        WORKLOAD,
        PROJECT,
        workload::KINDS_LISTED,
        False,
        of_workload::KIND_NOT_LISTED,
        (
            "A kind that the controllers need cannot be listed in the project: it is not served, or the right is missing. The message names it. Work that needs the kind waits, other work continues.",
            "Install the CustomResourceDefinition, or grant the right.",
        ),
    ),
    written(
        PLACEMENT,
        PROJECT,
        workload::AVAILABLE,
        True,
        of_workload::DEPLOYMENT_FOUND,
        (
            "At least one WorkloadDeployment of the placement is available. The message also names the first one without quota for all its Instances, and cities without a deployment.",
            "If one lacks quota, raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        PLACEMENT,
        PROJECT,
        workload::AVAILABLE,
        False,
        of_workload::NO_DEPLOYMENTS,
        (
            "No WorkloadDeployment of the placement is available.",
            "Follow the message. It contains the reason of the first WorkloadDeployment, the refusal of the API server, or the cities without a WorkloadDeployment and the reason.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        True,
        of_deployment::STABLE_INSTANCE_FOUND,
        ("At least one Instance is ready.", NOTHING),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        True,
        of_deployment::NO_INSTANCES_DESIRED,
        ("The deployment has zero desired replicas.", NOTHING),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::PROVISIONING_INSTANCES,
        (
            "No Instance is ready yet. If the cell's API server refused an Instance, the message contains the error.",
            "If it lasts, check the Instances in the cell.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::UNSUPPORTED_POLICY,
        (
            "The cell does not implement the `instanceManagementPolicy`.",
            "Use `OrderedReady`.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::TOO_MANY_REPLICAS,
        (
            "More Instances are desired than a deployment may have. The cell creates, replaces and deletes none.",
            "Lower `minReplicas` or `replicas` to the maximum in the message.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::SUSPENDED,
        (
            "The service is suspended in the project. Its Instances do not run. They keep their place, their disks and their quota.",
            "Resume the service in the project.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::PROVISIONING,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::NO_MATCHING_LOCATION,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::AMBIGUOUS_LOCATION,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::LOCATION_MISMATCH,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::FAILED_TO_CREATE,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::NETWORK_NOT_FOUND,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::LOCATION_UNREADABLE,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::NETWORK_UNREADABLE,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        network_ready::KIND_NOT_SERVED,
        NO_INSTANCE_FOR_NETWORK,
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::PENDING_QUOTA,
        (
            "No Instance is ready, and the quota of the project does not cover one of them, or is not decided for a minute. The message names this Instance.",
            "Raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::REPLICAS_READY,
        True,
        of_deployment::REPLICAS_AVAILABLE,
        ("No Instance waits for quota.", NOTHING),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::REPLICAS_READY,
        False,
        of_deployment::QUOTA_EXCEEDED,
        (
            "The quota of the project does not cover all Instances, and the message says how many are not covered, and why the first of them is not. Or it does not cover what an Instance of the new template needs beyond the former one: the Instance in the message keeps its former template.",
            "Raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::REPLICAS_READY,
        False,
        quota_granted::NO_BUDGET,
        (
            "The quota system has not decided about the claims of Instances for a minute. The message says how many wait, and names the first of them.",
            "As for `QuotaGranted` of the Instance.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::REPLICAS_READY,
        False,
        quota_granted::BACKEND_UNAVAILABLE,
        (
            "The quota system of the project does not answer. The Instance in the message waits for its quota, or keeps its former template because the new one needs more quota.",
            "Check the connection of the cell to the API server of the project.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::REPLICAS_READY,
        False,
        quota_granted::MISCONFIGURED,
        (
            "The project's API server refuses the claim of an Instance, or its answer cannot be used. The Instance in the message waits for its quota, or keeps its former template because the new one needs more quota.",
            "Correct what the message names.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AUTOSCALING_READY,
        True,
        of_deployment::AUTOSCALER_READY,
        (
            "The HorizontalPodAutoscaler of the cell decides the number of Instances. While its status is False, the reason and the message are those of the HorizontalPodAutoscaler.",
            NOTHING,
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AUTOSCALING_READY,
        Unknown,
        of_deployment::AWAITING_AUTOSCALER,
        (
            "The HorizontalPodAutoscaler does not exist yet, or Kubernetes has not evaluated it yet. The cell makes none while the hub sets `spec.replicas`.",
            "If it lasts, check the HorizontalPodAutoscaler in the cell, and remove `spec.replicas` from the project's WorkloadDeployment.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::AUTOSCALING_READY,
        False,
        of_deployment::AUTOSCALER_RECONCILE_FAILED,
        (
            "The settings cannot be an autoscaler, a HorizontalPodAutoscaler of the same name belongs to another controller, or the cell cannot read its HorizontalPodAutoscalers. The former number of Instances stays.",
            "Follow the message.",
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::RULES_APPLIED,
        True,
        of_deployment::RULES_IN_TEMPLATE,
        (
            "The cell has rules, and its Instances are made with them. The message has their hash. The condition is absent in a cell without rules.",
            NOTHING,
        ),
    ),
    written(
        DEPLOYMENT,
        EVERYWHERE,
        workload_deployment::RULES_APPLIED,
        False,
        of_deployment::INVALID_RULES,
        (
            "The rules of the cell cannot be read. Its Instances stay as they are: none is created, replaced or deleted, unless the deployment is deleted.",
            "Correct the field in the message, or upgrade the cell if it does not know a field.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::RULES_APPLIED,
        False,
        of_deployment::OVERRIDE_FAILED,
        (
            "Karmada cannot apply an OverridePolicy or a ClusterOverridePolicy of the hub for the cells in the message. They do not get the current deployment and run the former one. Other cells are not affected.",
            "Correct the policy in the message, or delete it. Most often it names a field that the deployment does not have.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::RULES_APPLIED,
        False,
        of_deployment::FORMER_RULES,
        (
            "The rules of the cells in the message have changed, and the cells still have the former ones. It is shown after about 2 s. Karmada is made to write them again after about a minute, or after some minutes if the cell receives other objects.",
            "Nothing. If it stays, look at the cell's Works and at the log of karmada-controller-manager.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::INVALID_CITY_CODE,
        (
            "The city code is not a valid label value, so no policy can select a cell. Nothing is written to the hub.",
            "Correct the city code in the Workload.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::NOT_REPORTED,
        (
            "The copy on the hub was created again, and no cell has reported a status since then.",
            "If it lasts, check whether the hub's copy has a policy and a cell.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::HUB_NAMESPACE_CONTRADICTED,
        (
            "The annotation `federation-namespace`, the project's Namespace and the labels of the hub namespace contradict each other.",
            "Correct the value that is wrong. Until then, nothing is written or deleted on the hub, and the finalizer stays.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::HUB_CONTRADICTED,
        (
            "The deployment, its hub namespace or another deployment of its project was written to another hub than the one in use.",
            "Correct `--federation-kubeconfig`, or [move to the hub](../operate/move-hub.md). Until then, nothing is written or deleted on the hub, and the finalizer stays.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::HUB_REFUSED,
        (
            "The hub has no copy of the deployment, and refuses the copy, its namespace or its policy. The message contains the error of the hub's API server. The counters keep their last known values.",
            "Correct the error in the message.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        False,
        of_deployment::TERMINATING,
        (
            "The deployment is being deleted, and cells may still have its Instances. The status of its Workload does not change any more.",
            "See `InstancesEnded`.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::INSTANCES_ENDED,
        False,
        of_deployment::INSTANCES_REMAIN,
        (
            "The deployment is being deleted, and the cells of the message have not ended its Instances yet. The deletion waits for them until the time in the message ([Deletion of a WorkloadDeployment](../concepts/ownership.md#deletion-of-a-workloaddeployment)).",
            "Nothing. If it lasts, look at the Instances in the cell: a finalizer of the provider may hold them.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::INSTANCES_ENDED,
        False,
        of_deployment::INSTANCES_MAY_REMAIN,
        (
            "The deployment is deleted on the hub, although the cells of the message may still have Instances. They end when Karmada and the cell have deleted the deployment there ([Deletion of a WorkloadDeployment](../concepts/ownership.md#deletion-of-a-workloaddeployment)).",
            "[Instances remain after a deletion](../operate/troubleshoot.md#instances-remain-after-a-deletion).",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::CELLS_REPORTING,
        False,
        of_deployment::HUB_REFUSED,
        (
            "The hub refuses the current spec of the deployment, so no cell reports about it. The message contains the error of the hub's API server.",
            "Correct the error in the message.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::CELL_UNREACHABLE,
        (
            "A cell of the deployment is unreachable, and no reachable cell reports `Available`. The counters keep their last known values.",
            "Restore the cells that `CellsReporting` names.",
        ),
    ),
    written(
        DEPLOYMENT,
        HUB_AND_PROJECT,
        workload_deployment::AVAILABLE,
        Unknown,
        of_deployment::NO_MATCHING_CELL,
        (
            "Karmada finds no cell for the deployment. The message is copied from Karmada. On a lower hub: Karmada has no report of a cell.",
            "Label a cell with the city, install the CRDs in the cell, or correct the city code.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::CELLS_REPORTING,
        False,
        of_deployment::CELL_UNREACHABLE,
        (
            "The Cluster of a cell is not `Ready` on the hub, or the LowerHub says that a cell below a lower hub is not ready. The message names the cells. `Available` is computed from the other cells.",
            "Restore the connection between Karmada and the cell. For a cell below a lower hub, this is Karmada of the lower hub.",
        ),
    ),
    written(
        DEPLOYMENT,
        PROJECT,
        workload_deployment::CELLS_REPORTING,
        Unknown,
        of_deployment::LOWER_HUB_SILENT,
        (
            "It is not known whether the cells below a lower hub are reachable, because the process of the lower hub is silent. Everything else is as the cells report it.",
            "Start the process of the lower hub, or restore its connections to both hubs.",
        ),
    ),
    written(
        DEPLOYMENT,
        HUB_AND_PROJECT,
        workload_deployment::CELLS_REPORTING,
        False,
        of_deployment::NO_MATCHING_CELL,
        (
            "Karmada finds no cell for the deployment. The message is copied from Karmada. On a lower hub: Karmada has no report of a cell.",
            "Label a cell with the city, install the CRDs in the cell, or correct the city code.",
        ),
    ),
    written(
        DEPLOYMENT,
        HUB_AND_PROJECT,
        workload_deployment::CELLS_REPORTING,
        False,
        of_deployment::CELL_NOT_APPLIED,
        (
            "Karmada has not applied the deployment in a cell. The message names the cell and contains Karmada's error.",
            "Correct the error. Karmada retries automatically.",
        ),
    ),
    written(
        DEPLOYMENT,
        HUB_AND_PROJECT,
        workload_deployment::CELLS_REPORTING,
        False,
        of_deployment::CELL_NOT_REPORTED,
        (
            "Karmada has applied the deployment in a cell, but the cell has not reported a status. The message names the cell.",
            "If it lasts, check whether the process of the cell runs. If the object is missing in the cell, the federator makes Karmada apply it again after a minute, then at growing intervals.",
        ),
    ),
    written(
        CELL_RULE,
        HUB,
        cell_rules::ACCEPTED,
        True,
        cell_rule::ACCEPTED,
        (
            "The cells that the rule selects have it. The message has their number.",
            NOTHING,
        ),
    ),
    written(
        CELL_RULE,
        HUB,
        cell_rules::ACCEPTED,
        False,
        cell_rule::INVALID,
        (
            "A value of the rule or of its selector is not allowed. The rule has no effect.",
            "Correct the field in the message.",
        ),
    ),
    written(
        CELL_RULE,
        HUB,
        cell_rules::ACCEPTED,
        False,
        cell_rule::TOO_LARGE,
        (
            "The rules of a cell would be too large together. The rule has no effect in such cells.",
            "Make the rules smaller.",
        ),
    ),
    written(
        CELL_RULE,
        HUB,
        cell_rules::ACCEPTED,
        False,
        cell_rule::POLICY_REFUSED,
        (
            "The hub refuses the ClusterOverridePolicy with the rules, or it would be too large. The former rules go on.",
            "Follow the message.",
        ),
    ),
    written(
        CELL_RULE,
        HUB,
        cell_rules::ACCEPTED,
        False,
        cell_rule::UNDECODABLE,
        (
            "A CellRule cannot be decoded, for example because a newer version has written it. The former rules of all cells go on.",
            "Correct or delete the CellRule in the message, or update the management process.",
        ),
    ),
    written(
        LOWER_HUB,
        HUB,
        lower_hub::REPORTING,
        True,
        of_lower_hub::PROCESS_REPORTS,
        ("The process of the lower hub reports the cells.", NOTHING),
    ),
    written(
        LOWER_HUB,
        HUB,
        lower_hub::REPORTING,
        False,
        of_lower_hub::PROCESS_SILENT,
        (
            "The process of the lower hub has sent no heartbeat for 40 s, so the list of cells may be old. The message has the time of the last heartbeat.",
            "Start the process of the lower hub, or restore its connections to both hubs.",
        ),
    ),
    written(
        SUMMARY,
        PROJECT,
        workload_summary::CURRENT,
        True,
        of_summary::EVALUATED,
        ("The status is the result of the query.", NOTHING),
    ),
    written(
        SUMMARY,
        PROJECT,
        workload_summary::CURRENT,
        False,
        of_summary::INVALID_QUERY,
        (
            "A field of the query is not valid. The status has no rows.",
            "Correct the field in the message.",
        ),
    ),
    written(
        SUMMARY,
        PROJECT,
        workload_summary::CURRENT,
        False,
        of_summary::TOO_MANY_ROWS,
        (
            "The query selects more rows than one summary may have. The status has no rows.",
            "Select fewer Workloads.",
        ),
    ),
    written(
        SUMMARY,
        PROJECT,
        workload_summary::CURRENT,
        False,
        of_summary::TOO_EXPENSIVE,
        (
            "The query needs more work than one summary may cause. The status has no rows.",
            "Select fewer Workloads, or use fewer or simpler columns.",
        ),
    ),
    written(
        SUMMARY,
        PROJECT,
        workload_summary::CURRENT,
        False,
        of_summary::TOO_MANY_SUMMARIES,
        (
            "The namespace has more summaries than are evaluated. The status has no rows.",
            "Delete summaries that are no longer needed.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        True,
        of_instance::RUNNING,
        ("The Instance is programmed and running.", NOTHING),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        of_instance::PENDING_QUOTA,
        (
            "`QuotaGranted` is False: the quota of the project does not cover the Instance. Or it has the reason `QuotaNoBudget`, and the gate `Quota` holds the Instance back. The message is that of `QuotaGranted`.",
            "Raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        of_instance::SUSPENDED,
        (
            "The service is suspended in the project. The infrastructure provider stops the Instance.",
            "Resume the service in the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        of_instance::SCHEDULING_GATES_PRESENT,
        (
            "Scheduling gates hold the Instance back. The message names them.",
            "Find out why the owner of the gate has not removed it.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        of_instance::PENDING_PROGRAMMING,
        (
            "The infrastructure provider has not programmed the Instance, and gives no other reason.",
            "If it lasts, check the infrastructure provider.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        of_instance::PENDING,
        (
            "The Instance is programmed but not running, and the infrastructure provider gives no other reason.",
            "If it lasts, check the infrastructure provider.",
        ),
    ),
    written(
        INSTANCE,
        PROJECT,
        instance::READY,
        Unknown,
        of_instance::CELL_UNREACHABLE,
        (
            "The Cluster of the Instance's cell is not `Ready` on the hub, or the LowerHub says that the cell below a lower hub is not ready. The message contains the last report; the other fields are as the cell last reported them.",
            "Wait until the cell returns, or make the cell reachable for its hub.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::PROVISIONING,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::NO_MATCHING_LOCATION,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::AMBIGUOUS_LOCATION,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::LOCATION_MISMATCH,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::FAILED_TO_CREATE,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::NETWORK_NOT_FOUND,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::LOCATION_UNREADABLE,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::NETWORK_UNREADABLE,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::READY,
        False,
        network_ready::KIND_NOT_SERVED,
        HELD_BY_NETWORK,
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        True,
        network_ready::NETWORK_AVAILABLE,
        ("The networks of the Instance are there.", NOTHING),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        True,
        network_ready::NETWORK_DISABLED,
        (
            "The cell makes no networks, and the Instance has the gate of another version or of another configuration.",
            "To make networks, set `networking.strategy` in the cell.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::PROVISIONING,
        (
            "The network operator has not finished the networks. The message says which object it works on. Shown after two seconds.",
            "If it lasts, check whether the network operator of the cell runs.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::NO_MATCHING_LOCATION,
        (
            "The cell has no ServingLocation, or with `Bindings` no Location with the city code.",
            "Publish the location of the cell. It is noticed at once.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        Unknown,
        network_ready::LOCATION_UNREADABLE,
        (
            "A ServingLocation, or with `Bindings` a Location that may have the city code, cannot be decoded. The message names it. Nothing is made or deleted.",
            "Correct the object. It is noticed at once.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        Unknown,
        network_ready::NETWORK_UNREADABLE,
        (
            "An object of the network operator cannot be decoded, and has a name that the Instance needs. The message names it. Or the API server of the cell has not listed a kind of these objects since the process has started.",
            "Correct or delete the object. It is noticed within a minute. If a list fails, the log of the cell's process has the cause.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::AMBIGUOUS_LOCATION,
        (
            "The cell has several ServingLocations. The message names them.",
            "Delete those that the cell does not serve.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::LOCATION_MISMATCH,
        (
            "The ServingLocation of the cell is in another city than the deployment, or `spec.location` of the Instance is not the location of the cell.",
            "Correct the topology of the ServingLocation, or the label with the city on the Cluster of the hub. If `spec.location` differs, restore the former location, or delete the Instance in the cell.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::FAILED_TO_CREATE,
        (
            "The network operator refuses an interface or a network. The message names it, and has the reason and the message of the network operator. Or two interfaces of the Instance have one name.",
            "Correct the cause in the message. The network operator tries again by itself.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::NETWORK_NOT_FOUND,
        (
            "With `Bindings`: the network operator does not find the Network.",
            "Check whether the cell has the Network of the project.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::NETWORK_READY,
        False,
        network_ready::KIND_NOT_SERVED,
        (
            "The API server of the cell does not serve a kind of the network operator, or forbids to watch it. The message names it. Other controllers are not affected.",
            "Install the network operator and the role for the strategy in the cell, or set another `networking.strategy`.",
        ),
    ),
    written(
        INTERFACE,
        CELL,
        networking::HOLDER_AVAILABLE,
        True,
        holder::AVAILABLE,
        ("The Instance runs.", NOTHING),
    ),
    written(
        INTERFACE,
        CELL,
        networking::HOLDER_AVAILABLE,
        Unknown,
        holder::NOT_REPORTED,
        (
            "The infrastructure provider has not reported about the Instance.",
            NOTHING,
        ),
    ),
    written(
        INTERFACE,
        CELL,
        networking::HOLDER_AVAILABLE,
        False,
        holder::UNAVAILABLE,
        (
            "The Instance does not run. If the infrastructure provider gives a reason, that one is used.",
            NOTHING,
        ),
    ),
    written(
        INTERFACE,
        CELL,
        networking::HOLDER_AVAILABLE,
        False,
        holder::TERMINATING,
        ("The Instance is being deleted.", NOTHING),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        True,
        quota_granted::QUOTA_AVAILABLE,
        ("The quota of the project covers the Instance.", NOTHING),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        True,
        quota_granted::QUOTA_DISABLED,
        (
            "The cell does not enforce quota, because its config file names no credentials for it.",
            "To enforce quota, set `discovery.quotaKubeconfigPath` in the cell.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        Unknown,
        quota_granted::PENDING_EVALUATION,
        (
            "The claim of the Instance exists, and the quota system has not decided about it yet. Or a former claim is being deleted. The message names it.",
            "If a claim is being deleted for long, remove what holds it back: it has finalizers of another program.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        Unknown,
        quota_granted::NO_BUDGET,
        (
            "The quota system has not decided about the claim for a minute or longer.",
            "Check whether the project has a ResourceGrant for the types that the message names, and whether the quota system runs.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::QUOTA_EXCEEDED,
        (
            "The quota of the project does not have the amounts that the Instance needs. The claim is tried again.",
            "Raise the quota of the project, or delete what uses it.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::VALIDATION_FAILED,
        (
            "The quota system refuses the claim itself. The message is its message. The claim is tried again.",
            "Check that the resource types are registered.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::NAMESPACE_NOT_FOUND,
        (
            "The project does not have the namespace that the claim would be in, or the namespace is being deleted.",
            "Check whether the project's namespace was deleted. If not, correct the label `meta.datumapis.com/upstream-namespace` of the hub namespace.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::PROJECT_NOT_FOUND,
        (
            "The API server of the project is not there, or does not serve ResourceClaims.",
            "Check whether the project exists, and where the kubeconfig for quota leads.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::MISCONFIGURED,
        (
            "The API server of the project refuses the claim. The message contains the error.",
            "Check the rights of the credentials in `discovery.quotaKubeconfigPath`, the ResourceRegistrations, and whether the project is suspended.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::BACKEND_UNAVAILABLE,
        (
            "The API server of the project does not answer. The log has the cause. An Instance that has quota keeps it.",
            "Make the API server reachable for the cell.",
        ),
    ),
    written(
        INSTANCE,
        EVERYWHERE,
        instance::QUOTA_GRANTED,
        False,
        quota_granted::PROJECT_ID_UNRESOLVABLE,
        (
            "The Namespace in the cell lacks a label `meta.datumapis.com/upstream-*`, so the project is unknown.",
            "Check whether the management process runs and Karmada propagates the Namespace. They restore the label that the message names.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::LINKING_LABELS_MISSING,
        (
            "The Instance lacks labels that link it to its WorkloadDeployment. The message names them.",
            "`deployment` restores the labels while the template is unchanged. Otherwise restore them, or delete the Instance. `deployment` then creates another one.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HUB_NAMESPACE_MISSING,
        (
            "The hub has no Namespace of this name.",
            "Check whether the project still has the WorkloadDeployment, and whether the management process runs.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HUB_NAMESPACE_UNIDENTIFIED,
        (
            "The hub's Namespace lacks a label `meta.datumapis.com/upstream-*`.",
            "Check whether the management process runs. It restores the label that the message names.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HUB_DEPLOYMENT_MISSING,
        (
            "The hub does not have the Instance's WorkloadDeployment, or it is being deleted.",
            "Usual during a deletion. Otherwise check whether the project still has the WorkloadDeployment, and whether the management process runs.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HELD_BY_ANOTHER_CELL,
        (
            "Another cell has written to the hub's copy of this Instance. The message names the copy and the cell.",
            "Check that each cell has its own `discovery.clusterName`, and that nobody edited the label `compute.datumapis.com/source-cluster`.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HELD_BY_ANOTHER_OWNER,
        (
            "The hub has an Instance of this name, and the controller owner reference of that Instance names another object.",
            "Wait until the hub's garbage collector has deleted it. If it stays, find out which program created it, and delete it if nothing needs it.",
        ),
    ),
    written(
        INSTANCE,
        CELL,
        instance::COPIED_TO_HUB,
        False,
        copied_to_hub::HUB_REFUSED,
        (
            "The hub refuses the copy or its status, or does not store the whole copy. The message contains the error.",
            "Correct what the message names: usually an admission webhook or policy of the hub, a missing right, or an older CRD.",
        ),
    ),
];

/// The conditions that compute-federation reads and others write.
pub const READ: &[ReadCondition] = &[
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::PROGRAMMED,
        reason: None,
        writer: "infrastructure provider",
        effect: "Until it is True, `Ready` has its reason and message.",
    },
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::RUNNING,
        reason: None,
        writer: "infrastructure provider",
        effect: "Until it is True, `Ready` has its reason and message. Not used once the provider has set `Available`.",
    },
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::AVAILABLE,
        reason: None,
        writer: "infrastructure provider, in later versions instead of `Running`",
        effect: "Until it is True, `Ready` has its reason and message.",
    },
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::QUOTA_GRANTED,
        reason: None,
        writer: "`quota`",
        effect: "While it is False, or has the reason `QuotaNoBudget` and the gate is closed, `Ready` is False with its message, and `ReplicasReady` of the WorkloadDeployment is False.",
    },
    ReadCondition {
        kind: INTERFACE_CLAIM,
        plane: PlaneKind::Cell,
        type_: networking::BOUND,
        reason: None,
        writer: NETWORK_OPERATOR,
        effect: "The gate `Network` opens when it, `Allocated` and `Prepared` are True. While it is False, the Instance has `NetworkFailedToCreate`.",
    },
    ReadCondition {
        kind: INTERFACE_CLAIM,
        plane: PlaneKind::Cell,
        type_: networking::ALLOCATED,
        reason: None,
        writer: NETWORK_OPERATOR,
        effect: "As for `Bound`. Copied into the status of the Instance.",
    },
    ReadCondition {
        kind: INTERFACE_CLAIM,
        plane: PlaneKind::Cell,
        type_: networking::PREPARED,
        reason: None,
        writer: NETWORK_OPERATOR,
        effect: "As for `Bound`. Copied into the status of the Instance.",
    },
    ReadCondition {
        kind: INTERFACE_CLAIM,
        plane: PlaneKind::Cell,
        type_: networking::PROGRAMMED,
        reason: None,
        writer: NETWORK_OPERATOR,
        effect: "Copied into the status of the Instance. Nothing waits for it.",
    },
    ReadCondition {
        kind: "NetworkBinding, NetworkContext, SubnetClaim, Subnet",
        plane: PlaneKind::Cell,
        type_: networking::READY,
        reason: None,
        writer: NETWORK_OPERATOR,
        effect: "With `Bindings`: the gate `Network` opens when all are True.",
    },
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::NETWORK_READY,
        reason: None,
        writer: "`network`",
        effect: "While it is False and the gate `Network` is closed, `Ready` is False with its reason and message.",
    },
    ReadCondition {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: instance::REFERENCED_DATA_READY,
        reason: None,
        writer: "`data-gate`",
        effect: "While it is not True and the gate `ReferencedData` is closed, `Ready` is False with its reason and message.",
    },
    ReadCondition {
        kind: "ResourceBinding",
        plane: PlaneKind::Hub,
        type_: karmada::binding::SCHEDULED,
        reason: Some(karmada::binding::NO_CLUSTER_FIT),
        writer: "Karmada's scheduler",
        effect: "When False with this reason, the project's WorkloadDeployment gets `NoMatchingCell`.",
    },
    ReadCondition {
        kind: "Cluster",
        plane: PlaneKind::Hub,
        type_: karmada::cluster::READY,
        reason: None,
        writer: "Karmada's controller manager",
        effect: "While it is not True, deployments of the cell get `CellUnreachable`.",
    },
    ReadCondition {
        kind: "LocationBinding",
        plane: PlaneKind::Project,
        type_: networking::AVAILABLE,
        reason: None,
        writer: "Datum's networking",
        effect: "While it is False, the city gets no new deployment and admission refuses it.",
    },
    ReadCondition {
        kind: "Project",
        plane: PlaneKind::Root,
        type_: milo::READY,
        reason: None,
        writer: "Milo",
        effect: "The project's API server is used once it is True.",
    },
    ReadCondition {
        kind: "Project",
        plane: PlaneKind::Root,
        type_: milo::SUSPENDED,
        reason: None,
        writer: "Milo",
        effect: "While it is True, refused writes wait.",
    },
    ReadCondition {
        kind: "ProjectControlPlane",
        plane: PlaneKind::Root,
        type_: milo::CONTROL_PLANE_READY,
        reason: None,
        writer: "Milo",
        effect: "With `internalServiceDiscovery`, in the infrastructure cluster: the project's API server is used once it is True.",
    },
];

/// The reasons of warning events on a Workload or a WorkloadDeployment. Someone may have to correct their cause.
const WARNINGS: &[&str] = &[
    of_workload::NETWORK_NOT_FOUND,
    of_workload::WORKLOAD_TOO_LARGE,
    of_deployment::UNSUPPORTED_POLICY,
    of_deployment::TOO_MANY_REPLICAS,
    network_ready::NO_MATCHING_LOCATION,
    network_ready::AMBIGUOUS_LOCATION,
    network_ready::LOCATION_MISMATCH,
    network_ready::FAILED_TO_CREATE,
    network_ready::LOCATION_UNREADABLE,
    network_ready::NETWORK_UNREADABLE,
    network_ready::KIND_NOT_SERVED,
    of_deployment::PENDING_QUOTA,
    of_deployment::INVALID_CITY_CODE,
    of_deployment::HUB_NAMESPACE_CONTRADICTED,
    of_deployment::HUB_CONTRADICTED,
    of_deployment::HUB_REFUSED,
    of_deployment::CELL_UNREACHABLE,
    of_deployment::LOWER_HUB_SILENT,
    of_deployment::INSTANCES_MAY_REMAIN,
    of_deployment::NO_MATCHING_CELL,
];

/// The events that compute-federation publishes.
pub const EVENTS: &[PublishedEvent] = &[
    PublishedEvent {
        kind: "Workload, WorkloadDeployment",
        plane: PlaneKind::Project,
        type_: EventType::Normal,
        reasons: &[
            of_workload::PLACEMENT_FOUND,
            of_deployment::STABLE_INSTANCE_FOUND,
            of_deployment::NO_INSTANCES_DESIRED,
        ],
        when: "`Available` has become True.",
    },
    PublishedEvent {
        kind: "WorkloadDeployment",
        plane: PlaneKind::Project,
        type_: EventType::Normal,
        reasons: &[workload_deployment::CELLS_REPORTING],
        when: "`CellsReporting` had a reason of the next row, and the condition is gone.",
    },
    PublishedEvent {
        kind: "Workload, WorkloadDeployment",
        plane: PlaneKind::Project,
        type_: EventType::Warning,
        reasons: WARNINGS,
        when: "`Available`, `CellsReporting` or `InstancesEnded` now has this reason. Someone may have to correct the cause.",
    },
    PublishedEvent {
        kind: "Workload, WorkloadDeployment",
        plane: PlaneKind::Project,
        type_: EventType::Warning,
        reasons: ON_THE_WAY,
        when: "The condition was True and now has this reason. Otherwise, these reasons cause no event.",
    },
    PublishedEvent {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: EventType::Normal,
        reasons: &[instance::COPIED_TO_HUB],
        when: "The Instance is copied to the hub again.",
    },
    PublishedEvent {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: EventType::Warning,
        reasons: &[
            copied_to_hub::LINKING_LABELS_MISSING,
            copied_to_hub::HUB_NAMESPACE_MISSING,
            copied_to_hub::HUB_NAMESPACE_UNIDENTIFIED,
            copied_to_hub::HUB_DEPLOYMENT_MISSING,
            copied_to_hub::HELD_BY_ANOTHER_CELL,
            copied_to_hub::HELD_BY_ANOTHER_OWNER,
            copied_to_hub::HUB_REFUSED,
        ],
        when: "The Instance is not copied to the hub, for this reason of `CopiedToHub`.",
    },
    PublishedEvent {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: EventType::Normal,
        reasons: &[
            lifecycle::AVAILABLE,
            lifecycle::STOPPING,
            lifecycle::TERMINATING,
        ],
        when: "For customers: the Instance has become ready, its process ends, or the cell deletes it.",
    },
    PublishedEvent {
        kind: INSTANCE,
        plane: PlaneKind::Cell,
        type_: EventType::Warning,
        reasons: &[
            lifecycle::IMAGE_UNAVAILABLE,
            lifecycle::CONFIGURATION_ERROR,
            lifecycle::INSTANCE_CRASHING,
            lifecycle::FAILED,
        ],
        when: "For customers: the infrastructure provider now reports this problem. `Failed`: also if a ready Instance is no longer ready for another reason than quota.",
    },
    PublishedEvent {
        kind: DEPLOYMENT,
        plane: PlaneKind::Cell,
        type_: EventType::Normal,
        reasons: &[
            lifecycle::SCALED,
            lifecycle::PROJECT_PAUSED,
            lifecycle::PROJECT_RESUMED,
        ],
        when: "For customers: the desired number of Instances has changed, or a suspension begins or ends.",
    },
    PublishedEvent {
        kind: DEPLOYMENT,
        plane: PlaneKind::Cell,
        type_: EventType::Warning,
        reasons: &[lifecycle::PAUSE_FAILED],
        when: "For customers: the cell cannot suspend an Instance.",
    },
    PublishedEvent {
        kind: INSTANCE,
        plane: PlaneKind::Hub,
        type_: EventType::Warning,
        reasons: QUARANTINE_REASONS,
        when: "The Instance is not projected until someone corrects it.",
    },
    PublishedEvent {
        kind: "ResourceInterpreterCustomization",
        plane: PlaneKind::Hub,
        type_: EventType::Warning,
        reasons: &[reasons::SHADOWS_WEBHOOK],
        when: "Karmada runs its Lua script and does not call the webhook.",
    },
];

/// Reasons that end without intervention. They cause no event, unless the condition was True before.
pub const ON_THE_WAY: &[&str] = &[
    of_deployment::CELL_NOT_APPLIED,
    of_deployment::CELL_NOT_REPORTED,
    of_deployment::INSTANCES_REMAIN,
    of_workload::NO_DEPLOYMENTS,
    of_workload::NO_PLACEMENTS,
    of_deployment::NO_INSTANCES_DESIRED,
    of_deployment::NOT_REPORTED,
    of_deployment::PROVISIONING_INSTANCES,
];

/// Reasons for which an Instance of the hub is quarantined.
pub const QUARANTINE_REASONS: &[&str] = &[
    quarantine::NAMESPACE_UNIDENTIFIED,
    quarantine::IDENTITY_CONTRADICTED,
    quarantine::DEPLOYMENT_NAME_MISSING,
    quarantine::DEPLOYMENT_MISSING,
];

/// A reason of the annotation `compute.datumapis.com/quarantine-reason`.
#[derive(Clone, Copy, Debug)]
pub struct QuarantineAdvice {
    /// The annotation's value.
    pub reason: &'static str,
    /// The fault.
    pub meaning: &'static str,
    /// The remedy that ends the quarantine.
    pub remedy: &'static str,
}

/// The quarantine reasons with their meaning.
pub const QUARANTINE: &[QuarantineAdvice] = &[
    QuarantineAdvice {
        reason: quarantine::NAMESPACE_UNIDENTIFIED,
        meaning: "The labels `meta.datumapis.com/upstream-*` of the hub namespace do not identify a project and namespace.",
        remedy: "Correct the labels of the hub namespace.",
    },
    QuarantineAdvice {
        reason: quarantine::IDENTITY_CONTRADICTED,
        meaning: "The labels `meta.datumapis.com/upstream-*` of the Instance name another project or namespace than the labels of its hub namespace.",
        remedy: "Correct the labels that are wrong.",
    },
    QuarantineAdvice {
        reason: quarantine::DEPLOYMENT_NAME_MISSING,
        meaning: "Neither the label `compute.datumapis.com/workload-deployment-name` nor a controller reference names the WorkloadDeployment.",
        remedy: "Restore the label.",
    },
    QuarantineAdvice {
        reason: quarantine::DEPLOYMENT_MISSING,
        meaning: "The project does not have the WorkloadDeployment, or the hub namespace does not belong to the project's namespace. Reported 15 minutes after the later of two moments: the creation of the Instance, and the first observation that the WorkloadDeployment is missing.",
        remedy: "Delete the Instance in its cell, or restore the WorkloadDeployment.",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The values of the constants in `reasons.rs`.
    fn constants() -> BTreeSet<&'static str> {
        let lines = include_str!("reasons.rs").lines();
        let values =
            lines.filter_map(|line| line.trim().strip_prefix("pub const ")?.split('"').nth(1));
        values.collect()
    }

    #[test]
    fn every_reason_is_documented() {
        let conditions = written_conditions().map(|condition| condition.reason);
        let events = EVENTS.iter().flat_map(|event| event.reasons).copied();
        let quarantine = QUARANTINE.iter().map(|it| it.reason);
        let documented: BTreeSet<_> = conditions
            .chain(quarantine)
            .chain([reasons::SHADOWS_WEBHOOK])
            .chain(lifecycle::ALL)
            .collect();
        assert_eq!(documented, constants());
        let types = [
            workload_deployment::CELLS_REPORTING,
            instance::COPIED_TO_HUB,
        ];
        let events: BTreeSet<_> = events.filter(|reason| !types.contains(reason)).collect();
        assert!(events.is_subset(&documented), "{events:?}");
    }

    #[test]
    fn the_quarantine_reasons_are_those_of_the_list() {
        let documented: Vec<_> = QUARANTINE.iter().map(|it| it.reason).collect();
        assert_eq!(documented, QUARANTINE_REASONS);
    }

    #[test]
    fn no_condition_is_listed_twice() {
        let mut seen = BTreeSet::new();
        for it in written_conditions() {
            assert!(seen.insert((it.kind, it.type_, it.reason)), "{it:?}");
        }
    }
}
