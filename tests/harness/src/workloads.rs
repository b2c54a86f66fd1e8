//! Workloads of tests.

use api::{Workload, condition};
use serde_json::{Value, json};

/// Returns the template of a Workload with one container on this network.
pub fn template(network: &str) -> Value {
    json!({
        "spec": {
            "networkInterfaces": [{"network": {"name": network}}],
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}

/// Returns whether a Workload is available with this many Instances, all of them ready and current.
pub fn is_settled(workload: &Workload, instances: i32) -> bool {
    let status = workload.status.clone().unwrap_or_default();
    let counters = [
        status.replicas,
        status.desired_replicas,
        status.ready_replicas,
        status.current_replicas,
    ];
    let available = condition::find(&status.conditions, "Available");
    counters == [instances; 4]
        && available.is_some_and(|available| {
            available.is_true() && available.observed_generation == workload.metadata.generation
        })
}
