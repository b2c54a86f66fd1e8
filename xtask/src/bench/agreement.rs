//! Checks that our webhook and the Go webhook give the same answers. Without this check, a comparison of their speed
//! has no meaning.

use std::fs;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::BenchSetup;
use super::servers::{MeasuredServer, ServerKind};

/// The fields of a response that contain the answer.
const ANSWERS: [&str; 7] = [
    "successful",
    "replicas",
    "replicaRequirements",
    "components",
    "dependencies",
    "rawStatus",
    "healthy",
];

/// A function that extracts the meaning of an answer to a review. It returns an error if the answer is a failure.
type Meaning = fn(review: &Value, answer: &Value) -> anyhow::Result<Value>;

/// Sends every body and each of the `others` to both servers, and keeps the answers: the floor server returns ours.
/// Fails if the answers differ. The binary of another commit may give other answers, so its answers are not compared.
pub(crate) async fn check(
    bench: &BenchSetup,
    others: Vec<(String, Value)>,
    meaning: Meaning,
) -> anyhow::Result<()> {
    match bench.is_of_checkout {
        true => eprintln!("comparing answers"),
        false => eprintln!("the answers of another binary are not compared"),
    }
    let directory = bench.directory.join("answers");
    fs::create_dir_all(&directory)?;
    let ours = MeasuredServer::start(bench, ServerKind::Ours, &directory).await?;
    let go = MeasuredServer::start(bench, ServerKind::Go, &directory).await?;
    let measured = bench
        .bodies
        .iter()
        .map(|body| (body.name.clone(), body.review.clone()));
    let mut differ = Vec::new();
    for (name, review) in measured.chain(others) {
        let body = directory.join(format!("{name}.request.json"));
        fs::write(&body, review.to_string())?;
        let mut answers = Vec::new();
        for (server, kind) in [(&ours, ServerKind::Ours), (&go, ServerKind::Go)] {
            let file = directory.join(format!("{name}.{}.json", kind.as_str()));
            server.ask(bench, &body, &file).await?;
            if !bench.is_of_checkout {
                continue;
            }
            let answer = serde_json::from_slice(&fs::read(&file)?)?;
            answers.push(meaning(&review, &answer).with_context(|| file.display().to_string())?);
        }
        if !answers.windows(2).all(|pair| pair.first() == pair.last()) {
            differ.push(name);
        }
    }
    ours.stop().await;
    go.stop().await;
    ensure!(
        differ.is_empty(),
        "the servers give different answers to {}; see {}",
        differ.join(", "),
        directory.display()
    );
    Ok(())
}

/// Returns the meaning of an interpreter's answer: its fields, and the object after the patch.
pub(crate) fn interpretation(review: &Value, answer: &Value) -> anyhow::Result<Value> {
    let (request, response) = (&review["request"], &answer["response"]);
    ensure!(response["successful"] == json!(true), "{response}");
    ensure!(
        response["uid"] == request["uid"],
        "the answer has another uid than the request"
    );
    let mut object = request["object"].clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(patch)?)?;
        json_patch::patch(&mut object, &patch)?;
    }
    let fields = ANSWERS.map(|field| response[field].clone());
    Ok(json!({"object": object, "fields": fields}))
}

/// Returns the meaning of an admission answer: whether the object is accepted, and the errors.
pub(crate) fn decision(review: &Value, answer: &Value) -> anyhow::Result<Value> {
    let (request, response) = (&review["request"], &answer["response"]);
    ensure!(
        response["uid"] == request["uid"],
        "the answer has another uid than the request"
    );
    let allowed = response["allowed"]
        .as_bool()
        .context("the answer has no field `allowed`")?;
    let status = &response["status"];
    Ok(match allowed {
        true => json!({"allowed": true}),
        false => json!({
            "allowed": false,
            "code": status["code"],
            "reason": status["reason"],
            "message": status["message"],
            "details": status["details"],
        }),
    })
}
