//! Tests of all controllers together with a cell that enforces quota. The test does the work of the quota system.

use api::quota::ResourceClaim;
use apiserver::KindId;

use super::*;

/// I-3: a cell that enforces quota writes nothing either. A grant opens the gate at once, because claims are watched.
#[tokio::test(start_paused = true)]
async fn a_cell_with_quota_opens_gates_at_once_and_then_makes_no_write_for_hours() {
    clock();
    let system = System::start_cell(true, Networking::Disabled);
    system.may_write.cancel();
    system.project.put(object(workload()));
    system.propagate().await;
    let claims = KindId::of::<ResourceClaim>();
    for ordinal in 0..2 {
        let name = format!("instance-dfw1-{WEB}-{ordinal}");
        let claim = |it: &System| it.project.get::<ResourceClaim>("default", &name);
        system
            .until("there is a claim", |it| claim(it).is_some())
            .await;
        // The condition shows that the claim is not decided.
        sleep(Duration::from_secs(400)).await;
        let status = json!({"conditions": [objects::condition("Granted", "True")]});
        system
            .project
            .modify::<ResourceClaim>("default", &name, |claim| claim["status"] = status);
        let begin = Instant::now();
        let is_open = |it: &System| {
            let instance = it
                .cell
                .get::<Instance>(HUB_NAMESPACE, &format!("{WEB}-{ordinal}"));
            let controller = instance.and_then(|it| it.spec.controller);
            controller.is_some_and(|it| it.scheduling_gates.is_empty())
        };
        system.until("the gate is open", is_open).await;
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "{:?}",
            begin.elapsed()
        );
        system.provide_again(ordinal).await;
    }
    system.report(2).await;
    system.until_available(2).await;
    sleep(Duration::from_mins(1)).await;
    system.writes();

    sleep(HOURS).await;
    assert_eq!(system.writes(), [""; 0]);

    // A claim that was deleted by hand is made again.
    let first = format!("instance-dfw1-{WEB}-0");
    system.project.remove::<ResourceClaim>("default", &first);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(system.project.count(claims), 2);
    // A claim of an Instance that this cell does not have.
    let mut stray = json!(system.project.get::<ResourceClaim>("default", &first));
    stray["metadata"]["name"] = json!("instance-gone-7");
    stray["metadata"]["uid"] = json!("stray");
    stray["metadata"]["annotations"] = json!({});
    system.project.put(stray);
    assert_eq!(system.project.count(claims), 3);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(system.project.count(claims), 2);
    // The client is dropped with the last Instance of the project.
    let watches = system.project.watches();
    for ordinal in 0..2 {
        let name = format!("{WEB}-{ordinal}");
        system.cell.modify::<Instance>(HUB_NAMESPACE, &name, |it| {
            it["metadata"]["deletionTimestamp"] = json!(clock());
        });
    }
    system.cell.remove::<WorkloadDeployment>(HUB_NAMESPACE, WEB);
    let empty = |it: &System| it.project.count(claims) == 0;
    system.until("there is no claim", empty).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(system.project.watches(), watches - 1);
}
