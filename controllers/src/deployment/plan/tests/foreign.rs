//! Tests of Instances that the WorkloadDeployment does not own.

use super::*;

#[test]
fn a_name_in_use_by_a_former_deployment_is_awaited() {
    let deployment = deployment(1);
    let mut of_the_former = made(&deployment, "web-0", true);
    of_the_former.meta_mut().owner_references.as_mut().unwrap()[0].uid = "former".into();
    let steps = steps_for(&deployment, vec![of_the_former.clone()]);
    assert_eq!(steps, ["wait web-0"]);
    let message = |deployment: &WorkloadDeployment, instance: &Instance| {
        let plan = plan_for(deployment, &shared([instance.clone()]));
        let conditions = plan.status.unwrap().conditions;
        let available = condition::find(&conditions, AVAILABLE).unwrap();
        available.message.clone()
    };
    let mut orphan = of_the_former.clone();
    orphan.meta_mut().owner_references = None;
    for (instance, expected) in [
        (
            &of_the_former,
            "of another owner, which must be deleted first",
        ),
        (
            &terminating(of_the_former.clone()),
            "of another owner, which is being deleted",
        ),
        (&orphan, "without an owner, which must be deleted first"),
    ] {
        let shown = message(&deployment, instance);
        let expected = format!("the name web-0 is in use by an Instance {expected}");
        assert!(shown.ends_with(&expected), "{shown}");
    }
    let mut without = deployment;
    without.spec.scale_settings.min_replicas = 0;
    assert!(!message(&without, &of_the_former).contains("web-0"));
}
