//! The WorkloadDeployment that a Workload needs for one placement and city.

use std::sync::Arc;

use api::workload::WorkloadPlacement;
use api::workload_deployment::WorkloadReference;
use api::{UnknownFields, Workload, WorkloadDeployment, WorkloadDeploymentSpec, labels};
use kube::ResourceExt;

use crate::names;
use crate::objects::{StringMap, controller_uid, covers};

/// The desired WorkloadDeployment. It has no template: hundreds of copies of a large template would use up the memory
/// of the process. So the spec is made for one write at a time.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::workload) struct Desired {
    /// The current WorkloadDeployment, if it exists.
    pub(in crate::workload) existing: Option<Arc<WorkloadDeployment>>,
    pub(in crate::workload) name: String,
    pub(in crate::workload) city: String,
    pub(in crate::workload) placement: Arc<WorkloadPlacement>,
}

impl Desired {
    pub(in crate::workload) fn labels(&self, workload: &Workload) -> StringMap {
        let uid = workload.uid().unwrap_or_default();
        StringMap::from([
            (labels::SERVICE_NAME.to_owned(), api::GROUP.to_owned()),
            (labels::WORKLOAD_UID.to_owned(), uid),
            (
                labels::WORKLOAD_NAME.to_owned(),
                names::label_value(&workload.name_any()),
            ),
            (
                labels::PLACEMENT_NAME.to_owned(),
                names::label_value(&self.placement.name),
            ),
        ])
    }

    /// Returns the desired spec. Its `replicas` is `None`, because the Workload controller does not own this field.
    pub(in crate::workload) fn spec(&self, workload: &Workload) -> WorkloadDeploymentSpec {
        WorkloadDeploymentSpec {
            city_code: self.city.clone(),
            placement_name: self.placement.name.clone(),
            replicas: None,
            scale_settings: self.placement.scale_settings.clone(),
            template: workload.spec.template.clone(),
            workload_ref: WorkloadReference {
                name: workload.name_any(),
                uid: workload.uid().unwrap_or_default(),
                others: UnknownFields::default(),
            },
            others: UnknownFields::default(),
        }
    }

    /// Returns whether the WorkloadDeployment has the desired spec. Other controllers may own `replicas` and fields of
    /// newer CRDs, so these fields are not compared.
    pub(in crate::workload) fn has_spec(
        &self,
        workload: &Workload,
        deployment: &WorkloadDeployment,
    ) -> bool {
        let WorkloadDeploymentSpec {
            city_code,
            placement_name,
            replicas: _,
            scale_settings,
            template,
            workload_ref,
            others: _,
        } = &deployment.spec;
        let WorkloadReference {
            name,
            uid,
            others: _,
        } = workload_ref;
        *city_code == self.city
            && *placement_name == self.placement.name
            && *scale_settings == self.placement.scale_settings
            && *name == workload.name_any()
            && *uid == workload.uid().unwrap_or_default()
            && *template == workload.spec.template
    }

    /// Returns whether the WorkloadDeployment needs no write.
    pub(super) fn is_written(&self, workload: &Workload, existing: &WorkloadDeployment) -> bool {
        self.has_spec(workload, existing)
            && covers(existing.labels(), &self.labels(workload))
            && controller_uid(existing) == workload.metadata.uid.as_deref()
    }
}
