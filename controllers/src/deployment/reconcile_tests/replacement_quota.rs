//! Tests of replacements that need more quota than the Instance before them.

use std::time::Duration;

use api::condition::{self, Condition};
use api::workload_deployment::REPLICAS_READY;
use apiserver::ApiServer;
use k8s_openapi::api::core::v1::Namespace;
use tokio::time::sleep;

use super::*;
use crate::fixtures::servers::terminating_json;
use crate::quota::{ConnectLedger, Ledgers};

const VCPUS: &str = "compute.datumapis.com/vcpus";

/// Returns a template whose Instances have this size.
fn template(cpu: &str) -> Value {
    let mut template = objects::template("app:1");
    template["spec"]["runtime"]["resources"]["requests"] = json!({"cpu": cpu, "memory": "1Gi"});
    template
}

fn set_left(project: &ApiServer, vcpus: i64) {
    project.put(json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "AllowanceBucket",
        "metadata": {"name": "vcpus", "namespace": "milo-system", "uid": "b"},
        "spec": {
            "consumerRef": {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "p"},
            "resourceType": VCPUS,
        },
        "status": {"available": vcpus, "limit": 0, "allocated": 0},
    }));
}

/// Starts a deployment with two ready Instances of one processor, in a cell that enforces quota.
async fn start_sized() -> (CellPlanes, ApiServer, DeploymentController) {
    let (planes, mut controller) = start_with(&[gate::QUOTA]).await;
    let project = ApiServer::new();
    let client = project.client();
    let connect: ConnectLedger = Box::new(move |_| Ok(client.clone()));
    let ledgers = Arc::new(Ledgers::new(connect, None));
    controller.quota = ReplacementQuota::new(Arc::clone(&planes.caches), Some(ledgers));
    change(&planes, |deployment| {
        deployment["spec"]["template"] = template("1");
        deployment["spec"]["scaleSettings"]["minReplicas"] = json!(2);
    });
    settle().await;
    for name in ["web-0", "web-1"] {
        converge(&controller, || object_key("web"), &planes.servers()).await;
        let ready = |instance: &mut Value| {
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            instance["status"] = running();
        };
        planes.cell.modify::<Instance>(HUB_NAMESPACE, name, ready);
        settle().await;
    }
    converge(&controller, || object_key("web"), &planes.servers()).await;
    (planes, project, controller)
}

fn change(planes: &CellPlanes, change: impl Fn(&mut Value)) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
}

/// Reconciles until nothing is written any more. Returns the writes, the outcome, and `ReplicasReady`.
async fn replicas_ready(
    planes: &CellPlanes,
    controller: &DeploymentController,
) -> (Vec<String>, Outcome, Condition) {
    settle().await;
    // A list of what is left is used for 2 s.
    sleep(Duration::from_secs(3)).await;
    let writes = converge(controller, || object_key("web"), &planes.servers()).await;
    let context = crate::fixtures::servers::context();
    let outcome = controller.reconcile(&context, object_key("web")).await;
    let conditions = deployment(planes).unwrap().status.unwrap().conditions;
    let found = condition::find(&conditions, REPLICAS_READY).unwrap();
    (writes, outcome.unwrap(), found.clone())
}

