//! Properties of the runtime for Lua scripts.

use api::karmada::ResourceInterpreterCustomization;
use interpreters::lua::{Limits, LuaInterpreter, StopFlag};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The line between a script and the object.
const SEPARATOR: &str = "\n---\n";

/// Small bounds, so that hostile scripts end soon.
const LIMITS: Limits = Limits {
    instructions: 50_000,
    memory: 4 << 20,
    output: 256 << 10,
};

/// Asserts that a script with an object is refused, or gets an answer that Karmada accepts, and that the next call of
/// another script in the same state of Lua is not affected. The text has the body of ReflectStatus, a line `---`, and the
/// object.
pub fn script(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let (script, object) = text.split_once(SEPARATOR).unwrap_or((text, "{}"));
    let Ok(object) = serde_json::from_str::<Value>(object) else {
        return;
    };
    let reflect = format!("function ReflectStatus(obj)\n{script}\nend");
    let healthy = "function InterpretHealth(obj)
        local t = {}
        for w in ('b A'):gmatch('%a') do table.insert(t, w:lower()) end
        table.sort(t)
        return leaked == nil and table.concat(t) == 'ab' and tostring(1) == '1' and pcall(error) == false
    end";
    let customization: ResourceInterpreterCustomization = serde_json::from_value(json!({
        "kind": "ResourceInterpreterCustomization", "metadata": {"name": "fuzz"},
        "spec": {
            "target": {"apiVersion": "v1", "kind": "Thing"},
            "customizations": {
                "statusReflection": {"luaScript": reflect},
                "healthInterpretation": {"luaScript": healthy},
            },
        },
    }))
    .unwrap();
    let Ok(interpreter) = LuaInterpreter::new(&[customization], LIMITS) else {
        return;
    };
    let call = |operation: &str, object: &Value| -> Value {
        let body = json!({"request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Thing"},
            "operation": operation, "object": object,
        }});
        let stop = StopFlag::default();
        let answer =
            interpreter.interpret(body.to_string().as_bytes(), Timestamp::UNIX_EPOCH, &stop);
        let context: Value =
            serde_json::from_slice(&answer.unwrap().body).expect("the answer is JSON");
        context["response"].clone()
    };
    let answer = call("InterpretStatus", &object);
    match answer["successful"] == true {
        true => assert!(
            answer["rawStatus"].is_object() || answer["rawStatus"].is_array(),
            "{answer}"
        ),
        false => {
            let message = answer["status"]["message"].as_str();
            assert!(
                message.is_some_and(|message| !message.is_empty()),
                "{answer}"
            );
        }
    }
    assert_eq!(call("InterpretHealth", &json!({}))["healthy"], true);
}
