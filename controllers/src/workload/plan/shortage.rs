//! What WorkloadDeployments lack because of quota. A WorkloadDeployment with a ready Instance is available nevertheless.

use api::WorkloadDeployment;
use api::condition;
use api::reasons::workload_deployment::PENDING_QUOTA;
use api::workload_deployment::{AVAILABLE, REPLICAS_READY};
use kube::ResourceExt;

/// Returns a sentence about the first WorkloadDeployment without quota for one of its Instances. `told` is the name of
/// the one whose message of `Available` is shown already: it says the same if it names the quota.
pub(super) fn shortage(deployments: &[&WorkloadDeployment], told: Option<&str>) -> Option<String> {
    deployments.iter().find_map(|deployment| {
        let name = deployment.name_any();
        let conditions = &deployment.status.as_ref()?.conditions;
        let lacking = condition::find(conditions, REPLICAS_READY).filter(|it| it.is_false())?;
        let available = condition::find(conditions, AVAILABLE);
        let names_quota = available.is_some_and(|it| it.reason == PENDING_QUOTA);
        let is_told = told == Some(name.as_str()) && names_quota;
        (!is_told).then(|| format!("{name}: {}", lacking.message))
    })
}
