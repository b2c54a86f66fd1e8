//! The requests that are compared. Each builds on those before.

use apiserver::objects;
use http::Method;
use serde_json::{Value, json};

/// One request.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) accept: &'static str,
    pub(super) body: Value,
    /// The name under which the metadata of the answer are kept for later requests.
    pub(super) saves: &'static str,
}

const JSON: &str = "application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NETWORKS: &str = "/apis/networking.datumapis.com/v1alpha/namespaces/default/networks";
const DEPLOYMENTS: &str =
    "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloaddeployments";

impl Step {
    fn saves(mut self, name: &'static str) -> Self {
        self.saves = name;
        self
    }
}

fn step(
    name: &'static str,
    method: Method,
    path: impl Into<String>,
    content_type: &'static str,
    body: Value,
) -> Step {
    Step {
        name,
        method,
        path: path.into(),
        content_type,
        accept: JSON,
        body,
        saves: "",
    }
}

fn get(name: &'static str, path: impl Into<String>) -> Step {
    step(name, Method::GET, path, JSON, Value::Null)
}

fn post(name: &'static str, path: &str, body: Value) -> Step {
    let path = format!("{path}?fieldManager=creator");
    step(name, Method::POST, path, JSON, body)
}

fn put(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    step(name, Method::PUT, path, JSON, body)
}

fn merge(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    let content_type = "application/merge-patch+json";
    step(name, Method::PATCH, path, content_type, body)
}

fn json_patch(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    let content_type = "application/json-patch+json";
    step(name, Method::PATCH, path, content_type, body)
}

/// `manager` is the parameters `fieldManager` and, where it is by force, `force`.
fn apply(name: &'static str, path: &str, manager: &str, body: Value) -> Step {
    let path = format!("{path}?fieldManager={manager}");
    let content_type = "application/apply-patch+yaml";
    step(name, Method::PATCH, path, content_type, body)
}

