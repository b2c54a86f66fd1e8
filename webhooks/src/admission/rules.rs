//! The rules for a Workload. The order of the rules is the order of the errors in an answer
//! (docs/reference/admission.md). The rules are pure functions. The caller must collect the [`ExternalFacts`] first.

mod data;
mod metadata;
mod names;
mod networks;
mod placements;
mod runtime;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::HashSet;

use super::external_facts::{ExternalFacts, UsedObject};
use super::field_error::{ErrorSink, FieldErrorList, FieldPath};
use super::workload_view::WorkloadSpecView;
pub(crate) use placements::is_any_new_city;

/// Returns the errors of a Workload. For an update, returns only the errors that the `former` Workload did not have.
pub(crate) fn errors(
    workload: &WorkloadSpecView<'_>,
    former: Option<&WorkloadSpecView<'_>>,
    facts: &ExternalFacts<'_>,
) -> FieldErrorList {
    let of = |workload, report: &mut ErrorSink<'_>| check(workload, facts, report);
    match former {
        Some(former) => {
            FieldErrorList::new_since(|report| of(former, report), |report| of(workload, report))
        }
        None => FieldErrorList::of(|report| of(workload, report)),
    }
}

fn check(workload: &WorkloadSpecView<'_>, facts: &ExternalFacts<'_>, report: &mut ErrorSink<'_>) {
    let spec = FieldPath::root("spec");
    let template = spec.field("template");
    let instance = template.field("spec");
    let WorkloadSpecView {
        placements,
        template: values,
    } = workload;
    metadata::check(&template, values, report);
    volumes::check(&instance, &values.spec, report);
    runtime::check(&instance, &values.spec, report);
    networks::check(
        &instance,
        &values.spec.network_interfaces,
        &facts.refusals,
        report,
    );
    data::check(&instance, &values.spec, &facts.refusals, report);
    placements::check(&spec, placements, facts.cities.as_ref(), report);
}

/// Returns the objects that the Workload uses and the former Workload did not use: the networks in the order of the
/// interfaces, then the ConfigMaps and Secrets in the order of their errors. Each object is in the list once.
pub(crate) fn newly_used<'w>(
    workload: &'w WorkloadSpecView<'_>,
    former: Option<&WorkloadSpecView<'_>>,
) -> Vec<UsedObject<'w>> {
    let mut seen: HashSet<UsedObject<'_>> = former.into_iter().flat_map(used).collect();
    let mut objects = used(workload);
    objects.retain(|object| seen.insert(*object));
    objects
}

fn used<'w>(workload: &'w WorkloadSpecView<'_>) -> Vec<UsedObject<'w>> {
    let mut objects: Vec<_> = networks::used_networks(workload).collect();
    data::add_used(&workload.template.spec, &mut objects);
    objects
}
