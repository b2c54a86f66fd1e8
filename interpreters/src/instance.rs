//! Interpretation of Instances. Each operation has one function. The documentation of the function contains the rule of
//! the operation.
//!
//! The policies of this project do not select Instances. These rules apply only if a policy of an operator selects
//! Instances.

use std::borrow::Cow;

use api::instance::READY;
use api::reasons::instance::PENDING as DEFAULT_REASON;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::annotations::AnnotationsView;
use crate::dependencies::{self, SpecWithReferences};
use crate::error::InterpretError;
use crate::patch::Patch;
use crate::raw::{parse, same};
use crate::requirements::{self, SpecWithSizes};
use crate::review::{Component, InterpretRequest, Operation, OperationOutcome};
use api::decode::{for_each, from_str};

/// Answers one request in any JSON form.
pub(crate) fn interpret<'a>(
    operation: Operation,
    request: &InterpretRequest<'a>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    Ok(match operation {
        Operation::InterpretReplica => interpret_replica(object(request)?)?,
        Operation::InterpretComponent => interpret_component(object(request)?)?,
        Operation::ReviseReplica => OperationOutcome::Patch(revise_replica(&object(request)?)),
        Operation::Retain => {
            let desired = object(request)?;
            let observed = parse("request.observedObject", request.observed_object()?)?;
            OperationOutcome::Patch(retain(&desired, &observed))
        }
        Operation::AggregateStatus => {
            let instance = object(request)?;
            let reports = parse("request.aggregatedStatus", request.aggregated_status())?;
            OperationOutcome::Patch(aggregate_status(&instance, &reports))
        }
        Operation::InterpretDependency => interpret_dependency(object(request)?)?,
        Operation::InterpretStatus => {
            OperationOutcome::Status(interpret_status(&object(request)?).into())
        }
        Operation::InterpretHealth => OperationOutcome::Health(interpret_health(&object(request)?)),
    })
}

fn object<'a, S: Default + Deserialize<'a>>(
    request: &InterpretRequest<'a>,
) -> Result<InstanceView<'a, S>, InterpretError> {
    parse("request.object", request.object()?)
}

/// A view of an Instance, borrowed from the request. `S` is the view of the spec. Each operation has its own view.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a, S: Default + Deserialize<'de>"))]
pub(crate) struct InstanceView<'a, S = IgnoredAny> {
    #[serde(default)]
    metadata: InstanceMetadata<'a>,
    #[serde(default)]
    spec: S,
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

/// The part of the spec that belongs to the cell.
#[derive(Default, Deserialize)]
pub(crate) struct SpecWithController<'a> {
    #[serde(borrow)]
    controller: Option<&'a RawValue>,
}

/// Returns one replica, and its requirements.
pub(crate) fn interpret_replica<'a>(
    instance: InstanceView<'_, SpecWithSizes<'_>>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    Ok(OperationOutcome::Replicas {
        replicas: 1,
        requirements: requirements::of_runtime("spec.runtime", instance.spec.runtime)?,
    })
}

/// Returns one component, which is the Instance.
pub(crate) fn interpret_component<'a>(
    instance: InstanceView<'_, SpecWithSizes<'_>>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    Ok(OperationOutcome::Components(vec![Component {
        name: "instance",
        replicas: 1,
        replica_requirements: requirements::of_runtime("spec.runtime", instance.spec.runtime)?,
    }]))
}

/// Changes nothing, because an Instance has no field for a number of replicas. The object is decoded only to report a
/// malformed object.
pub(crate) fn revise_replica(_: &InstanceView<'_>) -> Patch {
    Patch::default()
}

/// Copies `spec.controller` from the observed object, because this field belongs to the cell.
pub(crate) fn retain<'a>(
    desired: &InstanceView<'a, SpecWithController<'a>>,
    observed: &InstanceView<'a, SpecWithController<'a>>,
) -> Patch {
    let mut patch = Patch::default();
    let desired = desired.spec.controller.map(RawValue::get);
    if let Some(controller) = observed.spec.controller
        && !desired.is_some_and(|desired| same(desired, controller.get()))
    {
        patch.add("/spec/controller", controller.get());
    }
    patch
}

