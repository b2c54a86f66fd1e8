//! The kinds of `quota.miloapis.com` in a project, as the controllers of the double read them. They do not use the
//! types of crate `api`: a wrong field there would then be wrong in the double too, and no test would notice.

use std::fmt;

use api::Condition;
use api::milo::RESOURCE_MANAGER_GROUP;
use image::oci::sha256;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// API group of the quota system.
pub const GROUP: &str = "quota.miloapis.com";
/// API version of the quota system.
pub const API_VERSION: &str = "quota.miloapis.com/v1alpha1";
/// Namespace of the AllowanceBuckets of a project, and of the ResourceGrants that the double makes.
pub const SYSTEM_NAMESPACE: &str = "milo-system";
/// Condition of a ResourceClaim. Its reason tells a pending claim from a denied one: both have the status `False`.
pub const GRANTED: &str = "Granted";
/// Condition of a ResourceGrant: the grant counts.
pub const ACTIVE: &str = "Active";
/// Reason of a granted request, and of `Granted` if all requests are granted.
pub const QUOTA_AVAILABLE: &str = "QuotaAvailable";
/// Reason of a denied request, and of `Granted` if any request is denied.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
/// Reason of `Granted` while requests have no decision.
pub const PENDING_EVALUATION: &str = "PendingEvaluation";

/// A reference without a version: to the consumer of quota, or to the object that a claim is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaReference {
    /// API group of the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Kind, such as `Project`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace. Empty for a Project.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl QuotaReference {
    /// Returns the reference to a Project.
    pub fn project(name: &str) -> Self {
        Self {
            api_group: RESOURCE_MANAGER_GROUP.to_owned(),
            kind: "Project".to_owned(),
            name: name.to_owned(),
            namespace: String::new(),
        }
    }
}

/// The spec of a ResourceClaim.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "quota.miloapis.com",
    version = "v1alpha1",
    kind = "ResourceClaim",
    root = "QuotaClaim",
    plural = "resourceclaims",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "QuotaClaimStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaClaimSpec {
    /// The consumer whose quota is used.
    #[serde(default)]
    pub consumer_ref: QuotaReference,
    /// The amounts.
    pub requests: Vec<QuotaRequest>,
    /// The object that the claim is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_ref: Option<QuotaReference>,
}

/// A requested amount of one resource type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRequest {
    /// Resource type.
    pub resource_type: String,
    /// Amount in the base unit of the resource type.
    pub amount: i64,
}

/// The status of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaClaimStatus {
    /// Generation that the condition is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The decisions.
    pub allocations: Vec<QuotaAllocation>,
    /// The condition `Granted`.
    pub conditions: Vec<Condition>,
}

/// The decision about one request of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaAllocation {
    /// Resource type.
    pub resource_type: String,
    /// The decision.
    pub status: QuotaDecision,
    /// Reason for programs.
    #[serde(default)]
    pub reason: String,
    /// Details for people.
    #[serde(default)]
    pub message: String,
    /// Amount that is taken from the bucket. 0 if the request is denied.
    #[serde(default)]
    pub allocated_amount: i64,
    /// Name of the AllowanceBucket that the amount is taken from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub allocating_bucket: String,
    /// When the decision was made.
    pub last_transition_time: Time,
}

/// Whether a request is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum QuotaDecision {
    /// The amount is reserved.
    Granted,
    /// The bucket lacked the amount.
    Denied,
    /// There is no decision yet.
    Pending,
}

impl QuotaClaim {
    /// Returns the condition `Granted`. The API server gives every claim one.
    pub fn granted(&self) -> Option<&Condition> {
        let status = self.status.as_ref()?;
        api::condition::find(&status.conditions, GRANTED)
    }

    /// Returns the decision about the request for this resource type, or `None` if there is none yet.
    pub fn allocation(&self, resource_type: &str) -> Option<&QuotaAllocation> {
        let status = self.status.as_ref()?;
        status.allocations.iter().find(|allocation| {
            allocation.resource_type == resource_type && allocation.status != QuotaDecision::Pending
        })
    }
}

/// The spec of a ResourceGrant.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "quota.miloapis.com",
    version = "v1alpha1",
    kind = "ResourceGrant",
    root = "QuotaGrant",
    plural = "resourcegrants",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "QuotaGrantStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaGrantSpec {
    /// The consumer that may use the amounts.
    pub consumer_ref: QuotaReference,
    /// The amounts.
    pub allowances: Vec<QuotaAllowance>,
}

/// The amounts of one resource type in a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaAllowance {
    /// Resource type.
    pub resource_type: String,
    /// Amounts. Their sum counts.
    pub buckets: Vec<QuotaAmount>,
}

/// An amount in a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct QuotaAmount {
    /// Amount in the base unit of the resource type.
    pub amount: i64,
}

/// The status of a ResourceGrant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaGrantStatus {
    /// Generation that the condition is based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The condition `Active`.
    pub conditions: Vec<Condition>,
}

/// The spec of an AllowanceBucket.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize,
)]
#[kube(
    group = "quota.miloapis.com",
    version = "v1alpha1",
    kind = "AllowanceBucket",
    root = "QuotaBucket",
    plural = "allowancebuckets",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "QuotaBucketStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaBucketSpec {
    /// The consumer whose quota the bucket counts.
    pub consumer_ref: QuotaReference,
    /// Resource type.
    pub resource_type: String,
}

impl QuotaBucketSpec {
    /// Returns the name of the bucket with this spec.
    pub fn bucket_name(&self) -> String {
        let QuotaReference { kind, name, .. } = &self.consumer_ref;
        let text = format!("{}{kind}{name}", self.resource_type);
        format!("bucket-{}", sha256(text.as_bytes()))
    }
}

/// The status of an AllowanceBucket.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaBucketStatus {
    /// Generation that the numbers are based on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sum of the amounts of all active grants.
    pub limit: i64,
    /// Sum of the granted allocations of all claims.
    pub allocated: i64,
    /// What is left of the limit. 0 if more is allocated than the limit.
    pub available: i64,
    /// Number of claims with a granted allocation.
    pub claim_count: i32,
    /// Number of grants that contribute.
    pub grant_count: i32,
    /// The grants that contribute.
    pub contributing_grant_refs: Vec<QuotaContribution>,
    /// When the numbers last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconciliation: Option<Time>,
}

/// The part of a grant in the limit of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaContribution {
    /// Name of the ResourceGrant.
    pub name: String,
    /// Generation of the ResourceGrant.
    pub last_observed_generation: i64,
    /// Amount that the ResourceGrant adds.
    pub amount: i64,
}

impl fmt::Display for QuotaBucketSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaReference { kind, name, .. } = &self.consumer_ref;
        write!(formatter, "{} of {kind} {name}", self.resource_type)
    }
}
