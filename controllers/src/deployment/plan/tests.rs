mod data;
mod foreign;
mod quota;
mod suspension;
mod templates;

use api::allowed::REPLICAS_MAX;
use api::condition::{self, ConditionStatus};
use api::instance::{InstanceControllerSpec, InstanceControllerStatus};
use api::reasons::workload_deployment as reason;
use api::references::Source;
use api::workload_deployment::{AVAILABLE, REPLICAS_READY};
use api::{InstanceSpec, InstanceStatus};
use kube::Resource;
use serde_json::json;

use super::*;
use crate::autoscaler::AutoscalerView;
use crate::fixtures::{self, condition, now, shared, terminating};
use crate::objects::controller_reference;
use crate::template::template_hash;

fn deployment(replicas: i32) -> WorkloadDeployment {
    let mut deployment = fixtures::deployment("ns-1", "web", "DFW", replicas);
    deployment.meta_mut().finalizers = Some(vec![finalizers::WORKLOAD_CONTROLLER.into()]);
    deployment
}

/// Returns an Instance that was created from the template of the deployment.
fn made(deployment: &WorkloadDeployment, name: &str, ready: bool) -> Instance {
    let mut instance = fixtures::instance("ns-1", name);
    let controller = InstanceControllerSpec {
        template_hash: template_hash(deployment),
        ..InstanceControllerSpec::default()
    };
    instance.spec = InstanceSpec {
        controller: Some(controller),
        ..deployment.spec.template.spec.clone()
    };
    instance.meta_mut().owner_references = Some(vec![controller_reference(deployment)]);
    let ordinal = ordinal(deployment, &instance).unwrap_or_default();
    instance.meta_mut().labels = Some(linking_labels(deployment, ordinal));
    instance.status = Some(InstanceStatus {
        conditions: vec![
            condition("Programmed", true, None),
            condition("Running", ready, None),
            condition("Ready", ready, None),
        ],
        controller: Some(InstanceControllerStatus {
            observed_template_hash: template_hash(deployment),
        }),
        ..InstanceStatus::default()
    });
    instance
}

/// Returns later versions of the sources of all tests than any test needs.
fn plenty() -> DataVersions {
    let names = ["ConfigMap/a", "Secret/b", "Secret/c"];
    let version = json!("u/1000");
    names
        .into_iter()
        .filter_map(|name| Some((Source::parse(name)?, fixtures::object(version.clone()))))
        .collect()
}

/// Plans for a deployment without an autoscaler, in a cell that was not asked for quota.
fn plan_for(deployment: &WorkloadDeployment, instances: &[Arc<Instance>]) -> Plan {
    plan_with(deployment, instances, &plenty())
}

/// Returns the plan in a cell with these versions of data.
fn plan_with(
    deployment: &WorkloadDeployment,
    instances: &[Arc<Instance>],
    data: &DataVersions,
) -> Plan {
    plan(&Observed {
        deployment,
        instances,
        undecodable: &[],
        autoscaler: &AutoscalerView::default(),
        quota: &QuotaAnswers::new(),
        data: Some(data),
        now: now(),
    })
}

fn steps_for(deployment: &WorkloadDeployment, instances: Vec<Instance>) -> Vec<String> {
    let steps = plan_for(deployment, &shared(instances)).steps;
    steps
        .iter()
        .map(|step| match step {
            RolloutStep::Create(ordinal) => format!("create-{ordinal}"),
            RolloutStep::Wait(name) => format!("wait {name}"),
            RolloutStep::Replace(instance) => format!("replace {}", instance.name_any()),
            RolloutStep::Delete(instance) => format!("delete {}", instance.name_any()),
        })
        .collect()
}

fn changed(deployment: &WorkloadDeployment) -> WorkloadDeployment {
    let mut changed = deployment.clone();
    changed
        .spec
        .template
        .spec
        .runtime
        .sandbox
        .as_mut()
        .unwrap()
        .containers[0]
        .image = "app:2".into();
    changed
}

