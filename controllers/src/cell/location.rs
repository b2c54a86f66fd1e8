//! The location that a cell serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::instance::LocationReference;
use api::networking::{CITY_CODE, Location, ServingLocation};
use api::reasons::network_ready as reason;
use kube::ResourceExt;

/// Why an Instance has no location: a reason of `NetworkReady`, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocationProblem {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Most names of ServingLocations in a message.
const SHOWN_MAX: usize = 5;

/// Returns the location of a cell for Instances in this city. A cell serves exactly one location.
///
/// # Errors
///
/// [`LocationProblem`] if the cell names no location, several of them, or one in another city.
pub(crate) fn serving_location(
    serving: &[Arc<ServingLocation>],
    city: &str,
) -> Result<LocationReference, LocationProblem> {
    match serving {
        [] => Err(LocationProblem {
            reason: reason::NO_MATCHING_LOCATION,
            message: "the cell has no ServingLocation".to_owned(),
        }),
        [only] if city_of(&only.spec.topology) == city => Ok(LocationReference {
            name: only.name_any(),
            // CRDs of former versions require the field.
            namespace: Some(String::new()),
            ..LocationReference::default()
        }),
        [only] => Err(LocationProblem {
            reason: reason::LOCATION_MISMATCH,
            message: format!(
                "the cell serves location {} in city {:?}, and the instance is for city {city:?}",
                only.name_any(),
                city_of(&only.spec.topology),
            ),
        }),
        several => {
            let names = several.iter().take(SHOWN_MAX).map(|it| it.name_any());
            let names: Vec<_> = names.collect();
            Err(LocationProblem {
                reason: reason::AMBIGUOUS_LOCATION,
                message: format!(
                    "the cell has {} ServingLocations and must have one: {}",
                    several.len(),
                    names.join(", ")
                ),
            })
        }
    }
}

/// Returns the Location of this city for NetworkBindings. If several have the city, the one that is `used` stays, else
/// it is the first by namespace and name.
///
/// # Errors
///
/// [`LocationProblem`] if no Location has the city.
pub(crate) fn location_of_city(
    locations: &[Arc<Location>],
    used: Option<&LocationReference>,
    city: &str,
) -> Result<LocationReference, LocationProblem> {
    let of_city = locations.iter();
    let of_city = of_city.filter(|location| city_of(&location.spec.topology) == city);
    let references: Vec<_> = of_city
        .map(|location| LocationReference {
            name: location.name_any(),
            namespace: Some(location.namespace().unwrap_or_default()),
            ..LocationReference::default()
        })
        .collect();
    let kept = references
        .iter()
        .find(|location| used.is_some_and(|used| are_equal(used, location)));
    let found = kept.or_else(|| references.first()).cloned();
    found.ok_or_else(|| LocationProblem {
        reason: reason::NO_MATCHING_LOCATION,
        message: format!("no Location of the cell has city code {city:?}"),
    })
}

/// Returns whether two references name the same Location.
pub(crate) fn are_equal(one: &LocationReference, other: &LocationReference) -> bool {
    let namespace = |it: &LocationReference| it.namespace.clone().unwrap_or_default();
    one.name == other.name && namespace(one) == namespace(other)
}

fn city_of(topology: &BTreeMap<String, String>) -> &str {
    topology.get(CITY_CODE).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{object, shared};

    fn serving(name: &str, city: &str) -> ServingLocation {
        object(json!({
            "metadata": {"name": name}, "spec": {"topology": {CITY_CODE: city, "other": "x"}},
        }))
    }

    fn location(namespace: &str, name: &str, city: &str) -> Location {
        object(json!({
            "metadata": {"namespace": namespace, "name": name}, "spec": {"topology": {CITY_CODE: city}},
        }))
    }

    #[test]
    fn a_cell_serves_one_location_of_the_right_city() {
        for (serving, expected) in [
            (vec![], Err(reason::NO_MATCHING_LOCATION)),
            (vec![serving("dfw", "DFW")], Ok("dfw")),
            (vec![serving("ord", "ORD")], Err(reason::LOCATION_MISMATCH)),
            (vec![serving("dfw", "dfw")], Err(reason::LOCATION_MISMATCH)),
            (
                vec![serving("dfw", "DFW"), serving("ord", "ORD")],
                Err(reason::AMBIGUOUS_LOCATION),
            ),
        ] {
            let found = serving_location(&shared(serving), "DFW");
            let found = found.as_ref().map(|it| it.name.as_str());
            let found = found.map_err(|problem| problem.reason);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn messages_name_the_locations() {
        let message = |serving: Vec<_>| {
            let found = serving_location(&shared(serving), "DFW");
            found.unwrap_err().message
        };
        assert_eq!(
            message(vec![serving("ord", "ORD")]),
            "the cell serves location ord in city \"ORD\", and the instance is for city \"DFW\""
        );
        assert_eq!(
            message(vec![serving("a", "A"), serving("b", "B")]),
            "the cell has 2 ServingLocations and must have one: a, b"
        );
    }

    #[test]
    fn a_location_that_is_used_stays_while_it_has_the_city() {
        let locations = shared([
            location("a", "x", "ORD"),
            location("b", "y", "DFW"),
            location("c", "z", "DFW"),
        ]);
        let reference = |namespace: &str, name: &str| LocationReference {
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..LocationReference::default()
        };
        for (used, expected) in [
            (None, ("b", "y")),
            (Some(reference("c", "z")), ("c", "z")),
            (Some(reference("a", "x")), ("b", "y")),
        ] {
            let found = location_of_city(&locations, used.as_ref(), "DFW").unwrap();
            assert_eq!(found, reference(expected.0, expected.1));
        }
        let missing = location_of_city(&locations, None, "LHR").unwrap_err();
        assert_eq!(missing.reason, reason::NO_MATCHING_LOCATION);
    }
}
