//! Tests of the fixtures that admission tests rely on: Milo's front, its authorizer, and their switches.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::{DEFAULT_NAMESPACE, Workload};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use harness::milo::{
    AuthorizerAnswer, MiloUser, PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE, StatusError,
};
use harness::peers::Peers;
use harness::wait::SteadyBackoff;
use harness::{Milo, MiloConfig, wait};
use http::Request;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::fixture::{WITHIN, create, target, workload};
use crate::kubectl::{kubectl, kubectl_json};

/// The projects of the shared Milo.
pub(crate) const PROJECTS: [&str; 2] = [A, B];
const A: &str = "a";
const B: &str = "b";
/// Time of a wait for an answer that must not arrive. Without the block, the answer would arrive in this time.
const SILENCE: Duration = Duration::from_secs(1);

/// Starts Milo with these projects and prints the time of the start.
pub(crate) async fn start(label: &str, projects: &[&str]) -> anyhow::Result<Milo> {
    let milo = Milo::start(&MiloConfig {
        label: label.to_owned(),
        target: target(),
        binary: env!("CARGO_BIN_EXE_compute-federation").into(),
        peers: Peers::find_or_build(|progress| eprintln!("{progress}"))?,
        projects: projects.iter().map(|&name| name.to_owned()).collect(),
    })
    .await?;
    eprintln!(
        "Milo ready after {:.1} s in {}",
        milo.ready_after().as_secs_f64(),
        milo.directory().display()
    );
    Ok(milo)
}

/// Returns a user with groups and many Extra keys.
fn ada() -> MiloUser {
    let mut user = MiloUser::new("Áda@example.com", "5f0c-ada")
        .with_extra("authentication.kubernetes.io/credential-id", &["X509=1"])
        .with_extra("example.com/teams/in.order", &["z", "a", "m", "a"])
        .with_extra("example.com/Case-And %2F", &["Kept As It Is, %41"])
        .with_extra("ключ", &["Zoë 日本"])
        .with_extra("empty", &["", "not", ""])
        .with_extra(PARENT_NAME, &["forged"]);
    user.groups = vec!["writers".to_owned(), "équipe".to_owned()];
    user
}

fn ada_extra_in(project: &str) -> Value {
    json!({
        "authentication.kubernetes.io/credential-id": ["X509=1"],
        "example.com/teams/in.order": ["z", "a", "m", "a"],
        "example.com/Case-And %2F": ["Kept As It Is, %41"],
        "ключ": ["Zoë 日本"],
        "empty": ["", "not", ""],
        PARENT_TYPE: ["Project"],
        PARENT_NAME: [project],
        PARENT_API_GROUP: ["resourcemanager.miloapis.com"],
    })
}

async fn client(milo: &Milo, project: &str) -> anyhow::Result<Client> {
    milo.client(&ada(), Some(project)).await
}

async fn config_maps(milo: &Milo, project: &str) -> anyhow::Result<Api<ConfigMap>> {
    Ok(Api::namespaced(
        client(milo, project).await?,
        DEFAULT_NAMESPACE,
    ))
}