#[tokio::test(start_paused = true)]
async fn an_instance_stays_until_its_larger_replacement_has_quota() {
    let (planes, project, controller) = start_sized().await;
    let delete = "delete instances ns-1/web-1".to_owned();
    set_left(&project, 499);
    change(&planes, |it| it["spec"]["template"] = template("1500m"));
    let (writes, outcome, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert_eq!(outcome, Outcome::Again(Duration::from_secs(15)));
    let reason = (shown.is_false(), shown.reason.as_str());
    assert_eq!(reason, (true, "QuotaExceeded"));
    assert_eq!(
        shown.message,
        format!(
            "Instance web-1 keeps its former template: the project has no quota for 500 more {VCPUS}"
        )
    );

    // A surplus Instance is deleted meanwhile.
    change(&planes, |it| {
        it["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    });
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], delete);
    assert!(shown.message.contains("Instance web-0 keeps"), "{shown:?}");

    // A project that does not answer replaces nothing either.
    project.fail(Fault::hang());
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert_eq!(shown.reason, "QuotaBackendUnavailable");
    project.heal();
    sleep(Duration::from_secs(15)).await;

    set_left(&project, 500);
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-0");
    assert!(!shown.message.contains("keeps"), "{shown:?}");
}

/// Returns an Instance as this one, of another WorkloadDeployment.
fn of_another(instance: &Instance) -> Arc<Instance> {
    let mut other = instance.clone();
    other.metadata.name = Some("api-0".to_owned());
    for owner in other.metadata.owner_references.iter_mut().flatten() {
        owner.uid = "api".to_owned();
    }
    Arc::new(other)
}

/// One change of a Workload makes several WorkloadDeployments ask at once.
#[tokio::test(start_paused = true)]
async fn quota_that_is_left_once_is_promised_once() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 1500);
    change(&planes, |it| it["spec"]["template"] = template("2"));
    settle().await;
    let larger = deployment(&planes).unwrap().spec.template.spec;
    let web: Instance = planes.cell.get(HUB_NAMESPACE, "web-0").unwrap();
    let (other, web) = (of_another(&web), Arc::new(web));
    let is_held = async |instances: &[&Arc<Instance>]| -> Vec<bool> {
        let instances: Vec<_> = instances.iter().map(|it| Arc::clone(it)).collect();
        let held = controller.quota.holds(&instances, &larger).await;
        held.iter().map(Option::is_some).collect()
    };
    // An Instance that is not replaced next keeps nothing from others.
    assert_eq!(is_held(&[&web, &web]).await, [false, false]);
    assert_eq!(is_held(&[&other]).await, [false]);
    assert_eq!(controller.quota.promise(&web, &larger).await, None);
    // A WorkloadDeployment replaces its Instances one after the other.
    assert_eq!(is_held(&[&web, &web]).await, [false, false]);
    assert_eq!(is_held(&[&other]).await, [true]);
    assert!(controller.quota.promise(&other, &larger).await.is_some());
    assert_eq!(is_held(&[&web]).await, [false]);
    // A new list does not end the promise.
    sleep(Duration::from_mins(4)).await;
    assert_eq!(is_held(&[&other]).await, [true]);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(is_held(&[&other]).await, [false]);
    assert_eq!(controller.quota.promise(&other, &larger).await, None);
    assert_eq!(is_held(&[&web]).await, [true]);
}

/// Only the Instance that is deleted at once needs the quota. One that waits for others may wait for long.
#[tokio::test(start_paused = true)]
async fn quota_is_promised_with_the_deletion() {
    for waits in [false, true] {
        let (planes, project, controller) = start_sized().await;
        set_left(&project, 1500);
        if waits {
            planes
                .cell
                .modify::<Instance>(HUB_NAMESPACE, "web-1", |instance| {
                    *instance = terminating_json(instance.clone());
                });
        }
        change(&planes, |it| it["spec"]["template"] = template("2"));
        settle().await;
        let context = crate::fixtures::servers::context();
        let outcome = controller.reconcile(&context, object_key("web")).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        let writes = take_writes(&planes.servers());
        let deletes = writes.iter().any(|it| it.starts_with("delete instances"));
        assert_eq!(deletes, !waits, "{writes:?}");
        let larger = deployment(&planes).unwrap().spec.template.spec;
        let web: Instance = planes.cell.get(HUB_NAMESPACE, "web-0").unwrap();
        let other = of_another(&web);
        let held = controller.quota.holds(&[other], &larger).await;
        assert_eq!(held[0].is_some(), !waits);
    }
}

