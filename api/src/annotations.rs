//! Annotation keys. See docs/concepts/identity.md.

use crate::metadata_key::{MetadataKey, metadata_key};

/// Hub namespace of a WorkloadDeployment or of a projected Instance. On a WorkloadDeployment, it is recorded before the
/// federator writes to the hub, so that finalization needs no other object of the project (I-9).
pub const FEDERATION_NAMESPACE: &str = "compute.datumapis.com/federation-namespace";
/// On a hub namespace: UID of the Namespace `default` of the project's API server. It identifies that API server.
pub const UPSTREAM_CLUSTER_UID: &str = "compute.datumapis.com/upstream-cluster-uid";
/// On a hub namespace: UID of the Namespace `default` of the Milo root that has the Project. It identifies that root.
pub const UPSTREAM_ROOT_UID: &str = "compute.datumapis.com/upstream-root-uid";
/// UID of the Namespace `default` of the hub. It identifies the hub. It is on the objects that were written to this
/// hub: a WorkloadDeployment of a project, and a hub namespace.
pub const HUB_UID: &str = "compute.datumapis.com/hub-uid";
/// On the Namespace `default` of a hub: the UIDs of the hubs that this hub replaces, separated by commas. An operator
/// writes it when the projects move to this hub.
pub const REPLACES_HUBS: &str = "compute.datumapis.com/replaces-hubs";
/// On the Namespace `default` of a lower hub: UID of the Namespace `default` of its upper hub. The process of the lower
/// hub writes it, and reports to no other upper hub.
pub const UPPER_HUB_UID: &str = "compute.datumapis.com/upper-hub-uid";
/// On the copy of a WorkloadDeployment: generation of the project's WorkloadDeployment that the copy was written from.
pub const UPSTREAM_GENERATION: &str = "compute.datumapis.com/upstream-generation";
/// On the copy of a WorkloadDeployment: UID of the project's WorkloadDeployment that the copy was written from. The
/// generation is a generation of this object.
pub const UPSTREAM_UID: &str = "compute.datumapis.com/upstream-uid";
/// JSON array of `Kind/name` tokens: ConfigMaps and Secrets that must be propagated with a WorkloadDeployment.
pub const EXPECTED_REFERENCED_DATA: &str = "compute.datumapis.com/expected-referenced-data";
/// Why the referenced data of a WorkloadDeployment cannot be determined: a JSON object with `reason` and `message`. A
/// status cannot be propagated to a cell.
pub const REFERENCED_DATA_ERROR: &str = "compute.datumapis.com/referenced-data-error";
/// Which template and which versions of its ConfigMaps and Secrets [`EXPECTED_REFERENCED_DATA`] was determined for. See
/// docs/concepts/referenced-data.md.
///
/// On an Instance in a cell: the versions that it was made for, if its template has [`ROLL_ON_DATA_CHANGE`].
pub const REFERENCED_DATA_VERSIONS: &str = "compute.datumapis.com/referenced-data-versions";
/// In the metadata of a template: `true` if the Instances are to be replaced when one of its ConfigMaps or Secrets
/// changes. See docs/concepts/referenced-data.md.
pub const ROLL_ON_DATA_CHANGE: &str = "compute.datumapis.com/roll-on-data-change";
/// The annotations about referenced data that travel with a WorkloadDeployment, also their absence.
pub const OF_REFERENCED_DATA: [&str; 3] = [
    EXPECTED_REFERENCED_DATA,
    REFERENCED_DATA_ERROR,
    REFERENCED_DATA_VERSIONS,
];
/// On a WorkloadDeployment: `true` while the service is suspended in its project. The service catalogue writes it in the
/// project. Any other value, and its absence, mean that the Instances run.
pub const SUSPENDED: &str = "compute.datumapis.com/suspended";
/// On the copy of a WorkloadDeployment: the time at which the federator asked the cells to end its Instances, before the
/// copy is deleted (docs/concepts/ownership.md). The project's own annotation means nothing.
pub const ENDING: &str = "compute.datumapis.com/ending";
/// The annotations of a project's WorkloadDeployment that travel with it, also their absence.
pub const MIRRORED: [&str; 4] = [
    EXPECTED_REFERENCED_DATA,
    REFERENCED_DATA_ERROR,
    REFERENCED_DATA_VERSIONS,
    SUSPENDED,
];
/// On a companion: JSON array of the WorkloadDeployments that need it, as `namespace/name` in the project.
pub const REFERENCED_BY: &str = "compute.datumapis.com/referenced-by";
/// On a companion: UID and resource version of its source in the project, as `uid/version`. Opaque for everyone else: it
/// says nothing about the content.
pub const SOURCE_VERSION: &str = "compute.datumapis.com/source-version";
/// On a companion: the version of its source, as `uid/version`, since which its content is as it is. After a blank, the
/// [`SOURCE_VERSION`] with which it was written.
pub const CONTENT_VERSION: &str = "compute.datumapis.com/content-version";
/// Generation of the hub object that Karmada last applied to a cell. Karmada writes it on the cell's object.
pub const RESOURCE_TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// On a WorkloadDeployment of a cell: the replicas that Karmada assigned to the cell, and the field that has them. See
/// [`AssignedReplicas`](crate::AssignedReplicas).
pub const ASSIGNED_REPLICAS: &str = "compute.datumapis.com/assigned-replicas";
/// On a WorkloadDeployment of a cell: the last number that the autoscaler controller has removed because Karmada had
/// written it back.
pub const CLEARED_REPLICAS: &str = "compute.datumapis.com/cleared-replicas";
/// On a WorkloadDeployment of a cell: the rules of the cell. See [`CellRules`](crate::CellRules).
pub const CELL_RULES: &str = "compute.datumapis.com/cell-rules";
/// On a WorkloadDeployment of a cell: a number that is another one for other rules of the cell. The interpreter reports it.
/// An OverridePolicy that sets other rules for one customer does not change it.
pub const CELL_RULES_STAMP: &str = "compute.datumapis.com/cell-rules-stamp";
/// On hub objects that Karmada propagates to cells: when the federator last made Karmada apply the object again.
/// Karmada applies an object again when an annotation changes.
pub const REAPPLIED_AT: &str = "compute.datumapis.com/reapplied-at";
/// Public keys that a virtual machine accepts, one `user:key` per line. See docs/reference/admission.md.
pub const SSH_KEYS: &str = "compute.datumapis.com/ssh-keys";
/// Name of the PropagationPolicy that has claimed a hub object. Karmada writes it on the object and on its binding.
/// Both are in the namespace of the policy.
pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";

