//! The controller that keeps the AllowanceBuckets and decides the requests of ResourceClaims. Each bucket is one writer
//! with its own field manager.

use std::collections::BTreeMap;

use anyhow::Context;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use multicluster::clock;
use serde_json::json;

use super::claims::apply_status;
use super::grants::is_active;
use super::kinds::{
    QUOTA_AVAILABLE, QUOTA_EXCEEDED, QuotaAllocation, QuotaBucket, QuotaBucketSpec,
    QuotaBucketStatus, QuotaClaim, QuotaContribution, QuotaDecision, QuotaGrant, SYSTEM_NAMESPACE,
};

/// Labels of a bucket with its consumer.
const CONSUMER_KIND: &str = "quota.miloapis.com/consumer-kind";
const CONSUMER_NAME: &str = "quota.miloapis.com/consumer-name";

/// Number of decisions that a bucket writes at once. Their order does not matter after the reservation.
const CONCURRENT: usize = 16;

/// Returns the API of the buckets of a project.
pub(super) fn api(client: &Client) -> Api<QuotaBucket> {
    Api::namespaced(client.clone(), SYSTEM_NAMESPACE)
}

/// Counts all buckets, and decides all requests that have no decision.
pub(super) async fn reconcile(client: Client) -> anyhow::Result<()> {
    let params = ListParams::default();
    let (claims, grants): (Api<QuotaClaim>, Api<QuotaGrant>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let existing = api(&client);
    let (mut claims, grants, existing) = tokio::try_join!(
        claims.list(&params),
        grants.list(&params),
        existing.list(&params)
    )?;
    // The oldest claim is decided first.
    claims.items.sort_by_cached_key(|claim| {
        (
            claim.creation_timestamp(),
            claim.namespace(),
            claim.name_any(),
        )
    });
    let mut buckets: BTreeMap<_, _> = existing
        .items
        .into_iter()
        .map(|bucket| (bucket.name_any(), (bucket.spec.clone(), Some(bucket))))
        .collect();
    for spec in needed(&claims.items, &grants.items) {
        buckets
            .entry(spec.bucket_name())
            .or_insert_with(|| (spec, None));
    }
    try_join_all(buckets.into_iter().map(|(name, (spec, found))| {
        let writer = BucketWriter::new(&client, &name, &spec);
        let (claims, grants) = (&claims.items, &grants.items);
        async move {
            let reconciled = writer.reconcile(found, claims, grants).await;
            reconciled.with_context(|| format!("the bucket of {}", writer.spec))
        }
    }))
    .await
    .map(drop)
}

/// Returns the buckets that the claims and the active grants need.
fn needed(claims: &[QuotaClaim], grants: &[QuotaGrant]) -> Vec<QuotaBucketSpec> {
    let of_grants = grants
        .iter()
        .filter(|grant| is_active(grant))
        .flat_map(|grant| {
            let types = grant.spec.allowances.iter().map(|of| &of.resource_type);
            types.map(|resource_type| (&grant.spec.consumer_ref, resource_type))
        });
    let of_claims = claims.iter().flat_map(|claim| {
        let types = claim.spec.requests.iter().map(|of| &of.resource_type);
        types.map(|resource_type| (&claim.spec.consumer_ref, resource_type))
    });
    of_grants
        .chain(of_claims)
        .map(|(consumer, resource_type)| QuotaBucketSpec {
            consumer_ref: consumer.clone(),
            resource_type: resource_type.clone(),
        })
        .collect()
}

/// Returns the numbers of a bucket. The consumer of a claim must be the bucket's in all fields, that of a grant only in
/// kind and name.
fn count(
    spec: &QuotaBucketSpec,
    claims: &[QuotaClaim],
    grants: &[QuotaGrant],
) -> QuotaBucketStatus {
    let consumer = &spec.consumer_ref;
    let mut status = QuotaBucketStatus::default();
    for grant in grants.iter().filter(|grant| is_active(grant)) {
        let of = &grant.spec.consumer_ref;
        let allowances: Vec<_> = grant
            .spec
            .allowances
            .iter()
            .filter(|allowance| allowance.resource_type == spec.resource_type)
            .collect();
        if (&of.kind, &of.name) != (&consumer.kind, &consumer.name) || allowances.is_empty() {
            continue;
        }
        let amounts = allowances.iter().flat_map(|allowance| &allowance.buckets);
        status.contributing_grant_refs.push(QuotaContribution {
            name: grant.name_any(),
            last_observed_generation: grant.metadata.generation.unwrap_or_default(),
            amount: amounts.map(|amount| amount.amount).sum(),
        });
    }
    for contribution in &status.contributing_grant_refs {
        status.limit += contribution.amount;
        status.grant_count += 1;
    }
    let of_consumer = claims
        .iter()
        .filter(|claim| claim.spec.consumer_ref == *consumer);
    let allocations = of_consumer.filter_map(|claim| claim.allocation(&spec.resource_type));
    for allocation in allocations.filter(|of| of.status == QuotaDecision::Granted) {
        status.allocate(allocation.allocated_amount);
    }
    status.available = (status.limit - status.allocated).max(0);
    status
}

impl QuotaBucketStatus {
    /// Takes the amount of one claim.
    fn allocate(&mut self, amount: i64) {
        self.allocated += amount;
        self.claim_count += 1;
        self.available = (self.limit - self.allocated).max(0);
    }

    /// Returns whether another status has the same numbers.
    fn counts_as(&self, other: &Self) -> bool {
        let numbers = Self {
            observed_generation: None,
            last_reconciliation: None,
            ..other.clone()
        };
        *self == numbers
    }
}

/// Writes one bucket and its decisions.
struct BucketWriter<'p> {
    client: &'p Client,
    buckets: Api<QuotaBucket>,
    name: String,
    manager: String,
    spec: QuotaBucketSpec,
}

