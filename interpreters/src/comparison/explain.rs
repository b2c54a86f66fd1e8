//! Finds the law that intends a difference.

use std::collections::BTreeSet;

use api::annotations::ASSIGNED_REPLICAS;
use api::karmada::FIELD_MANAGER_PREFIX;
use serde_json::Value;

use super::aggregate::StatusCase;
use super::difference::{Answered, Difference, Side};
use super::laws::{self, Law};
use super::subject::{HELPERS, Subject};
use super::value_diff::{FieldPath, field_differences, is_empty};
use crate::caller::Answer;
use crate::review::Operation;

/// The circumstances of a difference.
pub(super) struct Case<'s> {
    pub(super) operation: Operation,
    pub(super) subject: &'s Subject,
    /// Whether a script answers today. Otherwise Karmada's default does.
    pub(super) scripted: bool,
}

type Explanation = Option<&'static Law>;

impl Case<'_> {
    pub(super) fn differences(&self, former: Answered, native: Answered) -> Vec<Difference> {
        match (former, native) {
            (Answered::Answer(former), Answered::Answer(native)) => self.fields(&former, &native),
            (Answered::Refused(_), Answered::Refused(_))
            | (Answered::Unanswered, Answered::Unanswered) => Vec::new(),
            (former, native) => {
                let law = match (&former, &native) {
                    (Answered::Unanswered, Answered::Answer(_)) => match self.operation {
                        Operation::InterpretReplica => Some(laws::REPLICAS_ARE_COUNTED),
                        Operation::InterpretHealth => Some(laws::HEALTH_IS_KNOWN),
                        _ => None,
                    },
                    (Answered::Refused(_), Answered::Answer(native)) => self.of_refusal(native),
                    _ => None,
                };
                vec![Difference {
                    path: FieldPath::of("answer"),
                    former: side(former),
                    native: side(native),
                    law,
                }]
            }
        }
    }

    /// Explains that the script fails and the native interpreter answers.
    fn of_refusal(&self, native: &Answer) -> Explanation {
        let in_cell = &self.subject.in_cell;
        let has_status = in_cell.get("status").is_some_and(|it| !it.is_null());
        let is_empty =
            native.fields.get("rawStatus") == Some(&Value::Object(serde_json::Map::new()));
        let is_it = self.operation == Operation::InterpretStatus && !has_status && is_empty;
        is_it.then_some(laws::NO_STATUS_IS_EMPTY)
    }

    fn fields<'a>(&self, former: &'a Answer, native: &'a Answer) -> Vec<Difference> {
        let whole = FieldPath::default();
        let field = |answer: &'static str| (former.fields.get(answer), native.fields.get(answer));
        match self.operation {
            Operation::InterpretDependency => self.dependencies(former, native),
            Operation::InterpretStatus => {
                let (former, native) = field("rawStatus");
                self.explained(
                    &FieldPath::of("status"),
                    former,
                    native,
                    |path, _, native| self.of_report(path, native),
                )
            }
            Operation::ReviseReplica => {
                let (former, native) = (former.object.as_ref(), native.object.as_ref());
                self.explained(&whole, former, native, |path, former, native| {
                    self.of_revision(path, former, native)
                })
            }
            Operation::Retain => {
                let (former, native) = (former.object.as_ref(), native.object.as_ref());
                let controller = native.and_then(|native| native.pointer("/spec/controller"));
                self.explained(&whole, former, native, |path, former, native| {
                    self.of_retention(path, former, native, controller)
                })
            }
            Operation::AggregateStatus => {
                // Karmada writes the status alone.
                let status = |answer: &'a Answer| answer.object.as_ref()?.get("status");
                let (former, native) = (status(former), status(native));
                let case = StatusCase::new(self.subject, self.scripted, former, native);
                self.explained(
                    &FieldPath::of("status"),
                    former,
                    native,
                    |path, former, native| case.law(path, former, native),
                )
            }
            Operation::InterpretReplica
            | Operation::InterpretComponent
            | Operation::InterpretHealth => {
                let names: BTreeSet<_> = former.fields.keys().chain(native.fields.keys()).collect();
                let of_field = |name: &String| {
                    let (former, native) = (former.fields.get(name), native.fields.get(name));
                    self.explained(&FieldPath::of(name), former, native, |_, _, _| None)
                };
                names.into_iter().flat_map(of_field).collect()
            }
        }
    }

    fn explained(
        &self,
        path: &FieldPath,
        former: Option<&Value>,
        native: Option<&Value>,
        law: impl Fn(&FieldPath, Option<&Value>, Option<&Value>) -> Explanation,
    ) -> Vec<Difference> {
        let found = field_differences(path, former, native).into_iter();
        let law = |path: &FieldPath, former, native| {
            let law = law(path, former, native).filter(|law| self.is_of_kind(law));
            law.or_else(|| self.of_engine(former, native))
        };
        let explained = found.map(|(path, former, native)| Difference {
            law: law(&path, former, native),
            path,
            former: value(former),
            native: value(native),
        });
        explained.collect()
    }

    fn is_of_kind(&self, law: &Law) -> bool {
        let kind = self.subject.object.get("kind").and_then(Value::as_str);
        law.kind.is_none_or(|of| kind == Some(of.as_str()))
    }

    /// Explains what Karmada's engine loses in the result of any script.
    fn of_engine(&self, former: Option<&Value>, native: Option<&Value>) -> Explanation {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        let is_same_number = number(former).is_some() && number(former) == number(native);
        let is_lost = former.is_none() && native.is_some_and(is_empty);
        match self.scripted {
            true if is_same_number => Some(laws::NUMBERS_ARE_EXACT),
            true if is_lost => Some(laws::EMPTY_VALUES_STAY),
            _ => None,
        }
    }

    /// InterpretStatus.
    fn of_report(&self, path: &FieldPath, native: Option<&Value>) -> Explanation {
        let in_cell = &self.subject.in_cell;
        let is_terminating = in_cell.pointer("/metadata/deletionTimestamp");
        if is_terminating.is_some_and(|it| !it.is_null()) && native.is_none() {
            return Some(laws::TERMINATING_REPORTS_NOTHING);
        }
        match path.parts().as_slice() {
            ["status", name] if HELPERS.contains(name) => Some(laws::HELPERS_ARE_ADDED),
            _ => None,
        }
    }

    fn of_revision(
        &self,
        path: &FieldPath,
        former: Option<&Value>,
        native: Option<&Value>,
    ) -> Explanation {
        let before = |pointer: &str| self.subject.object.pointer(pointer);
        let number = |value: Option<&Value>| value.and_then(Value::as_i64);
        let is_share = number(native) == Some(self.subject.share.into());
        match path.parts().as_slice() {
            ["metadata", "annotations", ASSIGNED_REPLICAS] => Some(laws::SHARE_IS_RECORDED),
            ["metadata", "annotations"] => {
                let added = native.and_then(Value::as_object)?;
                let is_it = added.len() == 1 && added.contains_key(ASSIGNED_REPLICAS);
                is_it.then_some(laws::SHARE_IS_RECORDED)
            }
            ["spec", "replicas"] if is_share && former == before("/spec/replicas") => {
                Some(laws::SHARE_IS_SET)
            }
            ["spec", "scaleSettings", "minReplicas"]
                if is_share && former == before("/spec/scaleSettings/minReplicas") =>
            {
                Some(laws::SHARE_IS_SET)
            }
            ["spec", "scaleSettings", "maxReplicas"]
                if former == before("/spec/scaleSettings/maxReplicas")
                    && number(native) == self.part_of_maximum() =>
            {
                Some(laws::MAXIMUM_IS_DIVIDED)
            }
            _ => None,
        }
    }

    /// Returns the proportional part of `maxReplicas`, but at least the minimum that the cell gets.
    fn part_of_maximum(&self) -> Option<i64> {
        let number = |pointer: &str| {
            let value = self.subject.object.pointer(pointer);
            value.and_then(Value::as_i64)
        };
        let max = number("/spec/scaleSettings/maxReplicas")?;
        let minimum = number("/spec/scaleSettings/minReplicas");
        let share = i64::from(self.subject.share);
        let (total, minimum) = match number("/spec/replicas") {
            Some(replicas) => (replicas, minimum.unwrap_or(0)),
            None => (minimum?, share),
        };
        let part = max.checked_mul(share)?.checked_div(total).unwrap_or(max);
        Some(part.max(minimum))
    }

    fn of_retention(
        &self,
        path: &FieldPath,
        former: Option<&Value>,
        native: Option<&Value>,
        controller: Option<&Value>,
    ) -> Explanation {
        let in_cell = |pointer: &str| self.subject.in_cell.pointer(pointer);
        let desired = self.subject.object.pointer("/spec/replicas");
        let desired = desired.filter(|desired| !desired.is_null());
        match path.parts().as_slice() {
            ["spec", "replicas"] if self.scripted && former == in_cell("/spec/replicas") => {
                match desired {
                    Some(_) if native == desired => Some(laws::DESIRED_REPLICAS_WIN),
                    None if native.is_none()
                        && is_written_by_karmada(in_cell("/metadata/managedFields")) =>
                    {
                        Some(laws::FORMER_SHARE_ENDS)
                    }
                    _ => None,
                }
            }
            ["spec", "replicas"] if former.is_none() && native == in_cell("/spec/replicas") => {
                (!self.scripted).then_some(laws::AUTOSCALER_KEEPS_REPLICAS)
            }
            ["spec", "controller", ..] if controller == in_cell("/spec/controller") => {
                Some(laws::CONTROLLER_IS_KEPT)
            }
            _ => None,
        }
    }

    /// InterpretDependency. The order of dependencies says nothing.
    fn dependencies(&self, former: &Answer, native: &Answer) -> Vec<Difference> {
        let listed = |answer: &Answer| -> Vec<Value> {
            let list = answer.fields.get("dependencies").and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let (former, native) = (listed(former), listed(native));
        let path = |dependency: &Value| {
            let text = |field: &str| dependency.get(field).and_then(Value::as_str).unwrap_or("*");
            let (kind, namespace, name) = (text("kind"), text("namespace"), text("name"));
            FieldPath::of(&format!("{kind} {namespace}/{name}"))
        };
        let lost = former.iter().filter(|it| !native.contains(it));
        let lost = lost.map(|dependency| Difference {
            path: path(dependency),
            former: Side::Value(dependency.clone()),
            native: Side::Absent,
            law: None,
        });
        let found = native.iter().filter(|it| !former.contains(it));
        let found = found.map(|dependency| Difference {
            path: path(dependency),
            former: Side::Absent,
            native: Side::Value(dependency.clone()),
            law: self.of_dependency(dependency),
        });
        lost.chain(found).collect()
    }

    /// Explains a dependency that only the native interpreter names.
    fn of_dependency(&self, dependency: &Value) -> Explanation {
        let object = &self.subject.object;
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let namespace = text(object.pointer("/metadata/namespace"));
        if text(dependency.get("namespace")) != namespace {
            return None;
        }
        let (kind, name) = (text(dependency.get("kind")), text(dependency.get("name")));
        let annotations = object.pointer("/metadata/annotations");
        let annotation =
            annotations.and_then(|it| it.get(api::annotations::EXPECTED_REFERENCED_DATA));
        let is_listed = text(annotation).contains(&format!("\"{kind}/{name}\""));
        if is_listed {
            return (!self.scripted).then_some(laws::ANNOTATION_IS_READ);
        }
        let spec = object.get("spec")?;
        has_text(spec, &name).then_some(laws::TEMPLATE_IS_READ)
    }
}

fn value(value: Option<&Value>) -> Side {
    value.map_or(Side::Absent, |value| Side::Value(value.clone()))
}

fn side(answered: Answered) -> Side {
    match answered {
        Answered::Answer(answer) => Side::Value(match answer.fields.len() {
            1 => answer
                .fields
                .into_iter()
                .next()
                .map_or(Value::Null, |(_, value)| value),
            _ => Value::Object(answer.fields),
        }),
        Answered::Refused(problem) => Side::Refused(problem),
        Answered::Unanswered => Side::Unanswered,
    }
}

/// Returns whether a text is anywhere in a value.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Array(elements) => elements.iter().any(|element| has_text(element, text)),
        Value::Object(fields) => fields.values().any(|field| has_text(field, text)),
        _ => false,
    }
}

/// Returns whether a program of Karmada has written `spec.replicas`.
fn is_written_by_karmada(managed_fields: Option<&Value>) -> bool {
    let entries = managed_fields.and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        let manager = entry.get("manager").and_then(Value::as_str);
        manager.is_some_and(|manager| manager.starts_with(FIELD_MANAGER_PREFIX))
            && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    })
}
