//! Tests of customizations that are served from a directory.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
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
    ask(interpreter, trusted, "Thing", &json!({})).await
}

async fn ask(
    interpreter: &Interpreter,
    trusted: &CertificateDer<'static>,
    kind: &str,
    object: &Value,
) -> Value {
    let body = json!({"request": {
        "uid": "u1", "kind": {"group": "example.com", "version": "v1", "kind": kind},
        "operation": "InterpretReplica", "object": object,
    }});
    let connection = TlsConnection::open(interpreter.port, trusted).await;
    let path = "/interpret?timeout=30s";
    let answer = connection
        .unwrap()
        .post(path, body.to_string().as_bytes())
        .await;
    let mut answer: Value = serde_json::from_str(&answer.unwrap().1).unwrap();
    answer["response"].take()
}

async fn until(interpreter: &Interpreter, trusted: &CertificateDer<'static>, expected: &Value) {
    let answered = async {
        while replicas(interpreter, trusted).await["replicas"] != *expected {
            sleep(Duration::from_millis(20)).await;
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
    sleep(Duration::from_secs(3)).await;
    assert_eq!(replicas(&interpreter, &trusted).await["replicas"], 2);
    fs::remove_file(scripts.path().join("broken.json")).unwrap();
    until(&interpreter, &trusted, &json!(3)).await;
    // Without files, the kind is not interpreted.
    fs::remove_file(scripts.path().join("things.json")).unwrap();
    until(&interpreter, &trusted, &Value::Null).await;
    let unknown = replicas(&interpreter, &trusted).await;
    assert_eq!(unknown["successful"], false, "{unknown}");
}

/// Scripts that use as much as they can: loops, texts, patterns, tables, coroutines, metatables, results.
const HOSTILE: [&str; 10] = [
    "while true do end",
    "while true do pcall(error) end",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t[#t + 1] = {} end",
    "return string.find(('a'):upper():lower() .. o.text, ('a*'):len() > 0 and '(a*)*(a*)*(a*)*b')",
    "local t = {} for i = 1, 1e9 do t = {t} end return t",
    "local c = {} while true do c[#c + 1] = coroutine and coroutine.create(function() end) or {} end",
    "local function f() return f() + 1 end return f()",
    "local s = o.text for i = 1, 12 do s = s .. s end return {s, s, s, s}",
    "setmetatable(_G, {__index = function() while true do end end}) return missing",
];
/// Memory that may stay in use, in bytes.
const KEPT_MAX: usize = 16 << 20;

#[tokio::test]
async fn hostile_scripts_leave_no_memory_behind() {
    let directory = TempDir::new().unwrap();
    let scripts = TempDir::new().unwrap();
    let trusted = issue(directory.path());
    let mut all = vec![returns(1)];
    for (number, script) in HOSTILE.iter().enumerate() {
        let script = format!("function GetReplicas(o) {script} end");
        let hostile = customization(&script).replace("\"Thing\"", &format!("\"Hostile{number}\""));
        all.push(hostile.replace("\"things\"", &format!("\"hostile-{number}\"")));
    }
    for (number, text) in all.iter().enumerate() {
        fs::write(scripts.path().join(format!("{number}.json")), text).unwrap();
    }
    let flag = format!("--customizations={}", scripts.path().display());
    let interpreter = Interpreter::start(&directory, &[&flag]).await;
    for _ in 0..20 {
        assert_eq!(replicas(&interpreter, &trusted).await["replicas"], 1);
    }
    let idle = interpreter.memory();
    let object = json!({"text": "a".repeat(4096)});
    let kinds: Vec<_> = (0..HOSTILE.len())
        .map(|number| format!("Hostile{number}"))
        .collect();
    for _ in 0..3 {
        // A call that gets no thread in time is answered with 429, and is made again.
        let calls = kinds.iter().map(async |kind| {
            loop {
                let answer = ask(&interpreter, &trusted, kind, &object).await;
                if !answer.is_null() {
                    break answer;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
        for (kind, answer) in kinds.iter().zip(join_all(calls).await) {
            assert_eq!(answer["successful"], false, "{kind}: {answer}");
        }
    }
    assert_eq!(replicas(&interpreter, &trusted).await["replicas"], 1);
    let freed = async {
        while interpreter.memory() > idle + KEPT_MAX {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let freed = timeout(WITHIN, freed).await;
    assert!(freed.is_ok(), "{} of {idle} bytes", interpreter.memory());
    assert_eq!(interpreter.healthz().await.unwrap(), 200);
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
