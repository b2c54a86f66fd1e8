//! Quota, ConfigMaps and Secrets that WorkloadDeployments lack. A WorkloadDeployment with a ready Instance is available
//! nevertheless.

use api::WorkloadDeployment;
use api::condition::{self, Condition};
use api::instance::REFERENCED_DATA_READY;
use api::reasons::workload_deployment::PENDING_QUOTA;
use api::workload_deployment::{AVAILABLE, REPLICAS_READY};
use kube::ResourceExt;

/// Returns a sentence about the first WorkloadDeployment that lacks something. `told` is the name of the one whose
/// message of `Available` is shown already: it says the same if it names what is lacking.
pub(super) fn shortage(deployments: &[&WorkloadDeployment], told: Option<&str>) -> Option<String> {
    deployments.iter().find_map(|deployment| {
        let name = deployment.name_any();
        let conditions = &deployment.status.as_ref()?.conditions;
        let available = condition::find(conditions, AVAILABLE);
        let is_told = |lacking: &Condition| {
            let shown = match lacking.type_.as_str() {
                REPLICAS_READY => PENDING_QUOTA,
                _ => lacking.reason.as_str(),
            };
            told == Some(name.as_str()) && available.is_some_and(|it| it.reason == shown)
        };
        let lacking = [REPLICAS_READY, REFERENCED_DATA_READY]
            .into_iter()
            .filter_map(|type_| condition::find(conditions, type_))
            .find(|it| it.is_false() && !is_told(it))?;
        Some(format!("{name}: {}", lacking.message))
    })
}
