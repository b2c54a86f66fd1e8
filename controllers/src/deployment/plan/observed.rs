//! The observations of the controller, and the Instances of its WorkloadDeployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::REFERENCED_DATA_VERSIONS;
use api::condition::Condition;
use api::references::Source;
use api::{Instance, InstanceSpec, WorkloadDeployment, labels};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::data::{DataVersions, all_data, meant_data, newer_data};
use crate::autoscaler::{AutoscalerView, autoscaling_ready};
use crate::names;
use crate::objects::{
    StringMap, controller_uid, controller_uid_of, covers, describe_undecodable, is_terminating,
};
use crate::quota::Held;
use crate::referenced_data::version::{MeantVersions, Problem, SourceVersion};
use crate::template::{HASH_PREFIX, template_hash};

/// The field manager of the deployment controller.
pub(super) const FIELD_MANAGER: &str = "compute-federation-deployment";

/// The observations of the controller.
pub(in crate::deployment) struct Observed<'a> {
    pub(in crate::deployment) deployment: &'a WorkloadDeployment,
    /// The Instances in the namespace of the WorkloadDeployment that can be decoded. Any object may be their controller
    /// owner.
    pub(in crate::deployment) instances: &'a [Arc<Instance>],
    /// The other Instances in the namespace.
    pub(in crate::deployment) undecodable: &'a [Arc<InvalidObject>],
    /// What is known about the autoscaler of the WorkloadDeployment.
    pub(in crate::deployment) autoscaler: &'a AutoscalerView,
    /// The answers about the quota of replacements.
    pub(in crate::deployment) quota: &'a QuotaAnswers,
    /// The versions of the ConfigMaps and Secrets in the cell, if Instances have to be replaced for them. `None` if the
    /// cell does not hold Instances back for their data. Then none is replaced for other data.
    pub(in crate::deployment) data: Option<&'a DataVersions>,
    pub(in crate::deployment) now: Timestamp,
}

/// The UID and the generation of an Instance, and the hash of the template of its replacement.
pub(in crate::deployment) type QuotaKey = (String, i64, String);
/// Why an Instance must not be replaced, or `None` if it may be.
pub(in crate::deployment) type QuotaAnswers = BTreeMap<QuotaKey, Option<Held>>;

/// Returns the key of the question whether the quota is enough to replace this Instance. The answer depends on its gates
/// and its size, so on its generation.
pub(in crate::deployment) fn quota_key(instance: &Instance, template_hash: &str) -> QuotaKey {
    let metadata = &instance.metadata;
    (
        metadata.uid.clone().unwrap_or_default(),
        metadata.generation.unwrap_or_default(),
        template_hash.to_owned(),
    )
}

/// The Instances in the namespace of a WorkloadDeployment.
pub(super) struct Instances {
    /// Instances whose controller owner is the WorkloadDeployment.
    pub(super) own: Vec<Arc<Instance>>,
    /// Instances with another owner. They can have the name of one of its ordinals.
    pub(super) foreign: Vec<ForeignInstance>,
    /// For each own Instance that cannot be decoded, a sentence for users.
    pub(super) undecodable: Vec<String>,
    /// Names of all Instances that cannot be decoded.
    pub(super) undecodable_names: Vec<String>,
    /// The hash of the template. It is computed once, because the template may be large.
    pub(super) template_hash: String,
    /// The versions of the ConfigMaps and Secrets that Instances must be made for, if the template asks for that.
    pub(super) meant_data: Option<MeantVersions>,
    /// The versions that the cell has, if the data of the template can be determined.
    pub(super) data: Option<DataVersions>,
    /// The condition of the autoscaler, if the WorkloadDeployment has autoscaling settings.
    pub(super) autoscaling: Option<Condition>,
    /// Instances of another template that stay, by UID, and why.
    pub(super) held: BTreeMap<String, Held>,
}

/// An Instance that the WorkloadDeployment does not own.
pub(super) struct ForeignInstance {
    pub(super) name: String,
    pub(super) has_owner: bool,
    pub(super) is_terminating: bool,
}

impl ForeignInstance {
    fn of(instance: &Instance) -> Self {
        Self {
            name: instance.name_any(),
            has_owner: controller_uid(instance).is_some(),
            is_terminating: is_terminating(instance),
        }
    }
}