/// After an update of the template, the plan replaces Instances one by one (docs/concepts/flow.md#rollout).
///
/// I-22: Instances are replaced one at a time, highest ordinal first.
#[test]
fn the_acceptance_examples() {
    let two = deployment(2);
    assert_eq!(steps_for(&two, vec![]), ["create-0"]);
    let both = || vec![made(&two, "web-0", true), made(&two, "web-1", true)];
    assert_eq!(
        steps_for(&changed(&two), both()),
        ["replace web-1", "replace web-0"]
    );
    let three = deployment(3);
    let one_unready = vec![made(&three, "web-0", true), made(&three, "web-1", false)];
    assert_eq!(steps_for(&three, one_unready), ["wait web-1", "create-2"]);
    let one_going = vec![
        made(&three, "web-0", true),
        terminating(made(&three, "web-1", true)),
    ];
    assert_eq!(steps_for(&three, one_going), ["wait web-1", "create-2"]);
    let one = deployment(1);
    assert_eq!(
        steps_for(
            &one,
            vec![made(&one, "web-0", true), made(&one, "web-1", true)]
        ),
        ["delete web-1"]
    );
}

/// I-2: what is as wanted is not written.
#[test]
fn what_is_settled_has_no_steps() {
    let deployment = deployment(2);
    let instances = shared([
        made(&deployment, "web-0", true),
        made(&deployment, "web-1", true),
    ]);
    let observe = |deployment| plan_for(deployment, &instances);
    let mut settled = deployment.clone();
    settled.status = observe(&deployment).status;
    assert_eq!(observe(&settled), Plan::default());
}

#[test]
fn an_unready_instance_of_another_template_is_replaced() {
    let deployment = deployment(2);
    let broken = vec![made(&deployment, "web-0", false)];
    assert_eq!(
        steps_for(&changed(&deployment), broken),
        ["replace web-0", "create-1"]
    );
}

#[test]
fn stray_instances_are_deleted_first_and_deletions_awaited() {
    let one = deployment(1);
    let mut instances: Vec<_> = ["web-0", "web-2", "web-1", "web-x", "web-01"]
        .iter()
        .map(|name| made(&one, name, true))
        .collect();
    assert_eq!(
        steps_for(&one, instances.clone()),
        [
            "delete web-01",
            "delete web-x",
            "delete web-2",
            "delete web-1"
        ]
    );
    instances[1] = terminating(instances[1].clone());
    assert_eq!(steps_for(&one, instances)[2], "wait web-2");
    let none = deployment(0);
    assert_eq!(
        steps_for(&none, vec![made(&none, "web-0", true)]),
        ["delete web-0"]
    );
}

/// The surplus Instances may hold the quota.
#[test]
fn surplus_instances_are_deleted_before_an_instance_without_quota_is_awaited() {
    let three = deployment(3);
    let instances = |denied: &[&str]| {
        let names = ["web-0", "web-1", "web-3", "web-4"].into_iter();
        let instances = names.map(|name| {
            let mut instance = made(&three, name, !denied.contains(&name));
            if denied.contains(&name) {
                let granted = condition("QuotaGranted", false, None);
                instance.status.as_mut().unwrap().conditions.push(granted);
            }
            instance
        });
        instances.collect::<Vec<_>>()
    };
    // The Instance of the next ordinal still waits.
    for (denied, expected) in [
        (
            &["web-0"][..],
            ["delete web-4", "delete web-3", "wait web-0", "create-2"],
        ),
        (
            &["web-1"],
            ["delete web-4", "delete web-3", "wait web-1", "create-2"],
        ),
    ] {
        assert_eq!(steps_for(&three, instances(denied)), expected);
    }
    let both = [
        "delete web-4",
        "delete web-3",
        "wait web-0",
        "wait web-1",
        "create-2",
    ];
    assert_eq!(steps_for(&three, instances(&["web-0", "web-1"])), both);
    // No other Instance becomes unready.
    let mut other = made(&changed(&three), "web-1", true);
    other.spec = changed(&three).spec.template.spec;
    let mut drifted = instances(&["web-0"]);
    drifted[1] = other;
    let steps = steps_for(&three, drifted);
    assert_eq!(
        steps,
        ["delete web-4", "delete web-3", "wait web-0", "create-2"]
    );
    // An Instance that is only slow is awaited first.
    let mut slow = instances(&["web-1"]);
    slow[0] = made(&three, "web-0", false);
    assert_eq!(steps_for(&three, slow)[..2], ["wait web-0", "delete web-4"]);
}