pub(crate) async fn projects_are_isolated(milo: &Milo) -> anyhow::Result<()> {
    let in_a = milo.kubeconfig(&ada(), Some(A))?;
    let create_map = ["create", "configmap", "apart", "--from-literal=k=v"];
    let output = kubectl(&in_a, &create_map, None).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{error}");
    let created = kubectl_json(&in_a, &["get", "configmap", "apart"]).await?;
    assert_eq!(created["data"], json!({"k": "v"}));

    let in_b = milo.kubeconfig(&ada(), Some(B))?;
    let output = kubectl(&in_b, &["get", "configmap", "apart"], None).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(error.contains("NotFound"), "{error}");

    // The short form of the path leads to the same project. The project serves our kinds.
    let short = milo.kubeconfig_at(&ada(), "/projects/a/control-plane")?;
    kubectl_json(&short, &["get", "configmap", "apart"]).await?;
    kubectl_json(&short, &["get", "workloads,locationbindings"]).await?;

    // The user has no rights at the root. An administrator can read the Projects there.
    let root = milo.kubeconfig(&ada(), None)?;
    let output = kubectl(&root, &["get", "projects"], None).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(error.contains("Forbidden"), "{error}");
    let root = milo.kubeconfig(&MiloUser::administrator(), None)?;
    let project = kubectl_json(&root, &["get", "project", A]).await?;
    assert_eq!(project["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(project["status"]["conditions"][0]["status"], "True");
    Ok(())
}

pub(crate) async fn the_front_forwards_all_claims_of_a_user(milo: &Milo) -> anyhow::Result<()> {
    for project in [A, B] {
        let kubeconfig = milo.kubeconfig(&ada(), Some(project))?;
        let answer = kubectl_json(&kubeconfig, &["auth", "whoami"]).await?;
        let user = &answer["status"]["userInfo"];
        assert_eq!(user["username"], "Áda@example.com");
        assert_eq!(user["uid"], "5f0c-ada");
        let groups = json!(["writers", "équipe", "system:authenticated"]);
        assert_eq!(user["groups"], groups);
        assert_eq!(user["extra"], ada_extra_in(project));
    }
    // The front adds only the parent to the Extra of an administrator, whose rights stay the same.
    let kubeconfig = milo.kubeconfig(&MiloUser::administrator(), Some(A))?;
    let answer = kubectl_json(&kubeconfig, &["auth", "whoami"]).await?;
    assert_eq!(
        answer["status"]["userInfo"]["extra"][PARENT_NAME],
        json!([A])
    );
    kubectl_json(&kubeconfig, &["get", "clusterroles"]).await?;
    Ok(())
}

/// Returns an access review about the use of a network.
fn review(uid: &str, name: &str, extra: &Value) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": "ada@example.com",
            "uid": uid,
            "groups": ["writers", "a-team"],
            "extra": extra,
            "resourceAttributes": {
                "verb": "use",
                "group": "networking.datumapis.com",
                "version": "v1alpha",
                "resource": "networks",
                "namespace": DEFAULT_NAMESPACE,
                "name": name,
            },
        },
    })
}

/// Sends a review to an API server and returns its `status`.
async fn ask(client: &Client, review: &Value) -> anyhow::Result<Value> {
    let request = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
        .header("Content-Type", "application/json")
        .body(review.to_string().into_bytes())?;
    let answer: SubjectAccessReview = client.request(request).await?;
    Ok(serde_json::to_value(answer.status)?)
}

