//! Tests of referenced data in a project and on the hub, with in-memory API servers.

use std::time::Duration;

use api::condition::{self, Condition};
use api::reasons::referenced_data as reason;
use api::references::{Source, SourceKind};
use api::{annotations, finalizers, labels};
use apiserver::{ApiServer, Fault, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::companion_controller::CompanionController;
use super::*;
use crate::fixtures::of_hub;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, context, exchange_hub, hub_namespace, project_key, reconcile,
    recorded, settle, take_writes, terminating_json,
};
use crate::objects::Namespace;

const NAME: &str = "web-us-dfw";

struct Controllers {
    planes: FakePlanes,
    data: ReferencedDataController,
    companions: CompanionController,
}

/// Returns a WorkloadDeployment that the federator has recorded, with a container of these fields.
fn deployment(name: &str, fields: &Value) -> Value {
    let mut deployment = recorded(name);
    let container =
        &mut deployment["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
    let container = container.as_object_mut().unwrap();
    container.extend(fields.as_object().unwrap().clone());
    deployment
}

/// Returns the fields of a container with the key `url` of the ConfigMap `settings` and the Secret `token`.
fn variables() -> Value {
    json!({
        "env": [{"name": "URL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "url"}}}],
        "envFrom": [{"secretRef": {"name": "token"}}],
    })
}

fn config_map(data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "settings", "labels": {labels::UPSTREAM_NAMESPACE: "x"}},
        "data": data,
    })
}

fn secret(value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": "default", "name": "token"},
        "data": {"token": value},
    })
}

fn sources() -> Vec<Value> {
    vec![config_map(&json!({"url": "u"})), secret("dG9rZW4=")]
}

impl Controllers {
    async fn start(in_project: Vec<Value>, on_hub: Vec<Value>) -> Self {
        Self::on(FakePlanes::start(in_project, on_hub).await)
    }

    /// Returns the controllers of another process. The caches are those of the former process.
    fn restarted(self) -> Self {
        Self::on(self.planes)
    }

    fn on(planes: FakePlanes) -> Self {
        let companions = Arc::new(Companions::new(
            Arc::clone(&planes.hub_caches),
            planes.writer::<CompanionController>(),
        ));
        Self {
            data: ReferencedDataController {
                projects: Arc::clone(&planes.projects),
                companions: Arc::clone(&companions),
                writer: planes.writer::<ReferencedDataController>(),
                publisher: planes.publisher.clone(),
                on_release: Box::new(|_| {}),
            },
            companions: CompanionController {
                projects: Arc::clone(&planes.projects),
                companions,
                on_change: Box::new(|_| {}),
                on_released: Box::new(|_| {}),
            },
            planes,
        }
    }

    /// Reconciles these WorkloadDeployments and the two sources until nothing is written. Returns all writes.
    async fn converge(&self, names: &[&str]) -> Vec<String> {
        let servers = self.planes.servers();
        let mut all = Vec::new();
        let mut idle = 0;
        for _ in 0..20 {
            self.pass(names).await;
            let writes = take_writes(&servers);
            // The first reconciliation has the sources listed.
            idle = if writes.is_empty() { idle + 1 } else { 0 };
            all.extend(writes);
            if idle == 2 {
                return all;
            }
        }
        panic!("it does not settle: {all:?}");
    }

    /// Reconciles these WorkloadDeployments and the two sources some times. Refused writes are repeated.
    async fn reconcile_some(&self, names: &[&str]) {
        for _ in 0..6 {
            self.pass(names).await;
        }
    }

    async fn pass(&self, names: &[&str]) {
        for name in names {
            let _ = reconcile(&self.data, project_key(name)).await;
        }
        for source in both() {
            let key = SourceKey::new(&project_key(NAME), &source);
            let _ = reconcile(&self.companions, key).await;
        }
        settle().await;
    }

    /// Reconciles both sources. The hub must be taken for another one, and get neither of them.
    async fn expect_no_data_on_another_hub(&self) {
        for source in both() {
            let key = SourceKey::new(&project_key(NAME), &source);
            let held = reconcile(&self.companions, key).await;
            let is_held = matches!(held, Some(Err(ReconcileError::Contradiction { .. })));
            assert!(is_held, "{held:?}");
        }
        assert!(self.secret().is_none() && self.config_map().is_none());
    }

