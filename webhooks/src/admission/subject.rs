//! The Workload that a request is about.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::field_errors::{FieldError, FieldErrors};
use super::problem::shortened;
use super::review::{Denial, Request};
use super::rules::{self, Verdicts};
use super::workload::WorkloadSpec;

/// A Workload that someone wants to have, and what it is so far.
pub(crate) struct Subject<'a> {
    name: &'a str,
    workload: WorkloadSpec<'a>,
    former: Option<WorkloadSpec<'a>>,
}

impl<'a> Subject<'a> {
    /// Reads what is to be checked; there is nothing where a request does not change what is wanted.
    ///
    /// # Errors
    ///
    /// When the object cannot be read.
    pub(crate) fn read(request: &'a Request<'_>) -> Result<Option<Self>, Denial> {
        expect_workload(request)?;
        let name = request.name.as_ref();
        let is_update = match request.operation.as_ref() {
            "CREATE" => false,
            "UPDATE" => true,
            "DELETE" | "CONNECT" => return Ok(None),
            other => {
                let problem = format!("request.operation: {other:?} is not known");
                return Err(Denial::bad_request(name, problem));
            }
        };
        if !request.sub_resource.is_empty() {
            return Ok(None);
        }
        let object: Object<'_> = read(name, "", request.object)?;
        let former: Object<'_> = match is_update {
            true => read(name, "", request.old_object)?,
            false => Object::default(),
        };
        // Finalizers must be able to go, whatever the object is like. What an object is created with says nothing of that.
        let is_terminating = former.metadata.deletion_timestamp.is_some();
        if is_update
            && (is_terminating || object.spec.map(RawValue::get) == former.spec.map(RawValue::get))
        {
            return Ok(None);
        }
        Ok(Some(Self {
            name,
            workload: read(name, "spec", object.spec)?,
            // What could not be read before has no errors that are known.
            former: match is_update {
                true => read(name, "spec", former.spec).ok(),
                false => None,
            },
        }))
    }

    /// Networks that the Workload uses and did not use before, each once, in the order of its interfaces.
    pub(crate) fn new_networks(&self) -> Vec<&str> {
        rules::new_networks(&self.workload, self.former.as_ref())
    }

    /// Whether the Workload is placed in a city in which it was not placed before.
    pub(crate) fn has_new_cities(&self) -> bool {
        rules::has_new_cities(&self.workload, self.former.as_ref())
    }

    /// Whether the Workload is accepted.
    ///
    /// # Errors
    ///
    /// With everything that is wrong anew.
    pub(crate) fn check(&self, verdicts: &Verdicts<'_>) -> Result<(), Denial> {
        let errors = rules::errors(&self.workload, self.former.as_ref(), verdicts);
        match errors.listed.is_empty() {
            true => Ok(()),
            false => Err(Denial::invalid(self.name, errors)),
        }
    }
}

/// Refuses what is no Workload.
pub(crate) fn expect_workload(request: &Request<'_>) -> Result<(), Denial> {
    let kind = &request.kind;
    let is_workload = kind.group == api::GROUP && kind.kind == "Workload";
    match is_workload && kind.version == api::VERSION {
        true => Ok(()),
        false => Err(Denial::bad_request(
            &request.name,
            format!(
                "request.kind: {}/{} {} is not admitted here, Workload of {} is",
                kind.group,
                kind.version,
                kind.kind,
                api::API_VERSION
            ),
        )),
    }
}

/// The parts of an object by which it is decided whether it is looked at.
#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<IgnoredAny>,
}

/// Reads a part of the object; `path` is where it stands. What is absent is empty.
fn read<'a, T: Deserialize<'a> + Default>(
    name: &str,
    path: &str,
    text: Option<&'a RawValue>,
) -> Result<T, Denial> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    serde_json::from_str(text.get()).or_else(|_| {
        // Once more, keeping track of the path: that costs time, which only an error is worth.
        let text = &mut serde_json::Deserializer::from_str(text.get());
        serde_path_to_error::deserialize(text).map_err(|error| {
            let field = match (path, error.path().to_string().as_str()) {
                ("", field) => field.to_owned(),
                (path, ".") => path.to_owned(),
                (path, field) => format!("{path}.{field}"),
            };
            let problem = error.inner().to_string();
            // The place in a text that no one sees helps no one.
            let problem = problem
                .rsplit_once(" at line ")
                .map_or(problem.as_str(), |(problem, _)| problem);
            let (found, expected) = match problem.rfind(", expected ") {
                Some(end) => problem.split_at(end),
                None => (problem, ""),
            };
            let error = FieldError {
                field,
                reason: "FieldValueTypeInvalid",
                message: format!("Invalid value: {}{expected}", shortened(found)),
            };
            let errors = FieldErrors {
                listed: vec![error],
                more: 0,
            };
            Denial::invalid(name, errors)
        })
    })
}