fn delete(name: &'static str, path: impl Into<String>, options: Value) -> Step {
    step(name, Method::DELETE, path, JSON, options)
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn network(name: &str) -> Value {
    objects::network("default", name)
}

/// All requests.
pub(super) fn steps() -> Vec<Step> {
    let groups = [
        absence(),
        writes(),
        status(),
        applies(),
        applied_lists(),
        deletes(),
        lists(),
        watches(),
    ];
    groups.into_iter().flatten().collect()
}

/// The forms of a 404.
fn absence() -> Vec<Step> {
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

/// Creates and conflicts.
fn writes() -> Vec<Step> {
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

/// The status subresource, and generations.
fn status() -> Vec<Step> {
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

/// Field managers.
fn applies() -> Vec<Step> {
    let m = &format!("{MAPS}/m");
    let uid = |uid: &str| {
        let mut map = map("m", json!({"a": "1"}));
        map["metadata"]["uid"] = json!(uid);
        map
    };
    vec![
        apply("apply without a manager", m, "", map("m", json!({}))),
        apply("apply what is absent, with a UID", m, "one&force=true", {
            uid("00000000-0000-4000-8000-000000000000")
        }),
        post(
            "create a ConfigMap",
            MAPS,
            map("m", json!({"created": "1", "a": "0"})),
        )
        .saves("m"),
        apply(
            "apply with a conflict",
            m,
            "one",
            map("m", json!({"a": "1", "b": "1", "created": "1"})),
        ),
        apply(
            "apply by force",
            m,
            "one&force=true",
            map("m", json!({"a": "1", "b": "1", "created": "1"})),
        ),
        apply("apply the same", m, "one", {
            map("m", json!({"a": "1", "b": "1", "created": "1"}))
        }),
        apply("apply with its UID", m, "one&force=true", {
            let mut map = map("m", json!({"a": "1", "b": "1", "created": "1"}));
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
            map("m", json!({"a": "2"})),
        ),
        apply(
            "another manager agrees",
            m,
            "other",
            map("m", json!({"b": "1"})),
        ),
        apply(
            "another manager takes a field",
            m,
            "other&force=true",
            map("m", json!({"a": "2", "b": "1"})),
        ),
        apply(
            "the first manager owns less",
            m,
            "one",
            map("m", json!({"created": "1"})),
        ),
        apply(
            "the other manager too",
            m,
            "other",
            map("m", json!({"a": "2"})),
        ),
        merge(
            "someone patches an applied field",
            m.as_str(),
            json!({"data": {"a": "3"}}),
        ),
        apply("what was patched stays", m, "other", map("m", json!({}))),
        apply("what was created stays", m, "one", map("m", json!({}))),
        apply("apply what is absent", &format!("{MAPS}/n"), "one", {
            map("n", json!({"a": "1", "b": "1"}))
        }),
        apply(
            "less of it",
            &format!("{MAPS}/n"),
            "one",
            map("n", json!({"b": "1"})),
        ),
        apply("labels and finalizers", &format!("{MAPS}/n"), "one", {
            let mut map = map("n", json!({"b": "1"}));
            map["metadata"]["labels"] = json!({"x": "1"});
            map["metadata"]["finalizers"] = json!(["example.com/one"]);
            map
        }),
        apply("finalizers of two", &format!("{MAPS}/n"), "other", {
            let mut map = map("n", json!({}));
            map["metadata"]["finalizers"] = json!(["example.com/other"]);
            map
        }),
        apply(
            "no labels and finalizers",
            &format!("{MAPS}/n"),
            "one",
            map("n", json!({"b": "1"})),
        ),
    ]
}

/// Lists of which the items have keys, and lists that are atomic.
fn applied_lists() -> Vec<Step> {
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
        delete("delete a deployment", d.as_str(), json!({})),
    ]
}

/// Preconditions and finalizers.
fn deletes() -> Vec<Step> {
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
            map("g", json!({"a": "1"})),
        ),
        delete("delete a ConfigMap", format!("{MAPS}/g"), json!({})),
    ]
}

/// Pages and selectors.
fn lists() -> Vec<Step> {
    let labelled = |name: &str, label: &str| {
        let mut network = network(name);
        network["metadata"]["labels"] = json!({"list": label});
        network
    };
    let list = |name, query: &str| get(name, format!("{NETWORKS}?{query}"));
    let mut metadata = list("metadata alone", "labelSelector=list%3Dx");
    metadata.accept = METADATA;
    let mut one = get("metadata of one object", format!("{NETWORKS}/l1"));
    one.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    vec![
        post("create l1", NETWORKS, labelled("l1", "x")),
        post("create l2", NETWORKS, labelled("l2", "x")),
        post("create l3", NETWORKS, labelled("l3", "y")),
        list("a list", ""),
        list("its first page", "limit=2").saves("page"),
        list("its second page", "limit=2&continue=$page.continue").saves("last"),
        list("a page of a selection", "limit=1&labelSelector=list%3Dy"),
        list("one page that holds all", "limit=10"),
        list("no label", "labelSelector=%21list"),
        list("a label", "labelSelector=list"),
        list("another value", "labelSelector=list%21%3Dx"),
        list("a name", "fieldSelector=metadata.name%3Dl1"),
        list("all names but one", "fieldSelector=metadata.name%21%3Dl1"),
        list("a token of no list", "limit=1&continue=nonsense"),
        metadata,
        one,
    ]
}

/// Events since the first write.
fn watches() -> Vec<Step> {
    let watch = |name, query: &str| {
        get(
            name,
            format!("{NETWORKS}?watch=true&timeoutSeconds=1&resourceVersion={query}"),
        )
    };
    let l1 = format!("{NETWORKS}/l1");
    let bookmarks = "watch=true&timeoutSeconds=6&allowWatchBookmarks=true";
    vec![
        merge(
            "relabel l1",
            l1.as_str(),
            json!({"metadata": {"labels": {"list": "z"}}}),
        ),
        merge(
            "label it back",
            l1.as_str(),
            json!({"metadata": {"labels": {"list": "x"}}}),
        ),
        get("the version after all writes", NETWORKS).saves("quiet"),
        watch("everything since the beginning", "$before.resourceVersion"),
        watch(
            "a selection",
            "$before.resourceVersion&labelSelector=list%3Dx",
        ),
        watch(
            "one object",
            "$before.resourceVersion&fieldSelector=metadata.name%3Df",
        ),
        watch("nothing new", "$quiet.resourceVersion"),
        get(
            "bookmarks",
            format!("{NETWORKS}?{bookmarks}&resourceVersion=$quiet.resourceVersion"),
        ),
        watch("a version that is too old", "1"),
    ]
}
