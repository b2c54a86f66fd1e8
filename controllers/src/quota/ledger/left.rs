//! The quota that a project has left, and what of it is promised to replacements that are larger than the Instances before
//! them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::ProjectName;
use api::quota::{AllowanceBucket, ResourceRequest};
use api::reasons::quota_granted as reason;
use tokio::time::Instant;

use crate::lock::lock;
use crate::quota::plan::{LedgerProblem, Remedy};
use crate::runtime::keys::ObjectKey;

/// How long an amount is promised to a replacement that has no claim. The Instance before it may need this time to end.
const PROMISED_MAX: Duration = Duration::from_mins(5);

/// The quota that a project has left.
pub(in crate::quota) struct QuotaLeft {
    project: ProjectName,
    pub(super) buckets: Vec<AllowanceBucket>,
    /// The name of an AllowanceBucket that cannot be decoded.
    pub(super) undecodable: Option<String>,
}

/// The promises to replacements, by the Instance that is replaced. No claim shows the amounts yet.
#[derive(Default)]
pub(in crate::quota) struct Promises {
    made: Mutex<HashMap<ObjectKey, Promise>>,
    /// How many promises have ended, or cover other amounts since a claim was deleted.
    changes: AtomicU64,
}

/// Amounts that are promised to the replacement of one Instance.
struct Promise {
    since: Instant,
    /// The UID of the WorkloadDeployment.
    deployment: String,
    /// The UID of the Instance that is replaced.
    former: String,
    /// The amounts that the new Instance needs in addition to the claim of the former one.
    more: Vec<ResourceRequest>,
    /// All amounts that the new Instance needs.
    whole: Vec<ResourceRequest>,
    /// Whether the claim of the former Instance was deleted, so that it holds nothing any more.
    is_released: bool,
}

/// An Instance to replace.
#[derive(Clone, Copy, Debug)]
pub(in crate::quota) struct Replaced<'a> {
    /// The UID of its WorkloadDeployment.
    pub(in crate::quota) deployment: &'a str,
    pub(in crate::quota) namespace: &'a str,
    pub(in crate::quota) name: &'a str,
    pub(in crate::quota) uid: &'a str,
}

/// The amounts that the replacement of an Instance needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::quota) struct Needed<'a> {
    /// The amounts that it needs in addition to the claim of the Instance.
    pub(in crate::quota) more: &'a [ResourceRequest],
    /// All amounts that it needs.
    pub(in crate::quota) whole: &'a [ResourceRequest],
    /// Whether the Instance is deleted next.
    pub(in crate::quota) is_next: bool,
}

impl Replaced<'_> {
    fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }
}

impl Promise {
    /// Returns how much of a resource is not left for others.
    fn amount(&self, resource_type: &str) -> i64 {
        let requests = match self.is_released {
            true => &self.whole,
            false => &self.more,
        };
        let same = requests
            .iter()
            .filter(|it| it.resource_type == resource_type);
        same.fold(0, |sum, it| sum.saturating_add(it.amount))
    }
}

impl QuotaLeft {
    pub(super) fn new(project: ProjectName) -> Self {
        Self {
            project,
            buckets: Vec::new(),
            undecodable: None,
        }
    }

    /// Returns what the project does not have left of what the replacement of this Instance needs more. If it has all of
    /// this and the Instance is next, this is promised: it is not left for another WorkloadDeployment until the new
    /// Instance has its claim.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if a bucket that cannot be decoded may have them.
    pub(in crate::quota) fn lacks(
        &self,
        replaced: Replaced<'_>,
        needed: Needed<'_>,
        promises: &Promises,
    ) -> Result<Vec<ResourceRequest>, LedgerProblem> {
        let mut promises = lock(&promises.made);
        promises.retain(|_, promise| promise.since.elapsed() < PROMISED_MAX);
        let is_left = |request: &ResourceRequest| {
            let others = promises.values();
            let others = others.filter(|it| it.deployment != replaced.deployment);
            let others = others.map(|it| it.amount(&request.resource_type));
            let total = ResourceRequest {
                amount: others.fold(request.amount, i64::saturating_add),
                ..request.clone()
            };
            let mut buckets = self.buckets.iter();
            buckets.any(|bucket| bucket.has_room(self.project.as_str(), &total))
        };
        let missing = needed.more.iter().filter(|request| !is_left(request));
        let missing: Vec<_> = missing.cloned().collect();
        if missing.is_empty() && needed.is_next {
            let key = replaced.key();
            let former = promises.get(&key).filter(|it| it.former == replaced.uid);
            let promise = Promise {
                since: former.map_or_else(Instant::now, |it| it.since),
                deployment: replaced.deployment.to_owned(),
                former: replaced.uid.to_owned(),
                more: needed.more.to_vec(),
                whole: needed.whole.to_vec(),
                is_released: former.is_some_and(|it| it.is_released),
            };
            promises.insert(key, promise);
        }
        match &self.undecodable {
            Some(name) if !missing.is_empty() => Err(LedgerProblem {
                reason: reason::MISCONFIGURED,
                message: format!("AllowanceBucket {name} of the project cannot be decoded"),
                remedy: Remedy::Correct,
            }),
            _ => Ok(missing),
        }
    }
}

impl Promises {
    /// Returns a number that changes when a promise ends, or covers other amounts. What was left before is wrong then.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that the claim of this Instance is deleted. From now on, its replacement needs all of its amounts, and not
    /// only the difference.
    pub(super) fn release(&self, instance: &ObjectKey) {
        if let Some(promise) = lock(&self.made).get_mut(instance) {
            promise.is_released = true;
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the promise to the replacement of an Instance, if this Instance is the replacement.
    pub(in crate::quota) fn keep(&self, instance: Replaced<'_>) {
        let key = instance.key();
        let mut promises = lock(&self.made);
        let is_kept = promises
            .get(&key)
            .is_some_and(|it| it.former != instance.uid);
        if is_kept {
            promises.remove(&key);
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }
}
