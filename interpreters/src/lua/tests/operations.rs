//! The results of the operations, and the functions of a script.

use super::*;
use crate::lua::CustomizationError;

fn thing() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns-1", "labels": {}},
        "spec": {"replicas": 3, "list": [], "template": {"spec": {"containers": [
            {"name": "app", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}},
             "envFrom": [{"secretRef": {"name": "token"}}]},
        ]}}},
        "status": {"ready": 2},
    })
}

#[test]
fn each_operation_answers_in_the_protocol() {
    let scripts = json!({
        "replicaResource": "local kube = require('kube')
            function GetReplicas(obj)
              return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template)
            end",
        "componentResource": "function GetComponents(obj) return {{name = 'main', replicas = obj.spec.replicas}} end",
        "replicaRevision": "function ReviseReplica(obj, n) obj.spec.replicas = n return obj end",
        "retention": "function Retain(desired, observed)
              desired.spec.paused = observed.spec.paused return desired end",
        "statusAggregation": "function AggregateStatus(obj, items)
              local ready = 0
              for _, item in ipairs(items or {}) do ready = ready + item.status.ready end
              obj.status = {ready = ready} return obj end",
        "statusReflection": "function ReflectStatus(obj) return {ready = obj.status.ready} end",
        "healthInterpretation": "function InterpretHealth(obj) return obj.status.ready == obj.spec.replicas end",
        "dependencyInterpretation": "local kube = require('kube')
            function GetDependencies(obj)
              return kube.getPodDependencies(obj.spec.template, obj.metadata.namespace) end",
    });
    let interpreter = interpreter(&scripts);
    let none = json!({});
    let of = |operation: &str, more: &Value| ask(&interpreter, operation, &thing(), more);

    let replicas = of("InterpretReplica", &none);
    assert_eq!(replicas["replicas"], 3);
    let request = json!({"cpu": "250m", "memory": "1Gi"});
    assert_eq!(replicas["replicaRequirements"]["resourceRequest"], request);
    let components = &of("InterpretComponent", &none)["components"];
    assert_eq!(*components, json!([{"name": "main", "replicas": 3}]));
    let revised = &of("ReviseReplica", &json!({"replicas": 1}))["patch"];
    assert_eq!(
        *revised,
        json!([{"op": "replace", "path": "/spec/replicas", "value": 1}])
    );
    let observed = json!({"observedObject": {"kind": "Thing", "spec": {"paused": true}}});
    let retained = &of("Retain", &observed)["patch"];
    assert_eq!(
        *retained,
        json!([{"op": "add", "path": "/spec/paused", "value": true}])
    );
    let items = json!({"aggregatedStatus": [
        {"clusterName": "a", "status": {"ready": 1}}, {"clusterName": "b", "status": {"ready": 4}},
    ]});
    // Without references, every empty table is removed, as in Karmada's engine.
    assert_eq!(
        of("AggregateStatus", &items)["patch"],
        json!([
            {"op": "remove", "path": "/metadata/labels"},
            {"op": "remove", "path": "/spec/list"},
            {"op": "replace", "path": "/status/ready", "value": 5},
        ])
    );
    assert_eq!(
        of("InterpretStatus", &none)["rawStatus"],
        json!({"ready": 2})
    );
    assert_eq!(of("InterpretHealth", &none)["healthy"], false);
    assert_eq!(
        of("InterpretDependency", &none)["dependencies"],
        json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "ns-1", "name": "token"}])
    );
}

#[test]
fn an_error_names_the_customization_the_script_the_line_and_the_field() {
    let of = |script: &str| {
        let interpreter = interpreter(&json!({"statusReflection": script}));
        failure(&interpreter, "InterpretStatus", &thing())
    };
    let place =
        "ResourceInterpreterCustomization things, spec.customizations.statusReflection.luaScript: ";
    for (script, problem) in [
        (
            "function ReflectStatus(obj)\n  return {a = obj.status.cells.count}\nend",
            "line 2: attempt to index field 'cells' (a nil value)",
        ),
        (
            "function ReflectStatus(obj)\n\n error('the cause') end",
            "line 3: the cause",
        ),
        (
            "function ReflectStatus(obj)\n\n table.insert(obj.status.conditions, 1) end",
            "line 3: bad argument #1 to 'insert' (table expected, got nil)",
        ),
        (
            "function ReflectStatus(obj)\n local t = {1, 'x'}\n table.sort(t) end",
            "line 3: attempt to compare string with number",
        ),
        (
            "function Other() end",
            "does not define function ReflectStatus",
        ),
        (
            "ReflectStatus = 3",
            "ReflectStatus is a integer, must be a function",
        ),
        (
            "function ReflectStatus() return 'x' end",
            "the script returns string, must return a table",
        ),
        (
            "function ReflectStatus() return {a = {b = {print}}} end",
            "the result: a.b[0] is a function",
        ),
        (
            "function ReflectStatus()\n return require('kube').resourceAdd('x') end",
            "line 2: resourceAdd: \"x\" is not a quantity: it must begin with a decimal number",
        ),
        (
            "function ReflectStatus()\n return ('x'):rep(3) end",
            "line 2: string.rep is not supported in a customization",
        ),
        (
            "function ReflectStatus()\n return ('x'):find('[') end",
            "line 2: malformed pattern (missing ']')",
        ),
        (
            "function ReflectStatus() local io = require('io') end",
            "line 1: module io not found; known are kube, math, os, string, table",
        ),
    ] {
        assert_eq!(of(script), format!("{place}{problem}"));
    }
    let interpreter = interpreter(&json!({"retention": "function Retain(d) return {} end"}));
    let problem = failure(&interpreter, "InterpretStatus", &thing());
    assert!(
        problem.ends_with("has no script for InterpretStatus; it has: Retain"),
        "{problem}"
    );
}

