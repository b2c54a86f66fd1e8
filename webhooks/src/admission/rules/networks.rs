//! Rules of network interfaces, and of the right to use the networks.

use std::collections::{BTreeMap, HashSet};

use super::names::{DefaultedNames, check_label, is_valid_label};
use crate::admission::external_facts::NetworkRefusal;
use crate::admission::field_error::{ErrorSink, FieldError, FieldPath};
use crate::admission::workload_view::{NetworkInterfaceView, WorkloadSpecView};

/// An interface without a name gets this prefix and its index as the name.
const INTERFACE: &str = "eth";

pub(super) fn check<'a>(
    instance: &FieldPath<'_>,
    interfaces: &'a [NetworkInterfaceView<'a>],
    refusals: &BTreeMap<&str, NetworkRefusal>,
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
        match refusals.get(name) {
            Some(NetworkRefusal::Denied(reason)) => {
                report(&network, FieldError::forbidden(name, reason.as_str()));
            }
            Some(NetworkRefusal::NotReviewed(problem)) => {
                report(&network, FieldError::internal(problem.as_str()));
            }
            Some(NetworkRefusal::NotAsked) => {
                let problem = "the right to use the network was not checked: the Workload has too many new or refused networks";
                report(&network, FieldError::internal(problem));
            }
            None => {}
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

/// Returns the networks that the Workload uses and the former Workload did not use. Each network is in the list once.
/// The order is the order of the interfaces.
pub(crate) fn new_networks<'w>(
    workload: &'w WorkloadSpecView<'_>,
    former: Option<&WorkloadSpecView<'_>>,
) -> Vec<&'w str> {
    let former = former.into_iter().flat_map(names);
    let mut seen: HashSet<&str> = former.collect();
    let mut networks = Vec::new();
    for name in names(workload) {
        if is_valid_label(name) && seen.insert(name) {
            networks.push(name);
        }
    }
    networks
}

fn names<'w>(workload: &'w WorkloadSpecView<'_>) -> impl Iterator<Item = &'w str> {
    let interfaces = workload.template.spec.network_interfaces.iter();
    interfaces.map(|interface| interface.network.name.as_ref())
}
