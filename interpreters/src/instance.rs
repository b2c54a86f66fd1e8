//! Interpretation of Instances. Each operation has one function. The documentation of the function contains the rule of
//! the operation.
//!
//! The policies of this project do not select Instances. These rules apply only if a policy of an operator selects
//! Instances.

use std::borrow::Cow;

use api::instance::READY;
use api::reasons::instance::PENDING as DEFAULT_REASON;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::annotations::AnnotationsView;
use crate::dependencies;
use crate::error::InterpretError;
use crate::instance_spec::InstanceSpecView;
use crate::patch::Patch;
use crate::raw::{parse, same};
use crate::requirements;
use crate::review::{Component, InterpretRequest, Operation, OperationOutcome, Requirements};

/// Answers one request in any JSON form.
pub(crate) fn interpret(
    operation: Operation,
    request: &InterpretRequest<'_>,
) -> Result<OperationOutcome, InterpretError> {
    let instance = parse("request.object", request.object()?)?;
    let observed = || parse("request.observedObject", request.observed_object()?);
    let items = || parse("request.aggregatedStatus", request.aggregated_status());
    interpret_parts(operation, &instance, observed, items)
}

/// Answers one request. The observed object and the cell reports are decoded only if the operation needs them.
pub(crate) fn interpret_parts<'a>(
    operation: Operation,
    instance: &InstanceView<'_>,
    observed: impl FnOnce() -> Result<InstanceView<'a>, InterpretError>,
    items: impl FnOnce() -> Result<Vec<&'a RawValue>, InterpretError>,
) -> Result<OperationOutcome, InterpretError> {
    Ok(match operation {
        Operation::InterpretReplica => OperationOutcome::Replicas {
            replicas: 1,
            requirements: instance.requirements()?,
        },
        Operation::InterpretComponent => OperationOutcome::Components(vec![Component {
            name: "instance",
            replicas: 1,
            replica_requirements: instance.requirements()?,
        }]),
        // An Instance has no field for a number of replicas.
        Operation::ReviseReplica => OperationOutcome::Patch(Patch::default()),
        Operation::Retain => OperationOutcome::Patch(retain(instance, &observed()?)),
        Operation::AggregateStatus => {
            OperationOutcome::Patch(aggregate_status(instance, &items()?))
        }
        Operation::InterpretDependency => {
            OperationOutcome::Dependencies(dependencies::of_instance_spec(
                &instance.metadata.namespace,
                &instance.spec,
                instance.metadata.annotations.expected_referenced_data(),
            ))
        }
        Operation::InterpretStatus => OperationOutcome::Status(instance.reported_status()?),
        Operation::InterpretHealth => {
            OperationOutcome::Health(rank(instance.status) == Rank::Ready)
        }
    })
}

/// A view of the fields that the interpreter reads, borrowed from the request.
#[derive(Deserialize)]
pub(crate) struct InstanceView<'a> {
    #[serde(borrow, default)]
    metadata: InstanceMetadata<'a>,
    #[serde(borrow, default)]
    spec: InstanceSpecView<'a>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceMetadata<'a> {
    #[serde(borrow, default)]
    annotations: AnnotationsView<'a>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

impl InstanceView<'_> {
    fn requirements(&self) -> Result<Option<Requirements>, InterpretError> {
        requirements::of_runtime("spec.runtime", &self.spec.runtime)
    }

    /// Returns the whole status. Returns `{}` if there is no status or the object is terminating.
    fn reported_status(&self) -> Result<Box<RawValue>, InterpretError> {
        let status = self
            .status
            .filter(|_| self.metadata.deletion_timestamp.is_none());
        let status = status.map(RawValue::get).filter(|status| *status != "null");
        RawValue::from_string(status.unwrap_or("{}").to_owned())
            .map_err(|error| InterpretError::new("status", error))
    }
}

/// Copies `spec.controller` from the observed object, because this field belongs to the cell.
fn retain(desired: &InstanceView<'_>, observed: &InstanceView<'_>) -> Patch {
    let mut patch = Patch::default();
    let desired = desired.spec.controller.map(RawValue::get);
    if let Some(controller) = observed.spec.controller
        && !desired.is_some_and(|desired| same(desired, controller.get()))
    {
        patch.add("/spec/controller", controller.get());
    }
    patch
}

/// The rank of a status. A status with more information about the Instance has a higher rank. Several cells can have an
/// Instance with the same name. The status from the cell that runs the Instance has the highest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Nothing,
    Default,
    NotReady,
    Ready,
}

fn rank(status: Option<&RawValue>) -> Rank {
    #[derive(Default, Deserialize)]
    struct InstanceStatusView<'a> {
        #[serde(borrow, default)]
        conditions: Vec<ReadyCondition<'a>>,
    }
    #[derive(Deserialize)]
    struct ReadyCondition<'a> {
        #[serde(borrow, default)]
        reason: Cow<'a, str>,
        #[serde(borrow, default)]
        status: Cow<'a, str>,
        #[serde(rename = "type", borrow, default)]
        type_: Cow<'a, str>,
    }
    let status =
        status.map(|status| serde_json::from_str::<Option<InstanceStatusView<'_>>>(status.get()));
    let Some(Ok(Some(InstanceStatusView { conditions }))) = status else {
        return Rank::Nothing;
    };
    match conditions.iter().find(|condition| condition.type_ == READY) {
        Some(ready) if ready.status == "True" => Rank::Ready,
        Some(ready) if ready.status == "False" && ready.reason != DEFAULT_REASON => Rank::NotReady,
        None if conditions.is_empty() => Rank::Nothing,
        Some(_) | None => Rank::Default,
    }
}

/// Sets the status of the object. With one cell, the new status is the status of this cell. With several cells, the new
/// status is the status with the highest rank. If several statuses have this rank, the first cell by name is used. With
/// several cells, a former status with a higher rank is never replaced.
fn aggregate_status(instance: &InstanceView<'_>, items: &[&RawValue]) -> Patch {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InstanceItem<'a> {
        #[serde(borrow, default)]
        cluster_name: Cow<'a, str>,
        #[serde(borrow)]
        status: Option<&'a RawValue>,
    }
    let mut reports: Vec<_> = items
        .iter()
        .filter_map(|item| serde_json::from_str::<InstanceItem<'_>>(item.get()).ok())
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
