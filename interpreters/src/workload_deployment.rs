//! Interpretation of WorkloadDeployments. Each operation has one function. The documentation of the function contains
//! the rule of the operation.

mod aggregate;
mod desired_status;
mod health_status;
mod replicas_writer;
mod reported_status;
mod view;

use api::decode::from_str;
use api::{AssignedReplicas, ReplicasField};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dependencies::{self, SpecWithReferences};
use crate::error::InterpretError;
use crate::patch::Patch;
use crate::raw::parse;
use crate::requirements::{self, SpecWithSizes};
use crate::review::{Component, InterpretRequest, Operation, OperationOutcome};
use reported_status::AddedFields;
use view::{DeploymentMetadata, ScaleSettingsView};

pub(crate) use aggregate::aggregate_status;
pub(crate) use desired_status::DesiredStatus;
pub(crate) use health_status::HealthStatus;
pub(crate) use view::{DeploymentView, InstanceTemplateView};

/// Answers one request in any JSON form.
pub(crate) fn interpret<'a>(
    operation: Operation,
    request: &InterpretRequest<'a>,
    now: Timestamp,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let object: DeploymentView<'a> = parse("request.object", request.object()?)?;
    let deployment = &object;
    let template = deployment.spec.template;
    Ok(match operation {
        Operation::InterpretReplica => interpret_replica(deployment, || spec_of(template))?,
        Operation::InterpretComponent => interpret_component(deployment, || spec_of(template))?,
        Operation::ReviseReplica => {
            // A status that cannot be decoded shows nothing.
            let status = || from_str(deployment.status?.get()).ok()?;
            OperationOutcome::Patch(revise_replica(deployment, request.replicas(), status)?)
        }
        Operation::Retain => {
            let observed: DeploymentView<'_> =
                parse("request.observedObject", request.observed_object()?)?;
            OperationOutcome::Patch(retain(deployment, &observed))
        }
        Operation::InterpretDependency => {
            let spec = spec_of(template)?;
            interpret_dependency(object.metadata, spec)?
        }
        Operation::InterpretStatus => {
            OperationOutcome::Status(interpret_status(deployment)?.into())
        }
        Operation::InterpretHealth => {
            let status = || match deployment.status {
                Some(status) => parse("status", status.get()),
                None => Ok(None),
            };
            OperationOutcome::Health(interpret_health(deployment, status)?)
        }
        Operation::AggregateStatus => {
            let items = request.aggregated_status();
            OperationOutcome::Patch(aggregate::of_text(deployment, items, now)?)
        }
    })
}

/// Reads the instance spec of the template.
fn spec_of<'a, S: Default + Deserialize<'a>>(
    template: Option<&'a RawValue>,
) -> Result<S, InterpretError> {
    match template {
        Some(template) => {
            let template: InstanceTemplateView<S> = parse("spec.template", template.get())?;
            Ok(template.spec)
        }
        None => Ok(S::default()),
    }
}

/// Returns the desired number of instances, and the requirements of one instance. With 0 replicas the answer has no
/// requirements, so Karmada keeps the object in its cells. See docs/concepts/interpreter.md.
pub(crate) fn interpret_replica<'a, S, T>(
    deployment: &DeploymentView<'_, S, T>,
    spec: impl FnOnce() -> Result<SpecWithSizes<'a>, InterpretError>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let replicas = deployment.desired_replicas()?;
    let runtime = spec()?.runtime;
    let requirements = match replicas {
        0 => None,
        _ => requirements::of_runtime("spec.template.spec.runtime", runtime)?,
    };
    Ok(OperationOutcome::Replicas {
        replicas,
        requirements,
    })
}

/// Returns one component. The component is the set of all instances.
pub(crate) fn interpret_component<'a, S, T>(
    deployment: &DeploymentView<'_, S, T>,
    spec: impl FnOnce() -> Result<SpecWithSizes<'a>, InterpretError>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let replicas = deployment.desired_replicas()?;
    let runtime = spec()?.runtime;
    let component = Component {
        name: "instances",
        replicas,
        replica_requirements: requirements::of_runtime("spec.template.spec.runtime", runtime)?,
    };
    Ok(OperationOutcome::Components(vec![component]))
}