/// Why a hub Instance is not projected, as one word. The four quarantine annotations exist together, for as long as the
/// quarantine lasts.
pub const QUARANTINE_REASON: &str = "compute.datumapis.com/quarantine-reason";
/// Why a hub Instance is not projected, with the names of the objects at fault.
pub const QUARANTINE_MESSAGE: &str = "compute.datumapis.com/quarantine-message";
/// Hash of the labels that led to the quarantine. If the labels change, the projector decides again.
pub const QUARANTINE_FINGERPRINT: &str = "compute.datumapis.com/quarantine-fingerprint";
/// When the quarantine began.
pub const QUARANTINE_TIME: &str = "compute.datumapis.com/quarantine-time";

/// On an Instance of a cell: name of its copy on the hub, if the name contains a hash because another cell of the city
/// has the readable name. A hub that does not have the copies yet then gets the same names.
pub const COPY_NAME: &str = "compute.datumapis.com/copy-name";

/// On a WorkloadDeployment of a cell: JSON array of the names of Instances that were replaced while the hub did not
/// answer. The hub may still have their copies.
pub const OUTDATED_COPIES: &str = "compute.datumapis.com/outdated-copies";

/// JSON array of the names of the projects in which Instances of a cell may have left claims of quota. Kept on the
/// Namespace `default` of the cell.
pub const LEFT_CLAIMS: &str = "compute.datumapis.com/left-claims";

/// Name of the Instance that a ResourceClaim is for. A label could not have a name of this length.
pub const INSTANCE_NAME: &str = "compute.datumapis.com/instance-name";
/// UID of the Instance in its cell that a ResourceClaim is for. A later Instance of this name does not use the claim.
pub const INSTANCE_UID: &str = "compute.datumapis.com/instance-uid";

