//! Tests of suspension.

use api::annotations;
use kube::Resource;

use super::*;

fn suspended(mut deployment: WorkloadDeployment) -> WorkloadDeployment {
    let annotations = deployment.meta_mut().annotations.get_or_insert_default();
    annotations.insert(annotations::SUSPENDED.into(), "true".into());
    deployment
}

/// Returns the Instance with the mark for its provider.
fn marked(mut instance: Instance) -> Instance {
    instance.status.get_or_insert_default().suspended = Some(true);
    instance
}

fn marks(deployment: &WorkloadDeployment, instances: Vec<Instance>) -> Vec<String> {
    let plan = plan_for(deployment, &shared(instances));
    plan.suspend.iter().map(|it| it.name_any()).collect()
}

#[test]
fn nothing_starts_while_a_deployment_is_suspended() {
    let two = deployment(2);
    let one = || marked(made(&two, "web-0", true));
    let surplus = || marked(made(&two, "web-2", true));
    let autoscaled = {
        let mut autoscaled = suspended(deployment(2));
        let scale = json!({
            "minReplicas": 2, "maxReplicas": 3, "instanceManagementPolicy": "OrderedReady",
            "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}],
        });
        autoscaled.spec.scale_settings = fixtures::object(scale);
        autoscaled
    };
    let cases: [(WorkloadDeployment, Vec<Instance>, &[&str]); 6] = [
        (two.clone(), vec![], &["create-0"]),
        (suspended(two.clone()), vec![], &[]),
        (suspended(two.clone()), vec![one()], &[]),
        (suspended(changed(&two)), vec![one()], &[]),
        (
            suspended(two.clone()),
            vec![one(), surplus()],
            &["delete web-2"],
        ),
        // The number of an autoscaler says nothing while no instance has load.
        (autoscaled, vec![one(), surplus()], &[]),
    ];
    for (deployment, instances, expected) in cases {
        let names: Vec<_> = instances.iter().map(ResourceExt::name_any).collect();
        assert_eq!(steps_for(&deployment, instances), expected, "{names:?}");
    }
}

#[test]
fn each_instance_gets_the_mark_of_its_deployment() {
    let (two, both) = (deployment(2), suspended(deployment(2)));
    let instances = || {
        vec![
            made(&two, "web-0", true),
            marked(made(&two, "web-1", true)),
            terminating(made(&two, "web-2", true)),
        ]
    };
    assert_eq!(marks(&both, instances()), ["web-0"]);
    assert_eq!(marks(&two, instances()), ["web-1"]);
    assert_eq!(marks(&terminating(both), instances()), [""; 0]);
    let mut unclear = deployment(2);
    let values = ["false", "True", ""];
    for value in values {
        let annotations = unclear.meta_mut().annotations.get_or_insert_default();
        annotations.insert(annotations::SUSPENDED.into(), value.into());
        assert!(!unclear.is_suspended(), "{value}");
    }
}

/// The suspension is shown even if the Instances have not been marked yet.
#[test]
fn the_status_says_that_a_deployment_is_suspended() {
    let one = deployment(1);
    let held = || {
        let mut held = made(&one, "web-0", false);
        let denied = condition("QuotaGranted", false, None);
        held.status.get_or_insert_default().conditions.push(denied);
        held
    };
    for (instance, is_marked) in [
        (made(&one, "web-0", true), false),
        (held(), false),
        (marked(held()), true),
    ] {
        let status = status(&suspended(one.clone()), vec![instance]);
        assert_eq!(status.suspended, is_marked.then_some(true));
        assert_eq!((status.replicas, status.ready_replicas), (1, 0));
        let available = available(&status);
        assert_eq!(available.status, ConditionStatus::False);
        assert_eq!(available.reason, reason::SUSPENDED);
    }
    let resumed = status(&one, vec![made(&one, "web-0", true)]);
    assert_eq!((resumed.suspended, resumed.ready_replicas), (None, 1));
    let late = status(&one, vec![marked(made(&one, "web-0", true))]);
    assert_eq!(available(&late).reason, reason::SUSPENDED);
    assert_eq!(late.suspended, Some(true));
    let none = status(&suspended(one.clone()), Vec::new());
    assert_eq!(none.suspended, Some(true));
}