    fn deployment(&self, name: &str) -> WorkloadDeployment {
        self.planes.project.get("default", name).unwrap()
    }

    fn condition(&self) -> Condition {
        let status = self.deployment(NAME).status.unwrap();
        condition::find(&status.conditions, REFERENCED_DATA_READY)
            .unwrap()
            .clone()
    }

    fn annotation(&self, key: &str) -> Option<String> {
        self.deployment(NAME).annotations().get(key).cloned()
    }

    fn config_map(&self) -> Option<ConfigMap> {
        self.planes.hub.get(HUB_NAMESPACE, "settings")
    }

    fn secret(&self) -> Option<Secret> {
        self.planes.hub.get(HUB_NAMESPACE, "token")
    }

    fn project(&self) -> &ApiServer {
        &self.planes.project
    }
}

fn both() -> [Source; 2] {
    [
        Source::new(SourceKind::ConfigMap, "settings"),
        Source::new(SourceKind::Secret, "token"),
    ]
}

/// Starts with one WorkloadDeployment and both sources, when all has been copied.
async fn copied() -> Controllers {
    let mut in_project = sources();
    in_project.push(deployment(NAME, &variables()));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME]).await;
    // The event is published later.
    sleep(Duration::from_mins(1)).await;
    take_writes(&controllers.planes.servers());
    controllers
}

