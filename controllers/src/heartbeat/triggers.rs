//! The triggers of the controller of heartbeats.

use api::lower_hub::lower_hub_of;
use api::rights::NAMESPACE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{HubSource, Trigger};

/// Returns the name of the LowerHub whose heartbeat is this Lease.
pub(super) fn beating(lease: &ObjectMeta) -> Option<&str> {
    let is_there = lease.namespace.as_deref() == Some(NAMESPACE);
    lower_hub_of(lease.name.as_deref()?).filter(|_| is_there)
}

pub(super) const ON_HUB: &[Trigger<HubSource, (), ObjectKey>] = &[
    Trigger {
        source: HubSource::AllLowerHubs,
        reason: "a LowerHub was created, changed or deleted",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: HubSource::Heartbeats,
        reason: "the process of a lower hub has sent a heartbeat",
        keys: |change, ()| {
            let lower_hub = change.current.or(change.former).and_then(beating);
            let key = lower_hub.map(|name| ObjectKey {
                namespace: String::new(),
                name: name.to_owned(),
            });
            key.into_iter().collect()
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::named;

    #[test]
    fn lower_hubs_and_their_heartbeats_wake_the_controller() {
        let dfw = named("", "dfw");
        let lease = named(NAMESPACE, "compute-lower-hub-dfw");
        let of_another = named("default", "compute-lower-hub-dfw");
        let election = named(NAMESPACE, "e98b06c6.datumapis.com");
        let case = |name, source, current, is_due: bool| TriggerCase {
            name,
            source,
            former: Some(current),
            current: Some(current),
            keys: is_due.then(|| ObjectKey::of(&dfw)).into_iter().collect(),
        };
        let cases = [
            case("LowerHub", HubSource::AllLowerHubs, &dfw, true),
            case("heartbeat", HubSource::Heartbeats, &lease, true),
            case("namespace", HubSource::Heartbeats, &of_another, false),
            case("election", HubSource::Heartbeats, &election, false),
        ];
        assert_cases(ON_HUB, &cases, &());
    }
}
