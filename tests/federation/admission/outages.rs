//! Tests of the responses to users while a project or a replica cannot answer.

use std::time::Duration;

use anyhow::{Context, ensure};
use harness::milo::{ControlPlane, MiloUser, StatusError};
use harness::wait;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::platform::{A, NAMESPACE, Platform, bind, review, workload};
use crate::fixture::WITHIN;

/// Timeout of an API server for a webhook call.
const DEADLINE: Duration = Duration::from_secs(10);
/// Number of requests per latency measurement.
const MEASURED: usize = 50;

/// Returns the 90th percentile of the latency of requests in project `a`.
async fn latency(platform: &Platform) -> anyhow::Result<Duration> {
    let user = platform.user("measured", &[A]);
    let review = review(&user, A, &workload("measured", "of-the-measured", &["DFW"]));
    let mut times = Vec::new();
    for _ in 0..MEASURED {
        let begin = Instant::now();
        let response = platform.post(platform.replica(0)?, &review).await?;
        assert_eq!(response["allowed"], true, "{response}");
        times.push(begin.elapsed());
    }
    times.sort();
    times
        .get(MEASURED * 9 / 10)
        .copied()
        .context("too few latencies were measured")
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

/// Creates a Workload for this user without the front, because the front hangs. The request has the headers that the
/// front would add.
async fn create_past_the_front(
    project: &ControlPlane,
    user: &MiloUser,
    workload: &Value,
) -> Result<Value, kube::Error> {
    let path = format!(
        "/apis/{}/namespaces/{NAMESPACE}/workloads",
        api::API_VERSION
    );
    let parent = "Impersonate-Extra-iam.miloapis.com%2Fparent";
    let request = Request::post(path)
        .header("Content-Type", "application/json")
        .header("Impersonate-User", &user.name)
        .header("Impersonate-Uid", &user.uid)
        .header(format!("{parent}-type"), "Project")
        .header(format!("{parent}-name"), project.name())
        .header(
            format!("{parent}-api-group"),
            "resourcemanager.miloapis.com",
        )
        .body(workload.to_string().into_bytes())
        .expect("a request");
    project.client().request(request).await
}

/// Uses a separate project. This project hangs.
pub(crate) async fn a_project_that_hangs_slows_no_other(platform: &Platform) -> anyhow::Result<()> {
    let name = "hangs";
    let project = platform.add_project_in_dfw(name).await?;
    let before = latency(platform).await?;

    project.hang();
    let user = platform.user("hanging", &[name]);
    let web = workload("hanging", "default", &["DFW"]);
    let begin = Instant::now();
    let hanging = async {
        let answers = (0..8).map(|_| async {
            let replica = platform.replica(0)?;
            platform.post(replica, &review(&user, name, &web)).await
        });
        futures::future::try_join_all(answers).await
    };
    let created = async {
        let created = create_past_the_front(&project, &user, &web).await;
        anyhow::Ok(
            created
                .err()
                .context("the Workload was created")?
                .to_string(),
        )
    };
    let (meanwhile, answers, created) = tokio::join!(latency(platform), hanging, created);
    let (meanwhile, created) = (meanwhile?, created?);
    ensure!(
        begin.elapsed() < DEADLINE + Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
    let expected = "the API server of project hangs did not answer in time; try again";
    for response in answers? {
        assert_eq!(response["allowed"], false);
        ensure!(message(&response).ends_with(expected), "{response}");
    }
    ensure!(created.contains(expected), "{created}");
    eprintln!(
        "nine of ten requests took {before:?} before, and {meanwhile:?} beside a project that hangs"
    );
    ensure!(
        meanwhile < before * 3 + Duration::from_millis(50),
        "{before:?} {meanwhile:?}"
    );

    project.pass();
    let response = platform
        .post(platform.replica(0)?, &review(&user, name, &web))
        .await?;
    assert_eq!(response["allowed"], true, "{response}");
    Ok(())
}

/// Uses a separate project. This project first refuses requests. Then the test kills its API server.
pub(crate) async fn an_unreachable_project_causes_no_wrong_denial(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "unreachable";
    let project = platform.add_project_in_dfw(name).await?;
    let user = platform.user("unreaching", &[name]);
    let ask = async |city: &str| {
        let replica = platform.replica(0)?;
        let web = workload("unreachable", "default", &[city]);
        platform.post(replica, &review(&user, name, &web)).await
    };

    // The running watch continues, but reviews fail.
    project.refuse(StatusError::unavailable());
    let response = ask("DFW").await?;
    assert_eq!(response["allowed"], false);
    ensure!(
        message(&response).contains("it is not known whether the network may be used"),
        "{response}"
    );
    project.pass();

    // Without the API server, the locations are unknown. In this state, no error may contain that a city is
    // unsupported.
    project.kill_apiserver().await;
    let response = wait::eventually("the locations are not known", WITHIN, || async {
        let response = ask("NYC").await?;
        assert_eq!(response["allowed"], false);
        ensure!(response["status"]["code"] == 503, "{response}");
        Ok(response)
    })
    .await?;
    ensure!(
        message(&response).contains("LocationBindings of project unreachable cannot be listed"),
        "{response}"
    );
    assert_eq!(response["status"]["details"]["retryAfterSeconds"], 1);
    project.restart_apiserver().await?;
    wait::eventually("the locations are known again", WITHIN, || async {
        let response = ask("DFW").await?;
        ensure!(response["allowed"] == true, "{response}");
        Ok(())
    })
    .await
}

/// Uses a separate replica and a separate project.
///
/// I-5: a replica is not ready before it can answer admission.
pub(crate) async fn a_starting_replica_is_unready_until_its_caches_are_filled(
    platform: &Platform,
) -> anyhow::Result<()> {
    let mut replica = platform.milo.replica("manager-3")?;
    let root = platform.milo.root();
    root.hang();
    replica.launch().await?;
    let user = platform.user("starting", &[A]);
    let review = review(&user, A, &workload("starting", "default", &["DFW"]));
    wait::eventually("the replica names what it waits for", WITHIN, || async {
        let (code, body) = replica.readiness().await?;
        ensure!(
            code == 503 && body.contains("projects: not listed yet"),
            "{code} {body}"
        );
        // A request to an unready replica must be answered with a retriable error.
        let response = platform.post(&replica, &review).await?;
        ensure!(response["status"]["code"] == 503, "{response}");
        ensure!(
            message(&response).contains("projects have not been listed yet"),
            "{response}"
        );
        Ok(())
    })
    .await?;
    root.pass();
    let denials = async {
        loop {
            let (code, _) = replica.readiness().await?;
            if code == 200 {
                let response = platform.post(&replica, &review).await?;
                ensure!(
                    response["allowed"] == true,
                    "the replica is ready, but answers {response}"
                );
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, denials).await??;
    replica.terminate().await;
    Ok(())
}

/// Uses a separate replica and a separate project. The project hangs from the start.
pub(crate) async fn a_replica_starts_while_a_project_hangs(
    platform: &Platform,
) -> anyhow::Result<()> {
    let name = "hangs-already";
    let project = platform.milo.add_project(name).await?;
    bind(&project, "DFW", Some(true)).await?;
    project.hang();
    let mut replica = platform.milo.replica("manager-4")?;
    replica.launch().await?;
    let user = platform.user("beside", &[A, name]);
    let web = workload("beside", "default", &["DFW"]);
    let ask = async |project: &str| platform.post(&replica, &review(&user, project, &web)).await;
    wait::eventually("other projects are served", WITHIN, || async {
        let response = ask(A).await?;
        ensure!(response["allowed"] == true, "{response}");
        Ok(())
    })
    .await?;
    let (code, body) = replica.readiness().await?;
    // Everyone can read the answer, so it names no project.
    let counted = body.contains("have not been read yet") && !body.contains(name);
    ensure!(code == 503 && counted, "{code} {body}");
    replica.until_ready().await?;
    let response = ask(name).await?;
    assert_eq!(response["status"]["code"], 503, "{response}");
    let expected = "LocationBindings of project hangs-already have not been listed yet";
    ensure!(message(&response).contains(expected), "{response}");
    project.pass();
    replica.terminate().await;
    Ok(())
}

/// Uses a separate project. The test creates the project, makes it unready, and deletes it. The deletion has two steps:
/// the project terminates, then the project is gone.
pub(crate) async fn projects_come_and_go(platform: &Platform) -> anyhow::Result<()> {
    let name = "passing";
    let user = platform.user("passing-by", &[name]);
    let replica = platform.replica(1)?;
    let until = async |what: &str, code: u16, text: &str| {
        wait::eventually(what, WITHIN, || async {
            let web = workload("passing", "default", &["DFW"]);
            let response = platform.post(replica, &review(&user, name, &web)).await?;
            let found = &response["status"]["code"];
            let is_it = match code {
                200 => response["allowed"] == true,
                code => found == &json!(code) && message(&response).contains(text),
            };
            ensure!(is_it, "{response}");
            Ok(())
        })
        .await
    };
    until("the project is unknown", 503, "there is no project passing").await?;
    let project = platform.milo.start_project(name).await?;
    bind(&project, "DFW", Some(true)).await?;
    platform.milo.create_project(name).await?;
    until(
        "the project is not ready",
        503,
        "project passing is not ready",
    )
    .await?;
    platform.milo.set_ready(name, true).await?;
    until("the project is engaged", 200, "").await?;
    platform.milo.set_ready(name, false).await?;
    until(
        "the project is unready again",
        503,
        "project passing is not ready",
    )
    .await?;
    platform.milo.set_ready(name, true).await?;
    until("the project is engaged again", 200, "").await?;
    platform.milo.delete_project(name).await?;
    until("the project is gone", 503, "there is no project passing").await?;
    platform.milo.stop_project(name).await
}
