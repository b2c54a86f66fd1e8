//! Tests of customizations that are served from a directory.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::client::{TlsConnection, issue};
use crate::interpreter::Interpreter;
use crate::{WITHIN, command};

fn customization(script: &str) -> String {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "things"},
        "spec": {
            "target": {"apiVersion": "example.com/v1", "kind": "Thing"},
            "customizations": {"replicaResource": {"luaScript": script}},
        },
    })
    .to_string()
}

fn returns(replicas: u32) -> String {
    customization(&format!("function GetReplicas() return {replicas} end"))
}

/// Asks for the replicas of a Thing. Returns the response of the protocol.
async fn replicas(interpreter: &Interpreter, trusted: &CertificateDer<'static>) -> Value {
    let body = json!({"request": {
        "uid": "u1", "kind": {"group": "example.com", "version": "v1", "kind": "Thing"},
        "operation": "InterpretReplica", "object": {},
    }});
    let mut connection = TlsConnection::open(interpreter.port, trusted)
        .await
        .unwrap();
    let (_, answer) = connection
        .post("/interpret", body.to_string().as_bytes())
        .await
        .unwrap();
    let mut answer: Value = serde_json::from_str(&answer).unwrap();
    answer["response"].take()
}

async fn until(interpreter: &Interpreter, trusted: &CertificateDer<'static>, expected: &Value) {
    let answered = async {
        while replicas(interpreter, trusted).await["replicas"] != *expected {
            sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, answered)
        .await
        .expect("the former script stays");
}

#[tokio::test]
async fn customizations_are_replaced_and_broken_ones_are_not_served() {
    let directory = TempDir::new().unwrap();
    let scripts = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let write = |name: &str, text: &str| fs::write(scripts.path().join(name), text).unwrap();
    write("things.json", &returns(1));
    let flag = format!("--customizations={}", scripts.path().display());
    let interpreter = Interpreter::start(&directory, &[&flag]).await;
    assert_eq!(replicas(&interpreter, &trusted).await["replicas"], 1);
    write("things.json", &returns(2));
    until(&interpreter, &trusted, &json!(2)).await;
    // A new script beside a broken one is not served. Then the broken one is repaired.
    write("broken.json", "{}");
    write("things.json", &returns(3));
    sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(replicas(&interpreter, &trusted).await["replicas"], 2);
    fs::remove_file(scripts.path().join("broken.json")).unwrap();
    until(&interpreter, &trusted, &json!(3)).await;
    // Without files, the kind is not interpreted.
    fs::remove_file(scripts.path().join("things.json")).unwrap();
    until(&interpreter, &trusted, &Value::Null).await;
    let unknown = replicas(&interpreter, &trusted).await;
    assert_eq!(unknown["successful"], false, "{unknown}");
}

async fn registration(directory: &Path, args: &[&str]) -> (bool, String) {
    let mut command = command();
    command.args(["interpreter", "registration"]).args(args);
    command.arg(format!("--customizations={}", directory.display()));
    let output = command.stderr(Stdio::null()).output();
    let output = timeout(WITHIN, output).await.expect("it goes on").unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[tokio::test]
async fn the_registration_of_customizations_is_printed() {
    let scripts = TempDir::new().unwrap();
    fs::write(scripts.path().join("things.json"), returns(1)).unwrap();
    let (printed, text) =
        registration(scripts.path(), &["--url=https://interpreter/interpret"]).await;
    assert!(printed, "{text}");
    for part in [
        "name: compute-federation-customizations",
        "url: https://interpreter/interpret",
        "- InterpretReplica",
        "- Thing",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fs::write(scripts.path().join("broken.json"), "{}").unwrap();
    let (printed, text) = registration(scripts.path(), &[]).await;
    assert_eq!((printed, text.as_str()), (false, ""));
}
