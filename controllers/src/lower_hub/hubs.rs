//! The identities of a lower hub and of its upper hub, which record each other: the process of a lower hub reports
//! neither to another upper hub nor the cells of another lower hub (docs/concepts/identity.md#lower-hubs).

use std::fmt;
use std::sync::{Arc, Mutex};

use api::{DEFAULT_NAMESPACE, LowerHub, annotations};
use kube::{Client, Resource};
use multicluster::Metrics;
use serde_json::json;

use crate::hub::identity::HubIdentity;
use crate::hub_in_use::{HubCheck, HubVerdict};
use crate::lock::lock;
use crate::objects::{Namespace, describe};
use crate::runtime::hub_proof::require_no_contradiction;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// The reason why the process of a lower hub reports nothing, if the two hubs do not record each other. `/readyz` shows
/// it. Cheap to clone.
#[derive(Clone, Default)]
pub struct HeldReport {
    verdicts: Arc<Mutex<Verdicts>>,
    metrics: Metrics,
}

/// The verdicts on the two hubs after the last report to which both have answered. Before the first one, they are unknown.
#[derive(Default)]
struct Verdicts {
    both: HubVerdict,
    /// The lower hub alone. It can be the own one while the upper hub is another one. If the LowerHub there has the cells
    /// of another lower hub, one of the two hubs is wrong, and perhaps the lower one.
    lower: HubVerdict,
}

impl HeldReport {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            verdicts: Arc::default(),
        }
    }

    /// Notes the outcome of a report. An outage says nothing about the hubs.
    pub(super) fn note(&self, reported: &Result<(), ReconcileError>) {
        let both = match reported {
            Ok(()) => HubVerdict::Own,
            Err(held @ ReconcileError::Contradiction { .. }) => {
                HubVerdict::Another(held.to_string())
            }
            Err(_) => return,
        };
        let is_another = matches!(both, HubVerdict::Another(_));
        self.metrics.hub_contradictions(usize::from(is_another));
        let mut verdicts = lock(&self.verdicts);
        if both == HubVerdict::Own {
            verdicts.lower = HubVerdict::Own;
        }
        verdicts.both = both;
    }

    /// Notes whether the lower hub is another one than the LowerHub says, and why. A LowerHub that was never reported to
    /// says nothing.
    fn note_lower_hub(&self, reported: Option<&str>, problem: Option<&str>) {
        let lower = match problem {
            Some(problem) => HubVerdict::Another(problem.to_owned()),
            None if reported.is_some() => HubVerdict::Own,
            None => return,
        };
        lock(&self.verdicts).lower = lower;
    }

    /// Returns the check of both hubs.
    pub(crate) fn hub_check(&self) -> HubCheck {
        let verdicts = Arc::clone(&self.verdicts);
        HubCheck::new(move || lock(&verdicts).both.clone())
    }

    /// Returns the check of the lower hub.
    pub fn lower_hub_check(&self) -> HubCheck {
        let verdicts = Arc::clone(&self.verdicts);
        HubCheck::new(move || lock(&verdicts).lower.clone())
    }

    /// Returns a line for `/readyz` if nothing is reported.
    pub fn warning(&self) -> Option<String> {
        match &lock(&self.verdicts).both {
            HubVerdict::Another(problem) => Some(format!("the cells are not reported: {problem}")),
            HubVerdict::Unknown | HubVerdict::Own => None,
        }
    }
}

impl fmt::Debug for HeldReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldReport").finish_non_exhaustive()
    }
}

/// Checks that the LowerHub is that of this lower hub, and that this upper hub is the one that the lower hub has
/// recorded. Records the upper hub if there is no record yet, or if it replaces the recorded one. Returns the UID of the
/// lower hub, if it is known.
///
/// # Errors
///
/// [`ReconcileError::Contradiction`] if it is another one, and the errors of the requests.
pub(super) async fn require_each_other(
    [lower, upper]: [&Client; 2],
    writer: &Writer,
    context: &ReconcileContext,
    lower_hub: &LowerHub,
    held: &HeldReport,
) -> Result<Option<String>, ReconcileError> {
    let identity = |default: Option<&Namespace>| HubIdentity::of(default.map(Resource::meta));
    let upper = identity(default_of(upper).await?.as_ref());
    let own = default_of(lower).await?;
    let own_identity = identity(own.as_ref());
    let record = own.as_ref().and_then(|own| recorded_upper_hub(own));
    let status = lower_hub.status.as_ref();
    let reported = status.and_then(|status| status.hub_uid.as_deref());
    let of_lower = another_lower_hub(&own_identity, reported);
    held.note_lower_hub(reported, of_lower.as_deref());
    let problem = another_upper_hub(&upper, record).or(of_lower);
    require_no_contradiction(problem, || describe(lower_hub))?;
    if let (Some(own), Some(uid)) = (&own, upper.uid())
        && record != Some(uid)
    {
        let namespaces = Collection::<Namespace>::of_plane(lower, None);
        let metadata = json!({"annotations": {annotations::UPPER_HUB_UID: uid}});
        writer
            .patch_metadata(context, &namespaces, own, metadata)
            .await?;
    }
    Ok(own_identity.uid().map(str::to_owned))
}

/// Reads the Namespace that identifies a hub.
async fn default_of(hub: &Client) -> Result<Option<Namespace>, ReconcileError> {
    let namespaces = Collection::<Namespace>::of_plane(hub, None);
    match namespaces.read(DEFAULT_NAMESPACE).await {
        // The rights of a former version do not include Namespaces.
        Err(error) if error.is_forbidden() => Ok(None),
        answer => answer,
    }
}

fn recorded_upper_hub(default: &Namespace) -> Option<&str> {
    let annotations = default.meta().annotations.as_ref()?;
    let recorded = annotations.get(annotations::UPPER_HUB_UID)?;
    Some(recorded.as_str()).filter(|recorded| !recorded.is_empty())
}

/// Returns the problem if the upper hub in use is not the recorded one.
fn another_upper_hub(upper: &HubIdentity, record: Option<&str>) -> Option<String> {
    let record = record?;
    let Some(uid) = upper.uid() else {
        return Some(format!(
            "annotation {} of the lower hub's Namespace default names upper hub {record}, and the upper hub in use does not \
             say which hub it is: check --federation-kubeconfig, and that its role may get the Namespace default",
            annotations::UPPER_HUB_UID
        ));
    };
    (!upper.is_named_by(record)).then(|| {
        format!(
            "annotation {} of the lower hub's Namespace default names upper hub {record}, and the upper hub in use is {uid}: \
             check --federation-kubeconfig",
            annotations::UPPER_HUB_UID
        )
    })
}

/// Returns the problem if the LowerHub has the cells of another lower hub.
fn another_lower_hub(lower: &HubIdentity, reported: Option<&str>) -> Option<String> {
    let (uid, reported) = (lower.uid()?, reported?);
    (!lower.is_named_by(reported)).then(|| {
        format!(
            "its status.hubUID names lower hub {reported}, and the lower hub of this process is {uid}: check --kubeconfig \
             and discovery.clusterName"
        )
    })
}
