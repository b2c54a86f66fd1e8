//! Hostile scripts end within their bounds, and leave nothing behind.

use std::thread;

use super::*;

fn limits() -> Limits {
    Limits {
        instructions: 200_000,
        memory: 4 << 20,
        output: 64 << 10,
    }
}

fn hostile(script: &str) -> LuaInterpreter {
    let script = format!("function ReflectStatus(obj) {script} end");
    let customization = customization("hostile", &json!({"statusReflection": script}));
    LuaInterpreter::new(&[customization], limits()).unwrap()
}

#[test]
fn a_script_that_exceeds_a_bound_fails_its_own_call() {
    for (script, problem) in [
        (
            "while true do end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "while true do pcall(function() while true do end end) end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local function f() pcall(f) pcall(f) end f()",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local f = function() end while true do pcall(f) end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local s = 'a?' for i = 1, 5 do s = s .. s end s = s .. 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' return {string.find('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', s)}",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local s = 'x' while true do s = s .. s end",
            "not enough memory",
        ),
        ("local t = {} while true do t[#t + 1] = {} end", ""),
        (
            "local t = {} for i = 1, 30000 do t[i] = -i end table.sort(t) return t",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local function f() return f() + 1 end f()",
            "line 1: stack overflow",
        ),
        ("local function f(n) return f(n .. 'x') end f('')", ""),
        (
            "local t = {} for i = 1, 20000 do t[i] = 'abcdefgh' end return t",
            "the result: [4095] the result is too large",
        ),
        (
            "local s = 'x' for i = 1, 18 do s = s .. s end return {s}",
            "the result: [0] the result is too large",
        ),
        (
            "return coroutine.wrap(function() end)",
            "line 1: attempt to index global 'coroutine' (a nil value)",
        ),
        (
            "setmetatable({}, {})",
            "line 1: setmetatable is not supported in a customization",
        ),
        (
            "return loadstring('return 1')()",
            "line 1: loadstring is not supported in a customization",
        ),
    ] {
        let interpreter = hostile(script);
        let message = failure(&interpreter, "InterpretStatus", &json!({}));
        let (_, found) = message.split_once("luaScript: ").unwrap();
        assert!(found.starts_with(problem), "{script}: {message}");
        // The state is as good as new.
        let body = body("InterpretStatus", &json!({}), &json!({}));
        for _ in 0..3 {
            response(&interpreter, &body, &StopFlag::default());
        }
        for vm in interpreter.idle.lock().unwrap().iter() {
            let kept = vm.memory();
            assert!(kept <= 2 << 20, "{script}: {kept}");
        }
    }
}

/// The caller ends a script when the time of its call is over.
#[test]
fn a_script_ends_when_the_caller_stops_it() {
    let script = "function ReflectStatus() while true do pcall(function() end) end end";
    let customization = customization("endless", &json!({"statusReflection": script}));
    let limits = Limits {
        instructions: u64::MAX,
        ..Limits::default()
    };
    let interpreter = LuaInterpreter::new(&[customization], limits).unwrap();
    let stop = StopFlag::default();
    let body = body("InterpretStatus", &json!({}), &json!({}));
    thread::scope(|scope| {
        let call = scope.spawn(|| response(&interpreter, &body, &stop));
        // The script has no other bound, so it runs until now.
        stop.stop();
        let response = call.join().unwrap();
        let message = response["status"]["message"].as_str().unwrap();
        let problem = "exceeds the time limit of the call";
        assert!(message.ends_with(problem), "{message}");
    });
}
