//! The requests about absent objects, and the requests that create, change and delete objects.

use serde_json::{Value, json};

use super::step::{
    MAPS, NETWORKS, Step, apply, delete, get, json_patch, map, merge, network, post, put,
};

/// Returns requests whose answers are the different forms of a 404.
pub(super) fn absence() -> Vec<Step> {
    let in_nothing = NETWORKS.replace("default", "nowhere");
    vec![
        get("get an absent ConfigMap", format!("{MAPS}/absent")),
        get("get an absent Network", format!("{NETWORKS}/absent")),
        get("get in an absent namespace", format!("{in_nothing}/absent")),
        get("list in an absent namespace", in_nothing.as_str()),
        get("get an absent namespace", "/api/v1/namespaces/absent"),
        get(
            "a group that is not served",
            "/apis/absent.example/v1/things/a",
        ),
        get(
            "a kind that is not served in the group of a CRD",
            "/apis/networking.datumapis.com/v1alpha/namespaces/default/things/a",
        ),
        get(
            "a kind that is not served in the core group",
            "/api/v1/namespaces/default/things/a",
        ),
        get(
            "a version that is not served",
            "/apis/networking.datumapis.com/v9/namespaces/default/networks/a",
        ),
        post("create in an absent namespace", &in_nothing, {
            let mut network = network("a");
            network["metadata"]["namespace"] = json!("nowhere");
            network
        }),
        merge(
            "patch an absent Network",
            format!("{NETWORKS}/absent"),
            json!({"spec": {}}),
        ),
        merge(
            "patch the status of an absent Network",
            format!("{NETWORKS}/absent/status"),
            json!({"status": {}}),
        ),
        delete(
            "delete an absent Network",
            format!("{NETWORKS}/absent"),
            json!({}),
        ),
        delete(
            "delete an absent ConfigMap",
            format!("{MAPS}/absent"),
            json!({}),
        ),
    ]
}

/// Returns requests that create objects, and requests that cause conflicts.
pub(super) fn writes() -> Vec<Step> {
    let a = format!("{NETWORKS}/a");
    let spec = |mode: &str| json!({"spec": {"ipam": {"mode": mode}}});
    let versioned = |version: &str, uid: &str| json!({"metadata": {"resourceVersion": version, "uid": uid}, "spec": {"ipam": {"mode": "Policy"}}});
    let replaced = |version: &str| {
        let mut network = network("a");
        network["metadata"]["resourceVersion"] = json!(version);
        network["metadata"]["labels"] = json!({"replaced": "yes"});
        network
    };
    let tested = |version: &str| {
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/spec/ipam/mode", "value": "Policy"},
        ])
    };
    vec![
        get("the version before all writes", NETWORKS).saves("before"),
        post("create a Network with a status", NETWORKS, {
            let mut network = network("a");
            network["status"] = json!({"conditions": []});
            network
        })
        .saves("first"),
        post("create it again", NETWORKS, network("a")),
        get("get it", a.as_str()),
        merge("change its spec", a.as_str(), spec("Policy")).saves("second"),
        merge("change it to what it is", a.as_str(), spec("Policy")),
        merge(
            "change a former version",
            a.as_str(),
            versioned("$first.resourceVersion", "$first.uid"),
        ),
        merge(
            "change another object of its name",
            a.as_str(),
            versioned(
                "$second.resourceVersion",
                "00000000-0000-4000-8000-000000000000",
            ),
        ),
        put(
            "replace a former version",
            a.as_str(),
            replaced("$first.resourceVersion"),
        ),
        put(
            "replace it",
            a.as_str(),
            replaced("$second.resourceVersion"),
        )
        .saves("third"),
        json_patch(
            "set a former version",
            a.as_str(),
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "$first.resourceVersion"},
                {"op": "replace", "path": "/spec/ipam/mode", "value": "Auto"},
            ]),
        ),
        json_patch(
            "test a former version",
            a.as_str(),
            tested("$first.resourceVersion"),
        ),
        json_patch(
            "test its version",
            a.as_str(),
            tested("$third.resourceVersion"),
        ),
        merge(
            "remove a label by null",
            a.as_str(),
            json!({"metadata": {"labels": {"replaced": null}}}),
        ),
    ]
}

/// Returns requests that use the status subresource or change the generation.
pub(super) fn status() -> Vec<Step> {
    let a = format!("{NETWORKS}/a");
    let both = json!({"status": {"phase": "on"}, "spec": {"ipam": {"mode": "Auto"}}});
    let applied = |status: Value| {
        let mut network = network("a");
        network.as_object_mut().map(|fields| fields.remove("spec"));
        network["status"] = status;
        network
    };
    vec![
        merge(
            "the status, with a spec beside it",
            format!("{a}/status"),
            both.clone(),
        ),
        merge("the spec, with a status beside it", a.as_str(), both),
        get("the status by itself", format!("{a}/status")),
        apply(
            "apply a status",
            &format!("{a}/status"),
            "one&force=true",
            applied(json!({"phase": "off", "more": {"x": 1, "y": 2}})),
        ),
        apply(
            "apply less of it",
            &format!("{a}/status"),
            "one&force=true",
            applied(json!({"phase": "off", "more": {"x": 1}})),
        ),
        apply(
            "apply another part as another manager",
            &format!("{a}/status"),
            "other&force=true",
            applied(json!({"other": true})),
        ),
        get(
            "a ConfigMap has no status",
            format!("{MAPS}/kube-root-ca.crt/status"),
        ),
    ]
}

/// Returns deletions with preconditions and with finalizers.
pub(super) fn deletes() -> Vec<Step> {
    let f = format!("{NETWORKS}/f");
    let only = |field: &str, value: &str| json!({"preconditions": {field: value}});
    vec![
        post("create with a finalizer", NETWORKS, {
            let mut network = network("f");
            network["metadata"]["finalizers"] = json!(["example.com/f"]);
            network
        })
        .saves("f"),
        delete("delete another object of its name", f.as_str(), {
            only("uid", "00000000-0000-4000-8000-000000000000")
        }),
        delete(
            "delete another version",
            f.as_str(),
            only("resourceVersion", "1"),
        ),
        delete("delete it", f.as_str(), only("uid", "$f.uid")),
        delete("delete it again", f.as_str(), only("uid", "$f.uid")),
        merge(
            "a finalizer is not added to what terminates",
            f.as_str(),
            json!({"metadata": {"labels": {"still": "there"}}}),
        ),
        merge(
            "remove its finalizer",
            f.as_str(),
            json!({"metadata": {"finalizers": []}}),
        ),
        get("it is gone", f.as_str()),
        merge(
            "patch what is gone",
            f.as_str(),
            json!({"metadata": {"finalizers": []}}),
        ),
        post("create without a finalizer", NETWORKS, network("g")).saves("g"),
        delete(
            "delete a Network",
            format!("{NETWORKS}/g"),
            only("uid", "$g.uid"),
        ),
        post(
            "create a ConfigMap to delete",
            MAPS,
            map("g", &json!({"a": "1"})),
        ),
        delete("delete a ConfigMap", format!("{MAPS}/g"), json!({})),
    ]
}
