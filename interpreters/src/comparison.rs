//! Compares what Karmada gets today with what the native interpreter answers, for an operator who replaces a
//! customization (docs/operate/remove-lua-customization.md).
//!
//! Today, the scripts of customizations answer. For an operation without a script, Karmada has a default. Each
//! difference has the [`Law`] that intends it, or none: then it is unexplained. A law holds only for the behaviour of the
//! customization that compute-federation replaces. A script that computes something else has unexplained differences.

mod aggregate;
mod difference;
mod explain;
mod laws;
mod subject;
#[cfg(test)]
mod tests;
mod value_diff;
mod variation;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::caller::{Answer, Request};
use crate::lua::{LuaInterpreter, StopFlag};
use crate::review::{Interpretation, MalformedReview, Operation};

use difference::Answered;

pub use difference::{Difference, Side};
pub use laws::{LAWS, Law};
pub use subject::{Subject, WrittenSubject};
pub use value_diff::FieldPath;
pub use variation::varied;

/// Compares the scripts of customizations with the native interpreter.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'s> {
    /// The scripts.
    pub scripts: &'s LuaInterpreter,
    /// The time of the calls.
    pub now: Timestamp,
    /// Stops a script.
    pub stop: &'s StopFlag,
}

impl Comparison<'_> {
    /// Returns the differences of the answers about one object, in the order of their paths.
    ///
    /// The native interpreter is not registered for InterpretComponent. A script for it has no replacement.
    pub fn compare(&self, operation: Operation, written: &WrittenSubject) -> Vec<Difference> {
        let subject = &written.subject;
        let request = subject.request(operation);
        let body = match written.body(&request) {
            Ok(body) => body,
            Err(error) => return vec![unusable(&error.to_string())],
        };
        let scripted = self.has_script(operation, subject);
        let native = match operation {
            Operation::InterpretComponent => None,
            _ => Some(crate::interpret(&body, self.now)),
        };
        let former = scripted.then(|| self.scripts.interpret(&body, self.now, self.stop));
        if let (Some(Ok(former)), Some(Ok(native))) = (&former, &native)
            && former.body == native.body
        {
            return Vec::new();
        }
        let former = match former {
            Some(former) => answered(&request, former),
            None => default_of_karmada(&request),
        };
        let native = native.map_or(Answered::Unanswered, |native| answered(&request, native));
        let case = explain::Case {
            operation,
            subject,
            scripted,
        };
        case.differences(former, native)
    }

    fn has_script(&self, operation: Operation, subject: &Subject) -> bool {
        let text = |field: &str| subject.object.get(field).and_then(Value::as_str);
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let found = self.scripts.customizations_for(
            api_version.unwrap_or_default(),
            kind.unwrap_or_default(),
            operation,
        );
        !found.is_empty()
    }
}

fn unusable(problem: &str) -> Difference {
    Difference {
        path: FieldPath::of("request"),
        former: Side::Refused(problem.to_owned()),
        native: Side::Refused(problem.to_owned()),
        law: None,
    }
}

fn answered<'a>(
    request: &Request<'a>,
    interpretation: Result<Interpretation, MalformedReview>,
) -> Answered<'a> {
    let interpretation = match interpretation {
        Ok(interpretation) => interpretation,
        Err(error) => return Answered::Refused(error.to_string()),
    };
    if let Some(error) = interpretation.error {
        return Answered::Refused(error.to_string());
    }
    match Answer::decode(request.operation, &interpretation.body, request.object) {
        Ok(answer) => Answered::Answer(answer),
        Err(error) => Answered::Refused(error.to_string()),
    }
}

/// Returns what Karmada does with a kind that it does not know: it reports the whole status, changes nothing, and takes
/// every object for healthy.
fn default_of_karmada<'a>(request: &Request<'a>) -> Answered<'a> {
    let operation = request.operation;
    let mut answer = Answer {
        operation: operation.as_str(),
        fields: Map::new(),
        patch: None,
        object: None,
    };
    match operation {
        Operation::InterpretReplica | Operation::InterpretComponent => return Answered::Unanswered,
        Operation::InterpretHealth => {
            answer.fields.insert("healthy".to_owned(), json!(true));
        }
        Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus => {
            answer.object = Some(Cow::Borrowed(request.object));
        }
        Operation::InterpretDependency => {
            answer.fields.insert("dependencies".to_owned(), json!([]));
        }
        Operation::InterpretStatus => {
            let status = request
                .object
                .get("status")
                .filter(|status| !status.is_null());
            let Some(status) = status else {
                return Answered::Unanswered;
            };
            answer.fields.insert("rawStatus".to_owned(), status.clone());
        }
    }
    Answered::Answer(answer)
}