/// I-22: a hash of the Go manager replaces no machine.
#[test]
fn a_foreign_hash_is_replaced_without_replacing_the_machine() {
    let deployment = deployment(1);
    let mut instance = made(&deployment, "web-0", true);
    instance.spec.controller.as_mut().unwrap().template_hash = "6b9d8f7c5".into();
    let observe =
        |deployment: &WorkloadDeployment| plan_for(deployment, &shared([instance.clone()]));
    let observed = observe(&deployment);
    assert_eq!((observed.steps.len(), observed.refresh.len()), (0, 1));
    // The plan replaces an Instance of another template.
    let observed = observe(&changed(&deployment));
    assert_eq!((observed.steps.len(), observed.refresh.len()), (1, 0));
}

#[test]
fn a_report_with_a_foreign_hash_counts_until_the_template_changes() {
    let deployment = deployment(1);
    let foreign = |stamped: bool| {
        let mut instance = made(&deployment, "web-0", true);
        let status = instance.status.as_mut().unwrap();
        status.controller.as_mut().unwrap().observed_template_hash = "6b9d8f7c5".into();
        if !stamped {
            instance.spec.controller.as_mut().unwrap().template_hash = "6b9d8f7c5".into();
        }
        instance
    };
    let current = |deployment: &WorkloadDeployment, instance: Instance| {
        let plan = plan_for(deployment, &shared([instance]));
        plan.status.unwrap().current_replicas
    };
    let changed = changed(&deployment);
    for stamped in [false, true] {
        assert_eq!(current(&deployment, foreign(stamped)), 1);
        assert_eq!(current(&changed, foreign(stamped)), 0);
    }
    // An empty hash does not count as a hash of the Go manager.
    let mut silent = foreign(true);
    silent.status.as_mut().unwrap().controller = Some(InstanceControllerStatus::default());
    assert_eq!(current(&deployment, silent), 0);
}

#[test]
fn an_unsupported_management_policy_is_reported_and_does_nothing() {
    let mut parallel = deployment(1);
    parallel.spec.scale_settings.instance_management_policy = "Parallel".into();
    let plan = plan_for(&parallel, &[]);
    assert!(plan.steps.is_empty());
    let conditions = plan.status.unwrap().conditions;
    assert_eq!(
        condition::find(&conditions, AVAILABLE).unwrap().reason,
        reason::UNSUPPORTED_POLICY
    );
}

/// Returns the status that is planned for these Instances.
fn status(deployment: &WorkloadDeployment, instances: Vec<Instance>) -> WorkloadDeploymentStatus {
    let plan = plan_for(deployment, &shared(instances));
    plan.status.unwrap()
}

fn available(status: &WorkloadDeploymentStatus) -> &condition::Condition {
    condition::find(&status.conditions, AVAILABLE).unwrap()
}

