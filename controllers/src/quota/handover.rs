//! Passes the claim of an Instance to its successor: the next Instance of the same name and of the same size. A claim that
//! is deleted and made anew could lose its quota to another Instance in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::WorkloadDeployment;
use api::quota::{ResourceClaim, ResourceRequest};
use tokio::time::Instant;

use super::amounts;
use super::plan::{Ledger, is_granted};
use crate::cell::CellCaches;
use crate::cell::rules::with_rules;
use crate::lock::lock;
use crate::names::{deployment_of_instance, wanted_ordinal};
use crate::objects::is_terminating;
use crate::runtime::keys::ObjectKey;

/// How long a claim of an Instance that is gone waits for its successor. The successor is usually made at once.
const HANDOVER_MAX: Duration = Duration::from_mins(1);

/// The claims that wait for the successors of their Instances.
pub(crate) struct Handovers {
    cell: Arc<CellCaches>,
    /// Since when each of them waits. A process that finds one counts from then.
    since: Mutex<HashMap<ObjectKey, Instant>>,
}

impl Handovers {
    pub(crate) fn new(cell: Arc<CellCaches>) -> Self {
        Self {
            cell,
            since: Mutex::default(),
        }
    }

    /// Returns whether the claim of an Instance that ends passes to its successor. It waits from now on.
    pub(super) fn begin(&self, key: &ObjectKey, ledger: &Ledger) -> bool {
        let Ledger::Known(Some(claim)) = ledger else {
            return false;
        };
        let begins = is_granted(claim) && self.is_wanted(key, Some(&claim.spec.requests));
        if begins {
            lock(&self.since).insert(key.clone(), Instant::now());
        }
        begins
    }

    /// Returns for how long the claim of an Instance that is gone still waits. Returns `None` if it must be deleted.
    pub(super) fn waits(&self, key: &ObjectKey, claim: Option<&ResourceClaim>) -> Option<Duration> {
        let requests = claim.map(|claim| &claim.spec.requests[..]);
        if claim.is_some_and(|claim| !is_granted(claim)) || !self.is_wanted(key, requests) {
            return None;
        }
        let mut all = lock(&self.since);
        let since = all.entry(key.clone()).or_insert_with(Instant::now);
        let left = HANDOVER_MAX.checked_sub(since.elapsed());
        left.filter(|left| !left.is_zero())
    }

    /// Forgets a claim that does not wait any more.
    pub(super) fn end(&self, key: &ObjectKey) {
        lock(&self.since).remove(key);
    }

    /// Returns whether a WorkloadDeployment wants an Instance of this name and of this size, if the size is known.
    fn is_wanted(&self, key: &ObjectKey, requests: Option<&[ResourceRequest]>) -> bool {
        let cell = &self.cell;
        let namespace = cell.namespaces.metadata_of("", &key.namespace);
        let stays = namespace.is_some_and(|it| it.deletion_timestamp.is_none());
        let deployment = deployment_of_instance(&key.name)
            .and_then(|name| cell.deployments.get(&key.namespace, name).ok()?)
            .map(with_rules)
            .filter(|it| stays && wants(it, &key.name));
        deployment.is_some_and(|deployment| {
            let wanted = amounts::requests(&deployment.spec.template.spec);
            requests.is_none_or(|requests| amounts::are_equal(requests, &wanted))
        })
    }
}

/// Returns whether a WorkloadDeployment is about to make an Instance of this name, if the cell has none.
fn wants(deployment: &WorkloadDeployment, name: &str) -> bool {
    !is_terminating(deployment)
        && !deployment.is_ending()
        && !deployment.is_suspended()
        && deployment.is_rolled_out()
        && wanted_ordinal(deployment, name).is_some()
}
