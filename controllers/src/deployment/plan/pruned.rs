//! Detects Instances that lack parts of their template, for example because the CRD of Instances in the cell is older
//! than that of WorkloadDeployments and prunes a field.

use api::{Instance, InstanceSpec, WorkloadDeployment};
use kube::ResourceExt;
use serde_json::json;

use crate::objects::{contains, is_terminating};

/// Returns a sentence for users if the Instance has the hash of the current template but lacks parts of it.
pub(super) fn pruned(
    deployment: &WorkloadDeployment,
    template_hash: &str,
    instance: &Instance,
) -> Option<String> {
    let template = &deployment.spec.template.spec;
    let controller = instance.spec.controller.as_ref()?;
    let spec = InstanceSpec {
        controller: template.controller.clone(),
        ..instance.spec.clone()
    };
    let is_pruned = controller.template_hash == template_hash
        && !is_terminating(instance)
        && spec != *template
        && !contains(&json!(spec), &json!(template));
    is_pruned.then(|| {
        format!(
            "Instance {} lacks parts of the template; compare the versions of the CRDs of the cell",
            instance.name_any()
        )
    })
}
