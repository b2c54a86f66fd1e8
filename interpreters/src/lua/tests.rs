//! Tests of the runtime for Lua scripts, through the protocol.

mod bounds;
mod kube;
mod operations;

use api::karmada::ResourceInterpreterCustomization;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Limits, LuaInterpreter, StopFlag};

const NOW: &str = "2026-03-04T05:06:07Z";

fn customization(name: &str, scripts: &Value) -> ResourceInterpreterCustomization {
    let mut rules = serde_json::Map::new();
    for (rule, script) in scripts.as_object().unwrap() {
        rules.insert(rule.clone(), json!({"luaScript": script}));
    }
    serde_json::from_value(json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "example.com/v1", "kind": "Thing"}, "customizations": rules},
    }))
    .unwrap()
}

fn interpreter(scripts: &Value) -> LuaInterpreter {
    LuaInterpreter::new(&[customization("things", scripts)], Limits::default()).unwrap()
}

fn body(operation: &str, object: &Value, more: &Value) -> Vec<u8> {
    let mut request = json!({
        "uid": "1", "operation": operation, "name": "a", "namespace": "ns-1", "object": object,
        "kind": {"group": "example.com", "version": "v1", "kind": "Thing"},
    });
    let request_fields = request.as_object_mut().unwrap();
    request_fields.extend(more.as_object().unwrap().clone());
    let review = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
        "request": request,
    });
    review.to_string().into_bytes()
}

/// Returns the response. The patch is decoded.
fn response(interpreter: &LuaInterpreter, body: &[u8], stop: &StopFlag) -> Value {
    let now: Timestamp = NOW.parse().unwrap();
    let answer = interpreter.interpret(body, now, stop).unwrap();
    let mut review: Value = serde_json::from_slice(&answer.body).unwrap();
    let mut response = review["response"].take();
    if let Some(patch) = response["patch"].as_str() {
        response["patch"] = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    }
    response
}

fn ask(interpreter: &LuaInterpreter, operation: &str, object: &Value, more: &Value) -> Value {
    let body = body(operation, object, more);
    response(interpreter, &body, &StopFlag::default())
}

/// Returns the message of a request that fails.
fn failure(interpreter: &LuaInterpreter, operation: &str, object: &Value) -> String {
    let response = ask(interpreter, operation, object, &json!({}));
    assert_eq!(response["successful"], false, "{response}");
    response["status"]["message"].as_str().unwrap().to_owned()
}

/// Returns the status that a script returns for an object. The script is the body of the function.
fn reflected(script: &str, object: &Value) -> Value {
    let script = format!("function ReflectStatus(obj) {script} end");
    let interpreter = interpreter(&json!({"statusReflection": script}));
    let response = ask(&interpreter, "InterpretStatus", object, &json!({}));
    assert_eq!(response["successful"], true, "{response}");
    response["rawStatus"].clone()
}
