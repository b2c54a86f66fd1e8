//! WorkloadDeployment: each operation has its rule in the documentation of its function.

mod aggregate;

use std::borrow::Cow;

use api::workload_deployment::AVAILABLE;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::InterpretError;
use crate::annotations::Annotations;
use crate::cursor::{Cursor, OtherForm};
use crate::dependencies;
use crate::fold::StatusFold;
use crate::patch::Patch;
use crate::raw::{RawFields, parse};
use crate::requirements;
use crate::review::{self, Component, Interpretation, Operation, Outcome, Request, Usual, unread};
use crate::template::Template;

const MIN_REPLICAS: &str = "spec.scaleSettings.minReplicas";

/// Answers one request about a WorkloadDeployment.
pub(crate) fn interpret(
    operation: Operation,
    request: &Request<'_>,
    now: Timestamp,
) -> Result<Outcome, InterpretError> {
    let deployment: &WorkloadDeployment<'_> = &parse("request.object", request.object()?)?;
    let template = || match deployment.spec.template {
        Some(template) => parse("spec.template", template.get()),
        None => Ok(Template::default()),
    };
    Ok(match operation {
        Operation::InterpretReplica => interpret_replica(deployment, template)?,
        Operation::InterpretComponent => interpret_component(deployment, template)?,
        Operation::ReviseReplica => Outcome::Patch(revise_replica(deployment, request.replicas())?),
        Operation::Retain => {
            let observed: WorkloadDeployment<'_> =
                parse("request.observedObject", request.observed_object()?)?;
            Outcome::Patch(retain(deployment, &observed))
        }
        Operation::InterpretDependency => interpret_dependency(deployment, &template()?),
        Operation::InterpretStatus => Outcome::Status(interpret_status(deployment)?),
        Operation::InterpretHealth => {
            let status = || match deployment.status {
                Some(status) => parse("status", status.get()),
                None => Ok(None),
            };
            Outcome::Health(interpret_health(deployment, status)?)
        }
        Operation::AggregateStatus => {
            aggregate::of_text(deployment, request.aggregated_status(), now)?
        }
    })
}

/// The same, but the parts that the operation needs are read together with the object.
pub(crate) fn in_one_pass(usual: Usual<'_>, now: Timestamp) -> Result<Interpretation, OtherForm> {
    type Unread<'a> = WorkloadDeployment<'a, IgnoredAny, IgnoredAny>;
    type WithTemplate<'a> = WorkloadDeployment<'a, IgnoredAny, Template<'a>>;
    type WithConditions<'a> = WorkloadDeployment<'a, StatusConditions<'a>, IgnoredAny>;
    let operation = usual.operation;
    match operation {
        Operation::InterpretReplica
        | Operation::InterpretComponent
        | Operation::InterpretDependency => {
            let mut request: Request<'_, WithTemplate<'_>> = usual.read(Cursor::value, unread)?;
            let mut deployment = request.object.take().ok_or(OtherForm)?;
            let template = deployment.spec.template.take().unwrap_or_default();
            let outcome = match operation {
                Operation::InterpretReplica => interpret_replica(&deployment, || Ok(template)),
                Operation::InterpretComponent => interpret_component(&deployment, || Ok(template)),
                _ => Ok(interpret_dependency(&deployment, &template)),
            };
            Ok(review::encode(&request, outcome))
        }
        Operation::InterpretHealth => {
            let mut request: Request<'_, WithConditions<'_>> = usual.read(Cursor::value, unread)?;
            let mut deployment = request.object.take().ok_or(OtherForm)?;
            let status = deployment.status.take();
            let healthy = interpret_health(&deployment, || Ok(status));
            Ok(review::encode(&request, healthy.map(Outcome::Health)))
        }
        Operation::Retain => {
            let request: Request<'_, Unread<'_>, &RawValue, Unread<'_>> =
                usual.read(Cursor::value, unread)?;
            let (Some(desired), Some(observed)) = (&request.object, &request.observed_object)
            else {
                return Err(OtherForm);
            };
            let patch = retain(desired, observed);
            Ok(review::encode(&request, Ok(Outcome::Patch(patch))))
        }
        Operation::ReviseReplica => {
            let request: Request<'_, Unread<'_>> = usual.read(Cursor::value, unread)?;
            let deployment = request.object.as_ref().ok_or(OtherForm)?;
            let patch = revise_replica(deployment, request.replicas());
            Ok(review::encode(&request, patch.map(Outcome::Patch)))
        }
        Operation::InterpretStatus => {
            let request: Request<'_, WorkloadDeployment<'_>> = usual.read(Cursor::value, unread)?;
            let deployment = request.object.as_ref().ok_or(OtherForm)?;
            let status = interpret_status(deployment);
            Ok(review::encode(&request, status.map(Outcome::Status)))
        }
        Operation::AggregateStatus => {
            let mut request: Request<'_, _, StatusFold<'_>> = usual
                .read(WorkloadDeployment::with_report, |cursor, deployment| {
                    StatusFold::read(cursor, deployment.remembered())
                })?;
            let deployment = request.object.take().ok_or(OtherForm)?;
            let fold = request.aggregated_status.take().unwrap_or_default();
            let outcome = aggregate::of_fold(deployment, &fold, now);
            Ok(review::encode(&request, Ok(outcome)))
        }
    }
}

