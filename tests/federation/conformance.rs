//! The in-memory API server (crate `apiserver`) must answer like a kube-apiserver. The tests send the same requests to
//! both servers and compare the responses.

#[path = "conformance/applies.rs"]
mod applies;
#[path = "conformance/normal.rs"]
mod normal;
#[path = "conformance/reads.rs"]
mod reads;
#[path = "conformance/step.rs"]
mod step;
#[path = "conformance/writes.rs"]
mod writes;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use api::{DEFAULT_NAMESPACE, WorkloadDeployment};
use apiserver::{ApiServer, objects};
use harness::Milo;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use applies::UNDECLARED;
use normal::Normalizer;
use step::Step;

/// Name of a project of the shared Milo. The test compares the kube-apiserver of this project with the in-memory API
/// server.
const PROJECT: &str = "a";

pub(crate) async fn the_api_server_in_memory_answers_as_a_real_one(
    milo: &Milo,
) -> anyhow::Result<()> {
    // A client of kube returns every response. The clients of this project return refusals as errors.
    let kubeconfig = Kubeconfig::read_from(milo.project(PROJECT)?.kubeconfig())?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // A refused request would be repeated for minutes.
    config.default_retry = false;
    let real = Client::try_from(config)?;
    let server = ApiServer::new();
    server.put(objects::namespace(DEFAULT_NAMESPACE, "of-default"));
    server.amend::<WorkloadDeployment>(|deployment| {
        for part in ["spec", "status"] {
            if let Some(part) = deployment.get_mut(part).and_then(Value::as_object_mut) {
                part.remove(UNDECLARED);
            }
        }
    });
    // After this call, the in-memory API server has no earlier events, like a kube-apiserver after its start.
    server.compact();
    let memory = server.client();
    let (real, memory) = tokio::try_join!(run(&real), run(&memory))?;
    let differences: Vec<_> = real
        .iter()
        .zip(&memory)
        .filter(|((_, real), (_, memory))| real != memory)
        .map(|((step, real), (_, memory))| {
            let mut lines = vec![format!("{step}: a real one, and the one in memory")];
            differ("", real, memory, &mut lines);
            lines.join("\n  ")
        })
        .collect();
    ensure!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        real.len(),
        differences.join("\n")
    );
    Ok(())
}

/// Returns all requests. A group of requests uses objects of the groups before it.
fn steps() -> Vec<Step> {
    let groups = [
        writes::absence(),
        writes::writes(),
        writes::status(),
        applies::applies(),
        applies::applied_objects(),
        applies::applied_lists(),
        applies::gates(),
        writes::deletes(),
        reads::lists(),
        reads::watches(),
    ];
    groups.into_iter().flatten().collect()
}

/// Makes all requests. Returns the name of each step and its normalized answer.
async fn run(client: &Client) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let mut normalizer = Normalizer::default();
    let mut answers = Vec::new();
    for step in steps() {
        let (code, text) = send(client, &step, &normalizer).await.context(step.name)?;
        let answer = normalizer.answer(step.saves, code, &text);
        answers.push((step.name, answer));
    }
    Ok(answers)
}

async fn send(
    client: &Client,
    step: &Step,
    normalizer: &Normalizer,
) -> anyhow::Result<(u16, String)> {
    let body = match step.body.is_null() {
        true => String::new(),
        false => normalizer.fill(&step.body.to_string()),
    };
    let mut request = Request::builder()
        .method(step.method.clone())
        .uri(normalizer.fill(&step.path))
        .header("accept", step.accept);
    if step.method != Method::GET {
        request = request.header("content-type", step.content_type);
    }
    let request = request.body(Body::from(body.into_bytes()))?;
    let response = client.send(request).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8(body.to_vec())?))
}

/// Adds a line for each part of the two answers that differs.
fn differ(path: &str, real: &Value, memory: &Value, lines: &mut Vec<String>) {
    match (real, memory) {
        (Value::Object(real), Value::Object(memory)) => {
            let fields: BTreeSet<_> = real.keys().chain(memory.keys()).collect();
            for field in fields {
                let [real, memory] = [real, memory].map(|it| it.get(field).unwrap_or(&Value::Null));
                differ(&format!("{path}/{field}"), real, memory, lines);
            }
        }
        (Value::Array(real), Value::Array(memory)) if real.len() == memory.len() => {
            for (index, (real, memory)) in real.iter().zip(memory).enumerate() {
                differ(&format!("{path}/{index}"), real, memory, lines);
            }
        }
        _ if real == memory => {}
        _ => lines.push(format!("{path}: {real} | {memory}")),
    }
}
