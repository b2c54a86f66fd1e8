//! The condition `HolderAvailable` of the NetworkInterfaces that an Instance holds. The network operator sends no
//! traffic to a holder that is not available.

use std::sync::Arc;

use api::Instance;
use api::condition::{self, Condition, ConditionStatus};
use api::networking::{HOLDER_AVAILABLE, NetworkInterface, NetworkInterfaceClaim};
use api::reasons::{holder as reason, instance as of_instance};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::instance::blocker::SUSPENSION;
use crate::instance::plan::running;
use crate::network::plan::HolderReport;
use crate::objects::is_terminating;

/// Returns the first report that differs from what a NetworkInterface of these claims has.
pub(super) fn report<'c>(
    instance: &Instance,
    claims: impl Iterator<Item = &'c Arc<NetworkInterfaceClaim>>,
    interfaces: &[Arc<NetworkInterface>],
    now: Timestamp,
) -> Option<HolderReport> {
    let wanted = available(instance, now);
    let held = claims.filter_map(|claim| {
        let status = claim.status.as_ref()?;
        let name = &status.network_interface_ref.as_ref()?.name;
        let mut interfaces = interfaces.iter();
        interfaces.find(|interface| interface.name_any() == *name)
    });
    let mut reports = held.filter_map(|interface| {
        let status = interface.status.as_ref();
        let former = status.map_or(&[][..], |status| &status.conditions);
        let is_reported = condition::find(former, HOLDER_AVAILABLE).is_some_and(|it| {
            it.status == wanted.status && it.reason == wanted.reason && it.message == wanted.message
        });
        if is_reported {
            return None;
        }
        let mut conditions = former.to_vec();
        condition::set(&mut conditions, wanted.clone());
        Some(HolderReport {
            interface: Arc::clone(interface),
            conditions,
        })
    });
    reports.next()
}

/// Returns the condition for an Instance.
fn available(instance: &Instance, now: Timestamp) -> Condition {
    let not_reported = (
        ConditionStatus::Unknown,
        reason::NOT_REPORTED,
        "the infrastructure provider has not reported about the instance",
    );
    let (status, reason, message) = match running(instance) {
        _ if is_terminating(instance) => (
            ConditionStatus::False,
            reason::TERMINATING,
            "the instance is being deleted",
        ),
        // The provider may not have reported yet that it has stopped the instance.
        _ if instance.is_suspended() => {
            (ConditionStatus::False, of_instance::SUSPENDED, SUSPENSION)
        }
        None => not_reported,
        Some(running) => match running.status {
            ConditionStatus::True => (
                ConditionStatus::True,
                reason::AVAILABLE,
                "the instance is running",
            ),
            ConditionStatus::Unknown => not_reported,
            ConditionStatus::False => match running.reason.as_str() {
                "" | of_instance::PENDING => (
                    ConditionStatus::False,
                    reason::UNAVAILABLE,
                    "the instance is not running",
                ),
                own => (ConditionStatus::False, own, running.message.as_str()),
            },
        },
    };
    Condition::new(HOLDER_AVAILABLE, status, reason, message, now)
}

#[cfg(test)]
mod tests;