/// Sets the number of replicas to the share of one cell. The written field is the field that [`interpret_replica`]
/// reads. If `maxReplicas` is set, the cell gets a proportional part of `maxReplicas`. The part is rounded down, so
/// that the sum over all cells is at most `maxReplicas`. But the part is never less than the minimum.
///
/// The annotation `compute.datumapis.com/assigned-replicas` tells the cell which field has the share: in the cell,
/// `spec.replicas` can also be the number of an autoscaler.
///
/// A share of 0 usually changes nothing if instances are wanted. Karmada keeps no cell with such a share, so the share
/// is from a binding without assigned replicas: before the first InterpretReplica, or after a take-over from an
/// interpreter without InterpretReplica. The cell would delete all its Instances. But if the cells run no Instances,
/// because 0 replicas were wanted before, Karmada has not assigned the new total yet. Then each cell keeps its 0: it
/// would run the whole total.
pub(crate) fn revise_replica<S, T>(
    deployment: &DeploymentView<'_, S, T>,
    share: i32,
    status: impl FnOnce() -> Option<DesiredStatus>,
) -> Result<Patch, InterpretError> {
    let total = deployment.desired_replicas()?;
    let mut patch = Patch::default();
    if share <= 0 && total > 0 && !status().is_some_and(|status| status.is_of_none()) {
        return Ok(patch);
    }
    let share = share.max(0);
    let field = match deployment.spec.replicas {
        Some(_) => ReplicasField::Replicas,
        None => ReplicasField::MinReplicas,
    };
    if total != share {
        let ScaleSettingsView {
            max_replicas,
            min_replicas,
        } = deployment.spec.scale_settings;
        let minimum = match field {
            ReplicasField::Replicas => {
                patch.add_number("/spec/replicas", share);
                min_replicas.unwrap_or(0)
            }
            ReplicasField::MinReplicas => {
                patch.add_number("/spec/scaleSettings/minReplicas", share);
                share
            }
        };
        // An autoscaler needs a maximum of at least 1.
        if let Some(max) = max_replicas.filter(|_| share > 0) {
            // With a total of 0 no proportion exists, so `maxReplicas` does not change.
            let part = match i64::from(total) {
                0 => i64::from(max),
                total => i64::from(max) * i64::from(share) / total,
            };
            let part = i32::try_from(part).unwrap_or(i32::MAX).max(minimum);
            if part != max {
                patch.add_number("/spec/scaleSettings/maxReplicas", part);
            }
        }
    }
    let metadata = &deployment.metadata;
    if !metadata.annotations.are_present {
        patch.add("/metadata/annotations", "{}");
    }
    patch.add_json_text(
        "/metadata/annotations/compute.datumapis.com~1assigned-replicas",
        &AssignedReplicas {
            field,
            generation: metadata.generation,
            share,
            total,
        },
    );
    Ok(patch)
}

/// Copies `spec.replicas` from the observed object if the desired object has no `spec.replicas`. An autoscaler in the
/// cell may have written this field. A number that Karmada has written is a former share. It is not copied, so that it
/// ends when the hub's object does not set a number any more.
pub(crate) fn retain<S, T>(
    desired: &DeploymentView<'_, S, T>,
    observed: &DeploymentView<'_, S, T>,
) -> Patch {
    let mut patch = Patch::default();
    let managed_fields = observed.metadata.managed_fields;
    let is_former_share = || managed_fields.is_some_and(|it| replicas_writer::is_karmada(it.get()));
    if let (None, Some(replicas)) = (desired.spec.replicas, observed.spec.replicas)
        && !is_former_share()
    {
        patch.add_number("/spec/replicas", replicas);
    }
    patch
}

/// Returns the ConfigMaps and Secrets that the template uses, and the ConfigMaps and Secrets in the annotation.
pub(crate) fn interpret_dependency<'a>(
    metadata: DeploymentMetadata<'a>,
    spec: SpecWithReferences<'a>,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let DeploymentMetadata {
        namespace,
        annotations,
        ..
    } = metadata;
    let annotation = annotations.expected_referenced_data();
    dependencies::of_instance_spec(namespace, spec, annotation).map(OperationOutcome::Dependencies)
}

/// Returns the whole status with additional fields. The fold needs the additional fields to compute generations and
/// shares (docs/concepts/status.md). The fields are:
///
/// - `generation`.
/// - `resourceTemplateGeneration`.
/// - `assignedReplicas`. The share that [`revise_replica`] has recorded for this generation of the template. An
///   OverridePolicy can set another number in the spec, and an autoscaler too.
/// - `assignedMinReplicas`. Present only if no share is recorded and `spec.replicas` is set.
/// - `cellRulesStamp`. 0 if the object has no stamp. So it differs from a report of an earlier version, which has no such
///   field.
///
/// No share is recorded for 0 replicas, and in copies that an earlier version has written. Then `assignedReplicas` is
/// the number in the spec. If `spec.replicas` is set, but not in the template, `assignedMinReplicas` is the share.
///
/// Returns `{}` if there is no status or if the object is terminating. Karmada may create the object in this cell
/// again. The new object must not show the status of the terminating object.
pub(crate) fn interpret_status(deployment: &DeploymentView<'_>) -> Result<String, InterpretError> {
    let status = deployment
        .status
        .filter(|_| deployment.metadata.deletion_timestamp.is_none());
    let Some(status) = status else {
        return Ok("{}".to_owned());
    };
    let annotations = &deployment.metadata.annotations;
    let template_generation = annotations.resource_template_generation();
    let assigned = annotations
        .assigned_replicas()
        .filter(|assigned| assigned.generation == template_generation);
    let replicas = deployment.spec.replicas;
    let ScaleSettingsView { min_replicas, .. } = deployment.spec.scale_settings;
    let (assigned_replicas, assigned_min_replicas) = match assigned {
        Some(assigned) => (Some(assigned.share), None),
        None => (replicas.or(min_replicas), replicas.and(min_replicas)),
    };
    reported_status::write(
        status.get(),
        &AddedFields {
            assigned_min_replicas: assigned_min_replicas.map(i64::from),
            assigned_replicas: assigned_replicas.map(i64::from),
            cell_rules_stamp: Some(annotations.cell_rules_stamp()),
            generation: deployment.metadata.generation,
            resource_template_generation: template_generation,
        },
    )
}

/// Returns true if 0 replicas are desired, or if `Available` is True. If `Available` has an `observedGeneration`, it
/// must equal the generation of the object.
pub(crate) fn interpret_health<S, T>(
    deployment: &DeploymentView<'_, S, T>,
    status: impl FnOnce() -> Result<Option<HealthStatus>, InterpretError>,
) -> Result<bool, InterpretError> {
    if deployment.desired_replicas()? == 0 {
        return Ok(true);
    }
    let is_healthy = |status: HealthStatus| status.is_healthy(deployment.metadata.generation);
    Ok(status()?.is_some_and(is_healthy))
}
