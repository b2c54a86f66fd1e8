//! Rules of network interfaces, and of the right to use the networks.

use super::names::{DefaultedNames, check_label, is_valid_label};
use crate::admission::access_review::UsedKind;
use crate::admission::external_facts::{Refusals, UsedObject};
use crate::admission::field_error::{ErrorSink, FieldError, FieldPath};
use crate::admission::workload_view::{NetworkInterfaceView, WorkloadSpecView};

/// An interface without a name gets this prefix and its index as the name.
const INTERFACE: &str = "eth";

pub(super) fn check<'a>(
    instance: &FieldPath<'_>,
    interfaces: &'a [NetworkInterfaceView<'a>],
    refusals: &Refusals<'_>,
    report: &mut ErrorSink<'_>,
) {
    let path = instance.field("networkInterfaces");
    if interfaces.is_empty() {
        return report(&path, FieldError::required("at least one"));
    }
    let own_name = |of: &'a NetworkInterfaceView<'a>| Some(&*of.name).filter(|it| !it.is_empty());
    let mut names = DefaultedNames::new(INTERFACE, interfaces, own_name, identity);
    for (index, value) in interfaces.iter().enumerate() {
        let name = value.network.name.as_ref();
        let interface = path.element(index, name);
        // A name that was wrong before is no new error if the interface gets another network.
        let by_name = path.element(index, identity(value));
        let own = by_name.field("name");
        if !value.name.is_empty() {
            check_label(&own, &value.name, report);
        }
        names.check_unique(index, &own, value, report);
        let network = interface.field("network");
        check_label(&network.field("name"), name, report);
        let object = used(name);
        if let Some(refusal) = refusals.get(&object) {
            report(&network, refusal.error(object));
        }
    }
}

/// Returns what identifies an interface in the errors of its name: the name, or the name of the network if it has none.
fn identity<'a>(interface: &'a NetworkInterfaceView<'_>) -> &'a str {
    match interface.name.as_ref() {
        "" => &interface.network.name,
        own => own,
    }
}

/// Returns the networks that the Workload uses, in the order of the interfaces. A name that no network can have is left
/// out.
pub(super) fn used_networks<'w>(
    workload: &'w WorkloadSpecView<'_>,
) -> impl Iterator<Item = UsedObject<'w>> {
    let interfaces = workload.template.spec.network_interfaces.iter();
    let names = interfaces.map(|interface| interface.network.name.as_ref());
    names.filter(|name| is_valid_label(name)).map(used)
}

fn used(name: &str) -> UsedObject<'_> {
    let kind = UsedKind::Network;
    UsedObject { kind, name }
}
