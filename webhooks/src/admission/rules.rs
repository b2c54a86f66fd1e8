//! What a Workload must be to be accepted (compute.md 3.4), in the order in which its errors are listed. Pure: what it
//! takes to know which cities and networks may be used is found out before.

mod metadata;
mod names;
mod networks;
mod placements;
mod runtime;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use api::CityCode;

use super::field_errors::FieldErrors;
use super::path::Path;
use super::problem::{Report, supported};
use super::workload::WorkloadSpec;
pub(crate) use networks::new_networks;
pub(crate) use placements::has_new_cities;

/// What others say about a Workload.
#[derive(Default)]
pub(crate) struct Verdicts<'a> {
    /// The cities that the project may use. Without them, cities are not checked.
    pub(crate) cities: Option<Cities<'a>>,
    /// Networks that must not be used, or of which that is not known.
    pub(crate) networks: BTreeMap<&'a str, NetworkRefusal>,
}

/// Why a network must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkRefusal {
    /// The requester has no right to it. The authorizer may say why.
    Denied(String),
    /// It could not be found out whether the requester has the right.
    NotReviewed(String),
    /// So many others are new, or must not be used, that this one has not been asked about.
    NotAsked,
}

/// The cities that a project may use.
pub(crate) struct Cities<'a> {
    codes: &'a BTreeSet<String>,
    /// What an error says about them.
    supported: String,
}

impl<'a> Cities<'a> {
    pub(crate) fn new(codes: &'a BTreeSet<String>) -> Self {
        // One that is no label value is refused.
        let usable = codes.iter().map(String::as_str);
        let mut usable = usable
            .filter(|code| CityCode::new(*code).is_ok())
            .peekable();
        let supported = match usable.peek() {
            None => "no city is available to this project".to_owned(),
            Some(_) => supported(usable),
        };
        Self { codes, supported }
    }
}

/// The errors of a Workload. Of one that is updated, those that it did not have before.
pub(crate) fn errors(
    workload: &WorkloadSpec<'_>,
    former: Option<&WorkloadSpec<'_>>,
    verdicts: &Verdicts<'_>,
) -> FieldErrors {
    let of = |workload, report: &mut Report<'_>| check(workload, verdicts, report);
    match former {
        Some(former) => {
            FieldErrors::new_since(|report| of(former, report), |report| of(workload, report))
        }
        None => FieldErrors::of(|report| of(workload, report)),
    }
}

fn check(workload: &WorkloadSpec<'_>, verdicts: &Verdicts<'_>, report: &mut Report<'_>) {
    let spec = Path::root("spec");
    let template = spec.field("template");
    let instance = template.field("spec");
    let WorkloadSpec {
        placements,
        template: values,
    } = workload;
    metadata::check(&template, values, report);
    volumes::check(&instance, &values.spec, report);
    runtime::check(&instance, &values.spec, report);
    networks::check(
        &instance,
        &values.spec.network_interfaces,
        &verdicts.networks,
        report,
    );
    placements::check(&spec, placements, verdicts.cities.as_ref(), report);
}
