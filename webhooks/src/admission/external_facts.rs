//! The facts from outside the Workload that the rules need: the project's cities, and the requester's rights.

use std::collections::{BTreeMap, BTreeSet};

use api::CityCode;

use super::field_error::supported;

/// The facts from outside the Workload that the rules need.
#[derive(Default)]
pub(crate) struct ExternalFacts<'a> {
    /// The cities that the project may use. `None`: cities are not checked.
    pub(crate) cities: Option<AvailableCities<'a>>,
    /// Why a network must not be used, by the name of the network. Other networks may be used.
    pub(crate) networks: BTreeMap<&'a str, NetworkRefusal>,
}

/// Why a network must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkRefusal {
    /// The requester has no right to use it. Holds the message for the requester.
    Denied(String),
    /// The access review failed. Holds the message for the requester.
    NotReviewed(String),
    /// No access review was sent, because there are too many new networks or too many refusals.
    NotAsked,
}

/// The cities that a project may use.
pub(crate) struct AvailableCities<'a> {
    pub(crate) codes: &'a BTreeSet<String>,
    /// The detail of an error about another city.
    pub(crate) supported: String,
}

impl<'a> AvailableCities<'a> {
    pub(crate) fn new(codes: &'a BTreeSet<String>) -> Self {
        // A Workload cannot use a city whose code is not a label value, so errors do not suggest one.
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
