//! The change of a Workload in an admission request.

use api::decode::{Strict, from_str};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::denial::{AdmittedKind, Denial};
use super::external_facts::{ExternalFacts, UsedObject};
use super::field_error::{FieldErrorList, StatusCause, Warnings};
use super::review::AdmissionRequest;
use super::rules;
use super::workload_view::WorkloadSpecView;
use crate::bounded::bounded_message;

/// Maximum number of values in the spec of a Workload: elements of lists, fields of objects, lists and objects. The
/// rules need up to 252 bytes for each element of a list, also for an empty one. The largest Workloads have about a
/// thousand values.
const VALUES_MAX: usize = 20_000;

/// The change of a Workload in a request: the new Workload and, for an update, the former Workload.
pub(crate) struct WorkloadChange<'a> {
    name: &'a str,
    workload: WorkloadSpecView<'a>,
    former: Option<WorkloadSpecView<'a>>,
}

impl<'a> WorkloadChange<'a> {
    /// Decodes the change. Returns `None` if the spec needs no check.
    ///
    /// # Errors
    ///
    /// A [`Denial`] if the object cannot be decoded.
    pub(crate) fn decode(request: &'a AdmissionRequest<'_>) -> Result<Option<Self>, Denial> {
        request.expect_kind(AdmittedKind::Workload)?;
        let name = request.name.as_ref();
        let is_update = match request.operation.as_ref() {
            "CREATE" => false,
            "UPDATE" => true,
            "DELETE" | "CONNECT" => return Ok(None),
            other => {
                let other = bounded_message(other);
                let problem = format!("request.operation: {other:?} is not known");
                return Err(Denial::bad_request(AdmittedKind::Workload, name, &problem));
            }
        };
        if !request.sub_resource.is_empty() {
            return Ok(None);
        }
        let object: WorkloadEnvelope<'_> = decode(name, "", request.object)?;
        let former: WorkloadEnvelope<'_> = match is_update {
            true => decode(name, "", request.old_object)?,
            false => WorkloadEnvelope::default(),
        };
        // The finalizers of a terminating Workload must be removable, even if the Workload is invalid. Only the former
        // object is checked for a deletionTimestamp. A requester can set a deletionTimestamp in a new object, so the
        // new object is no proof that the Workload is terminating.
        let is_terminating = former.metadata.deletion_timestamp.is_some();
        if is_update
            && (is_terminating || object.spec.map(RawValue::get) == former.spec.map(RawValue::get))
        {
            return Ok(None);
        }
        Ok(Some(Self {
            name,
            workload: decode(name, "spec", object.spec)?,
            // If the former spec cannot be decoded, its errors are unknown. Every error then counts as new.
            former: match is_update {
                true => decode(name, "spec", former.spec).ok(),
                false => None,
            },
        }))
    }

    /// Returns the objects that the new Workload uses and the former Workload did not use. Each object is in the list
    /// once.
    pub(crate) fn newly_used(&self) -> Vec<UsedObject<'_>> {
        rules::newly_used(&self.workload, self.former.as_ref())
    }

    /// Returns whether a placement of the new Workload has a city that the former placement did not have.
    pub(crate) fn has_new_cities(&self) -> bool {
        self.is_any_new_city(|_| true)
    }

    /// Returns whether `is` holds for a city that a placement has and the former placement did not have.
    pub(crate) fn is_any_new_city(&self, is: impl Fn(&str) -> bool) -> bool {
        rules::is_any_new_city(&self.workload, self.former.as_ref(), is)
    }

    /// Checks the rules. Returns warnings about the errors that the former Workload had too.
    ///
    /// # Errors
    ///
    /// A [`Denial`] with every error that the former Workload did not have.
    pub(crate) fn check(&self, facts: &ExternalFacts<'_>) -> Result<Warnings, Denial> {
        let errors = rules::errors(&self.workload, self.former.as_ref(), facts);
        match errors.listed.is_empty() {
            true => Ok(errors.tolerated),
            false => Err(Denial::invalid(self.name, errors)),
        }
    }
}

/// The fields of a Workload that decide whether the spec needs a check.
#[derive(Default, Deserialize)]
struct WorkloadEnvelope<'a> {
    #[serde(default)]
    metadata: EnvelopeMetadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeMetadata {
    deletion_timestamp: Option<IgnoredAny>,
}

/// Returns whether a JSON text has more than [`VALUES_MAX`] values. A text with that many values has at least twice as
/// many bytes, so a usual text is not read.
fn has_too_many_values(text: &str) -> bool {
    if text.len() <= 2 * VALUES_MAX {
        return false;
    }
    let (mut quoted, mut escaped, mut values) = (false, false, 1);
    for byte in text.bytes() {
        match byte {
            b',' | b'[' | b'{' if !quoted => values += 1,
            b'"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    values > VALUES_MAX
}

/// Decodes the part of the object at `path`. If the part is absent, returns the default value.
fn decode<'a, T: Deserialize<'a> + Default>(
    name: &str,
    path: &str,
    text: Option<&'a RawValue>,
) -> Result<T, Denial> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    if path == "spec" && has_too_many_values(text.get()) {
        let cause = StatusCause {
            field: path.to_owned(),
            reason: "FieldValueTooMany",
            message: format!("Too many: must have at most {VALUES_MAX} values"),
        };
        let errors = FieldErrorList {
            listed: vec![cause],
            more: 0,
            tolerated: Warnings::default(),
        };
        return Err(Denial::invalid(name, errors));
    }
    from_str(text.get()).or_else(|_| {
        // Decodes the text again to find the path of the error. This second decoding is slow, and only runs after an
        // error.
        let text = &mut serde_json::Deserializer::from_str(text.get());
        let decoded = serde_path_to_error::deserialize::<_, Strict<T>>(text);
        decoded.map(|Strict(value)| value).map_err(|error| {
            let field = match (path, error.path().to_string().as_str()) {
                ("", field) => field.to_owned(),
                (path, ".") => path.to_owned(),
                (path, field) => format!("{path}.{field}"),
            };
            let problem = error.inner().to_string();
            // Removes the line and the column from the message. The requester does not know this JSON text.
            let problem = problem
                .rsplit_once(" at line ")
                .map_or(problem.as_str(), |(problem, _)| problem);
            let (found, expected) = match problem.rfind(", expected ") {
                Some(end) => problem.split_at(end),
                None => (problem, ""),
            };
            let cause = StatusCause {
                field,
                reason: "FieldValueTypeInvalid",
                message: format!("Invalid value: {}{expected}", bounded_message(found)),
            };
            let errors = FieldErrorList {
                listed: vec![cause],
                ..FieldErrorList::default()
            };
            Denial::invalid(name, errors)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let list = |count: usize| format!("[{}]", vec![r#""a,{\"[""#; count].join(","));
        // The list itself is a value, and the text a value of its own.
        assert!(!has_too_many_values(&list(VALUES_MAX - 1)));
        assert!(has_too_many_values(&list(VALUES_MAX)));
        assert!(!has_too_many_values(&format!(
            "\"{}\"",
            ",".repeat(3 * VALUES_MAX)
        )));
    }
}