#[test]
fn the_status_counts_what_exists_what_is_ready_and_what_is_current() {
    let two = deployment(2);
    let older = made(&changed(&two), "web-1", false);
    let both = status(&two, vec![made(&two, "web-0", true), older]);
    let counters = [
        both.replicas,
        both.ready_replicas,
        both.current_replicas,
        both.desired_replicas,
    ];
    assert_eq!(
        (counters, both.observed_generation),
        ([2, 1, 1, 2], Some(5))
    );
    // Another template does not count, whether the Instance is ready or not.
    assert_eq!(both.updated_replicas, Some(1));
    let unready = vec![made(&two, "web-0", true), made(&two, "web-1", false)];
    assert_eq!(status(&two, unready).updated_replicas, Some(2));
    let reason = |status: &WorkloadDeploymentStatus| {
        condition::find(&status.conditions, AVAILABLE)
            .map(|available| (available.status, available.reason.clone()))
    };
    assert_eq!(
        reason(&both),
        Some((ConditionStatus::True, "StableInstanceFound".into()))
    );
    assert_eq!(
        reason(&status(&two, vec![])),
        Some((ConditionStatus::False, "ProvisioningInstances".into()))
    );
    assert_eq!(
        reason(&status(&deployment(0), vec![])),
        Some((ConditionStatus::True, "NoInstancesDesired".into()))
    );
    // A terminating Instance exists, but its conditions say nothing about the future.
    let ending = status(&two, vec![terminating(made(&two, "web-0", true))]);
    assert_eq!(
        [
            ending.replicas,
            ending.ready_replicas,
            ending.current_replicas
        ],
        [1, 0, 0]
    );
    assert_eq!(
        reason(&ending),
        Some((ConditionStatus::False, "ProvisioningInstances".into()))
    );
    // One Instance has no quota.
    let mut denied = made(&two, "web-1", false);
    let granted = condition::Condition {
        message: "requested 1000, available 0".to_owned(),
        ..condition("QuotaGranted", false, None)
    };
    denied.status.as_mut().unwrap().conditions.push(granted);
    let replicas_ready = |status: &WorkloadDeploymentStatus| {
        let found = condition::find(&status.conditions, REPLICAS_READY).unwrap();
        (found.is_true(), found.reason.clone(), found.message.clone())
    };
    let some = status(&two, vec![made(&two, "web-0", true), denied.clone()]);
    let sentence = "Instance web-1 has no quota: requested 1000, available 0";
    assert_eq!(
        replicas_ready(&some),
        (
            false,
            "QuotaExceeded".to_owned(),
            format!("1 instances have no quota; {sentence}")
        )
    );
    assert_eq!(
        reason(&some),
        Some((ConditionStatus::True, "StableInstanceFound".into()))
    );
    let none = status(&two, vec![denied]);
    let available = available(&none);
    assert_eq!(available.reason, "PendingQuota");
    assert_eq!(
        available.message,
        format!("no instance of 2 is ready; {sentence}")
    );
    // `spec.replicas` overrides the minimum.
    let mut scaled = deployment(1);
    scaled.spec.replicas = Some(4);
    assert_eq!(status(&scaled, vec![]).desired_replicas, 4);
}

/// The cause that says most is shown, whichever Instance it holds back.
#[test]
fn of_several_causes_the_one_that_says_most_is_shown() {
    let two = deployment(2);
    let mut denied = made(&two, "web-1", false);
    let granted = condition("QuotaGranted", false, None);
    denied.status.as_mut().unwrap().conditions.push(granted);
    let mut unplaced = made(&two, "web-0", false);
    let gates = &mut unplaced.spec.controller.as_mut().unwrap().scheduling_gates;
    gates.push(fixtures::object(json!({"name": "Network"})));
    let mismatch = condition::Condition {
        reason: "LocationMismatch".to_owned(),
        ..condition("NetworkReady", false, None)
    };
    unplaced.status.as_mut().unwrap().conditions.push(mismatch);
    let both = status(&two, vec![denied, unplaced]);
    let available = available(&both);
    assert_eq!(available.reason, "LocationMismatch");
    let sentence = "no instance of 2 is ready; Instance web-0 has no network: m";
    assert_eq!(available.message, sentence);
}

/// Each Instance carries the label that the selector in the status selects.
#[test]
fn the_selector_selects_the_instances() {
    let one = deployment(1);
    let plan = plan_for(&one, &[]);
    let selector = plan.status.unwrap().selector.unwrap();
    let (key, value) = selector.split_once('=').unwrap();
    let labels = linking_labels(&one, 0);
    assert_eq!(labels.get(key).map(String::as_str), Some(value));
    assert!(!value.is_empty());
}