/// A failed read of the cell says nothing about quota.
#[tokio::test(start_paused = true)]
async fn a_held_instance_stays_held_while_the_cell_does_not_answer() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 0);
    change(&planes, |it| it["spec"]["template"] = template("2"));
    replicas_ready(&planes, &controller).await;
    planes.cell.fail(Fault::refuse(503).on(&[Verb::List]));
    sleep(Duration::from_secs(3)).await;
    let context = crate::fixtures::servers::context();
    // No step is the next one, so nothing is confirmed and nothing fails.
    let outcome = controller.reconcile(&context, object_key("web")).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// Another Instance of the same deployment may need no more quota.
#[tokio::test(start_paused = true)]
async fn each_instance_is_held_for_itself() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 0);
    // An Instance of another size, as a rollout leaves it that was interrupted by another template.
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["spec"]["runtime"]["resources"]["requests"]["cpu"] = json!("4");
        });
    change(&planes, |it| it["spec"]["template"] = template("2"));
    let (writes, _, _) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-0");
    assert!(
        !writes
            .iter()
            .any(|it| it.contains("delete instances ns-1/web-1"))
    );
}

/// Makes an Instance unready, with these gates.
fn make_unready(planes: &CellPlanes, name: &str, gates: &Value) {
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, name, |instance| {
            instance["spec"]["controller"]["schedulingGates"] = gates.clone();
            instance["status"]["conditions"][1]["status"] = json!("False");
        });
}

/// An Instance that runs is not given up while its replacement would not get quota, also if it is not ready. One that
/// has never run is replaced.
#[tokio::test(start_paused = true)]
async fn an_unready_instance_stays_if_it_runs() {
    for (gates, deleted) in [
        (json!([]), 0),
        (json!([{"name": "Quota"}]), 1),
        (json!([{"name": "Network"}]), 1),
    ] {
        let (planes, project, controller) = start_sized().await;
        set_left(&project, 0);
        make_unready(&planes, "web-1", &gates);
        change(&planes, |it| it["spec"]["template"] = template("2"));
        let (writes, _, _) = replicas_ready(&planes, &controller).await;
        let deletions = writes.iter().filter(|it| it.starts_with("delete"));
        assert_eq!(deletions.count(), deleted, "{writes:?}");
    }
}

/// An Instance keeps running when its claim is revoked, and holds nothing then. Its replacement of the same size would
/// get nothing. The condition can change later: the project refuses another claim, or does not decide about it.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_claim_was_denied_is_not_given_up() {
    for (status, reason, deleted) in [
        ("False", "QuotaExceeded", 0),
        ("False", "QuotaMisconfigured", 0),
        ("False", "QuotaBackendUnavailable", 0),
        ("Unknown", "PendingEvaluation", 0),
        ("True", "QuotaAvailable", 1),
    ] {
        let (planes, project, controller) = start_sized().await;
        set_left(&project, 0);
        planes
            .cell
            .modify::<Instance>(HUB_NAMESPACE, "web-1", |instance| {
                let mut denied = objects::condition("QuotaGranted", status);
                denied["reason"] = json!(reason);
                let conditions = instance["status"]["conditions"].as_array_mut();
                conditions.unwrap().push(denied);
            });
        change(&planes, |it| {
            it["spec"]["template"]["metadata"] = json!({"annotations": {"restarted": "now"}});
        });
        let (writes, _, _) = replicas_ready(&planes, &controller).await;
        let is_deletion = |it: &&String| *it == "delete instances ns-1/web-1";
        assert_eq!(
            writes.iter().filter(is_deletion).count(),
            deleted,
            "{writes:?}"
        );
    }
}

