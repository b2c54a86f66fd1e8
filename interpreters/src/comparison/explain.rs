//! Finds the law that intends a difference.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations::{ASSIGNED_REPLICAS, EXPECTED_REFERENCED_DATA};
use api::karmada::FIELD_MANAGER_PREFIX;
use serde_json::Value;

use super::aggregate::StatusCase;
use super::difference::{Answered, Difference, Side};
use super::laws::{self, Law};
use super::subject::{HELPERS, Subject};
use super::value_diff::{FieldPath, field_differences, in_lua, is_empty};
use crate::caller::Answer;
use crate::dependencies::tokens;
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
    pub(super) fn differences(
        &self,
        former: Answered<'_>,
        native: Answered<'_>,
    ) -> Vec<Difference> {
        match (former, native) {
            (Answered::Answer(former), Answered::Answer(native)) => self.fields(&former, &native),
            (Answered::Refused(_), Answered::Refused(_))
            | (Answered::Unanswered, Answered::Unanswered) => Vec::new(),
            (former, native) => {
                let law = match (&former, &native) {
                    (Answered::Unanswered, Answered::Answer(_))
                        if self.operation == Operation::InterpretReplica =>
                    {
                        Some(laws::REPLICAS_ARE_COUNTED)
                    }
                    (_, Answered::Answer(native)) => self.of_no_status(native),
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

    /// Explains that an object without a status has no report today: the script fails, or nothing is reported.
    fn of_no_status(&self, native: &Answer<'_>) -> Explanation {
        let in_cell = &self.subject.in_cell;
        let has_status = in_cell.get("status").is_some_and(|it| !it.is_null());
        let is_empty =
            native.fields.get("rawStatus") == Some(&Value::Object(serde_json::Map::new()));
        let is_it = self.operation == Operation::InterpretStatus && !has_status && is_empty;
        is_it.then_some(laws::NO_STATUS_IS_EMPTY)
    }

    fn fields<'a>(&self, former: &'a Answer<'_>, native: &'a Answer<'_>) -> Vec<Difference> {
        let whole = FieldPath::default();
        let field = |answer: &'static str| (former.fields.get(answer), native.fields.get(answer));
        match self.operation {
            Operation::InterpretDependency => self.dependencies(former, native),
            Operation::InterpretStatus => {
                let (former, native) = field("rawStatus");
                let in_cell = self.subject.in_cell.get("status");
                let is_whole = former.and_then(in_lua) == in_cell.and_then(in_lua);
                self.explained(
                    &FieldPath::of("status"),
                    former,
                    native,
                    |path, _, native| self.of_report(path, native).filter(|_| is_whole),
                )
            }
            Operation::ReviseReplica => {
                let (former, native) = (former.object.as_deref(), native.object.as_deref());
                self.explained(&whole, former, native, |path, former, native| {
                    self.of_revision(path, former, native)
                })
            }
            Operation::Retain => {
                let (former, native) = (former.object.as_deref(), native.object.as_deref());
                let controller = [former, native].map(|it| it?.pointer("/spec/controller"));
                self.explained(&whole, former, native, |path, former, native| {
                    self.of_retention(path, former, native, controller)
                })
            }
            Operation::AggregateStatus => {
                // Karmada writes the status alone.
                let status = |answer: &'a Answer<'_>| answer.object.as_deref()?.get("status");
                let (former, native) = (status(former), status(native));
                let case = StatusCase::new(self.subject, self.scripted, former, native);
                self.explained(
                    &FieldPath::of("status"),
                    former,
                    native,
                    |path, former, native| case.law(path, former, native),
                )
            }
            Operation::InterpretHealth => {
                let (former, native) = field("healthy");
                self.explained(&FieldPath::of("healthy"), former, native, |_, _, _| {
                    (!self.scripted).then_some(laws::HEALTH_IS_KNOWN)
                })
            }
            Operation::InterpretReplica | Operation::InterpretComponent => {
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
        // The results of Retain and ReviseReplica get the empty values of the request's objects back.
        let keeps_empty = matches!(self.operation, Operation::Retain | Operation::ReviseReplica);
        match self.scripted {
            true if is_same_number => Some(laws::NUMBERS_ARE_EXACT),
            true if is_lost && !keeps_empty => Some(laws::EMPTY_VALUES_STAY),
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
        let before_all = before("/metadata/annotations");
        let recorded = before_all.and_then(|all| all.get(ASSIGNED_REPLICAS));
        match path.parts().as_slice() {
            ["metadata", "annotations", ASSIGNED_REPLICAS] => {
                (former == recorded).then_some(laws::SHARE_IS_RECORDED)
            }
            ["metadata", "annotations"] => {
                let added = native.and_then(Value::as_object)?;
                let is_only = added.len() == 1 && added.contains_key(ASSIGNED_REPLICAS);
                let is_it = is_only && former.is_none() && before_all.is_none_or(is_empty);
                is_it.then_some(laws::SHARE_IS_RECORDED)
            }
            // A script that leaves the number alone means all replicas in every cell.
            _ if self.scripted => None,
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
        Some(part.min(i32::MAX.into()).max(minimum))
    }

    fn of_retention(
        &self,
        path: &FieldPath,
        former: Option<&Value>,
        native: Option<&Value>,
        [former_controller, native_controller]: [Option<&Value>; 2],
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
            ["spec", "controller", ..] => {
                let is_left = former_controller == self.subject.object.pointer("/spec/controller");
                let kept = in_cell("/spec/controller");
                let is_kept = native_controller.is_some() && native_controller == kept;
                (is_left && is_kept).then_some(laws::CONTROLLER_IS_KEPT)
            }
            _ => None,
        }
    }

    /// InterpretDependency. The order of dependencies says nothing.
    fn dependencies(&self, former: &Answer<'_>, native: &Answer<'_>) -> Vec<Difference> {
        let (former, native) = (listed(former), listed(native));
        let annotation = self.in_annotation();
        let reads_annotation = former.keys().all(|named| annotation.contains(named))
            && annotation.iter().all(|named| former.contains_key(named));
        let mut texts = BTreeSet::new();
        if let Some(spec) = self.subject.object.get("spec") {
            collect_texts(spec, &mut texts);
        }
        let path = |(_, kind, namespace, name): &Named| {
            FieldPath::of(kind).child(format!("[{namespace}/{name}]"))
        };
        let lost = former
            .iter()
            .filter(|(named, dependency)| native.get(*named) != Some(*dependency));
        let lost = lost.map(|(named, dependency)| Difference {
            path: path(named),
            former: Side::Value((*dependency).clone()),
            native: Side::Absent,
            law: None,
        });
        let found = native
            .iter()
            .filter(|(named, dependency)| former.get(*named) != Some(*dependency));
        let found = found.map(|(named, dependency)| {
            let law = match self.scripted {
                false if annotation.contains(named) => Some(laws::ANNOTATION_IS_READ),
                true if !reads_annotation => None,
                _ => texts
                    .contains(named.3.as_str())
                    .then_some(laws::TEMPLATE_IS_READ),
            };
            Difference {
                path: path(named),
                former: Side::Absent,
                native: Side::Value((*dependency).clone()),
                law: law.filter(|_| named.2 == self.namespace()),
            }
        });
        lost.chain(found).collect()
    }

    fn namespace(&self) -> &str {
        let namespace = self.subject.object.pointer("/metadata/namespace");
        namespace.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns what the annotation `compute.datumapis.com/expected-referenced-data` lists.
    fn in_annotation(&self) -> BTreeSet<Named> {
        let annotations = self.subject.object.pointer("/metadata/annotations");
        let annotation = annotations.and_then(|all| all.get(EXPECTED_REFERENCED_DATA)?.as_str());
        let named = tokens(annotation.unwrap_or_default()).map(|(kind, name)| {
            let named = ["v1", kind, self.namespace(), name];
            named.map(str::to_owned).into()
        });
        named.collect()
    }
}

/// `apiVersion`, kind, namespace and name of a dependency.
type Named = (String, String, String, String);

/// Returns the dependencies of an answer.
fn listed<'a>(answer: &'a Answer<'_>) -> BTreeMap<Named, &'a Value> {
    let list = answer.fields.get("dependencies").and_then(Value::as_array);
    let named = list.into_iter().flatten().map(|dependency| {
        let text = |field: &str| {
            let text = dependency.get(field).and_then(Value::as_str);
            text.unwrap_or("*").to_owned()
        };
        let named = ["apiVersion", "kind", "namespace", "name"].map(text);
        (named.into(), dependency)
    });
    named.collect()
}

/// Collects all texts in a value.
fn collect_texts<'v>(value: &'v Value, texts: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) => drop(texts.insert(text)),
        Value::Array(elements) => elements.iter().for_each(|it| collect_texts(it, texts)),
        Value::Object(fields) => fields.values().for_each(|it| collect_texts(it, texts)),
        _ => {}
    }
}

fn value(value: Option<&Value>) -> Side {
    value.map_or(Side::Absent, |value| Side::Value(value.clone()))
}

fn side(answered: Answered<'_>) -> Side {
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

/// Returns whether a program of Karmada has written `spec.replicas`.
fn is_written_by_karmada(managed_fields: Option<&Value>) -> bool {
    let entries = managed_fields.and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        let manager = entry.get("manager").and_then(Value::as_str);
        manager.is_some_and(|manager| manager.starts_with(FIELD_MANAGER_PREFIX))
            && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    })
}
