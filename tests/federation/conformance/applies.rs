//! The requests of server-side apply by several field managers.

use apiserver::objects;
use serde_json::{Value, json};

use super::step::{DEPLOYMENTS, MAPS, Step, apply, delete, json_patch, map, merge, post};

/// A field of the spec, and of the status, that the CRD does not have.
pub(super) const UNDECLARED: &str = "undeclared";

/// Returns applies of one object by several field managers.
pub(super) fn applies() -> Vec<Step> {
    let m = &format!("{MAPS}/m");
    let uid = |uid: &str| {
        let mut map = map("m", &json!({"a": "1"}));
        map["metadata"]["uid"] = json!(uid);
        map
    };
    vec![
        apply("apply without a manager", m, "", map("m", &json!({}))),
        apply("apply what is absent, with a UID", m, "one&force=true", {
            uid("00000000-0000-4000-8000-000000000000")
        }),
        post(
            "create a ConfigMap",
            MAPS,
            map("m", &json!({"created": "1", "a": "0"})),
        )
        .saves("m"),
        apply(
            "apply with a conflict",
            m,
            "one",
            map("m", &json!({"a": "1", "b": "1", "created": "1"})),
        ),
        apply(
            "apply by force",
            m,
            "one&force=true",
            map("m", &json!({"a": "1", "b": "1", "created": "1"})),
        ),
        apply("apply the same", m, "one", {
            map("m", &json!({"a": "1", "b": "1", "created": "1"}))
        }),
        apply("apply with its UID", m, "one&force=true", {
            let mut map = map("m", &json!({"a": "1", "b": "1", "created": "1"}));
            map["metadata"]["uid"] = json!("$m.uid");
            map
        }),
        apply("apply with another UID", m, "one&force=true", {
            uid("00000000-0000-4000-8000-000000000000")
        }),
        apply(
            "another manager conflicts",
            m,
            "other",
            map("m", &json!({"a": "2"})),
        ),
        apply(
            "another manager agrees",
            m,
            "other",
            map("m", &json!({"b": "1"})),
        ),
        apply(
            "another manager takes a field",
            m,
            "other&force=true",
            map("m", &json!({"a": "2", "b": "1"})),
        ),
        apply(
            "the first manager owns less",
            m,
            "one",
            map("m", &json!({"created": "1"})),
        ),
        apply(
            "the other manager too",
            m,
            "other",
            map("m", &json!({"a": "2"})),
        ),
        merge(
            "someone patches an applied field",
            m.as_str(),
            json!({"data": {"a": "3"}}),
        ),
        apply("what was patched stays", m, "other", map("m", &json!({}))),
        apply("what was created stays", m, "one", map("m", &json!({}))),
    ]
}

/// Returns applies that create objects, or that change labels and finalizers.
pub(super) fn applied_objects() -> Vec<Step> {
    vec![
        apply("apply what is absent", &format!("{MAPS}/n"), "one", {
            map("n", &json!({"a": "1", "b": "1"}))
        }),
        apply(
            "less of it",
            &format!("{MAPS}/n"),
            "one",
            map("n", &json!({"b": "1"})),
        ),
        apply("labels and finalizers", &format!("{MAPS}/n"), "one", {
            let mut map = map("n", &json!({"b": "1"}));
            map["metadata"]["labels"] = json!({"x": "1"});
            map["metadata"]["finalizers"] = json!(["example.com/one"]);
            map
        }),
        apply("finalizers of two", &format!("{MAPS}/n"), "other", {
            let mut map = map("n", &json!({}));
            map["metadata"]["finalizers"] = json!(["example.com/other"]);
            map
        }),
        apply(
            "no labels and finalizers",
            &format!("{MAPS}/n"),
            "one",
            map("n", &json!({"b": "1"})),
        ),
    ]
}

/// Returns applies of lists whose items have keys, and of atomic lists.
pub(super) fn applied_lists() -> Vec<Step> {
    let d = &format!("{DEPLOYMENTS}/d");
    let deployment = |env: Value, interfaces: usize| {
        let mut deployment = objects::deployment("default", "d", "DFW", 1);
        let template = &mut deployment["spec"]["template"]["spec"];
        let interface = template["networkInterfaces"][0].clone();
        template["networkInterfaces"] = json!(vec![interface; interfaces]);
        template["runtime"]["sandbox"]["containers"][0]["env"] = env;
        deployment
    };
    let variable = |name: &str| json!({"name": name, "value": "1"});
    let undeclared = || {
        let mut deployment = deployment(json!([variable("ONE")]), 1);
        deployment["spec"][UNDECLARED] = json!("x");
        deployment
    };
    vec![
        post("create a deployment", DEPLOYMENTS, {
            deployment(json!([variable("CREATED")]), 1)
        }),
        apply("apply a variable", d, "one&force=true", {
            deployment(json!([variable("ONE"), variable("TWO")]), 2)
        }),
        apply("apply fewer", d, "one&force=true", {
            deployment(json!([variable("ONE")]), 1)
        }),
        apply(
            "apply a field that the CRD does not have",
            d,
            "one&force=true",
            undeclared(),
        ),
        apply(
            "apply such a field to a status",
            &format!("{d}/status"),
            "one&force=true",
            {
                let mut body = undeclared();
                body["spec"] = deployment(json!([]), 1)["spec"].take();
                body["status"] = json!({UNDECLARED: 1});
                body
            },
        ),
        json_patch("replace the spec with such a field", d.as_str(), {
            let spec = undeclared()["spec"].clone();
            json!([{"op": "replace", "path": "/spec", "value": spec}])
        }),
        delete("delete a deployment", d.as_str(), json!({})),
    ]
}

/// Returns the life of a gate: a create sets it, the same manager applies the object without it, and another manager
/// removes it. No apply removes the gate or adds it again.
pub(super) fn gates() -> Vec<Step> {
    let d = &format!("{DEPLOYMENTS}/gated");
    let list = "/spec/template/spec/controller/schedulingGates";
    let deployment = |replicas: i32, controller: Value| {
        let mut deployment = objects::deployment("default", "gated", "DFW", replicas);
        deployment["spec"]["template"]["spec"]["controller"] = controller;
        deployment
    };
    let without = |replicas| deployment(replicas, json!({"templateHash": "h"}));
    let opened = |generation: i64| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "$gated.uid"},
            {"op": "test", "path": "/metadata/generation", "value": generation},
            {"op": "test", "path": format!("{list}/1/name"), "value": "Quota"},
            {"op": "remove", "path": format!("{list}/1")},
        ])
    };
    vec![
        post("create with gates", DEPLOYMENTS, {
            let gates = json!([{"name": "Network"}, {"name": "Quota"}]);
            deployment(1, json!({"templateHash": "h", "schedulingGates": gates}))
        })
        .saves("gated"),
        apply("apply without gates", d, "creator&force=true", without(1)),
        apply("apply more", d, "creator&force=true", without(2)),
        json_patch("remove a gate of a former generation", d, opened(1)),
        json_patch("remove a gate", d, opened(2)),
        json_patch("remove it again", d, opened(3)),
        apply("apply after that", d, "creator&force=true", without(3)),
        delete("delete the deployment", d, json!({})),
    ]
}
