//! Tests of the policy controller. The controller keeps each PropagationPolicy correct, and deletes a policy after the
//! last deployment of the policy.

use anyhow::{Context, ensure};
use api::karmada::PropagationPolicy;
use api::{WorkloadDeployment, labels};
use harness::{Federation, wait};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::{DFW, Space, WITHIN, create, deployment, patch, policies};

const NAMES: [&str; 2] = ["wd-alpha", "wd-beta"];

/// Deletes and recreates deployments of one city. Some deletions happen before Karmada has propagated the deployment,
/// and some while another deployment is being deleted.
///
/// I-17: a policy is deleted only after all objects that it propagated.
pub(crate) async fn deployments_of_one_city_come_and_go(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "come-and-go").await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let in_cell: Api<WorkloadDeployment> = space.in_cell(DFW);
    let policies: Api<PropagationPolicy> = space.on_hub();
    for round in 0..4 {
        for name in NAMES {
            create(&deployments, deployment(name, "DFW")).await?;
        }
        // In every second round, the test deletes without a wait for propagation.
        if round % 2 == 0 {
            for name in NAMES {
                wait::until(&in_cell, name, "there", WITHIN, |_| true).await?;
            }
            let uid = policies.get("city-dfw").await?.uid();
            for (leaving, staying) in [(0, 1), (1, 0)] {
                let former = in_cell.get(NAMES[leaving]).await?.uid();
                delete(&deployments, NAMES[leaving]).await?;
                create(&deployments, deployment(NAMES[leaving], "DFW")).await?;
                let anew = |copy: &WorkloadDeployment| copy.uid() != former;
                wait::until(&in_cell, NAMES[leaving], "there again", WITHIN, anew).await?;
                wait::until(&in_cell, NAMES[staying], "there", WITHIN, |_| true).await?;
            }
            ensure!(
                policies.get("city-dfw").await?.uid() == uid,
                "the policy was recreated while a deployment used it"
            );
        }
        for name in NAMES {
            delete(&deployments, name).await?;
        }
    }
    wait::gone(&policies, "city-dfw", WITHIN).await?;
    space.until_empty().await?;

    // After all rounds, a new deployment is still propagated.
    create(&deployments, deployment(NAMES[0], "DFW")).await?;
    wait::until(&in_cell, NAMES[0], "there", WITHIN, |_| true).await?;
    delete(&deployments, NAMES[0]).await?;
    wait::gone(&policies, "city-dfw", WITHIN).await?;
    space.until_empty().await
}

/// Deletes a deployment of the project and waits until it is gone.
async fn delete(deployments: &Api<WorkloadDeployment>, name: &str) -> anyhow::Result<()> {
    deployments.delete(name, &DeleteParams::default()).await?;
    wait::gone(deployments, name, WITHIN).await
}

