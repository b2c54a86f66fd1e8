//! Tests of the answers of projects' API servers.

use apiserver::{ApiServer, Fault};
use kube::core::Status;
use serde_json::{Value, json};

use super::refusal::of_status;
use super::*;
use crate::fixtures::object;

fn project() -> ProjectName {
    ProjectName::new("p").unwrap()
}

fn status(code: u16, details: &Value) -> Status {
    object(
        json!({"status": "Failure", "code": code, "reason": match code {
        404 => "NotFound",
        _ => "Other",
    }, "message": "m", "details": details}),
    )
}

/// Returns the details of an answer about the project.
fn the_project() -> Value {
    json!({"group": "resourcemanager.miloapis.com", "kind": "projects", "name": "p"})
}

#[test]
fn an_answer_has_a_reason_and_a_remedy() {
    let none = || json!({});
    let another = json!({"group": "resourcemanager.miloapis.com", "kind": "projects", "name": "q"});
    let suspended = json!({"causes": [{"reason": "ProjectSuspended", "message": "m"}]});
    let ending = json!({"causes": [{"reason": "NamespaceTerminating", "message": "m"}]});
    for (code, details, expected) in [
        (
            404,
            the_project(),
            Some((reason::PROJECT_NOT_FOUND, Remedy::ProjectGone)),
        ),
        (
            404,
            another,
            Some((reason::PROJECT_NOT_FOUND, Remedy::Correct)),
        ),
        (
            404,
            none(),
            Some((reason::PROJECT_NOT_FOUND, Remedy::Correct)),
        ),
        (
            404,
            json!({"kind": "namespaces", "name": "default"}),
            Some((reason::NAMESPACE_NOT_FOUND, Remedy::Correct)),
        ),
        (
            403,
            ending,
            Some((reason::NAMESPACE_NOT_FOUND, Remedy::Correct)),
        ),
        (403, none(), Some((reason::MISCONFIGURED, Remedy::Correct))),
        (
            403,
            suspended,
            Some((reason::MISCONFIGURED, Remedy::Resume)),
        ),
        (422, none(), Some((reason::MISCONFIGURED, Remedy::Correct))),
        (
            409,
            none(),
            Some((reason::BACKEND_UNAVAILABLE, Remedy::Repeat)),
        ),
        (401, none(), None),
        (429, none(), None),
        (500, none(), None),
        (503, none(), None),
    ] {
        let status = status(code, &details);
        assert_eq!(of_status(&project(), &status), expected, "{status:?}");
    }
}

/// The kubeconfig for quota may lead to a control plane that never had the project.
#[tokio::test(start_paused = true)]
async fn only_the_control_plane_that_had_the_project_proves_that_it_is_gone() {
    let server = ApiServer::new();
    let client = server.client();
    let ledgers = Ledgers::new(Box::new(move |_| Ok(client.clone())), None);
    let ledger = ledgers.of(&project()).unwrap();
    let cell = CellName::new("dfw1").unwrap();
    let claimant = Claimant {
        cell: &cell,
        former_cells: &[],
        namespace: "ns-1",
        name: "web-0",
    };
    let upstream = Upstream {
        project: project(),
        namespace: "default".to_owned(),
    };
    for (is_there, expected) in [
        (false, Some(Remedy::Correct)),
        (true, None),
        (false, Some(Remedy::ProjectGone)),
    ] {
        server.heal();
        if !is_there {
            let answer = status(404, &the_project());
            server.fail(Fault::answer(404, json!(answer).to_string()));
        }
        let found = ledger.find(&claimant, &upstream, 1).await;
        assert_eq!(found.err().map(|it| it.remedy), expected, "{is_there}");
    }
}

/// A kubeconfig for quota can lead to the control plane of another federation, which has projects too.
#[tokio::test(start_paused = true)]
async fn a_control_plane_that_had_only_another_project_is_no_proof() {
    let (gone, other) = (ApiServer::new(), ApiServer::new());
    let answer = status(404, &the_project());
    gone.fail(Fault::answer(404, json!(answer).to_string()));
    let clients = [gone.client(), other.client()];
    let connect: ConnectLedger =
        Box::new(move |project| Ok(clients[usize::from(project.as_str() != "p")].clone()));
    let ledgers = Ledgers::new(connect, None);
    let cell = CellName::new("dfw1").unwrap();
    let ask = async |project: &ProjectName| {
        let claims = ledgers.of(project).unwrap().claims_of(&cell).await;
        claims.err().map(|problem| problem.remedy)
    };
    assert_eq!(ask(&project()).await, Some(Remedy::Correct));
    assert_eq!(ask(&ProjectName::new("other").unwrap()).await, None);
    assert_eq!(ask(&project()).await, Some(Remedy::Correct));
    // The proof does not need the client that has found the project.
    gone.heal();
    assert_eq!(ask(&project()).await, None);
    ledgers.forget(&project());
    gone.fail(Fault::answer(404, json!(answer).to_string()));
    assert_eq!(ask(&project()).await, Some(Remedy::ProjectGone));
}

/// An API server can refuse each request without a look at the project.
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_show_that_there_is_a_project() {
    let server = ApiServer::new();
    let client = server.client();
    let ledgers = Ledgers::new(Box::new(move |_| Ok(client.clone())), None);
    let ledger = ledgers.of(&project()).unwrap();
    server.fail(Fault::refuse(403));
    assert!(ledger.left().await.unwrap().is_none());
    server.heal();
    let answer = status(404, &the_project());
    server.fail(Fault::answer(404, json!(answer).to_string()));
    let claims = ledger.claims_of(&CellName::new("dfw1").unwrap()).await;
    assert_eq!(claims.unwrap_err().remedy, Remedy::Correct);
}

/// A project whose API server hangs holds an Instance up for some seconds, and the next Instances not at all.
#[tokio::test(start_paused = true)]
async fn a_hung_project_delays_only_itself_and_only_once() {
    let (hangs, answers) = (ApiServer::new(), ApiServer::new());
    hangs.fail(Fault::hang());
    let clients = [hangs.client(), answers.client()];
    let connect: ConnectLedger =
        Box::new(move |project| Ok(clients[usize::from(project.as_str() != "p")].clone()));
    let ledgers = Ledgers::new(connect, None);
    let cell = CellName::new("dfw1").unwrap();
    let claimant = Claimant {
        cell: &cell,
        former_cells: &[],
        namespace: "ns-1",
        name: "web-0",
    };
    let upstream = |project: &str| Upstream {
        project: ProjectName::new(project).unwrap(),
        namespace: "default".to_owned(),
    };
    let ask = async |project: &str| {
        let (begin, upstream) = (Instant::now(), upstream(project));
        let ledger = ledgers.of(&upstream.project).unwrap();
        let found = ledger.find(&claimant, &upstream, 1).await;
        (found.map(|found| found.free_name), begin.elapsed())
    };
    let (found, time) = ask("p").await;
    assert_eq!(found.unwrap_err().reason, reason::BACKEND_UNAVAILABLE);
    assert_eq!(time, PATIENCE);
    let (found, time) = ask("p").await;
    assert!(matches!(found.unwrap_err().remedy, Remedy::Wait(_)));
    assert_eq!(time, Duration::ZERO);
    let (found, _) = ask("other").await;
    assert_eq!(found.unwrap().as_deref(), Some("instance-dfw1-web-0"));
    hangs.heal();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(ask("p").await.0.is_ok());
}
