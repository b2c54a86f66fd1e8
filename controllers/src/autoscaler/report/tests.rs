use serde_json::{Value, json};

use super::*;
use crate::fixtures::now;

fn scaled() -> WorkloadDeployment {
    let mut deployment = json!(crate::fixtures::deployment("ns-1", "web", "DFW", 2));
    deployment["spec"]["scaleSettings"] = json!({
        "instanceManagementPolicy": "OrderedReady", "minReplicas": 2, "maxReplicas": 5,
        "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 80}}}],
    });
    serde_json::from_value(deployment).unwrap()
}

fn view(uid: &str, conditions: &Value) -> AutoscalerView {
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "ns-1", "name": "web", "ownerReferences": [{
            "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": "web", "uid": uid,
            "controller": true,
        }]},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "WorkloadDeployment", "name": "web"}},
        "status": {"desiredReplicas": 2, "conditions": conditions},
    });
    AutoscalerView {
        autoscaler: Some(Arc::new(serde_json::from_value(autoscaler).unwrap())),
        problem: None,
    }
}

#[test]
fn the_condition_says_whether_the_autoscaler_decides() {
    let deployment = scaled();
    let uid = deployment.metadata.uid.clone().unwrap();
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "m"});
    let able = condition("AbleToScale", "True", "ReadyForNewScale");
    let refused = AutoscalerView {
        problem: Some("forbidden".to_owned()),
        ..AutoscalerView::default()
    };
    for (view, expected) in [
        (AutoscalerView::default(), ("Unknown", "AwaitingAutoscaler")),
        (refused, ("False", "AutoscalerReconcileFailed")),
        (
            view("other", &json!([])),
            ("False", "AutoscalerReconcileFailed"),
        ),
        (view(&uid, &json!([])), ("Unknown", "AwaitingAutoscaler")),
        (
            view(&uid, &json!([able])),
            ("Unknown", "AwaitingAutoscaler"),
        ),
        (
            view(
                &uid,
                &json!([able, condition("ScalingActive", "True", "ValidMetricFound")]),
            ),
            ("True", "AutoscalerReady"),
        ),
        (
            view(
                &uid,
                &json!([
                    able,
                    condition("ScalingActive", "False", "FailedGetResourceMetric")
                ]),
            ),
            ("False", "FailedGetResourceMetric"),
        ),
        (
            view(
                &uid,
                &json!([
                    condition("AbleToScale", "False", "FailedGetScale"),
                    condition("ScalingActive", "True", "ValidMetricFound"),
                ]),
            ),
            ("False", "FailedGetScale"),
        ),
    ] {
        let ready = autoscaling_ready(&deployment, &view, now()).unwrap();
        let status = json!(ready.status);
        assert_eq!((status.as_str().unwrap(), ready.reason.as_str()), expected);
    }
    let unscaled = crate::fixtures::deployment("ns-1", "web", "DFW", 2);
    let view = AutoscalerView::default();
    assert_eq!(autoscaling_ready(&unscaled, &view, now()), None);
}

/// A measurement alone causes no write of the status.
#[test]
fn the_message_stays_while_the_reason_stays() {
    let mut deployment = scaled();
    let uid = deployment.metadata.uid.clone().unwrap();
    let failing = |message: &str| {
        view(
            &uid,
            &json!([{
                "type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": message,
            }]),
        )
    };
    let first = autoscaling_ready(&deployment, &failing("1 of 2 pods"), now()).unwrap();
    assert_eq!(first.message, "1 of 2 pods");
    let status = deployment.status.get_or_insert_default();
    status.conditions = vec![first.clone()];
    let second = autoscaling_ready(&deployment, &failing("2 of 2 pods"), now());
    assert_eq!(second, Some(first));
}

/// The former message of another cause of the same reason is replaced.
#[test]
fn the_message_follows_its_cause() {
    let mut deployment = scaled();
    let uid = deployment.metadata.uid.clone().unwrap();
    let first = autoscaling_ready(&deployment, &AutoscalerView::default(), now()).unwrap();
    let status = deployment.status.get_or_insert_default();
    status.conditions = vec![first.clone()];
    let second = autoscaling_ready(&deployment, &view(&uid, &json!([])), now()).unwrap();
    assert_eq!(second.reason, first.reason);
    assert_ne!(second.message, first.message);
}
