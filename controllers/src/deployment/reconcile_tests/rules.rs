//! Tests of the rules of the cell, with a deployment of one Instance.

use api::annotations::CELL_RULES;
use api::condition::{self, Condition};
use api::workload_deployment::RULES_APPLIED;

use super::*;

const STATUS: &str = "apply workloaddeployments/status ns-1/web";

async fn set_rules(planes: &CellPlanes, rules: &str) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            deployment["metadata"]["annotations"][CELL_RULES] = json!(rules);
        });
    settle().await;
}

/// Brings the deployment to its end, with an Instance that runs. Returns the writes.
async fn roll_out(planes: &CellPlanes, controller: &DeploymentController) -> Vec<String> {
    let mut writes = converge(controller, || object_key("web"), &planes.servers()).await;
    let instance: Instance = planes.cell.get(HUB_NAMESPACE, "web-0").unwrap();
    if instance.metadata.deletion_timestamp.is_some() {
        // The write-back and the provider would remove their finalizers.
        planes.cell.remove::<Instance>(HUB_NAMESPACE, "web-0");
        settle().await;
        writes.extend(converge(controller, || object_key("web"), &planes.servers()).await);
    }
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["status"] = running();
        });
    settle().await;
    writes.extend(converge(controller, || object_key("web"), &planes.servers()).await);
    writes
}

fn image(planes: &CellPlanes) -> String {
    let instance: Instance = planes.cell.get(HUB_NAMESPACE, "web-0").unwrap();
    let containers = instance.spec.runtime.sandbox.unwrap().containers;
    containers[0].image.clone()
}

fn rules_applied(planes: &CellPlanes) -> Option<Condition> {
    let status = deployment(planes).unwrap().status.unwrap();
    condition::find(&status.conditions, RULES_APPLIED).cloned()
}

#[tokio::test(start_paused = true)]
async fn instances_are_made_with_the_rules() {
    let (planes, controller) = start().await;
    roll_out(&planes, &controller).await;
    assert_eq!(
        (image(&planes), rules_applied(&planes)),
        ("app:1".to_owned(), None)
    );
    let template = deployment(&planes).unwrap().spec.template;

    // Rules that change nothing replace nothing.
    set_rules(
        &planes,
        r#"{"images":[{"prefix":"other","replacement":"mirror"}]}"#,
    )
    .await;
    assert_eq!(roll_out(&planes, &controller).await, [STATUS]);
    let first = rules_applied(&planes).unwrap();
    assert!(first.is_true(), "{first:?}");

    set_rules(
        &planes,
        r#"{"images":[{"prefix":"app","replacement":"mirror/app"}]}"#,
    )
    .await;
    let writes = roll_out(&planes, &controller).await;
    let replaced = ["delete instances ns-1/web-0", "create instances ns-1/web-0"];
    assert!(
        replaced.iter().all(|it| writes.contains(&(*it).to_owned())),
        "{writes:?}"
    );
    assert_eq!(image(&planes), "mirror/app:1");
    let second = rules_applied(&planes).unwrap();
    assert!(
        second.is_true() && second.message != first.message,
        "{second:?}"
    );
    assert_eq!(deployment(&planes).unwrap().spec.template, template);
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn rules_that_cannot_be_read_hold_the_rollout() {
    let (planes, controller) = start().await;
    set_rules(
        &planes,
        r#"{"images":[{"prefix":"app","replacement":"mirror/app"}]}"#,
    )
    .await;
    roll_out(&planes, &controller).await;
    set_rules(&planes, r#"{"later":[]}"#).await;
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            deployment["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
                json!("app:2");
        });
    settle().await;
    assert_eq!(roll_out(&planes, &controller).await, [STATUS]);
    assert_eq!(image(&planes), "mirror/app:1");
    let held = rules_applied(&planes).unwrap();
    assert!(
        held.is_false() && held.message.contains("unknown field `later`"),
        "{held:?}"
    );
    set_rules(&planes, "{}").await;
    roll_out(&planes, &controller).await;
    assert_eq!(image(&planes), "app:2");
}
