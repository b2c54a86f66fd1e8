//! Decides what the networks of an Instance need next (docs/concepts/flow.md#networks).
//!
//! A plan has one step. After the step, the plan is made again from what the API server has stored. The strategies
//! (`interface_claims`, `bindings`) decide which objects of the network operator an Instance needs, and whether they
//! are finished. This module turns that into the condition `NetworkReady` and the gate.

use std::time::Duration;

use api::Instance;
use api::condition::{Condition, ConditionStatus};
use api::instance::{InstanceNetworkInterfaceStatus, LocationReference, NETWORK_READY};
use api::networking::{NetworkBinding, NetworkInterface, NetworkInterfaceClaim, SubnetClaim};
use api::reasons::network_ready as reason;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use std::sync::Arc;

use crate::cell::location::{self, LocationProblem, is_namespaced};
use crate::gate::{self, GateStep};
use crate::objects::{describe_undecodable, is_terminating};

/// How long networks are awaited before the Instance shows it. Quick networks then cost no write. Creation times have
/// whole seconds, so this is at least one second.
const SHOWN: SignedDuration = SignedDuration::from_secs(2);
/// The wait for an object that cannot be decoded. If it has another owner, it triggers nothing.
const UNREADABLE: Duration = Duration::from_mins(1);

/// What the networks of an Instance need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Networks {
    /// The next write of an object of the network operator.
    pub(super) step: Option<ObjectStep>,
    pub(super) verdict: Verdict,
    /// The location of the Instance, if it is known.
    pub(super) location: Option<LocationReference>,
    /// The interfaces of the Instance. `None` if the infrastructure provider reports them.
    pub(super) interfaces: Option<Vec<InstanceNetworkInterfaceStatus>>,
    /// What the network operator must know about the Instance.
    pub(super) holder: Option<HolderReport>,
    /// The next write of an object that the Instance does not need any more. It comes last.
    pub(super) release: Option<ObjectStep>,
}

/// Whether the networks of an Instance are there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Verdict {
    /// It is not known yet. A later event decides.
    #[default]
    Unknown,
    /// The cell makes no networks.
    Disabled,
    /// All networks are there.
    Ready,
    /// The cell has not listed this kind of object since the process has started.
    Unlisted(String),
    /// The network operator works.
    Waiting(String),
    /// Someone has to change something.
    Blocked {
        reason: &'static str,
        message: String,
    },
    /// An object cannot be decoded, so nothing is decided. An Instance that runs does not show it.
    Unclear {
        reason: &'static str,
        message: String,
    },
}

impl Verdict {
    /// Returns the verdict about an object that cannot be decoded and that the Instance may need.
    pub(super) fn unreadable<K: Resource<DynamicType = ()>>(invalid: &InvalidObject) -> Self {
        Self::Unclear {
            reason: reason::NETWORK_UNREADABLE,
            message: describe_undecodable::<K>(invalid),
        }
    }
}

impl From<LocationProblem> for Verdict {
    fn from(problem: LocationProblem) -> Self {
        let LocationProblem {
            is_certain,
            reason,
            message,
        } = problem;
        match is_certain {
            true => Self::Blocked { reason, message },
            false => Self::Unclear { reason, message },
        }
    }
}

/// A write of an object of the network operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ObjectStep {
    CreateInterfaceClaim(Box<NetworkInterfaceClaim>),
    CreateBinding(Box<NetworkBinding>),
    DeleteBinding(Arc<NetworkBinding>),
    CreateSubnetClaim(Box<SubnetClaim>),
    /// Make these objects the owners of the claim.
    OwnSubnetClaim(Arc<SubnetClaim>, Vec<OwnerReference>),
    /// Delete exactly this version of the claim: another owner may come meanwhile.
    DeleteSubnetClaim(Arc<SubnetClaim>),
}

/// The conditions of a NetworkInterface with what the network operator must know about the Instance.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HolderReport {
    pub(super) interface: Arc<NetworkInterface>,
    pub(super) conditions: Vec<Condition>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NetworkStep {
    /// Write what the Instance needs.
    Object(ObjectStep),
    /// Take back what nobody needs.
    Release(ObjectStep),
    StampLocation(LocationReference),
    /// Write these parts of the status of the Instance.
    WriteStatus {
        conditions: Option<Vec<Condition>>,
        interfaces: Option<Vec<InstanceNetworkInterfaceStatus>>,
    },
    /// Remove the gate.
    OpenGate,
    ReportHolder(HolderReport),
}

impl NetworkStep {
    /// Returns whether the step writes the interfaces of the Instance.
    pub(super) fn copies_interfaces(&self) -> bool {
        matches!(
            self,
            Self::WriteStatus {
                interfaces: Some(_),
                ..
            }
        )
    }
}

/// The next step, and when to look again if there is none and nothing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Option<NetworkStep>,
    pub(super) look_again: Option<Duration>,
}

/// Returns whether networks matter for an Instance. They do not for an Instance that was made without them.
pub(super) fn is_managed(instance: &Instance) -> bool {
    gate::NETWORK.is_closed(instance) || gate::NETWORK.stored(instance).is_some()
}

/// Returns since when an Instance waits for its networks. Returns `None` if it does not wait.
pub(super) fn waiting_since(instance: &Instance) -> Option<Timestamp> {
    if is_terminating(instance) || !gate::NETWORK.is_closed(instance) {
        return None;
    }
    match gate::NETWORK.stored(instance) {
        Some(ready) if ready.is_true() => None,
        _ => instance.metadata.creation_timestamp.as_ref().map(|it| it.0),
    }
}

