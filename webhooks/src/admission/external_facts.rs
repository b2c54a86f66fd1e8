//! The facts that the rules need and that are not in the Workload: the cities of the project, and the rights of the
//! requester.

use std::collections::{BTreeMap, BTreeSet};

use api::CityCode;
use api::references::SourceKind;

use super::access_review::UsedKind;
use super::field_error::{FieldError, supported};

/// The facts that the rules need and that are not in the Workload.
#[derive(Default)]
pub(crate) struct ExternalFacts<'a> {
    /// The cities that the project may use. With `None`, the rules do not check cities.
    pub(crate) cities: Option<AvailableCities<'a>>,
    /// The objects that must not be used, each with the reason. All other objects may be used.
    pub(crate) refusals: Refusals<'a>,
}

/// An object in the namespace of the Workload that the Workload uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UsedObject<'a> {
    pub(crate) kind: UsedKind,
    pub(crate) name: &'a str,
}

/// The objects that must not be used, each with the reason.
pub(crate) type Refusals<'a> = BTreeMap<UsedObject<'a>, Refusal>;

/// The reason why an object must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The requester has no right to use the object. Contains the message for the requester.
    Denied(String),
    /// The access review failed. Contains the message for the requester.
    NotReviewed(String),
    /// No access review was sent, because the Workload has too many new objects or too many refusals.
    NotAsked,
}

impl Refusal {
    /// Returns the error of a field that uses the object.
    pub(crate) fn error<'e>(&'e self, object: UsedObject<'e>) -> FieldError<'e> {
        match self {
            Self::Denied(reason) => FieldError::forbidden(object.name, reason.as_str()),
            Self::NotReviewed(problem) => FieldError::internal(problem.as_str()),
            Self::NotAsked => FieldError::forbidden(
                object.name,
                match object.kind {
                    UsedKind::Network => {
                        "the right to use the network was not checked: the Workload has too many new or refused networks"
                    }
                    UsedKind::Data(SourceKind::ConfigMap) => {
                        "the right to get the ConfigMap was not checked: the Workload has too many new or refused references"
                    }
                    UsedKind::Data(SourceKind::Secret) => {
                        "the right to get the Secret was not checked: the Workload has too many new or refused references"
                    }
                },
            ),
        }
    }
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