impl Instances {
    pub(super) fn new(observed: &Observed<'_>) -> Self {
        let (own, foreign) = observed
            .instances
            .iter()
            .partition::<Vec<_>, _>(|instance| {
                controller_uid(instance.as_ref()) == observed.deployment.metadata.uid.as_deref()
            });
        let own_undecodable = undecodable(observed);
        let names = observed.undecodable.iter();
        let template_hash = template_hash(observed.deployment);
        let held = own.iter().filter_map(|instance| {
            let key = quota_key(instance, &template_hash);
            let held = observed.quota.get(&key)?.clone()?;
            Some((key.0, held))
        });
        let held = held.collect();
        Self {
            own: own.into_iter().cloned().collect(),
            foreign: foreign.iter().map(|it| ForeignInstance::of(it)).collect(),
            undecodable: own_undecodable
                .map(describe_undecodable::<Instance>)
                .collect(),
            undecodable_names: names
                .filter_map(|invalid| invalid.metadata.name.clone())
                .collect(),
            template_hash,
            meant_data: observed.data.and_then(|_| meant_data(observed.deployment)),
            data: match Problem::of(&observed.deployment.metadata) {
                Some(_) => None,
                None => observed.data.cloned(),
            },
            autoscaling: autoscaling_ready(observed.deployment, observed.autoscaler, observed.now),
            held,
        }
    }
}

/// Returns the Instances of the WorkloadDeployment that cannot be decoded.
pub(super) fn undecodable<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a InvalidObject> {
    let uid = observed.deployment.metadata.uid.as_deref();
    let all = observed.undecodable.iter().map(AsRef::as_ref);
    all.filter(move |invalid| controller_uid_of(&invalid.metadata) == uid)
}

/// Returns the name of the Instance of this ordinal.
pub(in crate::deployment) fn instance_name(
    deployment: &WorkloadDeployment,
    ordinal: i32,
) -> String {
    names::instance_name(&deployment.name_any(), ordinal)
}

/// Returns the ordinal in the name of an Instance of this WorkloadDeployment.
pub(in crate::deployment) fn ordinal(
    deployment: &WorkloadDeployment,
    instance: &Instance,
) -> Option<i32> {
    ordinal_of_name(deployment, instance.metadata.name.as_deref()?)
}

/// Returns the ordinal in this name, if it is the name of an Instance of this WorkloadDeployment.
pub(in crate::deployment) fn ordinal_of_name(
    deployment: &WorkloadDeployment,
    name: &str,
) -> Option<i32> {
    names::instance_ordinal(deployment.metadata.name.as_deref()?, name)
}

/// Returns the labels that link an Instance to its WorkloadDeployment.
pub(in crate::deployment) fn linking_labels(
    deployment: &WorkloadDeployment,
    ordinal: i32,
) -> StringMap {
    let spec = &deployment.spec;
    StringMap::from([
        (
            labels::WORKLOAD_UID.to_owned(),
            spec.workload_ref.uid.clone(),
        ),
        (
            labels::WORKLOAD_NAME.to_owned(),
            names::label_value(&spec.workload_ref.name),
        ),
        (
            labels::PLACEMENT_NAME.to_owned(),
            names::label_value(&spec.placement_name),
        ),
        (
            labels::INSTANCE_CITY_CODE.to_owned(),
            spec.city_code.clone(),
        ),
        (
            labels::WORKLOAD_DEPLOYMENT_UID.to_owned(),
            deployment.uid().unwrap_or_default(),
        ),
        (
            labels::WORKLOAD_DEPLOYMENT_NAME.to_owned(),
            names::label_value(&deployment.name_any()),
        ),
        (labels::INSTANCE_INDEX.to_owned(), ordinal.to_string()),
    ])
}

/// Returns whether the Instance was created from another template, or was made for older data.
pub(super) fn is_drifted(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    instance: &Instance,
) -> bool {
    is_of_another_template(deployment, &instances.template_hash, instance)
        || has_older_data(instances, instance)
}

/// Returns whether the Instance was made for older data.
fn has_older_data(instances: &Instances, instance: &Instance) -> bool {
    !newer_data(instances.meant_data.as_ref(), instance).is_empty()
}