pub(crate) async fn the_authorizer_decides_by_the_review(milo: &Milo) -> anyhow::Result<()> {
    let direct = milo.project(A)?.client();
    let through = milo.client(&MiloUser::administrator(), Some(A)).await?;
    let extra = json!({
        PARENT_TYPE: ["Project"],
        PARENT_NAME: [A],
        PARENT_API_GROUP: ["resourcemanager.miloapis.com"],
        "Upper/Case.Key": ["z", "a", "Zoë"],
    });
    let authorizer = milo.authorizer();
    let name = "of-the-authorizer";
    let about_it = |milo: &Milo| {
        let reviews = milo.authorizer().reviews(A).into_iter();
        let about_it = |spec: &Value| spec["resourceAttributes"]["name"] == name;
        reviews
            .filter(|review| about_it(&review.spec))
            .collect::<Vec<_>>()
    };
    let uid = "uid-of-the-authorizer";
    for client in [&direct, &through] {
        authorizer.forbid(uid);
        let question = review(uid, name, &extra);
        let answer = ask(client, &question).await?;
        assert_eq!(answer["allowed"], false);
        let reason = answer["reason"].as_str().unwrap_or_default();
        ensure!(
            reason.starts_with("uid-of-the-authorizer has no"),
            "{answer}"
        );
        authorizer.allow(uid, A, "networking.datumapis.com/networks.use");
        // The API server does not cache the earlier answer.
        assert_eq!(ask(client, &question).await?["allowed"], true);
        let asked = about_it(milo);
        let last = asked.last().context("no review was sent")?;
        assert_eq!(last.project, A);
        assert_eq!(last.spec, question["spec"]);
    }
    assert_eq!(about_it(milo).len(), 4);
    authorizer.clear(A);
    assert_eq!(about_it(milo), []);

    let other = review(uid, name, &json!({PARENT_NAME: [A]}));
    assert_eq!(ask(&direct, &other).await?["allowed"], false);
    let answer = ask(&direct, &review("", name, &extra)).await?;
    let reason = answer["reason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("user UID is required"), "{answer}");
    Ok(())
}

/// No other test may override the authorizer for this project.
pub(crate) async fn tests_can_override_the_authorizer(milo: &Milo) -> anyhow::Result<()> {
    let project = milo.project(B)?;
    let name = "as-it-is-made-to";
    let authorizer = milo.authorizer();
    authorizer.decide_by(B, move |review| {
        let spec = &review.spec;
        if spec["resourceAttributes"]["name"] != name {
            return None;
        }
        let decision = match spec["extra"]["order"] == json!(["first", "second"]) {
            true => AuthorizerAnswer::Allowed,
            false => AuthorizerAnswer::Denied("in another order".to_owned()),
        };
        Some(decision)
    });
    for (order, allowed) in [(["first", "second"], true), (["second", "first"], false)] {
        let question = review("uid", name, &json!({"order": order}));
        let answer = ask(&project.client(), &question).await?;
        assert_eq!(answer["allowed"], allowed, "{answer}");
    }
    authorizer.decide_by_rights(B);

    authorizer.set_delay(B, SILENCE * 2);
    let question = review("uid", name, &json!({}));
    let client = project.client();
    let answer = timeout(SILENCE, ask(&client, &question)).await;
    authorizer.set_delay(B, Duration::ZERO);
    ensure!(answer.is_err(), "the answer did not wait");
    Ok(())
}

pub(crate) async fn a_watch_streams(milo: &Milo) -> anyhow::Result<()> {
    let api = config_maps(milo, A).await?;
    let request = Request::get("/api/v1/namespaces/default/configmaps?watch=true&labelSelector=w")
        .body(Vec::new())?;
    // A watch is a stream of lines. Each line must arrive separately, not in a batch.
    let mut events = client(milo, A)
        .await?
        .request_stream(request)
        .await?
        .lines();
    for count in 0..3 {
        let name = format!("watched-{count}");
        let map = json!({"metadata": {"name": name, "labels": {"w": ""}}});
        create(&api, map).await?;
        let line = timeout(WITHIN, events.try_next()).await??;
        let event: Value = serde_json::from_str(&line.context("the watch has ended")?)?;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    Ok(())
}

/// Uses a separate project. The test blocks and kills this project.
pub(crate) async fn a_project_that_hangs_or_refuses(milo: &Milo) -> anyhow::Result<()> {
    let name = "switched";
    let project = milo.add_project(name).await?;
    let api = config_maps(milo, name).await?;
    let of_a = config_maps(milo, A).await?;
    let mut watched = watcher(api.clone(), Config::default().labels("w"))
        .backoff(SteadyBackoff)
        .applied_objects()
        .boxed();
    let map = |name: &str| json!({"metadata": {"name": name, "labels": {"w": ""}}});
    create(&api, map("before")).await?;
    let seen = timeout(WITHIN, watched.try_next()).await??;
    assert_eq!(seen.context("the watch has ended")?.name_any(), "before");

    project.hang();
    // Through the front, neither responses nor events of this project arrive. Requests that bypass the front succeed.
    // Other projects are not affected.
    let direct: Api<ConfigMap> = Api::namespaced(project.client(), DEFAULT_NAMESPACE);
    create(&direct, map("meanwhile")).await?;
    of_a.list(&ListParams::default()).await?;
    let params = ListParams::default();
    let list = api.list(&params);
    let mut list = std::pin::pin!(list);
    tokio::select! {
        answer = &mut list => anyhow::bail!("the project answered: {answer:?}"),
        event = watched.try_next() => anyhow::bail!("an event arrived: {event:?}"),
        () = sleep(SILENCE) => {}
    }
    project.pass();
    timeout(WITHIN, list).await??;
    let seen = timeout(WITHIN, watched.try_next()).await??;
    assert_eq!(seen.context("the watch has ended")?.name_any(), "meanwhile");

    for (refusal, code) in [
        (StatusError::suspended(name), 403),
        (StatusError::unavailable(), 503),
    ] {
        project.refuse(refusal);
        let map = serde_json::from_value(map("refused"))?;
        let Err(kube::Error::Api(status)) = api.create(&PostParams::default(), &map).await else {
            anyhow::bail!("not refused with {code}")
        };
        assert_eq!(status.code, code);
        if code == 403 {
            let cause = &status.details.as_ref().context("no details")?.causes[0];
            assert_eq!(cause.reason, "ProjectSuspended");
        }
    }
    project.pass();
    api.list(&ListParams::default()).await?;

    project.kill_apiserver().await;
    let Err(kube::Error::Api(status)) = api.list(&ListParams::default()).await else {
        anyhow::bail!("the list succeeded without the API server")
    };
    assert_eq!(status.code, 502);
    project.restart_apiserver().await?;
    api.get("meanwhile").await?;

    milo.set_ready(name, false).await?;
    milo.delete_project(name).await?;
    milo.stop_project(name).await?;
    let Err(kube::Error::Api(status)) = api.list(&ListParams::default()).await else {
        anyhow::bail!("the list succeeded although the project is gone")
    };
    assert_eq!(status.code, 404);
    Ok(())
}

/// Checks that a webhook without an answer blocks only the changes that its rules and matchConditions select.
async fn only_selected_changes_need_the_webhook(workloads: &Api<Workload>) -> anyhow::Result<()> {
    let patch = async |patch: Value| {
        let params = PatchParams::default();
        workloads
            .patch("before", &params, &Patch::Merge(&patch))
            .await
    };
    patch(json!({"metadata": {"labels": {"a": "b"}}})).await?;
    let placements = json!({"spec": {"placements": [
        {"name": "here", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2, "instanceManagementPolicy": "OrderedReady"}},
    ]}});
    let refused = patch(placements.clone()).await.err();
    let error = refused.context("no webhook was called")?.to_string();
    ensure!(error.contains("failed calling webhook"), "{error}");
    workloads.delete("before", &DeleteParams::default()).await?;
    patch(placements).await?;
    patch(json!({"metadata": {"finalizers": null}})).await?;
    wait::gone(workloads, "before", WITHIN).await
}

/// Uses a separate Milo. In the shared Milo, no other test could create a Workload afterwards.
pub(crate) async fn admission_is_registered_and_all_processes_end() -> anyhow::Result<()> {
    let milo = start("registered", &PROJECTS).await?;
    let topology = json!({"topology.datum.net/city-code": "DFW"});
    milo.project(A)?
        .bind_location("dfw", &topology, Some(true))
        .await?;
    let in_a: Api<Workload> = Api::namespaced(client(&milo, A).await?, DEFAULT_NAMESPACE);
    let mut before = workload("before", &[("here", &["DFW"], 1)]);
    before["metadata"]["finalizers"] = json!(["example.com/waits"]);
    create(&in_a, before).await?;
    let replica = milo.replica("manager-1")?;
    milo.register_admission(replica.webhook_port()).await?;
    for project in [A, B] {
        let api: Api<Workload> = Api::namespaced(client(&milo, project).await?, DEFAULT_NAMESPACE);
        let created = create(&api, workload("web", &[("here", &["DFW"], 1)])).await;
        let error = format!("{:#}", created.err().context("no webhook was called")?);
        // No process listens on the port of the webhook yet.
        ensure!(error.contains("failed calling webhook"), "{error}");
        let path = "/mutate-compute-datumapis-com-v1alpha-workload";
        ensure!(error.contains(path), "{error}");
    }
    only_selected_changes_need_the_webhook(&in_a).await?;
    let pids = milo.pids().await;
    ensure!(pids.len() == 8, "{pids:?}");
    milo.stop().await;
    wait::eventually("every process has ended", WITHIN, || async {
        let left: Vec<_> = pids
            .iter()
            .filter(|pid| crate::lifetime::runs(**pid))
            .collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}
