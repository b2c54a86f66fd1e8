//! The quota that a project has left, and what of it is promised to replacements that are larger than the Instances before
//! them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use api::ProjectName;
use api::quota::{AllowanceBucket, ResourceRequest};
use api::reasons::quota_granted as reason;
use tokio::time::Instant;

use crate::lock::lock;
use crate::quota::plan::{LedgerProblem, Remedy};

/// How long an amount is promised to a replacement that has no claim. The Instance before it may need this time to end.
const PROMISED_MAX: Duration = Duration::from_mins(5);

/// The quota that a project has left.
pub(in crate::quota) struct QuotaLeft {
    project: ProjectName,
    pub(super) buckets: Vec<AllowanceBucket>,
    /// The name of an AllowanceBucket that cannot be decoded.
    pub(super) undecodable: Option<String>,
}

/// The amounts that were left for replacements, by the UID of the WorkloadDeployment. No claim shows them yet. A
/// WorkloadDeployment replaces one Instance at a time.
#[derive(Default)]
pub(in crate::quota) struct Promises(Mutex<HashMap<String, Promise>>);

/// What is promised to one WorkloadDeployment.
struct Promise {
    since: Instant,
    /// The amounts by resource.
    amounts: BTreeMap<String, i64>,
    /// The UIDs of the Instances that may be replaced, by name.
    replaced: BTreeMap<String, String>,
}

/// An Instance to replace.
#[derive(Clone, Copy, Debug)]
pub(in crate::quota) struct Replaced<'a> {
    /// The UID of its WorkloadDeployment.
    pub(in crate::quota) deployment: &'a str,
    pub(in crate::quota) name: &'a str,
    pub(in crate::quota) uid: &'a str,
}

impl QuotaLeft {
    pub(super) fn new(project: ProjectName) -> Self {
        Self {
            project,
            buckets: Vec::new(),
            undecodable: None,
        }
    }

    /// Returns those of these amounts that the project does not have left for the replacement of this Instance. If it has
    /// all of them and the Instance `is_next`, they are promised: they are not left for another WorkloadDeployment until
    /// the new Instance has its claim.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if a bucket that cannot be decoded may have them.
    pub(in crate::quota) fn lacks(
        &self,
        replaced: Replaced<'_>,
        requests: &[ResourceRequest],
        promises: &Promises,
        is_next: bool,
    ) -> Result<Vec<ResourceRequest>, LedgerProblem> {
        let mut promises = lock(&promises.0);
        promises.retain(|_, promise| promise.since.elapsed() < PROMISED_MAX);
        let is_left = |request: &ResourceRequest| {
            let others = promises.iter().filter(|(of, _)| *of != replaced.deployment);
            let others = others.filter_map(|(_, it)| it.amounts.get(&request.resource_type));
            let total = ResourceRequest {
                amount: others.fold(request.amount, |sum, amount| sum.saturating_add(*amount)),
                ..request.clone()
            };
            let mut buckets = self.buckets.iter();
            buckets.any(|bucket| bucket.has_room(self.project.as_str(), &total))
        };
        let missing = requests.iter().filter(|request| !is_left(request));
        let missing: Vec<_> = missing.cloned().collect();
        if missing.is_empty() && is_next {
            let promise = promises.entry(replaced.deployment.to_owned());
            let promise = promise.or_insert_with(|| Promise {
                since: Instant::now(),
                amounts: BTreeMap::new(),
                replaced: BTreeMap::new(),
            });
            let (name, uid) = (replaced.name.to_owned(), replaced.uid.to_owned());
            promise.replaced.insert(name, uid);
            for request in requests {
                let amount = promise.amounts.entry(request.resource_type.clone());
                let amount = amount.or_default();
                *amount = (*amount).max(request.amount);
            }
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
    /// Ends the promise to a WorkloadDeployment when the claim of this Instance is decided, if the Instance replaces
    /// another one. Returns whether it ended one.
    pub(in crate::quota) fn keep(&self, instance: Replaced<'_>) -> bool {
        let mut promises = lock(&self.0);
        let is_kept = promises.get(instance.deployment).is_some_and(|promise| {
            let former = promise.replaced.get(instance.name);
            former.is_some_and(|former| former != instance.uid)
        });
        if is_kept {
            promises.remove(instance.deployment);
        }
        is_kept
    }
}
