//! Annotation keys (compute.md 1.5 and karmada.md 8.2).

/// Hub namespace of a WorkloadDeployment or of a projected Instance, recorded before anything is written there, so that finalization needs to
/// read nothing else (P-7).
pub const FEDERATION_NAMESPACE: &str = "compute.datumapis.com/federation-namespace";
/// On a hub namespace: UID of the Namespace `default` of the project's API server, by which that is known again.
pub const UPSTREAM_CLUSTER_UID: &str = "compute.datumapis.com/upstream-cluster-uid";
/// On a hub namespace: UID of the Namespace `default` of the Milo root that has the Project, by which that is known again.
pub const UPSTREAM_ROOT_UID: &str = "compute.datumapis.com/upstream-root-uid";
/// JSON array of `Kind/name` tokens: ConfigMaps and Secrets that must travel with a WorkloadDeployment.
pub const EXPECTED_REFERENCED_DATA: &str = "compute.datumapis.com/expected-referenced-data";
/// Generation of the hub object that Karmada last applied to a cell. Written by Karmada on the cell's object.
pub const RESOURCE_TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// On what the hub has for cells: when Karmada was last made to apply it again, which it does where an annotation changes.
pub const REAPPLIED_AT: &str = "compute.datumapis.com/reapplied-at";
/// Public keys that a virtual machine accepts, one `user:key` to a line (compute.md 3.4).
pub const SSH_KEYS: &str = "compute.datumapis.com/ssh-keys";
/// Name of the PropagationPolicy that has claimed an object of the hub. Written by Karmada on the object and on its binding, in the
/// namespace of the policy.
pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";

/// Why a hub Instance is not projected, in one word (P-10). The four are there together, for as long as it is so.
pub const QUARANTINE_REASON: &str = "compute.datumapis.com/quarantine-reason";
/// The same, with what names the objects at fault.
pub const QUARANTINE_MESSAGE: &str = "compute.datumapis.com/quarantine-message";
/// Hash of the labels that led there; with other labels it is another case.
pub const QUARANTINE_FINGERPRINT: &str = "compute.datumapis.com/quarantine-fingerprint";
/// Since when it is so.
pub const QUARANTINE_TIME: &str = "compute.datumapis.com/quarantine-time";
