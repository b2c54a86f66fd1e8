//! Tests of the status of a Workload.

use api::condition::{self, Condition, MESSAGE_MAX};
use api::instance::REFERENCED_DATA_READY;
use api::reasons::referenced_data::NOT_FOUND;
use api::reasons::workload_deployment::{CELL_UNREACHABLE, HUB_REFUSED, PENDING_QUOTA};
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, REPLICAS_READY};

use super::*;
use crate::workload::plan::status::reason;

#[test]
fn a_refusal_is_shown_with_its_placement() {
    let workload = workload(&[("us", &["DFW"]), ("eu", &["LHR"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let available = ready(&deployments[0], true);
    let refusals = StringMap::from([("eu".to_owned(), "not allowed".to_owned())]);
    let world = ProjectFixture {
        refusals,
        ..ProjectFixture::default()
    };
    let plan = world.plan(&workload, &shared([available]));
    let status = plan.status.unwrap();
    let messages: Vec<_> = status
        .placements
        .iter()
        .map(|placement| placement.conditions[0].message.as_str())
        .collect();
    assert_eq!(messages, ["web-us-dfw is available", "not allowed"]);
}

#[test]
fn a_refusal_of_the_hub_is_shown_with_its_placement() {
    let workload = workload(&[("us", &["DFW"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let refused = |available: bool, reason: &str| {
        let mut deployment = ready(&deployments[0], available);
        let conditions = &mut deployment.status.as_mut().unwrap().conditions;
        for type_ in [AVAILABLE, CELLS_REPORTING] {
            let is_refused = type_ == CELLS_REPORTING || !available;
            let mut condition = condition(type_, !is_refused, None);
            if is_refused {
                condition.status = match type_ {
                    AVAILABLE => ConditionStatus::Unknown,
                    _ => ConditionStatus::False,
                };
                condition.reason = reason.to_owned();
                condition.message = "not here".to_owned();
            }
            condition::set(conditions, condition);
        }
        let status = plan_for(&workload, &shared([deployment])).status.unwrap();
        status.placements[0].conditions[0].message.clone()
    };
    for (available, reason, expected) in [
        (
            true,
            HUB_REFUSED,
            "web-us-dfw is available; web-us-dfw: not here",
        ),
        (true, CELL_UNREACHABLE, "web-us-dfw is available"),
        (false, HUB_REFUSED, "web-us-dfw: HubRefused: not here"),
    ] {
        assert_eq!(refused(available, reason), expected);
    }
}

/// The WorkloadDeployment with the ready Instances is available, so only a message can show the Instance without quota.
#[test]
fn an_instance_without_quota_is_shown_although_others_run() {
    const LACKS: &str = "ord: 1 instances have no quota; Instance web-us-ord-1 has no quota: told";
    let workload = workload(&[("us", &["DFW", "ORD"]), ("eu", &["LHR"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let messages = |said: [(bool, &str); 3], lacks: &[usize]| {
        let deployments = deployments.iter().zip(said).enumerate();
        let deployments = deployments.map(|(index, (deployment, (available, reason)))| {
            let mut deployment = ready(deployment, available);
            let conditions = &mut deployment.status.as_mut().unwrap().conditions;
            reason.clone_into(&mut conditions[0].reason);
            let lacking = Condition {
                message: LACKS.to_owned(),
                ..condition(REPLICAS_READY, !lacks.contains(&index), None)
            };
            conditions.push(lacking);
            deployment
        });
        let status = plan_for(&workload, &shared(deployments)).status.unwrap();
        let us = status.placements[0].conditions[0].message.clone();
        (us, status.conditions[0].message.clone())
    };
    let (runs, fails, denied) = ((true, "R"), (false, "R"), (false, PENDING_QUOTA));
    let ord = format!("web-us-ord: {LACKS}");
    for (said, lacks, us, all) in [
        (
            [runs, runs, runs],
            &[][..],
            "web-us-dfw is available".to_owned(),
            "placement us is available".to_owned(),
        ),
        (
            [runs, runs, runs],
            &[1, 2],
            format!("web-us-dfw is available; {ord}"),
            format!("placement us is available; placement us: {ord}"),
        ),
        (
            [runs, denied, runs],
            &[1],
            format!("web-us-dfw is available; {ord}"),
            format!("placement us is available; placement us: {ord}"),
        ),
        (
            [fails, denied, fails],
            &[1],
            format!("web-us-dfw: R: m; {ord}"),
            format!("placement us: web-us-dfw: R: m; {ord}"),
        ),
        // `Available` says the same.
        (
            [denied, fails, fails],
            &[0, 2],
            "web-us-dfw: PendingQuota: m".to_owned(),
            format!("placement us: web-us-dfw: PendingQuota: m; placement eu: web-eu-lhr: {LACKS}"),
        ),
    ] {
        assert_eq!(messages(said, lacks), (us, all), "{said:?} {lacks:?}");
    }
}

#[test]
fn the_status_sums_and_names_the_first_cause() {
    let workload = workload(&[("us", &["DFW"]), ("eu", &["LHR"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let with = |us: bool, eu: bool| {
        let both = shared([ready(&deployments[0], us), ready(&deployments[1], eu)]);
        plan_for(&workload, &both).status.unwrap()
    };
    let status = with(false, true);
    assert_eq!(
        (status.deployments, status.replicas, status.ready_replicas),
        (2, 4, 2)
    );
    let reasons: Vec<_> = status
        .placements
        .iter()
        .map(|p| p.conditions[0].reason.as_str())
        .collect();
    assert_eq!(reasons, [reason::NO_DEPLOYMENTS, reason::DEPLOYMENT_FOUND]);
    assert_eq!(status.conditions[0].reason, reason::PLACEMENT_FOUND);
    assert_eq!(status.conditions[0].observed_generation, Some(3));
    let status = with(false, false);
    assert_eq!(
        status.conditions[0].message,
        "placement us: web-us-dfw: Because: m"
    );
}

#[test]
fn unknown_has_the_first_cause_unless_something_is_available() {
    use ConditionStatus::{False, True, Unknown};
    let workload = workload(&[("us", &["DFW", "ORD"]), ("eu", &["LHR"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let (none, no_placement) = (reason::NO_DEPLOYMENTS, reason::NO_PLACEMENTS);
    let (found, placement) = (reason::DEPLOYMENT_FOUND, reason::PLACEMENT_FOUND);
    for (said, us, eu, all) in [
        (
            [False, False, False],
            (False, none),
            (False, none),
            (False, no_placement),
        ),
        (
            [False, Unknown, False],
            (Unknown, "Cause1"),
            (False, none),
            (Unknown, "Cause1"),
        ),
        (
            [Unknown, Unknown, False],
            (Unknown, "Cause0"),
            (False, none),
            (Unknown, "Cause0"),
        ),
        (
            [False, False, Unknown],
            (False, none),
            (Unknown, "Cause2"),
            (Unknown, "Cause2"),
        ),
        (
            [Unknown, True, Unknown],
            (True, found),
            (Unknown, "Cause2"),
            (True, placement),
        ),
        (
            [Unknown, False, True],
            (Unknown, "Cause0"),
            (True, found),
            (True, placement),
        ),
    ] {
        let deployments = deployments.iter().zip(said).enumerate();
        let deployments =
            deployments.map(|(index, (it, status))| saying(it, status, &format!("Cause{index}")));
        let status = plan_for(&workload, &shared(deployments)).status.unwrap();
        let of = |conditions: &[Condition]| (conditions[0].status, conditions[0].reason.clone());
        let expected = |(status, reason): (_, &str)| (status, reason.to_owned());
        assert_eq!(
            of(&status.placements[0].conditions),
            expected(us),
            "{said:?}"
        );
        assert_eq!(
            of(&status.placements[1].conditions),
            expected(eu),
            "{said:?}"
        );
        assert_eq!(of(&status.conditions), expected(all), "{said:?}");
    }
}

#[test]
fn a_missing_secret_is_shown_although_instances_run() {
    let workload = workload(&[("us", &["DFW"])]);
    let deployment = executed(&workload, &plan_for(&workload, &[])).remove(0);
    let messages = |is_available, reason: &str| {
        let mut deployment = ready(&deployment, is_available);
        let conditions = &mut deployment.status.as_mut().unwrap().conditions;
        reason.clone_into(&mut conditions[0].reason);
        let lacking = Condition {
            reason: NOT_FOUND.to_owned(),
            message: "Secret/token".to_owned(),
            ..condition(REFERENCED_DATA_READY, false, None)
        };
        conditions.push(lacking);
        let status = plan_for(&workload, &shared([deployment])).status.unwrap();
        status.placements[0].conditions[0].message.clone()
    };
    let shown = "web-us-dfw is available; web-us-dfw: Secret/token";
    assert_eq!(messages(true, "R"), shown);
    // The message of `Available` names it.
    assert!(!messages(false, NOT_FOUND).contains("Secret/token"));
}

#[test]
fn a_long_message_is_cut_to_the_limit_of_a_condition() {
    let workload = workload(&[("us", &["DFW"])]);
    let deployment = executed(&workload, &plan_for(&workload, &[])).remove(0);
    let mut deployment = ready(&deployment, false);
    deployment.status.as_mut().unwrap().conditions[0].message = "ü".repeat(MESSAGE_MAX);
    let status = plan_for(&workload, &shared([deployment])).status.unwrap();
    for condition in [&status.conditions[0], &status.placements[0].conditions[0]] {
        assert_eq!(condition.message.chars().count(), MESSAGE_MAX);
    }
    let mut deployment = ready(&executed(&workload, &plan_for(&workload, &[]))[0], true);
    let lacking = Condition {
        message: "ü".repeat(MESSAGE_MAX),
        ..condition(REPLICAS_READY, false, None)
    };
    deployment.status.as_mut().unwrap().conditions.push(lacking);
    let status = plan_for(&workload, &shared([deployment])).status.unwrap();
    for condition in [&status.conditions[0], &status.placements[0].conditions[0]] {
        assert_eq!(condition.message.chars().count(), MESSAGE_MAX);
    }
}

#[test]
fn conditions_of_others_stay() {
    let mut workload = workload(&[("us", &["DFW"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let others = condition("example.com/Billed", true, Some(1));
    let mut former = plan_for(&workload, &deployments).status.unwrap();
    former.replicas = 7;
    former.conditions.insert(0, others.clone());
    former.placements[0].conditions.push(others.clone());
    workload.status = Some(former);
    let status = plan_for(&workload, &deployments).status.unwrap();
    assert_eq!(status.conditions[0], others);
    assert_eq!(status.placements[0].conditions[1], others);
}

#[test]
fn the_generation_is_observed_only_when_every_deployment_has_acted_on_it() {
    let mut workload = workload(&[("us", &["DFW"])]);
    let mut deployments = executed(&workload, &plan_for(&workload, &[]));
    deployments[0] = Arc::new(ready(&deployments[0], true));
    let observed = |workload: &Workload, deployments: &[Arc<WorkloadDeployment>]| {
        let status = plan_for(workload, deployments)
            .status
            .or_else(|| workload.status.clone());
        status.unwrap().conditions[0].observed_generation
    };
    assert_eq!(observed(&workload, &deployments), Some(3));
    workload.status = plan_for(&workload, &deployments).status;
    // In the first case, the WorkloadDeployment does not have the new generation yet. In the second case, the cells
    // have not observed this generation yet.
    workload.meta_mut().generation = Some(4);
    workload.spec.placements[0].scale_settings.min_replicas = 5;
    assert_eq!(observed(&workload, &deployments), Some(3));
    let deployment = Arc::make_mut(&mut deployments[0]);
    deployment.spec.scale_settings.min_replicas = 5;
    deployment.meta_mut().generation = Some(6);
    assert_eq!(observed(&workload, &deployments), Some(3));
    Arc::make_mut(&mut deployments[0])
        .status
        .as_mut()
        .unwrap()
        .observed_generation = Some(6);
    assert_eq!(observed(&workload, &deployments), Some(4));
}

#[test]
fn deleted_placements_follow_the_others_sorted() {
    let workload = workload(&[("us", &["DFW"])]);
    let mut going: Vec<_> = ["zeta", "alpha"]
        .iter()
        .map(|name| deployment("default", name, "ORD", 1))
        .collect();
    going[0].spec.placement_name = "zeta".into();
    going[1].spec.placement_name = "alpha".into();
    let status = plan_for(&workload, &shared(going)).status.unwrap();
    let names: Vec<_> = status
        .placements
        .iter()
        .map(|placement| placement.name.as_str())
        .collect();
    assert_eq!(names, ["us", "alpha", "zeta"]);
}

/// I-29: the status of the gateway has another writer.
#[test]
fn the_gateway_status_is_not_written() {
    let mut workload = workload(&[("us", &["DFW"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    let gateway = json!({"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]});
    workload.status = Some(WorkloadStatus {
        gateway: Some(object(gateway)),
        ..WorkloadStatus::default()
    });
    let status = plan_for(&workload, &deployments).status.unwrap();
    assert_eq!(json!(status).get("gateway"), None);
    // The plan writes no other field.
    workload.status = Some(WorkloadStatus {
        gateway: workload.status.unwrap().gateway,
        ..status
    });
    assert_eq!(plan_for(&workload, &deployments), Plan::default());
}
