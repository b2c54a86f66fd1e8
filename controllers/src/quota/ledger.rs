//! Reads and writes ResourceClaims in the control planes of projects.
//!
//! Each project has a client and a pause of its own. After a request without an answer, further requests fail at once
//! for some seconds. So the Instances of a project whose API server hangs do not wait for it one after the other.

mod left;
mod pause;
mod refusal;
mod watches;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::quota::{AllowanceBucket, BUCKETS_NAMESPACE, ResourceClaim, ResourceRequest};
use api::reasons::quota_granted as reason;
use api::{CellName, ProjectName, labels};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::{Api, Client, Resource};
use multicluster::connect::ConnectError;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::bounded::bounded;
use super::claim::{Claimant, instance_of, is_stray};
use super::plan::{LedgerProblem, Remedy};
use crate::cell::CellCaches;
use crate::hub::upstream::Upstream;
use crate::lock::lock;
use crate::objects::is_terminating;
use crate::runtime::write::{Collection, Object, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
pub(super) use left::{Needed, Promises, QuotaLeft, Replaced};
use pause::Pause;
use refusal::refusal;
pub(crate) use watches::QuotaWatches;
use watches::{WatchedBuckets, WatchedClaims};

/// A claim with only its metadata.
pub(super) type PartialClaim = PartialObjectMeta<ResourceClaim>;

/// Makes a client of the API server that has the claims of a project.
pub type ConnectLedger = Box<dyn Fn(&ProjectName) -> Result<Client, ConnectError> + Send + Sync>;

/// Longest wait for an answer. It is shorter than that of other requests, so that a terminating Instance can ask
/// several times before it is released.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a list of AllowanceBuckets is used. One change of a Workload makes several WorkloadDeployments ask.
const LISTED: Duration = Duration::from_secs(2);

/// The control planes of the projects that have Instances in this cell.
pub(crate) struct Ledgers {
    connect: ConnectLedger,
    /// `None` if claims are only read.
    watches: Option<Arc<QuotaWatches>>,
    /// The projects that were found since the process has started, also those that are not used any more. Only for them,
    /// the answer that there is no such project proves that it is gone: another control plane never had it.
    found: Arc<Mutex<HashSet<ProjectName>>>,
    projects: Mutex<HashMap<ProjectName, Arc<ProjectLedger>>>,
}

/// The claims of one project.
pub(super) struct ProjectLedger {
    project: ProjectName,
    client: Client,
    /// The pause of reads, and that of writes: the admission of the API server can fail while reads are answered.
    reads: Mutex<Pause>,
    writes: Mutex<Pause>,
    /// Whether the project is in `found`, and this set of [`Ledgers`].
    was_found: AtomicBool,
    found: Arc<Mutex<HashSet<ProjectName>>>,
    watches: Option<Arc<QuotaWatches>>,
    /// The claims of this cell, as far as the watch reports them. The watch begins with the first Instance.
    watched: OnceLock<WatchedClaims>,
    /// The quota that is left, while an Instance is denied.
    buckets: Mutex<Option<WatchedBuckets>>,
    /// The quota that was left when it was last listed.
    listed: Mutex<Option<Listed>>,
    promises: Promises,
}

/// The quota that was left, with the time of the list and the [changes](Promises::changes) before it.
struct Listed {
    at: Instant,
    changes: u64,
    left: Arc<QuotaLeft>,
}

/// The claim of an Instance, and the name that a new claim gets.
#[derive(Debug, Default)]
pub(super) struct FoundClaim {
    pub(super) claim: Option<ResourceClaim>,
    /// A name that no claim of another Instance has. A claim that was found has none if it was made under another scheme
    /// of names.
    pub(super) free_name: Option<String>,
    /// How many claims of the Instance were found that are not terminating.
    pub(super) staying: usize,
}

impl Ledgers {
    /// Makes an empty set. The claims of each project are watched while it is used.
    pub(crate) fn new(connect: ConnectLedger, watches: Option<QuotaWatches>) -> Self {
        Self {
            connect,
            watches: watches.map(Arc::new),
            found: Arc::default(),
            projects: Mutex::default(),
        }
    }

    /// Returns the claims of a project that has Instances in this cell. They are watched from now on.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if no client can be made.
    pub(super) fn of(&self, project: &ProjectName) -> Result<Arc<ProjectLedger>, LedgerProblem> {
        let ledger = self.to_sweep(project)?;
        if let Some(watches) = &self.watches {
            let begin = || watches.claims(project, ledger.client.clone());
            ledger.watched.get_or_init(begin);
        }
        Ok(ledger)
    }

    /// Returns the claims of a project. No watch begins.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if no client can be made.
    pub(super) fn to_sweep(
        &self,
        project: &ProjectName,
    ) -> Result<Arc<ProjectLedger>, LedgerProblem> {
        let mut projects = lock(&self.projects);
        if let Some(ledger) = projects.get(project) {
            return Ok(Arc::clone(ledger));
        }
        let client = (self.connect)(project).map_err(|error| LedgerProblem {
            reason: reason::MISCONFIGURED,
            message: bounded(&error.to_string()),
            remedy: Remedy::Correct,
        })?;
        let ledger = Arc::new(ProjectLedger {
            project: project.clone(),
            watched: OnceLock::new(),
            watches: self.watches.as_ref().map(Arc::clone),
            client,
            reads: Mutex::default(),
            writes: Mutex::default(),
            was_found: AtomicBool::new(lock(&self.found).contains(project)),
            found: Arc::clone(&self.found),
            buckets: Mutex::default(),
            listed: Mutex::default(),
            promises: Promises::default(),
        });
        projects.insert(project.clone(), Arc::clone(&ledger));
        Ok(ledger)
    }

    /// Returns the claims of a project that is used already.
    pub(super) fn used(&self, project: &ProjectName) -> Option<Arc<ProjectLedger>> {
        lock(&self.projects).get(project).map(Arc::clone)
    }

    /// Drops the client of a project that has no Instance in this cell.
    pub(super) fn forget(&self, project: &ProjectName) {
        lock(&self.projects).remove(project);
    }
}

impl ProjectLedger {
    /// Returns the name of the project.
    pub(super) fn project(&self) -> &ProjectName {
        &self.project
    }

    /// Lists the claims of a cell.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if the answer is not a complete list.
    pub(super) async fn claims_of(
        &self,
        cell: &CellName,
    ) -> Result<Vec<PartialClaim>, LedgerProblem> {
        let claims = Collection::<ResourceClaim>::of_all_namespaces(&self.client);
        let listed = claims.labelled_metadata(labels::SOURCE_CLUSTER, cell.as_str());
        self.ask(&self.reads, listed).await
    }

    /// Returns the claim of an Instance. A claim of the Go manager counts, if this cell has made it for this Instance. An
    /// Instance can have several claims: no more than `most` of those that are not terminating are looked for.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if it is not known whether there is a claim.
    pub(super) async fn find(
        &self,
        claimant: &Claimant<'_>,
        upstream: &Upstream,
        most: usize,
    ) -> Result<FoundClaim, LedgerProblem> {
        let (usual, further) = (claimant.usual_names(), claimant.further_names());
        let mut found = FoundClaim::default();
        self.look_at((claimant, upstream), usual, most, &mut found)
            .await?;
        // Whoever has taken a usual name may be gone by now, so the claim can have another name at any time.
        let is_seen = |name: &String| {
            let watched = self.watched.get();
            watched.is_some_and(|watched| watched.get(&upstream.namespace, name).is_some())
        };
        // The watch does not show the claims of former cells.
        let must_look = found.free_name.is_none()
            || !claimant.former_cells.is_empty()
            || !self.follows_claims()
            || further.iter().any(is_seen);
        if must_look {
            self.look_at((claimant, upstream), further, most, &mut found)
                .await?;
        }
        if found.claim.is_none() && found.free_name.is_none() {
            let names = claimant.names().join(", ");
            return Err(LedgerProblem {
                reason: reason::MISCONFIGURED,
                message: format!(
                    "all names that the ResourceClaim can have are taken by claims of others: {names}"
                ),
                remedy: Remedy::Correct,
            });
        }
        Ok(found)
    }

    /// Reads the claims of these names, until so many are claims of the Instance that stay. The first of them counts.
    async fn look_at(
        &self,
        (claimant, upstream): (&Claimant<'_>, &Upstream),
        names: Vec<String>,
        most: usize,
        found: &mut FoundClaim,
    ) -> Result<(), LedgerProblem> {
        let claims = self.claims(upstream);
        for name in names {
            if found.staying >= most {
                break;
            }
            let claim = self.ask(&self.reads, claims.read(&name)).await?;
            let is_taken = claim
                .as_ref()
                .is_some_and(|claim| !claimant.owns(claim.meta()));
            if is_taken {
                continue;
            }
            if claimant.names().contains(&name) {
                found.free_name.get_or_insert(name);
            }
            let Some(claim) = claim else {
                continue;
            };
            let stays = !is_terminating(&claim);
            if found.claim.is_none() || (stays && found.staying == 0) {
                found.claim = Some(claim);
            }
            found.staying += usize::from(stays);
        }
        Ok(())
    }

    /// Returns whether the watch shows all claims.
    pub(super) fn follows_claims(&self) -> bool {
        self.watched.get().is_some_and(WatchedClaims::is_current)
    }

    /// Returns the claims of the Instance that the watch shows.
    pub(super) fn watched_claims(
        &self,
        claimant: &Claimant<'_>,
        upstream: &Upstream,
    ) -> Vec<Arc<ResourceClaim>> {
        let Some(watched) = self.watched.get() else {
            return Vec::new();
        };
        let names = claimant.usual_names().into_iter();
        let claims = names
            .chain(claimant.further_names())
            .filter_map(|name| watched.get(&upstream.namespace, &name));
        claims.filter(|claim| claimant.owns(claim.meta())).collect()
    }

    /// Returns whether the project is seen to have all these amounts left. Watches the quota that is left from now on.
    pub(super) fn has_room(&self, requests: &[ResourceRequest]) -> bool {
        let Some(watches) = &self.watches else {
            return false;
        };
        let mut buckets = lock(&self.buckets);
        let buckets =
            buckets.get_or_insert_with(|| watches.buckets(&self.project, self.client.clone()));
        buckets.have_room(&self.project, requests)
    }

    /// Lists the AllowanceBuckets of the project, unless they were listed a moment ago. Returns `None` if the cell may
    /// not list them.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if it is not known how much is left.
    pub(super) async fn left(&self) -> Result<Option<Arc<QuotaLeft>>, LedgerProblem> {
        loop {
            let (at, changes) = (Instant::now(), self.promises.changes());
            if let Some(listed) = lock(&self.listed).as_ref()
                && listed.changes == changes
                && listed.at.elapsed() < LISTED
            {
                return Ok(Some(Arc::clone(&listed.left)));
            }
            let Some(left) = self.list_left().await? else {
                return Ok(None);
            };
            // A claim can have taken the amounts of a promise that ended during the request.
            if self.promises.changes() != changes {
                continue;
            }
            let left = Arc::new(left);
            *lock(&self.listed) = Some(Listed {
                at,
                changes,
                left: Arc::clone(&left),
            });
            return Ok(Some(left));
        }
    }

    /// Lists the AllowanceBuckets of the project. Returns `None` if the cell may not list them.
    async fn list_left(&self) -> Result<Option<QuotaLeft>, LedgerProblem> {
        let api: Api<DeserializeGuard<AllowanceBucket>> =
            Api::namespaced(self.client.clone(), BUCKETS_NAMESPACE);
        let mut is_forbidden = false;
        let listed = self.ask(&self.reads, async {
            let listed = api.list(&ListParams::default()).await;
            listed.map_err(|error| {
                let error = ReconcileError::api("list AllowanceBuckets", error);
                is_forbidden = error.is_forbidden();
                error
            })
        });
        let listed = listed.await;
        if is_forbidden {
            return Ok(None);
        }
        let mut left = QuotaLeft::new(self.project.clone());
        for bucket in listed? {
            match bucket.0 {
                Ok(bucket) => left.buckets.push(bucket),
                Err(invalid) => left.undecodable = invalid.metadata.name,
            }
        }
        Ok(Some(left))
    }

    /// Returns the amounts that are promised to replacements.
    pub(super) fn promises(&self) -> &Promises {
        &self.promises
    }

    /// Returns whether the watch shows a claim in whose Namespace of the cell no Instance can be.
    pub(super) fn has_stray_claims(&self, cell: &CellCaches) -> bool {
        let watched = self.watched.get();
        watched.is_some_and(|watched| watched.metadata().iter().any(|it| is_stray(cell, it)))
    }

    /// Returns whether the quota that is left is watched.
    #[cfg(test)]
    pub(super) fn follows_room(&self) -> bool {
        lock(&self.buckets).is_some()
    }

    /// Ends the watch of the quota that is left.
    pub(super) fn forget_room(&self) {
        lock(&self.buckets).take();
    }

    /// Creates a claim.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if it is not known that the claim exists.
    pub(super) async fn create(
        &self,
        writer: &Writer,
        context: &ReconcileContext,
        upstream: &Upstream,
        body: &Value,
    ) -> Result<ResourceClaim, LedgerProblem> {
        let claims = self.claims(upstream);
        let created = writer.ensure(context, &claims, None, body, &[], |_| true);
        self.ask(&self.writes, created).await
    }

    /// Merges these metadata into exactly this version of this claim, and returns it.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if it is not known that the claim has them, also if it has changed since it was read.
    pub(super) async fn patch(
        &self,
        writer: &Writer,
        context: &ReconcileContext,
        claim: &ResourceClaim,
        metadata: Value,
    ) -> Result<ResourceClaim, LedgerProblem> {
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        let claims = Collection::new(&self.client, namespace, None);
        let patched = writer.patch_metadata(context, &claims, claim, metadata);
        self.ask(&self.writes, patched).await
    }

    /// Deletes exactly this version of this claim.
    ///
    /// # Errors
    ///
    /// [`LedgerProblem`] if it is not known that the claim is deleted, also if it has changed since it was read.
    pub(super) async fn delete<C: Object<Scope = NamespaceResourceScope>>(
        &self,
        writer: &Writer,
        context: &ReconcileContext,
        upstream: &Upstream,
        claim: &C,
    ) -> Result<(), LedgerProblem> {
        // Before the request: without an answer, the claim can be deleted nevertheless.
        if let Some(instance) = instance_of(claim.meta()) {
            self.promises.release(&instance);
        }
        let claims = Collection::<C>::new(&self.client, &upstream.namespace, None);
        let deleted = writer.delete_unchanged(context, &claims, claim);
        self.ask(&self.writes, deleted).await
    }

    fn claims(&self, upstream: &Upstream) -> Collection<'_, ResourceClaim> {
        Collection::new(&self.client, &upstream.namespace, None)
    }

    /// Sends a request, unless the API server has not answered a request of the same kind a moment ago.
    async fn ask<T>(
        &self,
        pause: &Mutex<Pause>,
        request: impl Future<Output = Result<T, ReconcileError>>,
    ) -> Result<T, LedgerProblem> {
        if let Err(wait) = lock(pause).admit(Instant::now()) {
            return Err(self.unavailable(wait));
        }
        let error = match timeout(PATIENCE, request).await {
            Ok(Ok(answer)) => {
                self.note_answer(pause);
                if !self.was_found.swap(true, Ordering::Relaxed) {
                    lock(&self.found).insert(self.project.clone());
                }
                return Ok(answer);
            }
            Ok(Err(error)) => error,
            Err(elapsed) => ReconcileError::api(
                format!("quota of project {}", self.project),
                kube::Error::Service(elapsed.into()),
            ),
        };
        match refusal(&self.project, &error) {
            Some(mut problem) => {
                self.note_answer(pause);
                let was_found = self.was_found.load(Ordering::Relaxed);
                if problem.remedy == Remedy::ProjectGone && !was_found {
                    problem.remedy = Remedy::Correct;
                }
                Err(problem)
            }
            None => {
                let (wait, is_first) = lock(pause).failed(Instant::now());
                if is_first {
                    warn!(project = %self.project, %error, "the quota system does not answer");
                }
                Err(self.unavailable(wait))
            }
        }
    }

    fn note_answer(&self, pause: &Mutex<Pause>) {
        if lock(pause).answered() {
            info!(project = %self.project, "the quota system answers again");
        }
    }

    /// Returns the problem of an API server that does not answer. Its message is always the same, because a condition
    /// with the cause would be written at each attempt.
    fn unavailable(&self, wait: Duration) -> LedgerProblem {
        LedgerProblem {
            reason: reason::BACKEND_UNAVAILABLE,
            message: format!(
                "the quota system of project {} does not answer; the log of the cell's process has the cause",
                self.project
            ),
            remedy: Remedy::Wait(wait),
        }
    }
}

#[cfg(test)]
mod tests;
