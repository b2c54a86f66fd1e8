//! The facts that the rules need and that are not in the Workload: the cities of the project, and the rights of the
//! requester.

use std::collections::{BTreeMap, BTreeSet};

use api::CityCode;

use super::field_error::supported;

/// The facts that the rules need and that are not in the Workload.
#[derive(Default)]
pub(crate) struct ExternalFacts<'a> {
    /// The cities that the project may use. With `None`, the rules do not check cities.
    pub(crate) cities: Option<AvailableCities<'a>>,
    /// The networks that must not be used, by name, each with the reason. All other networks may be used.
    pub(crate) networks: BTreeMap<&'a str, NetworkRefusal>,
}

/// The reason why a network must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkRefusal {
    /// The requester has no right to use the network. Contains the message for the requester.
    Denied(String),
    /// The access review failed. Contains the message for the requester.
    NotReviewed(String),
    /// No access review was sent, because the Workload has too many new networks or too many refusals.
    NotAsked,
}

/// The cities that a project may use.
pub(crate) struct AvailableCities<'a> {
    pub(crate) codes: &'a BTreeSet<String>,
    /// The detail of the error for a city that the project may not use.
    pub(crate) supported: String,
}

impl<'a> AvailableCities<'a> {
    pub(crate) fn new(codes: &'a BTreeSet<String>) -> Self {
        // If the code of a city is not a label value, a Workload cannot use the city. Error messages must not suggest
        // such a city.
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
