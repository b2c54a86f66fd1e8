//! The parts of Milo's quota API (`quota.miloapis.com/v1alpha1`) that this project uses. Unknown fields are tolerated.
//! See docs/concepts/flow.md#quota.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// The namespace of a project's AllowanceBuckets.
pub const BUCKETS_NAMESPACE: &str = "milo-system";
/// Label of an AllowanceBucket: the name of the project.
pub const CONSUMER_NAME: &str = "quota.miloapis.com/consumer-name";

/// Condition of a ResourceClaim: the quota system has granted all requests.
pub const GRANTED: &str = "Granted";
/// Reason of [`GRANTED`]: the quota system has not decided yet. The status is `False`, also by the default of the CRD.
pub const PENDING_EVALUATION: &str = crate::reasons::quota_granted::PENDING_EVALUATION;
/// Reason of [`GRANTED`]: the quota system refuses the claim itself, not its amounts.
pub const VALIDATION_FAILED: &str = crate::reasons::quota_granted::VALIDATION_FAILED;

/// Resource type of a number of Instances.
pub const INSTANCES: &str = "compute.datumapis.com/instances";
/// Resource type of virtual processors, in thousandths of one.
pub const VCPUS: &str = "compute.datumapis.com/vcpus";
/// Resource type of memory, in MiB.
pub const MEMORY: &str = "compute.datumapis.com/memory";

/// Desired state of a ResourceClaim: amounts that are taken from the quota of a project. Namespaced, on the plane of
/// the project.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "quota.miloapis.com",
    version = "v1alpha1",
    kind = "ResourceClaim",
    plural = "resourceclaims",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "ResourceClaimStatus"
)]
pub struct ResourceClaimSpec {
    /// The project whose quota is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<UnversionedReference>,
    /// The amounts, one for each resource type.
    #[serde(default)]
    pub requests: Vec<ResourceRequest>,
    /// The object that the claim is for. It must be in the same control plane as the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_ref: Option<UnversionedReference>,
}

/// An object without a version: `ConsumerRef` and `UnversionedObjectReference` of Milo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnversionedReference {
    /// API group. Empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace. Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// An amount of one resource type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequest {
    /// The resource type. It must be registered.
    pub resource_type: String,
    /// The amount in the base unit of the resource type. Admission requires more than 0.
    pub amount: i64,
}

/// Observed state of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    /// The generation that the quota system has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The decision about each resource type. A decision is final: it changes only when the claim is made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocation>,
    /// The condition [`GRANTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The decision about one resource type of a claim. Granted amounts count until the claim is deleted, also if the
/// claim as a whole is denied.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// The resource type.
    pub resource_type: String,
    /// The decision.
    pub status: AllocationStatus,
    /// Reason of the decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The amount that is taken from the quota. 0 unless the allocation is granted.
    #[serde(default)]
    pub allocated_amount: i64,
    /// Name of the AllowanceBucket that the amount is taken from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub allocating_bucket: String,
}

/// A decision about one resource type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum AllocationStatus {
    /// The amount is taken from the quota.
    Granted,
    /// The quota does not have the amount.
    Denied,
    /// There is no decision yet.
    #[serde(other)]
    Pending,
}

/// Desired state of an AllowanceBucket: the quota of one resource type of one consumer. Namespaced, on the plane of the
/// project.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "quota.miloapis.com",
    version = "v1alpha1",
    kind = "AllowanceBucket",
    plural = "allowancebuckets",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "AllowanceBucketStatus"
)]
pub struct AllowanceBucketSpec {
    /// The consumer, such as a project.
    #[serde(default)]
    pub consumer_ref: UnversionedReference,
    /// The resource type.
    #[serde(default)]
    pub resource_type: String,
}

/// Observed state of an AllowanceBucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowanceBucketStatus {
    /// The amount that is left, in the base unit of the resource type.
    #[serde(default)]
    pub available: i64,
}

impl AllowanceBucket {
    /// Returns whether this is the quota of a project for a resource type, and has this amount left.
    pub fn has_room(&self, project: &str, request: &ResourceRequest) -> bool {
        let consumer = &self.spec.consumer_ref;
        let available = self.status.as_ref().map_or(0, |status| status.available);
        (consumer.kind.as_str(), consumer.name.as_str()) == ("Project", project)
            && self.spec.resource_type == request.resource_type
            && available >= request.amount
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{json, to_value};

    use super::*;

    /// The names and types are those of Milo's schema (milo `pkg/apis/quota/v1alpha1`).
    #[test]
    fn a_claim_as_it_is_served_can_be_read_and_keeps_its_field_names() {
        assert_eq!(
            ResourceClaim::url_path(&(), Some("default")),
            "/apis/quota.miloapis.com/v1alpha1/namespaces/default/resourceclaims"
        );
        let project =
            json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "p"});
        let spec = json!({
            "consumerRef": project,
            "requests": [
                {"resourceType": "compute.datumapis.com/instances", "amount": 1},
                {"resourceType": "compute.datumapis.com/vcpus", "amount": 1000},
            ],
            "resourceRef": project,
        });
        let mut status = json!({
            "observedGeneration": 1,
            "allocations": [{
                "resourceType": "compute.datumapis.com/instances", "status": "Granted",
                "reason": "QuotaAvailable", "message": "Capacity reserved", "allocatedAmount": 1,
                "allocatingBucket": "bucket-1", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }, {
                "resourceType": "compute.datumapis.com/vcpus", "status": "Denied",
                "reason": "QuotaExceeded", "allocatedAmount": 0,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "conditions": [{
                "type": "Granted", "status": "False", "reason": "QuotaExceeded",
                "message": "Insufficient quota resources.", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        let claim: ResourceClaim = serde_json::from_value(json!({
            "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceClaim",
            "metadata": {"name": "instance-dfw1-web-0", "namespace": "default"},
            "spec": spec, "status": status,
        }))
        .unwrap();
        assert_eq!(to_value(&claim.spec).unwrap(), spec);
        // The time of a decision is not used.
        for allocation in status["allocations"].as_array_mut().unwrap() {
            allocation
                .as_object_mut()
                .unwrap()
                .remove("lastTransitionTime");
        }
        assert_eq!(to_value(claim.status.unwrap()).unwrap(), status);
    }

    /// The default of the CRD.
    #[test]
    fn a_fresh_claim_is_false_and_pending() {
        let status: ResourceClaimStatus = serde_json::from_value(json!({"conditions": [{
            "type": "Granted", "status": "False", "reason": "PendingEvaluation",
            "message": "Awaiting capacity evaluation", "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]}))
        .unwrap();
        assert!(status.conditions[0].is_false());
        assert_eq!(status.conditions[0].reason, PENDING_EVALUATION);
    }

    #[test]
    fn a_decision_that_is_not_known_counts_as_none() {
        let allocation: Allocation =
            serde_json::from_value(json!({"resourceType": "x", "status": "Later"})).unwrap();
        assert_eq!(allocation.status, AllocationStatus::Pending);
    }
}