#[tokio::test(start_paused = true)]
async fn the_sources_of_a_template_are_listed_and_copied() {
    let controllers = copied().await;
    let deployment = controllers.deployment(NAME);
    assert!(
        deployment
            .finalizers()
            .contains(&finalizers::REFERENCED_DATA.to_owned())
    );
    let listed = controllers.annotation(annotations::EXPECTED_REFERENCED_DATA);
    assert_eq!(
        listed.as_deref(),
        Some(r#"["ConfigMap/settings","Secret/token"]"#)
    );
    let condition = controllers.condition();
    assert_eq!(
        (condition.is_true(), condition.reason.as_str()),
        (true, reason::READY)
    );

    let config_map = controllers.config_map().unwrap();
    assert_eq!(config_map.data.as_ref().unwrap()["url"], "u");
    let secret = controllers.secret().unwrap();
    assert_eq!(secret.data.as_ref().unwrap()["token"].0, b"token");
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    for metadata in [&config_map.metadata, &secret.metadata] {
        let own = metadata.labels.as_ref().unwrap().keys();
        // A label of the source could have a neighbour's policy select the companion.
        assert!(own.eq([labels::REFERENCED_DATA]));
        let referenced_by = &metadata.annotations.as_ref().unwrap()[annotations::REFERENCED_BY];
        assert_eq!(referenced_by, &format!(r#"["default/{NAME}"]"#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_without_sources_has_nothing_written_or_watched() {
    let mut in_project = sources();
    in_project.push(recorded(NAME));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    let watches = controllers.project().watches();
    assert_eq!(controllers.converge(&[NAME]).await, [""; 0]);
    assert_eq!(controllers.project().watches(), watches);
}

#[tokio::test(start_paused = true)]
async fn a_changed_source_costs_one_write() {
    let controllers = copied().await;
    controllers
        .project()
        .put(config_map(&json!({"url": "v", "more": "m"})));
    settle().await;
    let writes = controllers.converge(&[NAME]).await;
    assert_eq!(writes.len(), 1, "{writes:?}");
    let data = controllers.config_map().unwrap().data.unwrap();
    assert_eq!((data["url"].as_str(), data["more"].as_str()), ("v", "m"));
    // A key that is removed is removed from the companion.
    controllers.project().put(config_map(&json!({"url": "v"})));
    settle().await;
    controllers.converge(&[NAME]).await;
    assert_eq!(controllers.config_map().unwrap().data.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_source_is_said_and_the_companion_stays() {
    let controllers = copied().await;
    let large = "l".repeat(262_145);
    let long = json!({"url": large});
    for (change, reason) in [
        (None, reason::NOT_FOUND),
        (Some(long), reason::TOO_LARGE),
        (Some(json!({"other": "o"})), reason::KEY_NOT_FOUND),
    ] {
        match change {
            None => controllers
                .project()
                .remove::<ConfigMap>("default", "settings"),
            Some(data) => controllers.project().put(config_map(&data)),
        }
        settle().await;
        controllers.converge(&[NAME]).await;
        let condition = controllers.condition();
        assert_eq!(
            (condition.is_false(), condition.reason.as_str()),
            (true, reason)
        );
        assert!(
            condition.message.contains("ConfigMap/settings"),
            "{}",
            condition.message
        );
        let error = controllers
            .annotation(annotations::REFERENCED_DATA_ERROR)
            .unwrap();
        assert!(error.contains(reason), "{error}");
        assert!(controllers.config_map().is_some());
        let listed = controllers.annotation(annotations::EXPECTED_REFERENCED_DATA);
        assert!(listed.unwrap().contains("ConfigMap/settings"));

        controllers
            .project()
            .put(config_map(&json!({"url": "again"})));
        settle().await;
        controllers.converge(&[NAME]).await;
        assert!(controllers.condition().is_true());
        assert_eq!(
            controllers.annotation(annotations::REFERENCED_DATA_ERROR),
            None
        );
        assert_eq!(
            controllers.config_map().unwrap().data.unwrap()["url"],
            "again"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_may_not_be_read_is_said() {
    let mut in_project = sources();
    in_project.push(deployment(NAME, &variables()));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    let refuse = Fault::refuse(403).of::<Secret>();
    controllers
        .project()
        .fail(refuse.on(&[Verb::Get, Verb::List, Verb::Watch]));
    controllers.converge(&[NAME]).await;
    assert_eq!(controllers.condition().reason, reason::UNAUTHORIZED);
    assert!(controllers.secret().is_none());
    // Nothing tells that the right has been granted.
    let again = controllers
        .data
        .reconcile(&context(), project_key(NAME))
        .await;
    assert!(matches!(again, Ok(Outcome::Again(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_optional_source_that_grew_too_large_stays_as_it_was() {
    let optional = json!({"envFrom": [{"configMapRef": {"name": "settings", "optional": true}}]});
    let mut in_project = sources();
    let mut deployment = deployment(NAME, &optional);
    deployment["status"] = json!({
        "observedGeneration": deployment["metadata"]["generation"], "replicas": 1,
        "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
    });
    in_project.push(deployment);
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME]).await;
    assert!(controllers.config_map().is_some());
    let large = "l".repeat(262_145);
    controllers
        .project()
        .put(config_map(&json!({"url": large})));
    settle().await;
    controllers.converge(&[NAME]).await;
    assert_eq!(controllers.config_map().unwrap().data.unwrap()["url"], "u");
    controllers
        .project()
        .remove::<ConfigMap>("default", "settings");
    settle().await;
    controllers.converge(&[NAME]).await;
    assert!(controllers.config_map().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_companion_that_the_hub_refuses_to_delete_holds_the_deployment() {
    let controllers = copied().await;
    let hub = &controllers.planes.hub;
    hub.fail(Fault::refuse(403).of::<Secret>().on(&[Verb::Delete]));
    let mut ending = terminating_json(json!(controllers.deployment(NAME)));
    ending["metadata"]["finalizers"] = json!([finalizers::REFERENCED_DATA]);
    controllers.project().put(ending);
    settle().await;
    let begun = reconcile(&controllers.data, project_key(NAME)).await;
    assert!(matches!(begun, Some(Ok(()))));
    for source in both() {
        let key = SourceKey::new(&project_key(NAME), &source);
        let _ = reconcile(&controllers.companions, key).await;
    }
    let refused = reconcile(&controllers.data, project_key(NAME)).await;
    assert!(matches!(refused, Some(Err(ReconcileError::NotYet { .. }))));
    let held: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(held.is_some() && controllers.secret().is_some());
    hub.heal();
    controllers.converge(&[NAME]).await;
    let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(gone.is_none() && controllers.secret().is_none());
}

/// The hub in use has an old hub namespace of the project.
#[tokio::test(start_paused = true)]
async fn no_data_goes_to_a_hub_that_the_project_does_not_record() {
    let listing = json!(copied().await.deployment(NAME));
    let mut in_project = sources();
    in_project.push(of_hub(listing, Some("another")));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.reconcile_some(&[]).await;
    controllers.expect_no_data_on_another_hub().await;
}

/// The caches are those of the former hub, and the new one has an old hub namespace of the project.
#[tokio::test(start_paused = true)]
async fn no_data_goes_to_a_hub_that_was_exchanged_behind_its_address() {
    let controllers = copied().await;
    let hub = &controllers.planes.hub;
    hub.remove::<ConfigMap>(HUB_NAMESPACE, "settings");
    hub.remove::<Secret>(HUB_NAMESPACE, "token");
    exchange_hub(hub);
    controllers.expect_no_data_on_another_hub().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_never_listed_a_source_does_not_keep_its_companion() {
    let other = "api-us-dfw";
    let mut in_project = sources();
    in_project.push(deployment(NAME, &variables()));
    let mut lacking = variables();
    let missing = json!({"configMapRef": {"name": "missing"}});
    lacking["envFrom"].as_array_mut().unwrap().push(missing);
    in_project.push(deployment(other, &lacking));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME, other]).await;
    let mut ending = terminating_json(json!(controllers.deployment(NAME)));
    ending["metadata"]["finalizers"] = json!([finalizers::REFERENCED_DATA]);
    controllers.project().put(ending);
    settle().await;
    controllers.converge(&[NAME, other]).await;
    assert!(controllers.secret().is_none() && controllers.config_map().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_companion_ends_with_the_last_deployment_that_lists_it() {
    let other = "api-us-dfw";
    let mut in_project = sources();
    in_project.extend([NAME, other].map(|name| deployment(name, &variables())));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME, other]).await;
    let referenced_by =
        || controllers.secret().unwrap().annotations()[annotations::REFERENCED_BY].clone();
    assert_eq!(
        referenced_by(),
        format!(r#"["default/{other}","default/{NAME}"]"#)
    );

    let end = async |name: &str| {
        let ending = terminating_json(json!(controllers.deployment(name)));
        controllers.project().put(ending);
        settle().await;
        controllers.converge(&[NAME, other]).await;
        // The hub may still have the copy, and its cells need the data.
        let deployment = controllers.deployment(name);
        assert!(
            deployment
                .finalizers()
                .contains(&finalizers::REFERENCED_DATA.to_owned())
        );
        controllers
            .project()
            .modify::<WorkloadDeployment>("default", name, |it| {
                it["metadata"]["finalizers"] = json!([finalizers::REFERENCED_DATA]);
            });
        settle().await;
        controllers.converge(&[NAME, other]).await;
        let gone: Option<WorkloadDeployment> = controllers.project().get("default", name);
        assert!(gone.is_none(), "{gone:?}");
    };
    end(other).await;
    assert_eq!(referenced_by(), format!(r#"["default/{NAME}"]"#));
    end(NAME).await;
    assert!(controllers.secret().is_none() && controllers.config_map().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_the_template_no_longer_uses_is_released_after_the_rollout() {
    let controllers = copied().await;
    let without = |deployment: &mut Value| {
        deployment["spec"] = recorded(NAME)["spec"].clone();
        deployment["metadata"]["generation"] = json!(6);
    };
    let project = controllers.project();
    project.modify::<WorkloadDeployment>("default", NAME, without);
    settle().await;
    controllers.converge(&[NAME]).await;
    assert!(controllers.secret().is_some());
    let generation = controllers.deployment(NAME).metadata.generation;
    project.modify::<WorkloadDeployment>("default", NAME, |it| {
        let status = &mut it["status"];
        status["observedGeneration"] = json!(generation);
        status["replicas"] = json!(1);
        status["updatedReplicas"] = json!(1);
    });
    settle().await;
    controllers.converge(&[NAME]).await;
    assert!(controllers.secret().is_none() && controllers.config_map().is_none());
    let deployment = controllers.deployment(NAME);
    assert!(
        !deployment
            .finalizers()
            .contains(&finalizers::REFERENCED_DATA.to_owned())
    );
    assert_eq!(
        controllers.annotation(annotations::EXPECTED_REFERENCED_DATA),
        None
    );
    let conditions = deployment.status.unwrap().conditions;
    assert_eq!(condition::find(&conditions, REFERENCED_DATA_READY), None);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_hub_that_is_no_companion_is_not_overwritten() {
    let mut foreign = config_map(&json!({"url": "foreign"}));
    foreign["metadata"] = json!({"namespace": HUB_NAMESPACE, "name": "settings"});
    let mut in_project = sources();
    in_project.push(deployment(NAME, &variables()));
    let on_hub = vec![hub_namespace(), foreign];
    let controllers = Controllers::start(in_project, on_hub).await;
    controllers.converge(&[NAME]).await;
    assert_eq!(
        controllers.config_map().unwrap().data.unwrap()["url"],
        "foreign"
    );
    assert_eq!(controllers.condition().reason, reason::NOT_COPIED);
    assert!(controllers.secret().is_some());
}

#[tokio::test(start_paused = true)]
async fn another_type_of_a_secret_makes_the_companion_anew() {
    let controllers = copied().await;
    let mut other = secret("dG9rZW4=");
    other["type"] = json!("example.com/other");
    controllers.project().put(other);
    // A real API server refuses the change of the type.
    let refuse = Fault::refuse(422).of::<Secret>().on(&[Verb::Apply]);
    controllers.planes.hub.fail(refuse);
    settle().await;
    controllers.converge(&[NAME]).await;
    let secret = controllers.secret().unwrap();
    assert_eq!(secret.type_.as_deref(), Some("example.com/other"));
}

/// I-33: the cache of the project can be behind.
#[tokio::test(start_paused = true)]
async fn a_companion_stays_while_the_project_lists_it_although_the_cache_does_not() {
    let controllers = copied().await;
    let listed = controllers.deployment(NAME);
    // The events of the project are lost.
    controllers
        .project()
        .remove::<WorkloadDeployment>("default", NAME);
    settle().await;
    controllers
        .project()
        .fail(Fault::hang().of::<WorkloadDeployment>().on(&[Verb::Watch]));
    controllers.project().end_watches();
    controllers.project().put(json!(listed));
    let key = SourceKey::new(&project_key(NAME), &both()[1]);
    let _ = reconcile(&controllers.companions, key).await;
    assert!(controllers.secret().is_some());
}

/// I-12: the kubeconfig of the project leads to another API server, and the Instances of the former one run on.
#[tokio::test(start_paused = true)]
async fn another_api_server_deletes_no_companion_of_the_former_one() {
    let former = copied().await;
    let companions = || [json!(former.secret()), json!(former.config_map())];
    for has_same_namespace in [false, true] {
        let mut on_hub = hub_namespace();
        on_hub["metadata"]["annotations"] = json!({annotations::UPSTREAM_CLUSTER_UID: "1"});
        let mut in_project = sources();
        // The WorkloadDeployment has the same name, and is new there.
        in_project.push(json!(crate::fixtures::deployment(
            "default", NAME, "DFW", 1
        )));
        let uid = if has_same_namespace { "1" } else { "2" };
        in_project.push(apiserver::objects::namespace("default", uid));
        let on_hub = [vec![on_hub], companions().to_vec()].concat();
        let controllers = Controllers::start(in_project, on_hub).await;
        for source in both() {
            let key = SourceKey::new(&project_key(NAME), &source);
            reconcile(&controllers.companions, key)
                .await
                .unwrap()
                .unwrap();
        }
        let stays = !has_same_namespace;
        assert_eq!(controllers.secret().is_some(), stays);
        assert_eq!(controllers.config_map().is_some(), stays);
        let writes = take_writes(&controllers.planes.servers());
        assert_eq!(writes.is_empty(), stays, "{writes:?}");
    }
}

/// Ends a WorkloadDeployment whose copy on the hub is gone.
fn end(controllers: &Controllers, name: &str) {
    let mut ending = terminating_json(json!(controllers.deployment(name)));
    ending["metadata"]["finalizers"] = json!([finalizers::REFERENCED_DATA]);
    controllers.project().put(ending);
}

/// I-33: a companion that names a WorkloadDeployment that is gone would stay for ever.
#[tokio::test(start_paused = true)]
async fn a_deployment_does_not_end_before_the_hub_has_been_read() {
    let controllers = copied().await;
    end(&controllers, NAME);
    settle().await;
    // No companion has been reconciled.
    for _ in 0..3 {
        let _ = reconcile(&controllers.data, project_key(NAME)).await;
    }
    let held: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(held.is_some() && take_writes(&controllers.planes.servers()).is_empty());
    // The companions of one of two sources.
    let key = SourceKey::new(&project_key(NAME), &both()[0]);
    let _ = reconcile(&controllers.companions, key).await;
    let _ = reconcile(&controllers.data, project_key(NAME)).await;
    let held: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(held.is_some() && controllers.config_map().is_none());
    controllers.converge(&[NAME]).await;
    let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(gone.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_companion_in_a_namespace_that_the_cache_lacks_holds_the_deployment() {
    let controllers = copied().await;
    // The labels of the hub namespace are lost, so it is not found for the project.
    let hub = &controllers.planes.hub;
    hub.modify::<Namespace>("", HUB_NAMESPACE, |it| {
        it["metadata"]["labels"] = json!({});
    });
    end(&controllers, NAME);
    settle().await;
    controllers.converge(&[NAME]).await;
    let held: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(held.is_some() && controllers.secret().is_some());
    hub.put(hub_namespace());
    settle().await;
    controllers.converge(&[NAME]).await;
    let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(gone.is_none() && controllers.secret().is_none());
}

/// A WorkloadDeployment that ends and one whose companion cannot be written because of a foreign object.
#[tokio::test(start_paused = true)]
async fn a_foreign_object_on_the_hub_does_not_hold_a_deployment_that_ends() {
    let mut foreign = config_map(&json!({"url": "foreign"}));
    foreign["metadata"] = json!({"namespace": HUB_NAMESPACE, "name": "settings"});
    let other = "api-us-dfw";
    let mut in_project = sources();
    in_project.extend([NAME, other].map(|name| deployment(name, &variables())));
    let on_hub = vec![hub_namespace(), foreign];
    let controllers = Controllers::start(in_project, on_hub).await;
    controllers.converge(&[NAME, other]).await;
    end(&controllers, NAME);
    settle().await;
    controllers.converge(&[NAME, other]).await;
    let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(gone.is_none());
    assert!(controllers.config_map().is_some() && controllers.secret().is_some());
}

/// The hub refuses the Secret of two WorkloadDeployments, or cannot call a webhook for it, and one of them ends. The
/// companion may be there already.
#[tokio::test(start_paused = true)]
async fn a_refused_companion_does_not_hold_a_deployment_that_ends() {
    let other = "api-us-dfw";
    let refuse = || Fault::refuse(422);
    for (has_companion, fault) in [
        (false, refuse()),
        (true, refuse()),
        (false, Fault::webhook_down()),
        (true, Fault::webhook_down()),
    ] {
        let mut in_project = sources();
        in_project.extend([NAME, other].map(|name| deployment(name, &variables())));
        let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
        let refuse = fault.of::<Secret>().on(&[Verb::Create, Verb::Apply]);
        if has_companion {
            controllers.converge(&[NAME, other]).await;
            controllers.planes.hub.fail(refuse);
            controllers.project().put(secret("bmV3"));
            settle().await;
        } else {
            controllers.planes.hub.fail(refuse);
        }
        controllers.reconcile_some(&[NAME, other]).await;
        assert_eq!(controllers.secret().is_some(), has_companion);
        assert_eq!(controllers.condition().reason, "SourceNotCopied");
        end(&controllers, NAME);
        settle().await;
        controllers.reconcile_some(&[NAME, other]).await;
        let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
        assert!(gone.is_none(), "{has_companion}");
        if let Some(secret) = controllers.secret() {
            let named = format!(r#"["default/{other}"]"#);
            assert_eq!(secret.annotations()[annotations::REFERENCED_BY], named);
        }
    }
}

/// API servers store `managedFields` that cannot be decoded. They cost nobody anything.
#[tokio::test(start_paused = true)]
async fn odd_managed_fields_hold_no_deployment_that_ends() {
    let other = "api-us-dfw";
    let odd = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
    let mut in_project = sources();
    in_project.extend([NAME, other].map(|name| deployment(name, &variables())));
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME, other]).await;
    let mut changed = secret("bmV3");
    changed["metadata"]["managedFields"] = odd.clone();
    controllers.project().put(changed);
    // A WorkloadDeployment that uses nothing.
    let mut third = deployment("idle-us-dfw", &json!({}));
    third["metadata"]["managedFields"] = odd;
    controllers.project().put(third);
    settle().await;
    for (name, named) in [
        (NAME, Some(format!(r#"["default/{other}"]"#))),
        (other, None),
    ] {
        end(&controllers, name);
        settle().await;
        controllers.reconcile_some(&[NAME, other]).await;
        let gone: Option<WorkloadDeployment> = controllers.project().get("default", name);
        assert!(gone.is_none(), "{name}");
        let secret = controllers.secret();
        let found = secret.map(|it| it.annotations()[annotations::REFERENCED_BY].clone());
        assert_eq!(found, named);
    }
}

/// A change of the labels of a source is a version of its own, but no change of its content.
#[tokio::test(start_paused = true)]
async fn only_another_content_changes_the_versions_of_a_template_that_rolls() {
    let mut in_project = sources();
    let mut rolling = deployment(NAME, &variables());
    rolling["spec"]["template"]["metadata"]["annotations"] =
        json!({annotations::ROLL_ON_DATA_CHANGE: "true"});
    in_project.push(rolling);
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME]).await;
    let versions = || {
        controllers.deployment(NAME).annotations()[annotations::REFERENCED_DATA_VERSIONS].clone()
    };
    let first = versions();
    let mut labelled = secret("dG9rZW4=");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    controllers.project().put(labelled);
    settle().await;
    controllers.converge(&[NAME]).await;
    assert_eq!(versions(), first);
    let source_version =
        |secret: &Secret| secret.annotations()[annotations::SOURCE_VERSION].clone();
    assert!(!first.contains(&source_version(&controllers.secret().unwrap())));

    // The hub does not take the new content yet.
    let refuse = Fault::refuse(422).of::<Secret>();
    controllers
        .planes
        .hub
        .fail(refuse.on(&[Verb::Create, Verb::Apply]));
    controllers.project().put(secret("bmV3"));
    settle().await;
    controllers.reconcile_some(&[NAME]).await;
    assert_eq!(versions(), first);
    controllers.planes.hub.heal();
    sleep(Duration::from_mins(2)).await;
    controllers.converge(&[NAME]).await;
    assert!(versions().contains(&source_version(&controllers.secret().unwrap())));
}

/// A WorkloadDeployment in error has no list. It may list what its template uses, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_deployment_without_a_list_does_not_keep_the_sources_of_others() {
    let mut in_project = sources();
    in_project.push(deployment(NAME, &variables()));
    let missing = json!({"envFrom": [{"secretRef": {"name": "missing"}}]});
    let mut in_error = deployment("api-us-dfw", &missing);
    in_error["metadata"]["finalizers"] =
        json!([finalizers::FEDERATOR, finalizers::REFERENCED_DATA]);
    in_project.push(in_error);
    let controllers = Controllers::start(in_project, vec![hub_namespace()]).await;
    controllers.converge(&[NAME, "api-us-dfw"]).await;
    end(&controllers, NAME);
    settle().await;
    controllers.converge(&[NAME, "api-us-dfw"]).await;
    let gone: Option<WorkloadDeployment> = controllers.project().get("default", NAME);
    assert!(gone.is_none() && controllers.secret().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_companions_are_released_loses_nothing() {
    let controllers = copied().await;
    end(&controllers, NAME);
    settle().await;
    let _ = reconcile(&controllers.data, project_key(NAME)).await;
    let key = SourceKey::new(&project_key(NAME), &both()[0]);
    let _ = reconcile(&controllers.companions, key).await;
    // The new process knows of no releases.
    let restarted = controllers.restarted();
    for source in both() {
        let key = SourceKey::new(&project_key(NAME), &source);
        let _ = reconcile(&restarted.companions, key).await;
    }
    // The companion that was deleted is not made again.
    assert!(restarted.config_map().is_none());
    restarted.converge(&[NAME]).await;
    let gone: Option<WorkloadDeployment> = restarted.project().get("default", NAME);
    assert!(gone.is_none() && restarted.secret().is_none());
}