/// Returns the ConfigMaps and Secrets that the Instance uses, and the ConfigMaps and Secrets in the annotation.
pub(crate) fn interpret_dependency<'a>(
    instance: InstanceView<'a, SpecWithReferences<'a>>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let InstanceMetadata {
        namespace,
        annotations,
        ..
    } = instance.metadata;
    let annotation = annotations.expected_referenced_data();
    dependencies::of_instance_spec(namespace, instance.spec, annotation)
        .map(OperationOutcome::Dependencies)
}

/// Returns the whole status. Returns `{}` if there is no status or the object is terminating.
pub(crate) fn interpret_status<'a>(instance: &InstanceView<'a>) -> &'a str {
    let status = instance
        .status
        .filter(|_| instance.metadata.deletion_timestamp.is_none());
    let status = status.map(RawValue::get).filter(|status| *status != "null");
    status.unwrap_or("{}")
}

/// Returns true if the Instance is ready.
pub(crate) fn interpret_health(instance: &InstanceView<'_>) -> bool {
    rank(instance.status) == Rank::Ready
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

/// The first condition `Ready` of an Instance. Other conditions are not kept.
#[derive(Default)]
struct Readiness<'a> {
    has_conditions: bool,
    ready: Option<ReadyCondition<'a>>,
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

impl<'de: 'a, 'a> Deserialize<'de> for Readiness<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut readiness = Self::default();
        for_each(deserializer, |condition: ReadyCondition<'a>| {
            readiness.has_conditions = true;
            if condition.type_ == READY && readiness.ready.is_none() {
                readiness.ready = Some(condition);
            }
        })?;
        Ok(readiness)
    }
}

fn rank(status: Option<&RawValue>) -> Rank {
    #[derive(Default, Deserialize)]
    struct InstanceStatusView<'a> {
        #[serde(borrow, default)]
        conditions: Readiness<'a>,
    }
    let status = status.map(|status| from_str::<Option<InstanceStatusView<'_>>>(status.get()));
    let Some(Ok(Some(InstanceStatusView { conditions }))) = status else {
        return Rank::Nothing;
    };
    match conditions.ready {
        Some(ready) if ready.status == "True" => Rank::Ready,
        Some(ready) if ready.status == "False" && ready.reason != DEFAULT_REASON => Rank::NotReady,
        None if !conditions.has_conditions => Rank::Nothing,
        Some(_) | None => Rank::Default,
    }
}

/// The reports of all cells. Only the report with the highest rank is kept. If several reports have this rank, the
/// first cell by name is used.
#[derive(Default)]
pub(crate) struct InstanceReports<'a> {
    /// The number of items, with and without a report.
    items: usize,
    best: Option<InstanceReport<'a>>,
}

struct InstanceReport<'a> {
    rank: Rank,
    cell: Cow<'a, str>,
    status: &'a RawValue,
}

impl<'a> InstanceReports<'a> {
    fn add(&mut self, item: &'a RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InstanceItem<'a> {
            #[serde(borrow, default)]
            cluster_name: Cow<'a, str>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        self.items += 1;
        let Ok(InstanceItem {
            cluster_name: cell,
            status: Some(status),
        }) = from_str(item.get())
        else {
            return;
        };
        if matches!(status.get(), "null" | "{}") {
            return;
        }
        let rank = rank(Some(status));
        let is_better = self
            .best
            .as_ref()
            .is_none_or(|best| rank > best.rank || rank == best.rank && cell < best.cell);
        if is_better {
            self.best = Some(InstanceReport { rank, cell, status });
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for InstanceReports<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut reports = Self::default();
        for_each(deserializer, |item| reports.add(item))?;
        Ok(reports)
    }
}

/// Sets the status of the object. With one cell, the new status is the status of this cell. With several cells, the new
/// status is the status with the highest rank. With several cells, a former status with a higher rank is never
/// replaced.
pub(crate) fn aggregate_status(
    instance: &InstanceView<'_>,
    reports: &InstanceReports<'_>,
) -> Patch {
    let mut patch = Patch::default();
    let Some(InstanceReport {
        rank: highest,
        status,
        ..
    }) = &reports.best
    else {
        return patch;
    };
    let outranked = reports.items > 1 && rank(instance.status) > *highest;
    let unchanged = instance
        .status
        .is_some_and(|former| same(former.get(), status.get()));
    if !outranked && !unchanged {
        patch.add("/status", status.get());
    }
    patch
}
