//! Whether the hub in use is the hub of this installation, as the records of the projects say
//! (docs/concepts/identity.md#the-hub).

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::annotations;
use tokio::time::Instant;

use crate::hub::HubCaches;
use crate::hub::identity::HubIdentity;
use crate::lock::lock;
use crate::projects::{ProjectHub, SyncedProjects};
use crate::runtime::ReconcileError;

/// How long a verdict is used. It reads the records of all WorkloadDeployments.
const USED: Duration = Duration::from_secs(1);

/// Compares the hub in use with the hub that the WorkloadDeployments of the projects record. Cheap to clone.
#[derive(Clone)]
pub struct HubInUse(Arc<Inner>);

struct Inner {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    /// Set once every project was served. A project that is added later has no WorkloadDeployments yet, and must hold
    /// nothing up.
    asked: OnceLock<()>,
    last: Mutex<Option<LastVerdict>>,
}

/// The verdict on a hub, and when it was made.
struct LastVerdict {
    identity: HubIdentity,
    verdict: HubVerdict,
    made: Instant,
}

/// The result of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubVerdict {
    /// The hub has no identity yet, or the projects have not been asked.
    Unknown,
    /// Nothing speaks against the hub.
    Own,
    /// It is the hub of another installation, for this reason.
    Another(String),
}

impl HubInUse {
    pub(crate) fn new(projects: Arc<SyncedProjects>, hub: Arc<HubCaches>) -> Self {
        Self(Arc::new(Inner {
            projects,
            hub,
            asked: OnceLock::new(),
            last: Mutex::default(),
        }))
    }

    /// Returns what is known of the hub. A first installation has no records, so nothing speaks against its hub.
    pub(crate) fn verdict(&self) -> HubVerdict {
        let inner = &*self.0;
        let identity = inner.hub.identity().unwrap_or_default();
        let Some(uid) = identity.uid() else {
            return HubVerdict::Unknown;
        };
        if inner.asked.get().is_none() {
            if !inner.projects.are_all_served() {
                return HubVerdict::Unknown;
            }
            inner.asked.get_or_init(|| ());
        }
        let mut last = lock(&inner.last);
        if let Some(last) = &*last
            && last.identity == identity
            && last.made.elapsed() < USED
        {
            return last.verdict.clone();
        }
        let projects = inner.projects.all();
        let records = projects.iter().filter_map(|(_, it)| it.hub(&identity));
        let verdict = verdict(uid, records);
        *last = Some(LastVerdict {
            verdict: verdict.clone(),
            made: Instant::now(),
            identity,
        });
        verdict
    }

    /// Checks that the hub is the hub of this installation, before something is written to it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if it is another hub, and [`ReconcileError::NotYet`] while it is not known.
    pub(crate) fn require_own(
        &self,
        object: impl FnOnce() -> String,
    ) -> Result<(), ReconcileError> {
        match self.verdict() {
            HubVerdict::Own => Ok(()),
            HubVerdict::Another(problem) => Err(ReconcileError::Contradiction {
                object: object(),
                problem,
            }),
            HubVerdict::Unknown => Err(hub_not_known(object())),
        }
    }
}

/// Returns the error of an object that waits until it is known whether the hub is the hub of this installation.
pub(crate) fn hub_not_known(object: String) -> ReconcileError {
    ReconcileError::NotYet {
        object,
        missing: "all projects to say which hub they record".to_owned(),
    }
}

/// Decides by what the projects record. A customer can edit a record, and a new project can get a record of a wrong hub.
/// So a few projects do not decide.
fn verdict(uid: &str, records: impl Iterator<Item = ProjectHub>) -> HubVerdict {
    let (mut own, mut others) = (0_usize, 0_usize);
    for record in records {
        match record {
            ProjectHub::InUse => own += 1,
            ProjectHub::Another => others += 1,
        }
    }
    match others == 0 || own > others {
        true => HubVerdict::Own,
        false => HubVerdict::Another(format!(
            "the hub in use, {uid}, may be of another installation: most projects do not record it in the annotation {} \
             of their WorkloadDeployments; check --federation-kubeconfig",
            annotations::HUB_UID
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_the_one_that_most_projects_record() {
        let (own, another) = (ProjectHub::InUse, ProjectHub::Another);
        let cases: [(&[ProjectHub], bool); 7] = [
            (&[], true),
            (&[own], true),
            (&[another], false),
            (&[own, another], false),
            (&[own, another, another], false),
            (&[another, own, own], true),
            (&[another, another], false),
        ];
        for (records, is_own) in cases {
            let verdict = verdict("h", records.iter().copied());
            assert_eq!(verdict == HubVerdict::Own, is_own, "{records:?}");
        }
    }
}