/// Plans for an Instance.
pub(super) fn plan(instance: &Instance, networks: Networks, now: Timestamp) -> Plan {
    let Networks {
        step,
        verdict,
        location,
        interfaces,
        holder,
        release,
    } = networks;
    let holder = holder.map(NetworkStep::ReportHolder);
    if is_terminating(instance) {
        return Plan {
            step: holder,
            look_again: None,
        };
    }
    let (step, verdict) = in_its_location(instance, location.as_ref(), step, verdict);
    let last = holder.or_else(|| release.map(NetworkStep::Release));
    if let Some(step) = step {
        return Plan {
            step: Some(NetworkStep::Object(step)),
            look_again: None,
        };
    }
    // The stamp changes the generation, so it precedes the condition.
    if let Some(location) = location.filter(|_| instance.spec.location.is_none()) {
        return Plan {
            step: Some(NetworkStep::StampLocation(location)),
            look_again: None,
        };
    }
    let hidden_for = match &verdict {
        Verdict::Waiting(_) | Verdict::Unlisted(_) if gate::NETWORK.stored(instance).is_none() => {
            hidden_for(instance, now)
        }
        _ => None,
    };
    if hidden_for.is_some() {
        return Plan {
            step: last,
            look_again: hidden_for,
        };
    }
    let look_again = matches!(verdict, Verdict::Unclear { .. }).then_some(UNREADABLE);
    let gate = condition(verdict, now).map(|wanted| gate::NETWORK.step(instance, wanted));
    let interfaces = interfaces.filter(|it| is_changed(instance, it) && gate.is_some());
    let step = match (gate.flatten(), interfaces) {
        (Some(GateStep::Write(conditions)), interfaces) => Some(NetworkStep::WriteStatus {
            conditions: Some(conditions),
            interfaces,
        }),
        (_, Some(interfaces)) => Some(NetworkStep::WriteStatus {
            conditions: None,
            interfaces: Some(interfaces),
        }),
        (Some(GateStep::Open), None) => Some(NetworkStep::OpenGate),
        (None, None) => last,
    };
    Plan {
        look_again: look_again.filter(|_| step.is_none()),
        step,
    }
}

/// Returns the step and the verdict for an Instance whose networks are in the location that was `found`.
fn in_its_location(
    instance: &Instance,
    found: Option<&LocationReference>,
    step: Option<ObjectStep>,
    verdict: Verdict,
) -> (Option<ObjectStep>, Verdict) {
    let is_closed = gate::NETWORK.is_closed(instance);
    let own = instance.spec.location.as_ref();
    let mismatch = own
        .zip(found)
        .and_then(|(own, found)| location::mismatch(own, found));
    match (mismatch, verdict) {
        // What an Instance in a wrong location needs is made nowhere.
        (Some(problem), _) if is_closed => (None, problem.into()),
        // It has its networks from the other strategy.
        (Some(_), _) if own.map(is_namespaced) != found.map(is_namespaced) => {
            (None, Verdict::Unknown)
        }
        (_, Verdict::Unclear { .. } | Verdict::Unlisted(_)) if !is_closed => {
            (step, Verdict::Unknown)
        }
        // The first list usually comes soon. Until then, what was said before stays.
        (_, Verdict::Unlisted(_)) if !is_first_or_unreadable(instance) => (step, Verdict::Unknown),
        (_, verdict) => (step, verdict),
    }
}

/// Returns whether the Instance has no condition, or one that says that something cannot be read.
fn is_first_or_unreadable(instance: &Instance) -> bool {
    let stored = gate::NETWORK.stored(instance);
    stored.is_none_or(|stored| stored.reason == reason::NETWORK_UNREADABLE)
}

/// Returns the condition for a verdict. Returns `None` if the stored condition stays.
fn condition(verdict: Verdict, now: Timestamp) -> Option<Condition> {
    let (status, reason, message) = match verdict {
        Verdict::Unknown => return None,
        Verdict::Disabled => (
            ConditionStatus::True,
            reason::NETWORK_DISABLED,
            "the cell makes no networks".to_owned(),
        ),
        Verdict::Ready => (
            ConditionStatus::True,
            reason::NETWORK_AVAILABLE,
            "the networks of the instance are ready".to_owned(),
        ),
        Verdict::Waiting(message) => (ConditionStatus::False, reason::PROVISIONING, message),
        Verdict::Blocked { reason, message } => (ConditionStatus::False, reason, message),
        Verdict::Unclear { reason, message } => (ConditionStatus::Unknown, reason, message),
        Verdict::Unlisted(kind) => (
            ConditionStatus::Unknown,
            reason::NETWORK_UNREADABLE,
            format!("the {kind} of the cell have not been listed yet"),
        ),
    };
    Some(Condition::new(NETWORK_READY, status, reason, message, now))
}

/// Returns for how long the Instance does not yet show that it waits.
fn hidden_for(instance: &Instance, now: Timestamp) -> Option<Duration> {
    let created = instance.metadata.creation_timestamp.as_ref()?;
    let left = SHOWN.saturating_sub(now.duration_since(created.0));
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

fn is_changed(instance: &Instance, interfaces: &[InstanceNetworkInterfaceStatus]) -> bool {
    let status = instance.status.as_ref();
    status.map_or(&[][..], |status| &status.network_interfaces) != interfaces
}

#[cfg(test)]
mod tests;