impl<'p> BucketWriter<'p> {
    fn new(client: &'p Client, name: &str, spec: &QuotaBucketSpec) -> Self {
        Self {
            client,
            buckets: api(client),
            name: name.to_owned(),
            manager: manager(name),
            spec: spec.clone(),
        }
    }

    async fn reconcile(
        &self,
        found: Option<QuotaBucket>,
        claims: &[QuotaClaim],
        grants: &[QuotaGrant],
    ) -> anyhow::Result<()> {
        let bucket = match found {
            Some(bucket) => bucket,
            None => self.create().await?,
        };
        let mut numbers = count(&self.spec, claims, grants);
        let mut decisions = Vec::new();
        for (claim, amount) in self.undecided(claims) {
            let allocation = self.decide(amount, &numbers);
            if allocation.status == QuotaDecision::Granted {
                numbers.allocate(amount);
            }
            decisions.push((claim, json!({"allocations": [allocation]})));
        }
        // The reservation precedes the decisions. If it fails, nothing is decided.
        let written = bucket.status.as_ref();
        if !written.is_some_and(|written| numbers.counts_as(written)) {
            self.write(&bucket, &numbers).await?;
        }
        stream::iter(decisions)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENT, async |(claim, status)| {
                apply_status(self.client, claim, &self.manager, &status).await
            })
            .await
    }

    /// Returns the claims of the consumer without a decision about this resource type, with the requested amount.
    fn undecided<'c>(&self, claims: &'c [QuotaClaim]) -> Vec<(&'c QuotaClaim, i64)> {
        let resource_type = &self.spec.resource_type;
        let of_consumer = claims.iter().filter(|claim| {
            claim.spec.consumer_ref == self.spec.consumer_ref
                && claim.allocation(resource_type).is_none()
        });
        of_consumer
            .filter_map(|claim| {
                let mut requests = claim.spec.requests.iter();
                let request = requests.find(|request| request.resource_type == *resource_type)?;
                Some((claim, request.amount))
            })
            .collect()
    }

    fn decide(&self, amount: i64, numbers: &QuotaBucketStatus) -> QuotaAllocation {
        let available = numbers.available;
        let denied = QuotaAllocation {
            resource_type: self.spec.resource_type.clone(),
            status: QuotaDecision::Denied,
            reason: QUOTA_EXCEEDED.to_owned(),
            message: format!("Resource quota exceeded: requested {amount}, available {available}"),
            allocated_amount: 0,
            allocating_bucket: String::new(),
            last_transition_time: Time(clock::now()),
        };
        if amount > available {
            return denied;
        }
        QuotaAllocation {
            status: QuotaDecision::Granted,
            reason: QUOTA_AVAILABLE.to_owned(),
            message: "Capacity reserved".to_owned(),
            allocated_amount: amount,
            allocating_bucket: self.name.clone(),
            ..denied
        }
    }

    async fn create(&self) -> anyhow::Result<QuotaBucket> {
        let mut bucket = QuotaBucket::new(&self.name, self.spec.clone());
        let consumer = &self.spec.consumer_ref;
        bucket.labels_mut().extend([
            (CONSUMER_KIND.to_owned(), consumer.kind.clone()),
            (CONSUMER_NAME.to_owned(), consumer.name.clone()),
        ]);
        let params = PostParams {
            field_manager: Some(self.manager.clone()),
            ..PostParams::default()
        };
        self.buckets
            .create(&params, &bucket)
            .await
            .context("create")
    }

    /// Writes the numbers, unless the bucket has changed since it was read.
    async fn write(&self, bucket: &QuotaBucket, numbers: &QuotaBucketStatus) -> anyhow::Result<()> {
        let status = QuotaBucketStatus {
            observed_generation: bucket.metadata.generation,
            last_reconciliation: Some(Time(clock::now())),
            ..numbers.clone()
        };
        let change = json!({
            "metadata": {"resourceVersion": bucket.resource_version()},
            "status": status,
        });
        let params = PatchParams {
            field_manager: Some(self.manager.clone()),
            ..PatchParams::default()
        };
        self.buckets
            .patch_status(&self.name, &params, &Patch::Merge(&change))
            .await
            .map(drop)
            .context("write the numbers")
    }
}

/// Returns the field manager of the bucket of this name.
fn manager(bucket: &str) -> String {
    format!("allowance-bucket-{bucket}")
}

/// Replaces the granted decisions of a claim by denied ones.
pub(super) async fn revoke(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let claims: Api<QuotaClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get(name).await.context("read the claim")?;
    let allocations = claim.status.clone().unwrap_or_default().allocations;
    for allocation in allocations {
        if allocation.status != QuotaDecision::Granted {
            continue;
        }
        let manager = manager(&allocation.allocating_bucket);
        let denied = QuotaAllocation {
            status: QuotaDecision::Denied,
            reason: QUOTA_EXCEEDED.to_owned(),
            message: "Revoked by an administrator".to_owned(),
            allocated_amount: 0,
            allocating_bucket: String::new(),
            last_transition_time: Time(clock::now()),
            ..allocation
        };
        let status = json!({"allocations": [denied]});
        apply_status(client, &claim, &manager, &status).await?;
    }
    Ok(())
}