#[test]
fn a_customization_that_cannot_be_used_is_refused() {
    let wrong = [
        customization(
            "a",
            &json!({"retention": "function Retain(", "statusReflection": "x ="}),
        ),
        customization("b", &json!({"retention": "local a = 1 // 2"})),
    ];
    let errors = LuaInterpreter::new(&wrong, Limits::default()).unwrap_err();
    let texts: Vec<_> = errors.iter().map(CustomizationError::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    let first =
        "ResourceInterpreterCustomization a: spec.customizations.retention.luaScript: line 1: ";
    assert!(texts[0].starts_with(first), "{}", texts[0]);

    let mut without = customization("c", &json!({}));
    without.spec.target.kind.clear();
    let errors = LuaInterpreter::new(&[without], Limits::default()).unwrap_err();
    assert_eq!(errors[0].field, "spec.target.kind");
}

/// An object as large as etcd allows, with many small maps, is changed.
#[test]
fn a_large_object_is_interpreted() {
    let script = "function ReviseReplica(obj, n) obj.spec.replicas = n return obj end";
    let interpreter = interpreter(&json!({"replicaRevision": script}));
    let rules: Vec<_> = (0..20_000)
        .map(|i| json!({"ipBlock": {"cidr": i.to_string()}}))
        .collect();
    let mut object = thing();
    object["spec"]["rules"] = json!(rules);
    let response = ask(
        &interpreter,
        "ReviseReplica",
        &object,
        &json!({"replicas": 1}),
    );
    let expected = json!([{"op": "replace", "path": "/spec/replicas", "value": 1}]);
    assert_eq!(response["patch"], expected, "{}", response["status"]);
}

/// Karmada decodes results into types, and refuses others.
#[test]
fn a_result_has_the_type_that_karmada_decodes() {
    for (rule, operation, script, problem) in [
        (
            "replicaResource",
            "InterpretReplica",
            "function GetReplicas() return 1, {1} end",
            "invalid type",
        ),
        (
            "replicaResource",
            "InterpretReplica",
            "function GetReplicas() return 1, {nodeClaim = {tolerations = {{key = 5}}}} end",
            "nodeClaim.tolerations[0].key: invalid type",
        ),
        (
            "replicaResource",
            "InterpretReplica",
            "function GetReplicas() return 1, {resourceRequest = {cpu = 'abc'}} end",
            "resourceRequest[cpu]: \"abc\" is not a quantity",
        ),
        (
            "componentResource",
            "InterpretComponent",
            "function GetComponents() return {{replicas = '3'}} end",
            "[0]: replicas: invalid type",
        ),
        (
            "dependencyInterpretation",
            "InterpretDependency",
            "function GetDependencies() return {{kind = 'Secret', name = 'a'}} end",
            "[0]: apiVersion: missing",
        ),
        (
            "dependencyInterpretation",
            "InterpretDependency",
            "function GetDependencies() return {{apiVersion = 'v1', kind = 'Secret', name = 5}} end",
            "[0]: name: invalid type",
        ),
        (
            "dependencyInterpretation",
            "InterpretDependency",
            "function GetDependencies() return {{apiVersion = 'v1', kind = 'Secret'}} end",
            "[0]: name and labelSelector: missing",
        ),
        (
            "retention",
            "ReviseReplica",
            "function Retain() end",
            "has no script for ReviseReplica",
        ),
        (
            "replicaRevision",
            "ReviseReplica",
            "function ReviseReplica() return {spec = {}} end",
            "kind is missing",
        ),
    ] {
        let interpreter = interpreter(&json!({rule: script}));
        let message = failure(&interpreter, operation, &thing());
        assert!(message.contains(problem), "{script}: {message}");
    }
}

/// The first customization by name wins. For dependencies, all count.
#[test]
fn several_customizations_of_a_kind_are_joined() {
    let dependency = |name: &str| {
        format!(
            "function GetDependencies() return {{{{apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = '{name}'}}}} end"
        )
    };
    let health = |healthy: bool| format!("function InterpretHealth() return {healthy} end");
    let both = [
        customization(
            "b",
            &json!({"dependencyInterpretation": dependency("x"), "healthInterpretation": health(false)}),
        ),
        customization(
            "a",
            &json!({"dependencyInterpretation": dependency("y"), "healthInterpretation": health(true)}),
        ),
        customization("c", &json!({"dependencyInterpretation": dependency("x")})),
    ];
    let interpreter = LuaInterpreter::new(&both, Limits::default()).unwrap();
    let healthy = ask(&interpreter, "InterpretHealth", &thing(), &json!({}));
    assert_eq!(healthy["healthy"], true);
    let found = ask(&interpreter, "InterpretDependency", &thing(), &json!({}));
    let names: Vec<_> = found["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(names, ["x", "y"]);
}

/// No call sees what another call has left.
#[test]
fn nothing_is_kept_between_calls() {
    for script in [
        "seen = (seen or 0) + 1 n = seen",
        "string.seen = (string.seen or 0) + 1 n = string.seen",
        "local t = require('table') t.seen = (t.seen or 0) + 1 n = t.seen",
        "_G.seen = (_G.seen or 0) + 1 n = _G.seen",
        "string = nil n = 1 if string then string.seen = (string.seen or 0) + 1 n = string.seen end",
        "kube = require('kube') kube.seen = (kube.seen or 0) + 1 n = kube.seen",
    ] {
        let script = format!("function ReflectStatus() {script} return {{n = n}} end");
        let interpreter = interpreter(&json!({"statusReflection": script}));
        for _ in 0..3 {
            let response = ask(&interpreter, "InterpretStatus", &thing(), &json!({}));
            assert_eq!(response["rawStatus"]["n"], 1, "{script}: {response}");
        }
    }
}

#[test]
fn a_script_has_the_functions_of_karmadas_engine() {
    for (script, expected) in [
        (
            "return {a = tostring(2^53), b = tostring(1e21), c = tostring(0.1)}",
            json!({"a": "9007199254740992", "b": "1e+21", "c": "0.1"}),
        ),
        (
            "return {tonumber('0x10'), tonumber(' 1.5e1 '), tonumber('ff', 16), tonumber(7), tostring(tonumber('1e3'))}",
            json!([16, 15, 255, 7, "nil"]),
        ),
        (
            "return {n = select('#', string.match('abc', 'x'))}",
            json!({"n": 0}),
        ),
        ("return {string.find('a.b', '.', 1, true)}", json!([2, 2])),
        ("return {string.find('abc', 'b(c)')}", json!([2, 3, "c"])),
        ("return {string.find('abcabc', 'b', -3)}", json!([5, 5])),
        (
            "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w)=(%w)') do t[k] = v end return t",
            json!({"a": "1", "b": "2"}),
        ),
        (
            "local t = {} for w in string.gmatch('aXbX', '%l*') do table.insert(t, w) end return t",
            json!(["a", "", "b", "", ""]),
        ),
        (
            "return {os.time(), os.date('!%Y-%m-%dT%H:%M:%SZ'), os.date('%Y', 0)}",
            json!([1_772_600_767, "2026-03-04T05:06:07Z", "1970"]),
        ),
        (
            "return {os.time({year = 2026, month = 3, day = 4, hour = 5, min = 6, sec = 7})}",
            json!([1_772_600_767]),
        ),
        (
            "return {os.date('*t').year, os.date('!*t').wday}",
            json!([2026, 4]),
        ),
        ("return {pcall(error, 'x')}", json!([false, "x"])),
        (
            "local ok, e = pcall(error, {code = 7}) return {ok, e.code}",
            json!([false, 7]),
        ),
        (
            "local ok, e = pcall(function() return require('kube').resourceAdd(1) end) return {e}",
            json!(["<string>:1: bad argument #1 to resourceAdd (string expected, got integer)"]),
        ),
        (
            "return {xpcall(function() error('x', 0) end, function(e) return e .. '!' end)}",
            json!([false, "x!"]),
        ),
        (
            "local k = require('kube') return {k.resourceAdd('1', '500m'), k.resourceAdd('1Mi', '1023Mi'), k.resourceAdd(), k.resourceAdd(nil, '1Gi')}",
            json!(["1500m", "1Gi", "0", "1Gi"]),
        ),
        (
            "return {require('kube').getResourceQuantity('1500m')}",
            json!([1.5]),
        ),
        (
            "local t = {3, 1, 2} table.sort(t) return t",
            json!([1, 2, 3]),
        ),
        (
            "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t",
            json!([3, 2, 1]),
        ),
        (
            "return {table.concat({1, 2}, '-'), #{1, 2}, unpack({7})}",
            json!(["1-2", 2, 7]),
        ),
        (
            "return {string.format('%d %s %5.2f', 3, 'x', 1.5)}",
            json!(["3 x  1.50"]),
        ),
    ] {
        assert_eq!(reflected(script, &thing()), expected, "{script}");
    }
}
