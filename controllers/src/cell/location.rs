//! The location that a cell serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::instance::LocationReference;
use api::networking::{CITY_CODE, Location, ServingLocation};
use api::reasons::network_ready as reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};

use crate::objects::describe_undecodable;

/// Why an Instance has no location: a reason of `NetworkReady`, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocationProblem {
    /// Whether the location is missing or wrong. Otherwise it is not known, because an object cannot be decoded.
    pub(crate) is_certain: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Most names of ServingLocations in a message.
const SHOWN_MAX: usize = 5;

/// Returns the location of a cell for Instances in this city. A cell serves exactly one location. `undecodable` are the
/// ServingLocations that cannot be decoded.
///
/// # Errors
///
/// [`LocationProblem`] if the cell names no location, several of them, or one in another city, or if a ServingLocation
/// cannot be decoded.
pub(crate) fn serving_location(
    serving: &[Arc<ServingLocation>],
    undecodable: &[Arc<InvalidObject>],
    city: &str,
) -> Result<LocationReference, LocationProblem> {
    if let Some(invalid) = undecodable.first() {
        return Err(unreadable::<ServingLocation>(invalid));
    }
    match serving {
        [] => Err(LocationProblem {
            is_certain: true,
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
            is_certain: true,
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
                is_certain: true,
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

/// Returns the Location of this city for NetworkBindings. If several have the city, the first of `preferred` stays, else
/// it is the first by namespace and name. `undecodable` are the Locations that cannot be decoded.
///
/// # Errors
///
/// [`LocationProblem`] if no Location has the city, or if it depends on one that cannot be decoded.
pub(crate) fn location_of_city<'r>(
    locations: &[Arc<Location>],
    undecodable: &[Arc<InvalidObject>],
    preferred: impl IntoIterator<Item = &'r LocationReference>,
    city: &str,
) -> Result<LocationReference, LocationProblem> {
    let of_city = locations.iter();
    let of_city = of_city.filter(|location| city_of(&location.spec.topology) == city);
    let references: Vec<_> = of_city.map(|location| reference(location.meta())).collect();
    for preferred in preferred {
        if let Some(kept) = references.iter().find(|it| matches(preferred, it)) {
            return Ok(kept.clone());
        }
        let mut undecodable = undecodable.iter();
        if let Some(invalid) = undecodable.find(|it| matches(preferred, &reference(&it.metadata))) {
            return Err(unreadable::<Location>(invalid));
        }
    }
    match (references.first(), undecodable.first()) {
        (Some(first), _) => Ok(first.clone()),
        (None, Some(invalid)) => Err(unreadable::<Location>(invalid)),
        (None, None) => Err(LocationProblem {
            is_certain: true,
            reason: reason::NO_MATCHING_LOCATION,
            message: format!("no Location of the cell has city code {city:?}"),
        }),
    }
}

fn reference(location: &ObjectMeta) -> LocationReference {
    LocationReference {
        name: location.name.clone().unwrap_or_default(),
        namespace: Some(location.namespace.clone().unwrap_or_default()),
        ..LocationReference::default()
    }
}

fn unreadable<K: Resource<DynamicType = ()>>(invalid: &InvalidObject) -> LocationProblem {
    LocationProblem {
        is_certain: false,
        reason: reason::LOCATION_UNREADABLE,
        message: describe_undecodable::<K>(invalid),
    }
}

/// Returns the problem of an Instance that waits for its networks and is in another location than the one that was
/// `found` for it.
pub(crate) fn mismatch(
    own: &LocationReference,
    found: &LocationReference,
) -> Option<LocationProblem> {
    let show = |it: &LocationReference| match it.namespace.as_deref() {
        None | Some("") => it.name.clone(),
        Some(namespace) => format!("{namespace}/{}", it.name),
    };
    (!matches(own, found)).then(|| LocationProblem {
        is_certain: true,
        reason: reason::LOCATION_MISMATCH,
        message: format!(
            "spec.location is {}, and the cell has location {} for the city: restore the former location, or delete the \
             instance in the cell so that it is made anew",
            show(own),
            show(found),
        ),
    })
}

/// Returns whether two references name the same Location.
pub(crate) fn are_equal(one: &LocationReference, other: &LocationReference) -> bool {
    one.name == other.name && namespace(one) == namespace(other)
}

/// Returns whether two references can name the same place. A ServingLocation has no namespace, so a reference without
/// one matches by name: the strategy of the cell may have been another one when the Instance was made.
pub(crate) fn matches(one: &LocationReference, other: &LocationReference) -> bool {
    let is_partial = !is_namespaced(one) || !is_namespaced(other);
    one.name == other.name && (is_partial || are_equal(one, other))
}

/// Returns whether the reference names a Location. Otherwise it names a ServingLocation.
pub(crate) fn is_namespaced(reference: &LocationReference) -> bool {
    !namespace(reference).is_empty()
}

/// Returns `found` if it completes a reference without a namespace, else the reference.
pub(crate) fn completed<'l>(
    own: &'l LocationReference,
    found: &'l LocationReference,
) -> &'l LocationReference {
    match !is_namespaced(own) && matches(own, found) {
        true => found,
        false => own,
    }
}

fn namespace(reference: &LocationReference) -> &str {
    reference.namespace.as_deref().unwrap_or_default()
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
            let found = serving_location(&shared(serving), &[], "DFW");
            let found = found.as_ref().map(|it| it.name.as_str());
            let found = found.map_err(|problem| problem.reason);
            assert_eq!(found, expected);
        }
    }

    /// It may be a second one.
    #[test]
    fn a_serving_location_that_cannot_be_decoded_holds() {
        for serving in [vec![], vec![serving("dfw", "DFW")]] {
            let undecodable = [invalid(("", "x"))];
            let problem = serving_location(&shared(serving), &undecodable, "DFW").unwrap_err();
            assert!(!problem.is_certain);
            assert_eq!(problem.reason, reason::LOCATION_UNREADABLE);
            let message = "ServingLocation x cannot be decoded: its topology is a number";
            assert_eq!(problem.message, message);
        }
    }

    #[test]
    fn messages_name_the_locations() {
        let message = |serving: Vec<_>| {
            let found = serving_location(&shared(serving), &[], "DFW");
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

    fn reference_of((namespace, name): (&str, &str)) -> LocationReference {
        LocationReference {
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..LocationReference::default()
        }
    }

    fn invalid((namespace, name): (&str, &str)) -> Arc<InvalidObject> {
        let metadata = json!({"namespace": namespace, "name": name});
        Arc::new(InvalidObject {
            error: "its topology is a number".to_owned(),
            metadata: object(metadata),
        })
    }

    #[test]
    fn a_location_that_is_preferred_stays_while_it_has_the_city() {
        let locations = shared([
            location("a", "x", "ORD"),
            location("b", "y", "DFW"),
            location("c", "z", "DFW"),
        ]);
        for (preferred, expected) in [
            (&[][..], ("b", "y")),
            (&[("c", "z")], ("c", "z")),
            (&[("a", "x")], ("b", "y")),
            (&[("a", "x"), ("c", "z")], ("c", "z")),
            (&[("c", "z"), ("b", "y")], ("c", "z")),
        ] {
            let preferred: Vec<_> = preferred.iter().copied().map(reference_of).collect();
            let found = location_of_city(&locations, &[], &preferred, "DFW").unwrap();
            assert_eq!(found, reference_of(expected));
        }
        let missing = location_of_city(&locations, &[], &[], "LHR").unwrap_err();
        assert!(missing.is_certain);
        assert_eq!(missing.reason, reason::NO_MATCHING_LOCATION);
    }

    /// A Location that cannot be decoded may still have the city.
    #[test]
    fn a_location_that_cannot_be_decoded_is_not_gone() {
        let locations = shared([location("b", "y", "DFW")]);
        let undecodable = [invalid(("a", "x"))];
        let (lost, other) = (reference_of(("a", "x")), reference_of(("b", "y")));
        for (locations, preferred, is_found) in [
            (&locations[..], &[][..], true),
            (&locations, std::slice::from_ref(&other), true),
            (&locations, std::slice::from_ref(&lost), false),
            (&[], &[], false),
        ] {
            match location_of_city(locations, &undecodable, preferred, "DFW") {
                Ok(found) => assert!(is_found && found == other, "{preferred:?}"),
                Err(problem) => {
                    assert!(!is_found && !problem.is_certain, "{preferred:?}");
                    let message = "Location x cannot be decoded: its topology is a number";
                    assert_eq!(problem.message, message);
                }
            }
        }
    }

    #[test]
    fn an_instance_in_another_location_says_so() {
        let bare = |name: &str| LocationReference {
            name: name.to_owned(),
            ..LocationReference::default()
        };
        let found = reference_of(("default", "dfw"));
        assert_eq!(mismatch(&found, &found), None);
        assert!(mismatch(&reference_of(("other", "dfw")), &found).is_some());
        let problem = mismatch(&reference_of(("default", "ord")), &found).unwrap();
        assert_eq!(problem.reason, reason::LOCATION_MISMATCH);
        let message = "spec.location is default/ord, and the cell has location default/dfw";
        assert!(problem.message.starts_with(message), "{}", problem.message);
        // The names of ServingLocations have no namespace.
        let serving = reference_of(("", "dfw"));
        assert_eq!(mismatch(&found, &serving), None);
        assert_eq!(mismatch(&serving, &found), None);
        assert_eq!(mismatch(&bare("dfw"), &serving), None);
        assert!(mismatch(&bare("ord"), &serving).is_some());
        assert!(mismatch(&bare("ord"), &found).is_some());
    }
}