/// Returns whether the Instance was made for older data, and must stay because a new one could not start: the cell lacks
/// some of its data.
pub(super) fn awaits_data(instances: &Instances, instance: &Instance) -> bool {
    let Some(meant) = instances.meant_data.as_ref() else {
        return false;
    };
    let has = |source: &Source, least: &SourceVersion| {
        let there = instances.data.as_ref().and_then(|data| data.get(source));
        there.is_some_and(|there| there.is_at_least(least))
    };
    has_older_data(instances, instance)
        && !all_data(meant)
            .iter()
            .all(|(source, least)| has(source, least))
}

/// Returns whether the Instance was created from another template. The hash of the template is no proof of that: the
/// hash of the Go manager had another format, and a CRD with a new default changes our hash although nobody has changed
/// the template. So if the hashes differ, the Instance itself is compared with the template, and only a difference
/// replaces a customer's machine. `template_hash` is the hash of the deployment's template.
pub(super) fn is_of_another_template(
    deployment: &WorkloadDeployment,
    template_hash: &str,
    instance: &Instance,
) -> bool {
    let controller = instance.spec.controller.as_ref();
    let hash = controller.map_or("", |controller| &controller.template_hash);
    hash != template_hash
        && (has_another_spec(deployment, instance)
            || hash.starts_with(HASH_PREFIX) && has_other_metadata(deployment, instance))
}

/// Returns the spec of the template with the parts that the cell adds to each Instance. `controller` is set when an
/// Instance is created, and a template may contain it too. The location is that of the cell, unless the template has
/// one.
pub(in crate::deployment) fn spec_of_template(
    deployment: &WorkloadDeployment,
    instance: &Instance,
) -> InstanceSpec {
    let template = &deployment.spec.template.spec;
    let location = template
        .location
        .as_ref()
        .or(instance.spec.location.as_ref());
    InstanceSpec {
        controller: instance.spec.controller.clone(),
        location: location.cloned(),
        ..template.clone()
    }
}

fn has_another_spec(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
    instance.spec != spec_of_template(deployment, instance)
}

/// Returns whether the Instance has other labels or annotations than the template. Those of other writers do not count,
/// nor the labels that link an Instance to its WorkloadDeployment, nor the record of its data.
fn has_other_metadata(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
    let template = deployment.spec.template.metadata.as_ref();
    let none = StringMap::new();
    let (labels, annotations) = template.map_or((&none, &none), |it| (&it.labels, &it.annotations));
    let linking = linking_labels(deployment, 0);
    let without_linking = |labels: &StringMap| {
        let mut labels = labels.clone();
        labels.retain(|key, _| !linking.contains_key(key));
        labels
    };
    let differ = |part, existing: &StringMap, wanted: &StringMap| {
        let mut keys = existing.keys();
        !covers(existing, wanted)
            || keys.any(|key| !wanted.contains_key(key) && is_own(instance, part, key))
    };
    let without_record = |annotations: &StringMap| {
        let mut annotations = annotations.clone();
        annotations.remove(REFERENCED_DATA_VERSIONS);
        annotations
    };
    differ(
        "f:annotations",
        &without_record(instance.annotations()),
        &without_record(annotations),
    ) || differ(
        "f:labels",
        &without_linking(instance.labels()),
        &without_linking(labels),
    )
}

/// Returns whether the deployment controller has written this label or annotation. Without an entry of the controller
/// in `managedFields`, every key counts as written by it. Objects of caches have no such entries, so for them a
/// difference is only a suspicion: before an Instance is deleted, it is read from the API server.
fn is_own(instance: &Instance, part: &str, key: &str) -> bool {
    let entries = instance.managed_fields().iter();
    let mut own = entries
        .filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER))
        .filter(|entry| entry.subresource.is_none())
        .peekable();
    let field = format!("f:{key}");
    own.peek().is_none()
        || own.any(|entry| {
            let fields = entry.fields_v1.as_ref();
            let metadata = fields.and_then(|fields| fields.0.get("f:metadata"));
            let keys = metadata.and_then(|metadata| metadata.get(part));
            keys.is_some_and(|keys| keys.get(&field).is_some())
        })
}