/// Every annotation, as `docs/reference/labels.md` describes it.
pub const ALL: &[MetadataKey] = &[
    metadata_key(
        FEDERATION_NAMESPACE,
        "WorkloadDeployment, Instance; project",
        "`federator`, `projector`",
        "Name of the hub namespace. On a WorkloadDeployment, it is recorded before the federator writes to the hub.",
    ),
    metadata_key(
        UPSTREAM_CLUSTER_UID,
        "Namespace; hub",
        "`federator`",
        "UID of the Namespace `default` of the project's API server. It identifies that API server.",
    ),
    metadata_key(
        UPSTREAM_ROOT_UID,
        "Namespace; hub",
        "`federator`",
        "UID of the Namespace `default` of the Milo root that has the Project. It identifies that root.",
    ),
    metadata_key(
        HUB_UID,
        "WorkloadDeployment; project. Namespace; hub",
        "`federator`",
        "UID of the Namespace `default` of the hub that the object was written to. A \"not found\" of another hub does not prove that the object is gone.",
    ),
    metadata_key(
        REPLACES_HUBS,
        "Namespace `default`; hub",
        "an operator",
        "UIDs of the hubs that this hub replaces, separated by commas. See [Move to another hub](../operate/move-hub.md).",
    ),
    metadata_key(
        UPPER_HUB_UID,
        "Namespace `default`; lower hub",
        "`lower-hub`",
        "UID of the Namespace `default` of the upper hub. The process of the lower hub reports to no other upper hub, unless it [replaces](../operate/move-hub.md) this one.",
    ),
    metadata_key(
        UPSTREAM_GENERATION,
        "WorkloadDeployment; hub, cell",
        "`federator`",
        "Generation of the project's WorkloadDeployment that the copy was written from. With the same UID, it is lowered only after a restore of the project.",
    ),
    metadata_key(
        UPSTREAM_UID,
        "WorkloadDeployment; hub, cell",
        "`federator`",
        "UID of the project's WorkloadDeployment that the copy was written from.",
    ),
    metadata_key(
        EXPECTED_REFERENCED_DATA,
        "WorkloadDeployment; project, hub, cell",
        "`referenced-data`; `federator` copies it",
        "JSON array of `Kind/name`: ConfigMaps and Secrets that must be propagated with the WorkloadDeployment.",
    ),
    metadata_key(
        REFERENCED_DATA_ERROR,
        "WorkloadDeployment; project, hub, cell",
        "`referenced-data`; `federator` copies it",
        "JSON object with `reason` and `message`: why the data cannot be determined. Absent if there is no such reason.",
    ),
    metadata_key(
        REFERENCED_DATA_VERSIONS,
        "WorkloadDeployment; project, hub, cell. Instance; cell",
        "`referenced-data`; `federator` copies it. On an Instance: `deployment`",
        "JSON object: the hash of the template, and the version of each source, for which the data were determined. On an Instance whose template has `roll-on-data-change`: those that it was made for.",
    ),
    metadata_key(
        ROLL_ON_DATA_CHANGE,
        "`spec.template.metadata` of a Workload; project",
        "the customer",
        "`true` if the Instances are to be replaced when one of their ConfigMaps or Secrets changes. See [Referenced data](../concepts/referenced-data.md#change-of-a-source).",
    ),
    metadata_key(
        SUSPENDED,
        "WorkloadDeployment; project, hub, cell",
        "the service catalogue; `federator` copies it",
        "`true` while the service is suspended in the project. See [Suspension](../concepts/flow.md#suspension).",
    ),
    metadata_key(
        ENDING,
        "WorkloadDeployment; hub, cell",
        "`federator`",
        "Since when the cells have to end the Instances, because the project deletes the WorkloadDeployment. See [Deletion of a WorkloadDeployment](../concepts/ownership.md#deletion-of-a-workloaddeployment).",
    ),
    metadata_key(
        REFERENCED_BY,
        "ConfigMap, Secret; hub, cell",
        "`companion`",
        "JSON array of `namespace/name`: the WorkloadDeployments of the project that need the companion.",
    ),
    metadata_key(
        SOURCE_VERSION,
        "ConfigMap, Secret; hub, cell",
        "`companion`",
        "UID and resource version of the source in the project. It tells two versions apart, and says nothing about their content.",
    ),
    metadata_key(
        CONTENT_VERSION,
        "ConfigMap, Secret; hub, cell",
        "`companion`",
        "The version of the source, as in `source-version`, since which the content is as it is, and the `source-version` with which it was written. A change of the labels of the source does not change the first one.",
    ),
    metadata_key(
        RESOURCE_TEMPLATE_GENERATION,
        "WorkloadDeployment; cell",
        "Karmada",
        "Generation of the hub's object that Karmada last applied to the cell.",
    ),
    metadata_key(
        ASSIGNED_REPLICAS,
        "WorkloadDeployment; cell",
        "the resource interpreter, through Karmada",
        "JSON object: the replicas of the cell (`share`), of the hub's object (`total`), its `generation`, and the `field` that has the share. Absent with 0 replicas.",
    ),
    metadata_key(
        CLEARED_REPLICAS,
        "WorkloadDeployment; cell",
        "`autoscaler`",
        "The last `spec.replicas` that was removed because Karmada had written it back. The same number is not removed twice.",
    ),
    metadata_key(
        CELL_RULES,
        "WorkloadDeployment; cell",
        "`cell-rules`, through Karmada",
        "JSON object: the rules of the cell. See [Rules per cell](../operate/cell-rules.md).",
    ),
    metadata_key(
        CELL_RULES_STAMP,
        "WorkloadDeployment; cell",
        "`cell-rules`, through Karmada",
        "A hash of the rules of the cell, as a number. With it, the federator sees whether the rules have [arrived](../operate/cell-rules.md#how-it-works).",
    ),
    metadata_key(
        REAPPLIED_AT,
        "WorkloadDeployment, Namespace; hub",
        "`federator`",
        "When the federator last made Karmada apply the object again, because a cell lacked it although Karmada treats it as applied.",
    ),
    metadata_key(
        SSH_KEYS,
        "Workload, in `spec.template.metadata`; project",
        "the customer",
        "Public keys that a virtual machine accepts, one `user:key` per line.",
    ),
    metadata_key(
        POLICY_NAME,
        "WorkloadDeployment, ResourceBinding; hub",
        "Karmada",
        "Name of the PropagationPolicy that has claimed the object.",
    ),
    metadata_key(
        QUARANTINE_REASON,
        "Instance; hub",
        "`projector`",
        "Why the Instance is not projected, as one word. See [Quarantine reasons](conditions.md#quarantine-reasons).",
    ),
    metadata_key(
        QUARANTINE_MESSAGE,
        "Instance; hub",
        "`projector`",
        "Why the Instance is not projected, with the names of the objects at fault.",
    ),
    metadata_key(
        QUARANTINE_FINGERPRINT,
        "Instance; hub",
        "`projector`",
        "Hash of the labels that led to the quarantine. If the labels change, the projector decides again.",
    ),
    metadata_key(
        QUARANTINE_TIME,
        "Instance; hub",
        "`projector`",
        "When the quarantine began.",
    ),
    metadata_key(
        COPY_NAME,
        "Instance; cell",
        "`instance-writeback`",
        "Name of the Instance's copy on the hub, if another cell of the city has the readable name.",
    ),
    metadata_key(
        OUTDATED_COPIES,
        "WorkloadDeployment; cell",
        "`outdated-copies`; `instance-writeback` removes names",
        "JSON array of the names of Instances that were replaced while the hub did not answer. The hub may still have their copies. The finalizer of the WorkloadDeployment stays until the record is gone.",
    ),
    metadata_key(
        LEFT_CLAIMS,
        "Namespace `default`; cell",
        "`quota`; `quota-sweeper` removes names",
        "JSON array of the names of projects. Instances of the cell have ended without proof that their claims in these projects are gone, or their claims wait for the next Instances. The record goes when nothing was found in the project for a minute, or when the project was gone for an hour. Remove a project that was gone before the process has found it.",
    ),
    metadata_key(
        INSTANCE_NAME,
        "ResourceClaim; project",
        "`quota`",
        "Name of the Instance that the claim is for.",
    ),
    metadata_key(
        INSTANCE_UID,
        "ResourceClaim; project",
        "`quota`",
        "UID of the Instance in its cell that the claim is for. A later Instance of this name does not start with the claim.",
    ),
];
