//! Instance: each operation has its rule in the documentation of its function.
//!
//! No policy of ours selects Instances; these rules hold where an operator's does.

use std::borrow::Cow;

use api::instance::READY;
use api::reasons::instance::PENDING as DEFAULT_REASON;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::InterpretError;
use crate::annotations::Annotations;
use crate::dependencies;
use crate::patch::Patch;
use crate::raw::{parse, same};
use crate::requirements;
use crate::review::{Component, Operation, Outcome, Request, Requirements};
use crate::template::Spec;

/// Answers one request about an Instance.
pub(crate) fn interpret<O>(
    operation: Operation,
    instance: &Instance<'_>,
    request: &Request<'_, O>,
) -> Result<Outcome, InterpretError> {
    Ok(match operation {
        Operation::InterpretReplica => Outcome::Replicas {
            replicas: 1,
            requirements: instance.requirements()?,
        },
        Operation::InterpretComponent => Outcome::Components(vec![Component {
            name: "instance",
            replicas: 1,
            replica_requirements: instance.requirements()?,
        }]),
        // An Instance has no field that says how many of it there are.
        Operation::ReviseReplica => Outcome::Patch(Patch::default()),
        Operation::Retain => {
            let observed = parse("request.observedObject", request.observed_object()?)?;
            Outcome::Patch(retain(instance, &observed))
        }
        Operation::AggregateStatus => {
            let items: Vec<_> = match request.aggregated_status {
                Some(items) => parse("request.aggregatedStatus", items.get())?,
                None => Vec::new(),
            };
            Outcome::Patch(aggregate_status(instance, &items))
        }
        Operation::InterpretDependency => Outcome::Dependencies(dependencies::of_instance_spec(
            &instance.metadata.namespace,
            &instance.spec,
            instance.metadata.annotations.expected_referenced_data(),
        )),
        Operation::InterpretStatus => Outcome::Status(instance.reported_status()?),
        Operation::InterpretHealth => Outcome::Health(rank(instance.status) == Rank::Ready),
    })
}

/// The fields that interpretation reads, borrowed from the request.
#[derive(Deserialize)]
pub(crate) struct Instance<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: Annotations<'a>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

impl Instance<'_> {
    fn requirements(&self) -> Result<Option<Requirements>, InterpretError> {
        requirements::of_runtime("spec.runtime", &self.spec.runtime)
    }

    /// The whole status; `{}` when there is none, or when the object is terminating.
    fn reported_status(&self) -> Result<Box<RawValue>, InterpretError> {
        let status = self
            .status
            .filter(|_| self.metadata.deletion_timestamp.is_none());
        let status = status.map(RawValue::get).filter(|status| *status != "null");
        RawValue::from_string(status.unwrap_or("{}").to_owned())
            .map_err(|error| InterpretError::new("status", error))
    }
}

/// `spec.controller` belongs to the cell.
fn retain(desired: &Instance<'_>, observed: &Instance<'_>) -> Patch {
    let mut patch = Patch::default();
    let desired = desired.spec.controller.map(RawValue::get);
    if let Some(controller) = observed.spec.controller
        && !desired.is_some_and(|desired| same(desired, controller.get()))
    {
        patch.add("/spec/controller", controller.get());
    }
    patch
}

/// How much a status says. Several cells can hold an Instance of one name; the one that runs it says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Nothing,
    Default,
    NotReady,
    Ready,
}

fn rank(status: Option<&RawValue>) -> Rank {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        conditions: Vec<Condition<'a>>,
    }
    #[derive(Deserialize)]
    struct Condition<'a> {
        #[serde(borrow, default)]
        reason: Cow<'a, str>,
        #[serde(borrow, default)]
        status: Cow<'a, str>,
        #[serde(rename = "type", borrow, default)]
        type_: Cow<'a, str>,
    }
    let status = status.map(|status| serde_json::from_str::<Option<Status<'_>>>(status.get()));
    let Some(Ok(Some(Status { conditions }))) = status else {
        return Rank::Nothing;
    };
    match conditions.iter().find(|condition| condition.type_ == READY) {
        Some(ready) if ready.status == "True" => Rank::Ready,
        Some(ready) if ready.status == "False" && ready.reason != DEFAULT_REASON => Rank::NotReady,
        None if conditions.is_empty() => Rank::Nothing,
        Some(_) | None => Rank::Default,
    }
}

/// One cell gives its status exactly. Of several, the first by name with the highest rank does, and never replaces a
/// status of a higher rank.
fn aggregate_status(instance: &Instance<'_>, items: &[&RawValue]) -> Patch {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item<'a> {
        #[serde(borrow, default)]
        cluster_name: Cow<'a, str>,
        #[serde(borrow)]
        status: Option<&'a RawValue>,
    }
    let mut reports: Vec<_> = items
        .iter()
        .filter_map(|item| serde_json::from_str::<Item<'_>>(item.get()).ok())
        .filter_map(|item| Some((item.cluster_name, item.status?)))
        .filter(|(_, status)| !matches!(status.get(), "null" | "{}"))
        .collect();
    reports.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut best: Option<(Rank, &RawValue)> = None;
    for (_, status) in &reports {
        let rank = rank(Some(status));
        if best.is_none_or(|(highest, _)| rank > highest) {
            best = Some((rank, status));
        }
    }
    let mut patch = Patch::default();
    let Some((highest, status)) = best else {
        return patch;
    };
    let outranked = items.len() > 1 && rank(instance.status) > highest;
    let unchanged = instance
        .status
        .is_some_and(|former| same(former.get(), status.get()));
    if !outranked && !unchanged {
        patch.add("/status", status.get());
    }
    patch
}
