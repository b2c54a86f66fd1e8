//! Tests of the errors that a user gets for a Workload with many mistakes.

use serde_json::json;

use super::platform::{A, Platform, workload};

/// Expected output of `kubectl`.
const PRINTED: &str = include_str!("ten_mistakes.txt");

pub(crate) async fn kubectl_shows_all_errors(platform: &Platform) -> anyhow::Result<()> {
    let user = platform.user("mistakes", &[]);
    let mut web = workload("mistakes", "not-mine", &["DFW", "XXX"]);
    let spec = &mut web["spec"]["template"]["spec"];
    spec["runtime"]["resources"]["instanceType"] = json!("datumcloud/d1-huge");
    let container = &mut spec["runtime"]["sandbox"]["containers"][0];
    container["name"] = json!("Web_1");
    container["resources"] = json!({"limits": {"cpu": "2"}});
    container["ports"] = json!([{"name": "the-port-for-http", "port": 80}]);
    container["volumeAttachments"] =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "dta", "mountPath": "/more"}]);
    spec["volumes"] = json!([
        {"name": "data", "disk": {"template": {"spec": {
            "populator": {"filesystem": {"type": "ext4"}},
            "resources": {"requests": {"storage": "5Gi"}},
        }}}},
    ]);
    let placement = &mut web["spec"]["placements"][0];
    placement["scaleSettings"]["minReplicas"] = json!(0);
    placement["scaleSettings"]["maxReplicas"] = json!(5);
    let printed = platform.refused(&user, A, &web).await?;
    assert_eq!(printed, PRINTED, "{printed}");
    Ok(())
}