/// The fields that interpretation reads, borrowed from the request: the status as `S`, the template as `T`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a, S: Deserialize<'de>, T: Deserialize<'de>"))]
pub(crate) struct WorkloadDeployment<'a, S = &'a RawValue, T = &'a RawValue> {
    #[serde(default)]
    metadata: Metadata<'a>,
    #[serde(default)]
    spec: Spec<T>,
    status: Option<S>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: Annotations<'a>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    generation: Option<i64>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<T> {
    replicas: Option<i32>,
    #[serde(default)]
    scale_settings: ScaleSettings,
    template: Option<T>,
}

impl<T> Default for Spec<T> {
    fn default() -> Self {
        Self {
            replicas: None,
            scale_settings: ScaleSettings::default(),
            template: None,
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScaleSettings {
    max_replicas: Option<i32>,
    min_replicas: Option<i32>,
}

impl<S, T> WorkloadDeployment<'_, S, T> {
    /// The number of instances that are desired.
    fn desired(&self) -> Result<i32, InterpretError> {
        self.spec
            .replicas
            .or(self.spec.scale_settings.min_replicas)
            .map(|replicas| replicas.max(0))
            .ok_or_else(|| InterpretError::new(MIN_REPLICAS, "is missing, and so is spec.replicas"))
    }
}

/// The number of instances is `spec.replicas`, else `spec.scaleSettings.minReplicas`. With 0 no requirements are
/// sent: then Karmada keeps the object in its cells (karmada.md 3.1).
fn interpret_replica<'a, S, T>(
    deployment: &WorkloadDeployment<'_, S, T>,
    template: impl FnOnce() -> Result<Template<'a>, InterpretError>,
) -> Result<Outcome, InterpretError> {
    let replicas = deployment.desired()?;
    let runtime = template()?.spec.runtime;
    let requirements = match replicas {
        0 => None,
        _ => requirements::of_runtime("spec.template.spec.runtime", &runtime)?,
    };
    Ok(Outcome::Replicas {
        replicas,
        requirements,
    })
}

/// One component: the instances.
fn interpret_component<'a, S, T>(
    deployment: &WorkloadDeployment<'_, S, T>,
    template: impl FnOnce() -> Result<Template<'a>, InterpretError>,
) -> Result<Outcome, InterpretError> {
    let replicas = deployment.desired()?;
    let runtime = template()?.spec.runtime;
    let component = Component {
        name: "instances",
        replicas,
        replica_requirements: requirements::of_runtime("spec.template.spec.runtime", &runtime)?,
    };
    Ok(Outcome::Components(vec![component]))
}

/// Sets the field that [`interpret_replica`] read. `maxReplicas`, where there is one, is divided in proportion, rounded
/// down so that the cells together stay within it, and is never below the minimum.
fn revise_replica<S, T>(
    deployment: &WorkloadDeployment<'_, S, T>,
    share: i32,
) -> Result<Patch, InterpretError> {
    let total = deployment.desired()?;
    let ScaleSettings {
        max_replicas,
        min_replicas,
    } = deployment.spec.scale_settings;
    let mut patch = Patch::default();
    if total == share {
        return Ok(patch);
    }
    let minimum = if deployment.spec.replicas.is_some() {
        patch.add_number("/spec/replicas", share);
        min_replicas.unwrap_or(0)
    } else {
        patch.add_number("/spec/scaleSettings/minReplicas", share);
        share
    };
    if let Some(max) = max_replicas {
        // Nothing can be said about the proportion of nothing.
        let part = match i64::from(total) {
            0 => i64::from(max),
            total => i64::from(max) * i64::from(share) / total,
        };
        let part = i32::try_from(part).unwrap_or(i32::MAX).max(minimum);
        if part != max {
            patch.add_number("/spec/scaleSettings/maxReplicas", part);
        }
    }
    Ok(patch)
}