#[test]
fn deletion_waits_for_the_instances() {
    let going = terminating(deployment(1));
    let observe = |instances: Vec<Instance>| plan_for(&going, &shared(instances));
    let plan = observe(vec![made(&going, "web-0", true)]);
    assert_eq!(
        (plan.delete.len(), plan.remove_finalizer, plan.status),
        (1, false, None)
    );
    let plan = observe(vec![terminating(made(&going, "web-0", true))]);
    assert_eq!((plan.delete.len(), plan.remove_finalizer), (0, false));
    assert!(observe(vec![]).remove_finalizer);
}

/// I-34: the counters say when the last Instance is gone. Nothing is created, whatever the spec and the rules of the cell
/// say.
#[test]
fn all_instances_of_an_ending_deployment_are_deleted_at_once() {
    let mut ending = deployment(3);
    ending.spec.scale_settings.instance_management_policy = "Parallel".to_owned();
    let annotations = ending.meta_mut().annotations.get_or_insert_default();
    annotations.insert(api::annotations::ENDING.into(), now().to_string());
    annotations.insert(api::annotations::SUSPENDED.into(), "true".into());
    let two = vec![made(&ending, "web-0", true), made(&ending, "web-1", false)];
    let plan = plan_for(&ending, &shared(two.clone()));
    assert_eq!((plan.delete.len(), plan.steps.len()), (2, 0));
    assert!(plan.status.is_none() && plan.suspend.is_empty() && !plan.remove_finalizer);
    let going = two.into_iter().map(terminating);
    let plan = plan_for(&ending, &shared(going));
    assert!(!plan.deletes_without_steps());
    assert_eq!(plan.status.unwrap().replicas, 2);
    let plan = plan_for(&ending, &[]);
    assert!(plan.steps.is_empty() && !plan.remove_finalizer);
    assert_eq!(plan.status.unwrap().replicas, 0);
}

/// Existing Instances have this hash. Another hash for the same template would replace every machine.
#[test]
fn the_template_hash_is_stable() {
    assert_eq!(template_hash(&deployment(2)), "v1-vxw8hnldpd");
}

#[test]
fn a_refusal_is_shown() {
    let observed = Observed {
        deployment: &deployment(1),
        instances: &[],
        undecodable: &[],
        autoscaler: &AutoscalerView::default(),
        quota: &QuotaAnswers::new(),
        data: Some(&plenty()),
        now: now(),
    };
    let status = status_after_refusal(&observed, "create Instance web-0: denied");
    let conditions = status.unwrap().conditions;
    let available = condition::find(&conditions, AVAILABLE).unwrap();
    assert!(available.message.ends_with("create Instance web-0: denied"));
}

/// A plan must not grow with the wanted number, because a customer chooses it.
#[test]
fn a_plan_has_at_most_one_step_more_than_there_are_instances() {
    for existing in [0, 1, 5] {
        for wanted in [0, 1, 3, 7, REPLICAS_MAX] {
            let deployment = deployment(wanted);
            let instances = (0..existing).map(|ordinal| {
                let name = instance_name(&deployment, ordinal * 2);
                made(&deployment, &name, ordinal % 2 == 0)
            });
            let steps = steps_for(&deployment, instances.collect());
            let most = usize::try_from(existing).unwrap() + 1;
            assert!(steps.len() <= most, "{existing} of {wanted}: {steps:?}");
        }
    }
}

#[test]
fn too_many_replicas_are_reported_and_nothing_happens() {
    let mut many = deployment(REPLICAS_MAX + 1);
    let instances = shared([made(&many, "web-0", true), made(&many, "web-2", false)]);
    for replicas in [None, Some(i32::MAX)] {
        many.spec.replicas = replicas;
        let plan = plan_for(&many, &instances);
        assert_eq!(plan.steps, []);
        let conditions = plan.status.unwrap().conditions;
        let available = condition::find(&conditions, AVAILABLE).unwrap();
        assert_eq!(available.reason, reason::TOO_MANY_REPLICAS);
        assert!(available.message.contains("1000"), "{}", available.message);
    }
}
