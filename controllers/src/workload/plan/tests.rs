mod needs;
mod size;
mod statuses;

use std::collections::BTreeSet;

use api::WorkloadDeploymentStatus;
use api::condition::ConditionStatus;
use kube::Resource;
use serde_json::json;

use super::*;
use crate::fixtures::{condition, deployment, now, object, shared, terminating, workload};
use crate::objects::controller_reference;

/// A project that offers everything that a Workload needs.
struct ProjectFixture {
    cities: Result<Vec<&'static str>, &'static str>,
    networks: Result<Vec<&'static str>, &'static str>,
    refusals: StringMap,
    unlisted: Option<&'static str>,
}

impl Default for ProjectFixture {
    fn default() -> Self {
        Self {
            cities: Ok(vec!["DFW", "ORD", "LHR", "dfw", "New York"]),
            networks: Ok(vec!["default"]),
            refusals: StringMap::new(),
            unlisted: None,
        }
    }
}

impl ProjectFixture {
    /// Plans for a namespace with these WorkloadDeployments.
    fn plan(&self, workload: &Workload, deployments: &[Arc<WorkloadDeployment>]) -> Plan {
        let uid = workload.uid().unwrap();
        let undecodable = Vec::new();
        let mut own = deployments.to_vec();
        own.retain(|deployment| owner(deployment) == uid);
        let is_taken = |name: &str| deployments.iter().any(|other| name_of(other) == name);
        let offers = |city: &str| self.cities.as_ref().unwrap().contains(&city);
        let exists = |name: &str| self.networks.as_ref().unwrap().contains(&name);
        let (mut plan, report) = plan(&Observed {
            workload,
            own: &own,
            undecodable: &undecodable,
            is_taken: &is_taken,
            cities: self
                .cities
                .as_ref()
                .map(|_| &offers as Lookup<'_>)
                .map_err(|why| *why),
            networks: self
                .networks
                .as_ref()
                .map(|_| &exists as Lookup<'_>)
                .map_err(|why| *why),
            unlisted: self.unlisted,
            now: now(),
        });
        if let Some(report) = report {
            plan.status = report.changed_status(&self.refusals);
        }
        plan
    }
}

fn plan_for(workload: &Workload, deployments: &[Arc<WorkloadDeployment>]) -> Plan {
    ProjectFixture::default().plan(workload, deployments)
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.apply
        .iter()
        .map(|desired| desired.name.as_str())
        .collect()
}

/// Returns the WorkloadDeployments after the execution of the plan.
fn executed(workload: &Workload, plan: &Plan) -> Vec<Arc<WorkloadDeployment>> {
    let applied = plan.apply.iter().map(|desired| {
        let mut object = deployment("default", &desired.name, "x", 0);
        object.spec = desired.spec(workload);
        object.meta_mut().labels = Some(desired.labels(workload));
        object.meta_mut().owner_references = Some(vec![controller_reference(workload)]);
        object
    });
    shared(applied)
}

/// Returns the WorkloadDeployment with this status and this reason of `Available`.
fn saying(
    deployment: &WorkloadDeployment,
    status: ConditionStatus,
    reason: &str,
) -> WorkloadDeployment {
    let mut deployment = ready(deployment, false);
    let conditions = &mut deployment.status.as_mut().unwrap().conditions;
    conditions[0].status = status;
    reason.clone_into(&mut conditions[0].reason);
    deployment
}

/// Returns the WorkloadDeployment with a status of its current generation, available or not.
fn ready(deployment: &WorkloadDeployment, available: bool) -> WorkloadDeployment {
    let mut deployment = deployment.clone();
    deployment.status = Some(WorkloadDeploymentStatus {
        conditions: vec![condition("Available", available, Some(5))],
        current_replicas: 2,
        desired_replicas: 2,
        observed_generation: Some(5),
        ready_replicas: if available { 2 } else { 0 },
        replicas: 2,
        ..WorkloadDeploymentStatus::default()
    });
    deployment
}

#[test]
fn a_deployment_per_placement_and_city_in_the_order_of_the_workload() {
    let workload = workload(&[("us", &["DFW", "ORD"]), ("eu", &["LHR", "LHR"])]);
    let plan = plan_for(&workload, &[]);
    assert_eq!(names(&plan), ["web-us-dfw", "web-us-ord", "web-eu-lhr"]);
    let desired = &plan.apply[0];
    let (spec, labels) = (desired.spec(&workload), desired.labels(&workload));
    assert_eq!((spec.city_code.as_str(), spec.replicas), ("DFW", None));
    assert_eq!(labels[api::labels::WORKLOAD_UID], "workload-uid");
    assert_eq!(spec.template, workload.spec.template);
}

/// I-2: what is as wanted is not written.
#[test]
fn an_applied_plan_is_empty() {
    let workload = workload(&[("us", &["DFW", "ORD"])]);
    let mut deployments = executed(&workload, &plan_for(&workload, &[]));
    // The plan does not change fields of an autoscaler or of another controller.
    let other = Arc::make_mut(&mut deployments[0]);
    other.spec.replicas = Some(9);
    other
        .labels_mut()
        .insert("example.com/note".into(), "mine".into());
    let plan = plan_for(&workload, &deployments);
    assert_eq!((names(&plan), plan.delete.len()), (vec![], 0));
    let mut settled = workload.clone();
    settled.status = plan.status;
    assert_eq!(plan_for(&settled, &deployments), Plan::default());
}

#[test]
fn an_edited_spec_and_a_lost_owner_are_repaired() {
    let workload = workload(&[("us", &["DFW"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    for break_it in [
        (|d: &mut WorkloadDeployment| d.spec.scale_settings.min_replicas = 7)
            as fn(&mut WorkloadDeployment),
        |d| d.meta_mut().owner_references = None,
        |d| d.meta_mut().labels = None,
    ] {
        let mut deployments = deployments.clone();
        break_it(Arc::make_mut(&mut deployments[0]));
        assert_eq!(names(&plan_for(&workload, &deployments)), ["web-us-dfw"]);
    }
}

/// The plan repairs a WorkloadDeployment with an edited spec in place. So the machines keep running.
#[test]
fn an_edited_identity_is_repaired() {
    let workload = workload(&[("us", &["DFW", "ORD"]), ("eu", &["DFW"])]);
    let deployments = executed(&workload, &plan_for(&workload, &[]));
    for edit in [
        (|d: &mut WorkloadDeployment| d.spec.placement_name = "usa".into())
            as fn(&mut WorkloadDeployment),
        |d| d.spec.placement_name = "eu".into(),
        |d| d.spec.city_code = "LHR".into(),
        |d| d.spec.workload_ref.uid = "another".into(),
    ] {
        let mut deployments = deployments.clone();
        edit(Arc::make_mut(&mut deployments[0]));
        let plan = plan_for(&workload, &deployments);
        assert_eq!((names(&plan), plan.delete.len()), (vec!["web-us-dfw"], 0));
        assert!(plan.apply[0].existing.is_some());
    }
}

#[test]
fn a_name_of_another_workload_is_not_taken() {
    let workload = workload(&[("us", &["DFW"])]);
    let mut taken = deployment("default", "web-us-dfw", "DFW", 1);
    taken.spec.workload_ref.uid = "another".into();
    let plan = plan_for(&workload, &shared([taken]));
    let name = names(&plan)[0];
    assert!(
        name.starts_with("web-us-dfw-") && names::is_name_and_label(name),
        "{name}"
    );
    assert!(plan.delete.is_empty());
    assert_eq!(plan.apply[0].existing, None);
}

#[test]
fn a_free_name_is_found_when_many_are_taken() {
    let workload = workload(&[("us", &["DFW"])]);
    let mut others = Vec::new();
    for _ in 0..3 {
        let name = names(&plan_for(&workload, &shared(others.clone())))[0].to_owned();
        let mut other = deployment("default", &name, "DFW", 1);
        other.spec.workload_ref.uid = "another".into();
        others.push(other);
    }
    let distinct: BTreeSet<_> = others.iter().map(ResourceExt::name_any).collect();
    assert_eq!(distinct.len(), 3);
    // When the spec of the new WorkloadDeployment is edited, the plan identifies the WorkloadDeployment by its name.
    let plan = plan_for(&workload, &shared(others.clone()));
    let mut own = executed(&workload, &plan).remove(0);
    let name = own.name_any();
    assert!(!distinct.contains(&name));
    Arc::make_mut(&mut own).spec.city_code = "ORD".into();
    let mut all = shared(others);
    all.push(own);
    let plan = plan_for(&workload, &all);
    assert_eq!((names(&plan), plan.delete.len()), (vec![name.as_str()], 0));
}

#[test]
fn a_deployment_keeps_its_name() {
    let workload = workload(&[("us", &["DFW"])]);
    let odd = deployment("default", "an-older-name", "DFW", 2);
    assert_eq!(
        names(&plan_for(&workload, &shared([odd]))),
        ["an-older-name"]
    );
}

#[test]
fn cities_with_the_same_readable_name_get_different_names() {
    let workload = workload(&[("us", &["DFW", "dfw", "New York"])]);
    let plan = plan_for(&workload, &[]);
    let found: BTreeSet<_> = names(&plan).into_iter().collect();
    assert_eq!(found.len(), 3);
    assert!(
        found.iter().all(|name| names::is_name_and_label(name)),
        "{found:?}"
    );
}

#[test]
fn an_unwanted_deployment_is_deleted_once() {
    let workload = workload(&[("us", &["DFW"])]);
    let orphan = deployment("default", "web-us-ord", "ORD", 2);
    let going = terminating(deployment("default", "web-us-lhr", "LHR", 2));
    let mut foreign = deployment("default", "other", "ORD", 2);
    foreign.spec.workload_ref.uid = "another".into();
    let plan = plan_for(&workload, &shared([orphan, going, foreign]));
    let deleted: Vec<_> = plan
        .delete
        .iter()
        .map(|deployment| deployment.name_any())
        .collect();
    assert_eq!(deleted, ["web-us-ord"]);
}

#[test]
fn deletion_waits_for_the_deployments() {
    let workload = terminating(workload(&[("us", &["DFW"])]));
    let own = deployment("default", "web-us-dfw", "DFW", 2);
    let plan = plan_for(&workload, &shared([own.clone()]));
    assert_eq!(
        (plan.delete.len(), plan.remove_finalizer, plan.apply.len()),
        (1, false, 0)
    );
    let plan = plan_for(&workload, &shared([terminating(own)]));
    assert_eq!((plan.delete.len(), plan.remove_finalizer), (0, false));
    assert!(plan_for(&workload, &[]).remove_finalizer);
    // Our finalizer is already removed. Finalizers of other controllers do not change the plan.
    let mut released = workload;
    released.meta_mut().finalizers = None;
    assert_eq!(plan_for(&released, &[]), Plan::default());
}