/// `spec.replicas` belongs to the cell, where an autoscaler may write it, unless the desired object sets it.
fn retain<S, T>(
    desired: &WorkloadDeployment<'_, S, T>,
    observed: &WorkloadDeployment<'_, S, T>,
) -> Patch {
    let mut patch = Patch::default();
    if let (None, Some(replicas)) = (desired.spec.replicas, observed.spec.replicas) {
        patch.add_number("/spec/replicas", replicas);
    }
    patch
}

/// ConfigMaps and Secrets that the template uses, and those that the annotation names.
fn interpret_dependency<S, T>(
    deployment: &WorkloadDeployment<'_, S, T>,
    template: &Template<'_>,
) -> Outcome {
    let Metadata {
        namespace,
        annotations,
        ..
    } = &deployment.metadata;
    let annotation = annotations.expected_referenced_data();
    let dependencies = dependencies::of_instance_spec(namespace, &template.spec, annotation);
    Outcome::Dependencies(dependencies)
}

/// The whole status, plus what the fold needs to know about generations (karmada.md 4.3) and shares: `generation`,
/// `resourceTemplateGeneration` and `assignedReplicas`, the field that [`revise_replica`] writes. Where `spec.replicas`
/// is set, it may be an autoscaler's; `assignedMinReplicas` says then what Karmada assigned if the template has no
/// `spec.replicas`. `{}` when there is no status, or when the object is terminating: its successor on the hub must not
/// show what is dying here.
fn interpret_status(deployment: &WorkloadDeployment<'_>) -> Result<Box<RawValue>, InterpretError> {
    let mut fields: RawFields<'_> = match deployment.status {
        Some(status) if deployment.metadata.deletion_timestamp.is_none() => {
            parse::<Option<_>>("status", status.get())?.unwrap_or_default()
        }
        _ => RawFields::new(),
    };
    let ScaleSettings { min_replicas, .. } = deployment.spec.scale_settings;
    let (replicas, template_generation) = (
        deployment.spec.replicas,
        deployment
            .metadata
            .annotations
            .resource_template_generation(),
    );
    let own = [
        ("generation", deployment.metadata.generation),
        ("resourceTemplateGeneration", template_generation),
        ("assignedReplicas", replicas.or(min_replicas).map(i64::from)),
        (
            "assignedMinReplicas",
            replicas.and(min_replicas).map(i64::from),
        ),
    ]
    .map(|(name, number)| {
        (
            name,
            number.and_then(|n| RawValue::from_string(n.to_string()).ok()),
        )
    });
    if !fields.is_empty() {
        for (name, number) in &own {
            fields.remove(*name);
            fields.extend(
                number
                    .as_deref()
                    .map(|number| (Cow::Borrowed(*name), number)),
            );
        }
    }
    serde_json::value::to_raw_value(&fields).map_err(|error| InterpretError::new("status", error))
}

/// Healthy when nothing is desired, or when `Available` is True and, where it carries an `observedGeneration`, that is
/// the object's.
fn interpret_health<'a, S, T>(
    deployment: &WorkloadDeployment<'_, S, T>,
    status: impl FnOnce() -> Result<Option<StatusConditions<'a>>, InterpretError>,
) -> Result<bool, InterpretError> {
    if deployment.desired()? == 0 {
        return Ok(true);
    }
    let conditions = status()?
        .map(|status| status.conditions)
        .unwrap_or_default();
    Ok(conditions.iter().any(|condition| {
        condition.type_ == AVAILABLE
            && condition.status == "True"
            && condition
                .observed_generation
                .is_none_or(|observed| Some(observed) == deployment.metadata.generation)
    }))
}

#[derive(Deserialize)]
struct StatusConditions<'a> {
    #[serde(borrow, default)]
    conditions: Vec<ConditionView<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionView<'a> {
    observed_generation: Option<i64>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(rename = "type", borrow, default)]
    type_: Cow<'a, str>,
}
