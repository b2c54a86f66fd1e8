//! Hostile scripts end within their bounds, and leave nothing behind.

use std::sync::Arc;
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
    let hostile = customization("hostile", &json!({"statusReflection": script}));
    let harmless = "function InterpretHealth(obj)
        local t = {}
        for w in ('b A'):gmatch('%a') do table.insert(t, w:lower()) end
        table.sort(t)
        return pcall(error) == false and leak == nil and table.concat(t) == 'ab' and tostring(1) == '1' end";
    let harmless = customization("harmless", &json!({"healthInterpretation": harmless}));
    LuaInterpreter::new(&[hostile, harmless], limits()).unwrap()
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
        (
            "local t = {} while true do t[#t + 1] = {} end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "table.insert({}, -2147483648, 1)",
            "line 1: table.insert: position out of bounds",
        ),
        (
            "local t = {} for i = 1, 3000 do table.insert(t, 1, i) end",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local s = '0' for i = 1, 18 do s = s .. s end return {require('kube').resourceAdd(s)}",
            "line 1: resourceAdd: a quantity has more than 64 bytes",
        ),
        (
            "local function f(n) local ok, e = pcall(f, n + 1) if not ok then error(e, 0) end end f(1)",
            "line 1: pcall: too many levels",
        ),
        (
            "local t = {} for i = 1, 30000 do t[i] = -i end table.sort(t) return t",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local function f() return f() + 1 end f()",
            "line 1: stack overflow",
        ),
        (
            "local function f(n) return f(n .. 'x') end f('')",
            "exceeds the limit of 200000 instructions",
        ),
        (
            "local t = {} for i = 1, 20000 do t[i] = 'abcdefgh' end return t",
            "the result: [901] the result is too large",
        ),
        (
            "local s = '\\1' for i = 1, 14 do s = s .. s end return {s}",
            "the result: [0] the result is too large",
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
        // The scripts of other customizations do not notice.
        for _ in 0..3 {
            let healthy = ask(&interpreter, "InterpretHealth", &json!({}), &json!({}));
            assert_eq!(healthy["healthy"], true, "{script}: {healthy}");
        }
    }
}

/// Some states of Lua are used again after a call that has left something behind.
#[test]
fn what_a_script_leaves_behind_does_not_reach_the_next_call() {
    for script in [
        "local t = {} for i = 1, 5000 do t[i] = string.gmatch('a', 'b') end return {}",
        "for i = 1, 3000 do pcall(string.rep) end return {}",
        "string.find = nil table.insert = nil pairs = nil tostring = nil return {}",
        "function string.lower() return 'x' end return {}",
        "for i = 1, 100 do pcall(pcall) end return {}",
        "leak = {} for i = 1, 1000 do leak[i] = {} end return {}",
    ] {
        let interpreter = hostile(script);
        for _ in 0..10 {
            let left = ask(&interpreter, "InterpretStatus", &json!({}), &json!({}));
            assert_eq!(left["successful"], true, "{script}: {left}");
            let healthy = ask(&interpreter, "InterpretHealth", &json!({}), &json!({}));
            assert_eq!(healthy["healthy"], true, "{script}: {healthy}");
        }
        for vm in interpreter.idle.lock().unwrap().iter() {
            let kept = vm.memory();
            assert!(kept < 256 << 10, "{script}: {kept}");
        }
    }
}

/// The caller ends a script when the time of its call is over.
#[test]
fn a_script_ends_when_the_caller_stops_it() {
    let script = "function ReflectStatus(obj)
        for i = 1, obj.rounds do pcall(function() end) end return {} end";
    let customization = customization("endless", &json!({"statusReflection": script}));
    let limits = Limits {
        instructions: u64::MAX,
        ..Limits::default()
    };
    let interpreter = LuaInterpreter::new(&[customization], limits).unwrap();
    let stop = StopFlag::default();
    let call = |rounds: u64| {
        let body = body("InterpretStatus", &json!({"rounds": rounds}), &json!({}));
        response(&interpreter, &body, &stop)
    };
    assert_eq!(call(10)["successful"], true);
    thread::scope(|scope| {
        let call = scope.spawn(|| call(u64::MAX));
        // Only the flag ends the script.
        while Arc::strong_count(&stop.0) == 1 {
            thread::yield_now();
        }
        stop.stop();
        let response = call.join().unwrap();
        let message = response["status"]["message"].as_str().unwrap();
        let problem = "exceeds the time limit of the call";
        assert!(message.ends_with(problem), "{message}");
    });
}
