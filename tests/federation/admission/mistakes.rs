//! Tests of the errors that a user gets for a Workload with many mistakes.

use std::collections::BTreeSet;

use serde_json::json;

use super::platform::{A, Platform, workload};

/// Expected output of `kubectl` for mistakes that the CRD refuses.
const OF_THE_CRD: &str = include_str!("mistakes_of_the_crd.txt");
/// Expected output of `kubectl` for mistakes that only the webhook refuses.
const OF_THE_WEBHOOK: &str = include_str!("mistakes_of_the_webhook.txt");

pub(crate) async fn kubectl_shows_all_errors(platform: &Platform) -> anyhow::Result<()> {
    let user = platform.user("mistakes", &[]);
    let mut web = workload("mistakes", "not-mine", &["DFW", "XXX"]);
    let spec = &mut web["spec"]["template"]["spec"];
    let container = &mut spec["runtime"]["sandbox"]["containers"][0];
    container["ports"] = json!([{"name": "http", "port": 80}]);
    container["volumeAttachments"] =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "dta", "mountPath": "/data"}]);
    spec["volumes"] = json!([
        {"name": "data", "disk": {"template": {"spec": {
            "populator": {"filesystem": {"type": "ext4"}},
            "resources": {"requests": {"storage": "5Gi"}},
        }}}},
        {"name": "unused", "secret": {}},
    ]);
    let placement = &mut web["spec"]["placements"][0];
    placement["scaleSettings"]["minReplicas"] = json!(8);
    placement["scaleSettings"]["maxReplicas"] = json!(5);
    placement["scaleSettings"]["metrics"] = json!([{"resource": {"name": "memory", "target": {}}}]);

    // The API server checks the CRD before it calls the webhook.
    let mut worse = web.clone();
    let spec = &mut worse["spec"]["template"]["spec"];
    spec["runtime"]["resources"]["instanceType"] = json!("datumcloud/d1-huge");
    let container = &mut spec["runtime"]["sandbox"]["containers"][0];
    container["name"] = json!("Web_1");
    container["ports"][0]["name"] = json!("the-port-for-http");
    worse["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(0);
    let printed = platform.refused(&user, A, &worse).await?;
    // The order of the errors of a CRD is not defined.
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(lines(&printed), lines(OF_THE_CRD), "{printed}");

    let printed = platform.refused(&user, A, &web).await?;
    assert_eq!(printed, OF_THE_WEBHOOK, "{printed}");
    Ok(())
}
