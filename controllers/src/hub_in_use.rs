//! Whether the hub in use is the hub of this installation (docs/concepts/identity.md#the-hub).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::{HubNamespace, annotations};
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use crate::hub::HubCaches;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::hub::upstream::Upstream;
use crate::hub::upstream_namespace::{UpstreamNamespace, seen};
use crate::lock::lock;
use crate::projects::{ProjectHub, SyncedProjects};
use crate::runtime::ReconcileError;

/// How long a verdict without proof is used. It reads the records of all WorkloadDeployments.
const USED: Duration = Duration::from_secs(1);
/// How long projects are waited for that are not ready at the start.
const UNREADY_MAX: Duration = Duration::from_mins(2);

/// Compares the hub in use with the projects, and with the hub that their WorkloadDeployments record. Cheap to clone.
#[derive(Clone)]
pub struct HubInUse(Arc<Inner>);

struct Inner {
    projects: Arc<SyncedProjects>,
    hub: Arc<HubCaches>,
    started: Instant,
    /// Set once every project was served. A project that is added later has no WorkloadDeployments yet, and must hold
    /// nothing up.
    asked: OnceLock<()>,
    last: Mutex<Option<LastVerdict>>,
}

/// Says whether the hub that is written is the own one. Cheap to clone.
#[derive(Clone)]
pub struct HubCheck(Arc<dyn Fn() -> HubVerdict + Send + Sync>);

impl HubCheck {
    pub(crate) fn new(verdict: impl Fn() -> HubVerdict + Send + Sync + 'static) -> Self {
        Self(Arc::new(verdict))
    }

    /// Returns what is known of the hub.
    pub(crate) fn verdict(&self) -> HubVerdict {
        (self.0)()
    }
}

impl fmt::Debug for HubCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubCheck").finish_non_exhaustive()
    }
}

impl From<HubInUse> for HubCheck {
    fn from(hub: HubInUse) -> Self {
        Self::new(move || hub.verdict())
    }
}

/// The verdict on a hub, and when it was made.
struct LastVerdict {
    identity: HubIdentity,
    verdict: HubVerdict,
    made: Instant,
    /// Whether the hub is proved to be the own hub. It stays this one.
    is_proved: bool,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HubVerdict {
    /// The hub has no identity yet, or those that record it have not been asked.
    #[default]
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
            started: Instant::now(),
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
        let mut last = lock(&inner.last);
        if let Some(last) = &*last
            && last.identity == identity
            && (last.is_proved || last.made.elapsed() < USED)
        {
            return last.verdict.clone();
        }
        let is_proved = inner.has_namespace_of_a_project(&identity);
        let verdict = match is_proved {
            true => HubVerdict::Own,
            false => inner.by_records(uid, &identity),
        };
        if verdict != HubVerdict::Unknown {
            *last = Some(LastVerdict {
                verdict: verdict.clone(),
                made: Instant::now(),
                is_proved,
                identity,
            });
        }
        verdict
    }
}

impl HubVerdict {
    /// Checks that the hub is the own one, before something is written to it.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if it is another hub, and [`ReconcileError::NotYet`] while it is not known.
    pub(crate) fn require_own(self, object: impl FnOnce() -> String) -> Result<(), ReconcileError> {
        match self {
            Self::Own => Ok(()),
            Self::Another(problem) => Err(ReconcileError::Contradiction {
                object: object(),
                problem,
            }),
            Self::Unknown => Err(hub_not_known(object())),
        }
    }
}

impl Inner {
    /// Returns whether the hub has the hub namespace of a Namespace of a project, which has recorded this hub. Its name
    /// contains the UID of this Namespace, so no other installation has it. No customer can write it.
    fn has_namespace_of_a_project(&self, identity: &HubIdentity) -> bool {
        let projects = self.projects.all();
        projects.iter().any(|(name, project)| {
            let on_hub = self.hub.namespaces_of.get(name.as_str());
            on_hub.iter().any(|on_hub| {
                let upstream = Upstream::of(on_hub.meta()).ok();
                let in_project = upstream
                    .and_then(|it| project.namespaces.metadata_of("", it.namespace.as_str()));
                let hub_namespace = HubNamespace::new(on_hub.name_any());
                let is_there = hub_namespace.is_ok_and(|hub_namespace| {
                    seen(&hub_namespace, in_project.as_ref()) == UpstreamNamespace::There
                });
                is_there && recorded_hub(on_hub.meta()).is_some_and(|it| identity.is_named_by(it))
            })
        })
    }