pub(crate) async fn an_edit_by_hand_of_any_field_is_repaired(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "policy-edited").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let policies = policies(&space);
    let made = policies.get("city-dfw").await?;

    let of_ord = json!({"matchLabels": {labels::CITY_CODE: "ORD"}});
    let selector = |field: &str, value: Value| {
        let mut selector = made.data["spec"]["resourceSelectors"][0].clone();
        selector[field] = value;
        json!({"spec": {"resourceSelectors": [selector]}})
    };
    let placement = |field: &str, value: Value| json!({"spec": {"placement": {field: value}}});
    let expression = json!([{"key": "example.com/some", "operator": "DoesNotExist"}]);
    let more = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let toleration = json!([{"key": "example.com/some", "operator": "Exists"}]);
    let spread = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    for edit in [
        json!({"spec": {"propagateDeps": false}}),
        placement("spreadConstraints", spread),
        placement(
            "replicaScheduling",
            json!({"replicaSchedulingType": "Duplicated"}),
        ),
        placement("clusterTolerations", toleration),
        placement("clusterAffinity", json!({"clusterNames": ["dfw1"]})),
        placement("clusterAffinity", json!({"exclude": ["ord1"]})),
        placement("clusterAffinity", json!({"labelSelector": of_ord})),
        placement(
            "clusterAffinity",
            json!({"labelSelector": {"matchExpressions": expression}}),
        ),
        placement("clusterAffinity", Value::Null),
        selector("labelSelector", of_ord.clone()),
        selector("labelSelector", json!({"matchExpressions": expression})),
        selector("name", json!("other")),
        json!({"spec": {"resourceSelectors": [made.data["spec"]["resourceSelectors"][0], more]}}),
        json!({"metadata": {"labels": {labels::CITY_CODE: "ORD"}}}),
        json!({"metadata": {"labels": {labels::CITY_CODE: null}}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
    ] {
        let edited = patch(&policies, "city-dfw", edit.clone())
            .await
            .with_context(|| edit.to_string())?;
        ensure!(
            (&edited.data["spec"], edited.labels()) != (&made.data["spec"], made.labels()),
            "{edit} does not change the policy"
        );
        wait::until(
            &policies,
            "city-dfw",
            &format!("repaired after {edit}"),
            WITHIN,
            |policy| policy.data["spec"] == made.data["spec"] && policy.labels() == made.labels(),
        )
        .await?;
    }
    let count = policies.list(&ListParams::default()).await?.items.len();
    assert_eq!(
        (count, policies.get("city-dfw").await?.uid()),
        (1, made.uid())
    );

    // The fields that an operator has set stay, also when the controller repairs other fields.
    let operators = json!({"spec": {"conflictResolution": "Overwrite", "propagateDeps": false}});
    patch(&policies, "city-dfw", operators).await?;
    wait::until(&policies, "city-dfw", "repaired", WITHIN, |policy| {
        let spec = &policy.data["spec"];
        spec["propagateDeps"] == true && spec["conflictResolution"] == "Overwrite"
    })
    .await?;
    space.until_settled("web", 1).await?;
    Ok(())
}

/// Karmada does not finish the deletion of a policy. The controllers treat this policy as absent: it gets no new
/// deployments. They create a new policy at once when the old one is gone.
pub(crate) async fn a_policy_that_stays_terminating(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "policy-going").await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let (copies, policies) = (
        space.on_hub::<WorkloadDeployment>(),
        space.on_hub::<PropagationPolicy>(),
    );
    create(&deployments, deployment(NAMES[0], "DFW")).await?;
    let in_cell: Api<WorkloadDeployment> = space.in_cell(DFW);
    wait::until(&in_cell, NAMES[0], "there", WITHIN, |_| true).await?;

    let karmada = PausedKarmada::new(federation)?;
    let former = policies.get("city-dfw").await?.uid();
    policies
        .delete("city-dfw", &DeleteParams::default())
        .await?;
    create(&deployments, deployment(NAMES[1], "DFW")).await?;
    // The federator copies a deployment of another city. At this point, a copy of the first deployment would exist too,
    // if the federator had not waited.
    create(&deployments, deployment("wd-gamma", "ORD")).await?;
    wait::until(&copies, "wd-gamma", "there", WITHIN, |_| true).await?;
    let recorded = |wd: &WorkloadDeployment| !wd.finalizers().is_empty();
    wait::until(&deployments, NAMES[1], "recorded", WITHIN, recorded).await?;
    ensure!(
        copies.get_opt(NAMES[1]).await?.is_none(),
        "the federator created a copy although the policy is terminating"
    );
    let going = policies.get("city-dfw").await?;
    ensure!(going.uid() == former && going.metadata.deletion_timestamp.is_some());

    drop(karmada);
    let anew = |policy: &PropagationPolicy| {
        policy.uid() != former && policy.metadata.deletion_timestamp.is_none()
    };
    wait::until(&policies, "city-dfw", "there again", WITHIN, anew).await?;
    wait::until(&in_cell, NAMES[1], "there", WITHIN, |_| true).await?;
    for name in [NAMES[0], NAMES[1], "wd-gamma"] {
        delete(&deployments, name).await?;
    }
    for name in ["city-dfw", "city-ord"] {
        wait::gone(&policies, name, WITHIN).await?;
    }
    space.until_empty().await
}

/// Suspends Karmada's controllers until this value is dropped.
struct PausedKarmada(Pid);

impl PausedKarmada {
    fn new(federation: &Federation) -> anyhow::Result<Self> {
        let is_karmadas = |pid: &i32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|program| program.ends_with("karmada-controller-manager"))
        };
        let pid = federation.pids().into_iter().find(is_karmadas);
        let pid = pid
            .and_then(Pid::from_raw)
            .context("Karmada's controllers do not run")?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for PausedKarmada {
    fn drop(&mut self) {
        // An error means that the process has ended. The federation itself reports such an end.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
