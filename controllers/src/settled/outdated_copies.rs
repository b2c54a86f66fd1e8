//! Tests of a cell whose hub does not answer for a long time.

use api::annotations::OUTDATED_COPIES;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};

use super::*;

/// Number of Instances. Each of them waits to ask the hub.
const INSTANCES: i32 = 12;
/// Time in which a deleted Instance must be replaced, although the hub does not answer.
const REPLACED: Duration = Duration::from_secs(45);

/// The resync makes every Instance wait for the hub. A deleted Instance must not wait behind them.
#[tokio::test(start_paused = true)]
async fn instances_are_replaced_during_a_long_outage_of_the_hub() {
    clock();
    let system = System::start();
    let mut workload = workload();
    workload["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(INSTANCES);
    system.project.put(object(workload));
    system.propagate().await;
    system.scale(0, INSTANCES).await;
    system.hub.fail(Fault::disconnect());
    sleep(Duration::from_mins(30)).await;

    let instances: Api<Instance> = Api::namespaced(system.cell.client(), HUB_NAMESPACE);
    let names = [3, 5, 8].map(|ordinal| format!("{WEB}-{ordinal}"));
    let uid = |it: &System, name: &str| {
        let instance = it.cell.get::<Instance>(HUB_NAMESPACE, name);
        instance.and_then(|it| it.uid())
    };
    let former = names.each_ref().map(|name| uid(&system, name));
    let begin = Instant::now();
    for name in &names {
        instances
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    // The rollout creates one Instance after the other, when the one before is ready.
    for (ordinal, (name, former)) in [3, 5, 8].into_iter().zip(names.iter().zip(&former)) {
        let is_next = |it: &System| uid(it, name).is_some_and(|uid| Some(uid) != *former);
        system.until("there is the next Instance", is_next).await;
        system.provide(ordinal).await;
    }
    assert!(begin.elapsed() < REPLACED, "{:?}", begin.elapsed());
    let record = |it: &System| {
        let deployment = it.cell.get::<WorkloadDeployment>(HUB_NAMESPACE, WEB)?;
        deployment.annotations().get(OUTDATED_COPIES).cloned()
    };
    assert_eq!(record(&system), Some(json!(names).to_string()));

    // An Instance that is wanted again is replaced too.
    let wanted = |replicas: i32| {
        system
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, WEB, |it| {
                it["spec"]["scaleSettings"]["minReplicas"] = json!(replicas);
            });
    };
    let (last, former) = (format!("{WEB}-11"), uid(&system, &format!("{WEB}-11")));
    wanted(INSTANCES - 1);
    sleep(REPLACED).await;
    assert_eq!(uid(&system, &last), former, "nothing replaces it");
    wanted(INSTANCES);
    let begin = Instant::now();
    let is_next = |it: &System| uid(it, &last).is_some_and(|uid| Some(uid) != former);
    system.until("there is the last Instance", is_next).await;
    assert!(begin.elapsed() < REPLACED, "{:?}", begin.elapsed());

    // No Instance follows the last one.
    let refused = Fault::refuse(422).on(&[Verb::Create]);
    system.cell.fail(refused.of::<Instance>());
    instances
        .delete(&names[2], &DeleteParams::default())
        .await
        .unwrap();
    let is_gone = |it: &System| uid(it, &names[2]).is_none();
    system.until("the last one is gone", is_gone).await;
    wanted(8);
    system.cell.heal();
    system.hub.heal();
    let is_empty = |it: &System| record(it).is_none();
    system.until("the hub is up to date", is_empty).await;
    let copies = |ordinal: i32| {
        let name = format!("{WEB}-{ordinal}");
        system.hub.get::<Instance>(HUB_NAMESPACE, &name)
    };
    assert!(copies(3).is_some() && copies(5).is_some() && copies(8).is_none());
}