    /// Returns what the records of the projects say.
    fn by_records(&self, uid: &str, identity: &HubIdentity) -> HubVerdict {
        if self.asked.get().is_none() {
            let is_start = self.started.elapsed() < UNREADY_MAX;
            if !self.projects.are_all_served(is_start) {
                return HubVerdict::Unknown;
            }
            self.asked.get_or_init(|| ());
        }
        let projects = self.projects.all();
        let records = projects.iter().filter_map(|(_, it)| it.hub(identity));
        verdict(uid, records)
    }
}

/// Returns the error of an object that waits until it is known whether the hub is the hub of this installation.
pub(crate) fn hub_not_known(object: String) -> ReconcileError {
    ReconcileError::NotYet {
        object,
        missing: "all projects, or the first report of the lower hub, to say which hub it is"
            .to_owned(),
    }
}

/// Decides by what the projects record. A customer can edit a record, and a new project can get a record of a wrong hub.
/// So a few projects do not decide. A project of a former version has no record. A project whose WorkloadDeployments were
/// never copied does not count: they wait for the verdict.
fn verdict(uid: &str, records: impl Iterator<Item = ProjectHub>) -> HubVerdict {
    let (mut own, mut others) = (0_usize, 0_usize);
    for record in records {
        match record {
            ProjectHub::InUse | ProjectHub::Unrecorded => own += 1,
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
    use serde_json::Value;
    use tokio::time::sleep;

    use super::*;
    use crate::fixtures::of_hub;
    use crate::fixtures::servers::{FakePlanes, HUB_UID, hub_namespace, recorded, settle};

    /// A customer can write every record of the only project.
    #[tokio::test(start_paused = true)]
    async fn a_hub_with_a_hub_namespace_of_a_project_is_the_own_hub_whatever_a_customer_writes() {
        let edited = of_hub(recorded("web"), Some("another"));
        let of = async |on_hub| FakePlanes::start(vec![edited.clone()], on_hub).await;
        let verdict = |planes: &FakePlanes| planes.hub_in_use.verdict();
        let is_another = |verdict: HubVerdict| matches!(verdict, HubVerdict::Another(_));

        let own = || of_hub(hub_namespace(), Some(HUB_UID));
        let planes = of(vec![own()]).await;
        assert_eq!(verdict(&planes), HubVerdict::Own);

        // A hub namespace that was copied from another hub, or that belongs to another Namespace of this name.
        for record in [Some("another"), None] {
            let planes = of(vec![of_hub(own(), record)]).await;
            assert!(is_another(verdict(&planes)), "{record:?}");
        }
        let mut of_another = own();
        of_another["metadata"]["name"] = "ns-2".into();
        let planes = of(vec![of_another]).await;
        assert!(is_another(verdict(&planes)));

        // The proof is noticed when it appears.
        planes.hub.put(own());
        settle().await;
        sleep(USED).await;
        assert_eq!(verdict(&planes), HubVerdict::Own);
    }

    /// A customer can write a record before the first copy is made.
    #[tokio::test(start_paused = true)]
    async fn only_records_of_copied_deployments_count() {
        let mut edited = of_hub(recorded("web"), Some("another"));
        edited["metadata"]["finalizers"] = Value::Null;
        let planes = FakePlanes::start(vec![edited], Vec::new()).await;
        assert_eq!(planes.hub_in_use.verdict(), HubVerdict::Own);
    }

    #[test]
    fn the_hub_is_the_one_that_most_projects_record() {
        let (own, another) = (ProjectHub::InUse, ProjectHub::Another);
        let unrecorded = ProjectHub::Unrecorded;
        let cases: [(&[ProjectHub], bool); 10] = [
            // A customer has written a record before the new version has.
            (&[unrecorded, another, unrecorded], true),
            (&[another, another, unrecorded], false),
            (&[unrecorded], true),
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