/// Fewer Instances free the quota that an unready one waits for.
#[tokio::test(start_paused = true)]
async fn an_unready_instance_that_stays_blocks_no_surplus_one() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 0);
    make_unready(&planes, "web-0", &json!([]));
    change(&planes, |it| it["spec"]["template"] = template("2"));
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert!(
        !writes.iter().any(|it| it.starts_with("delete")),
        "{writes:?}"
    );
    assert_eq!(shown.reason, "QuotaExceeded");
    change(&planes, |it| {
        it["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    });
    let (writes, _, _) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-1");
}

/// The answer about an Instance whose gate was closed does not hold after the gate is open.
#[tokio::test(start_paused = true)]
async fn an_instance_that_runs_meanwhile_is_asked_about_again() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 0);
    make_unready(&planes, "web-1", &json!([{"name": "Quota"}]));
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-1", |it| {
            it["metadata"]["generation"] = json!(1);
        });
    change(&planes, |it| it["spec"]["template"] = template("2"));
    settle().await;
    // The cache does not have this yet.
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-1", |it| {
            it["spec"]["controller"]["schedulingGates"] = json!([]);
            it["metadata"]["generation"] = json!(2);
        });
    let context = crate::fixtures::servers::context();
    let reconciled = controller.reconcile(&context, object_key("web")).await;
    assert!(reconciled.is_ok(), "{reconciled:?}");
    let writes = take_writes(&planes.servers());
    assert!(
        !writes.iter().any(|it| it.starts_with("delete")),
        "{writes:?}"
    );
}

/// Without an answer about the quota, a replacement waits, and the condition says what to correct.
#[tokio::test(start_paused = true)]
async fn a_replacement_waits_for_a_usable_answer() {
    let (planes, project, controller) = start_sized().await;
    change(&planes, |it| it["spec"]["template"] = template("2"));
    project.fail(Fault::answer(404, "404 page not found\n"));
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert_eq!(shown.reason, "QuotaMisconfigured");
    let (planes, _project, controller) = start_sized().await;
    change(&planes, |it| it["spec"]["template"] = template("2"));
    planes
        .cell
        .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
            namespace["metadata"]["labels"] = json!({});
        });
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes, ["apply workloaddeployments/status ns-1/web"]);
    assert!(
        shown.message.contains("does not identify its project"),
        "{shown:?}"
    );
}

/// A bucket that cannot be decoded hides no other one.
#[tokio::test(start_paused = true)]
async fn an_undecodable_bucket_hides_no_other_one() {
    let (planes, project, controller) = start_sized().await;
    set_left(&project, 1000);
    project.put(json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "AllowanceBucket",
        "metadata": {"name": "broken", "namespace": "milo-system", "uid": "c"}, "spec": 7,
    }));
    change(&planes, |it| it["spec"]["template"] = template("4"));
    let (writes, _, shown) = replicas_ready(&planes, &controller).await;
    assert!(
        !writes.iter().any(|it| it.starts_with("delete")),
        "{writes:?}"
    );
    assert_eq!(shown.reason, "QuotaMisconfigured");
    assert!(
        shown.message.contains("AllowanceBucket broken"),
        "{shown:?}"
    );
    change(&planes, |it| it["spec"]["template"] = template("2"));
    let (writes, _, _) = replicas_ready(&planes, &controller).await;
    assert_eq!(writes[0], "delete instances ns-1/web-1");
}

/// The quota of the former Instance is enough, or the cell may not see how much the project has left.
#[tokio::test(start_paused = true)]
async fn other_replacements_do_not_wait() {
    for (cpu, code) in [("1", None), ("500m", None), ("2", Some(403))] {
        let (planes, project, controller) = start_sized().await;
        match code {
            Some(code) => project.fail(Fault::refuse(code)),
            None => set_left(&project, 0),
        }
        change(&planes, |it| {
            it["spec"]["template"] = template(cpu);
            it["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
                json!("app:2");
        });
        let (writes, _, _) = replicas_ready(&planes, &controller).await;
        assert_eq!(writes[0], "delete instances ns-1/web-1", "{cpu}");
    }
}
