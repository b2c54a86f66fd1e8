use serde_json::{Value, json};

use super::*;

fn deployment(runtime: &Value, labels: &Value) -> WorkloadDeployment {
    serde_json::from_value(json!({
        "apiVersion": crate::API_VERSION, "kind": "WorkloadDeployment", "metadata": {"name": "web"},
        "spec": {
            "cityCode": "DFW", "placementName": "near", "workloadRef": {"name": "web", "uid": "1"},
            "scaleSettings": {"instanceManagementPolicy": "OrderedReady", "minReplicas": 1},
            "template": {"metadata": {"labels": labels}, "spec": {"networkInterfaces": [], "runtime": runtime}},
        },
    }))
    .unwrap()
}

fn rules() -> CellRules {
    let rules = json!({
        "env": [{"name": "PROXY", "value": "p:1"}],
        "images": [
            {"prefix": "registry.example/team", "replacement": "mirror.local/t"},
            {"prefix": "registry.example", "replacement": "mirror.local"},
        ],
        "instanceTypes": [{"from": "a/small", "to": "a/tiny"}],
        "labels": [{"key": "site", "value": "far"}],
    });
    CellRules::parse(&rules.to_string()).unwrap()
}

#[test]
fn rules_change_what_they_name_and_nothing_else() {
    let container = |image: &str, env: &Value| json!({"name": image, "image": image, "env": env});
    let runtime = json!({
        "resources": {"instanceType": "a/small"},
        "sandbox": {"containers": [
            container("registry.example/app:1", &json!([{"name": "PROXY", "value": "own"}, {"name": "A", "value": "$(PROXY)"}])),
            container("registry.example/team/app@sha256:1", &json!([])),
            container("registry.example.org/app", &json!([])),
            container("registry.example/teams", &json!([])),
        ]},
    });
    let mut changed = deployment(&runtime, &json!({"site": "x", "own": "y"}));
    rules().apply(&mut changed);
    let template = json!(changed.spec.template);
    assert_eq!(
        template["metadata"]["labels"],
        json!({"site": "far", "own": "y"})
    );
    let runtime = &template["spec"]["runtime"];
    assert_eq!(runtime["resources"]["instanceType"], "a/tiny");
    let images: Vec<_> = (0..4)
        .map(|it| &runtime["sandbox"]["containers"][it]["image"])
        .collect();
    assert_eq!(
        json!(images),
        json!([
            "mirror.local/app:1",
            "mirror.local/t/app@sha256:1",
            "registry.example.org/app",
            "mirror.local/teams"
        ])
    );
    assert_eq!(
        runtime["sandbox"]["containers"][0]["env"],
        json!([{"name": "PROXY", "value": "p:1"}, {"name": "A", "value": "$(PROXY)"}])
    );
    let added = &runtime["sandbox"]["containers"][1]["env"];
    assert_eq!(*added, json!([{"name": "PROXY", "value": "p:1"}]));
}

#[test]
fn replicas_are_limited_and_zero_stays() {
    let rules = |text: &str| CellRules::parse(text).unwrap();
    let limited = |rules: &CellRules, replicas: Value, min: i32, max: Value| {
        let mut deployment = deployment(&json!({"resources": {"instanceType": "a"}}), &json!({}));
        deployment.spec.replicas = serde_json::from_value(replicas).unwrap();
        deployment.spec.scale_settings.min_replicas = min;
        deployment.spec.scale_settings.max_replicas = serde_json::from_value(max).unwrap();
        rules.apply(&mut deployment);
        let settings = deployment.spec.scale_settings;
        json!([
            deployment.spec.replicas,
            settings.min_replicas,
            settings.max_replicas
        ])
    };
    let both = rules(r#"{"replicas":{"min":2,"max":4}}"#);
    for (replicas, min, max, expected) in [
        (json!(null), 1, json!(null), json!([null, 2, null])),
        (json!(9), 3, json!(10), json!([4, 3, 4])),
        (json!(0), 0, json!(1), json!([0, 0, 2])),
        (json!(-1), 5, json!(null), json!([-1, 4, null])),
    ] {
        assert_eq!(limited(&both, replicas, min, max), expected);
    }
    let most = rules(r#"{"replicas":{"max":1}}"#);
    assert_eq!(
        limited(&most, json!(3), 2, json!(null)),
        json!([1, 1, null])
    );
    let least = rules(r#"{"replicas":{"min":3}}"#);
    assert_eq!(limited(&least, json!(1), 2, json!(2)), json!([3, 3, 3]));
    // Of several rules, the first maximum and the first minimum count. The maximum counts more.
    let mut together = most.clone();
    together.extend(&both);
    assert_eq!(together, rules(r#"{"replicas":{"min":2,"max":1}}"#));
    assert_eq!(
        limited(&together, json!(3), 2, json!(null)),
        json!([1, 1, null])
    );
    for text in [r#"{"replicas":{"max":0}}"#, r#"{"replicas":{"max":1001}}"#] {
        let problem = CellRules::parse(text).unwrap_err();
        assert!(problem.contains("replicas.max"), "{problem}");
    }
    let problem = CellRules::parse(r#"{"replicas":{"min":0}}"#).unwrap_err();
    assert!(problem.contains("replicas.min"), "{problem}");
    assert_eq!(serde_json::to_string(&CellRules::default()).unwrap(), "{}");
}

#[test]
fn a_virtual_machine_has_no_containers() {
    let runtime = json!({
        "resources": {"instanceType": "a/other"},
        "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
    });
    let before = deployment(&runtime, &json!({"site": "far"}));
    let mut changed = before.clone();
    rules().apply(&mut changed);
    assert_eq!(changed, before);
}

#[test]
fn an_error_names_the_field() {
    for (rules, expected) in [
        ("", "EOF"),
        ("[]", "invalid type: sequence"),
        (r#"{"later": 1}"#, "unknown field `later`"),
        (
            r#"{"images": [{"prefix": "a"}]}"#,
            "missing field `replacement`",
        ),
        (
            r#"{"images": [{"prefix": "", "replacement": "b"}]}"#,
            "images[].prefix is empty",
        ),
        (
            r#"{"instanceTypes": [{"from": "a", "to": ""}]}"#,
            "instanceTypes[].to is empty",
        ),
        (r#"{"env": [{"name": "a=b", "value": ""}]}"#, "env[].name"),
        (
            r#"{"env": [{"name": "a", "value": ""}, {"name": "a", "value": "1"}]}"#,
            "twice",
        ),
        (
            r#"{"labels": [{"key": "a..b/x", "value": ""}]}"#,
            "labels[].key: ",
        ),
        (
            r#"{"labels": [{"key": "/x", "value": ""}]}"#,
            "labels[].key: ",
        ),
        (
            r#"{"labels": [{"key": "a/b/c", "value": ""}]}"#,
            "labels[].key: ",
        ),
        (
            r#"{"labels": [{"key": "x", "value": "a b"}]}"#,
            "labels[].value: ",
        ),
        (
            r#"{"images": [{"prefix": "a", "replacement": "b"}, {"prefix": "a", "replacement": "c"}]}"#,
            "images[].prefix: ",
        ),
        (
            r#"{"labels": [{"key": "compute.datumapis.com/x", "value": ""}]}"#,
            "labels[].key: ",
        ),
    ] {
        let error = CellRules::parse(rules).unwrap_err();
        assert!(error.contains(expected), "{rules}: {error}");
    }
    let long = |length| {
        format!(
            r#"{{"labels": [{{"key": "a.b-1/{}", "value": ""}}]}}"#,
            "x".repeat(length)
        )
    };
    assert!(CellRules::parse(&long(63)).is_ok());
    assert!(CellRules::parse(&long(64)).is_err());
    let many = json!({"env": (0..65).map(|it| json!({"name": it.to_string(), "value": ""})).collect::<Vec<_>>()});
    // The annotation of a cell can have the rules of several objects. One object cannot.
    let contradicting = json!({"replicas": {"min": 4, "max": 3}});
    for (rules, expected) in [
        (many, "env has 65 entries; the maximum is 64"),
        (
            contradicting,
            "replicas.min is 4; it must not be greater than max, 3",
        ),
    ] {
        let rules = CellRules::parse(&rules.to_string()).unwrap();
        let spec = CellRuleSpec {
            cells: LabelSelector::default(),
            rules,
        };
        let problems = CellRule::new("far", spec.clone()).problems();
        assert_eq!(problems, [format!("spec.rules.{expected}")]);
        let problems = CellRule::new("Far", spec).problems();
        assert_eq!(
            problems[0],
            r#"metadata.name: "Far" is no name of an object"#
        );
    }
    assert!(CellRules::parse("{}").unwrap().is_empty());
}

#[test]
fn of_several_rules_for_the_same_thing_the_first_counts() {
    let mut all = rules();
    let more = json!({
        "env": [{"name": "PROXY", "value": "other"}, {"name": "B", "value": "2"}],
        "images": [{"prefix": "registry.example", "replacement": "x"}, {"prefix": "y", "replacement": "z"}],
        "instanceTypes": [{"from": "a/small", "to": "x"}],
        "labels": [{"key": "site", "value": "near"}, {"key": "b", "value": "2"}],
    });
    all.extend(&CellRules::parse(&more.to_string()).unwrap());
    assert_eq!(
        json!(all.env),
        json!([{"name": "PROXY", "value": "p:1"}, {"name": "B", "value": "2"}])
    );
    assert_eq!((all.images.len(), all.instance_types.len()), (3, 1));
    assert_eq!(
        json!(all.labels),
        json!([{"key": "site", "value": "far"}, {"key": "b", "value": "2"}])
    );
}

/// The quota of the project covers the size that the customer has asked for.
#[test]
fn another_instance_type_keeps_the_size() {
    let runtime = |requests: &Value| {
        let resources = json!({"instanceType": "datumcloud/d1-standard-2", "requests": requests});
        let volumes = json!([{"name": "boot"}]);
        json!({"resources": resources, "virtualMachine": {"volumeAttachments": volumes}})
    };
    let rules = r#"{"instanceTypes":[{"from":"datumcloud/d1-standard-2","to":"far"}]}"#;
    let rules = CellRules::parse(rules).unwrap();
    for (requests, expected) in [
        (json!({}), json!({"cpu": "1", "memory": "2Gi"})),
        (json!({"cpu": "3"}), json!({"cpu": "1", "memory": "2Gi"})),
        (
            json!({"cpu": "3", "memory": "1Gi"}),
            json!({"cpu": "3", "memory": "1Gi"}),
        ),
    ] {
        let mut changed = deployment(&runtime(&requests), &json!({}));
        rules.apply(&mut changed);
        let resources = changed.spec.template.spec.runtime.resources;
        assert_eq!(json!(resources.requests), expected);
        assert_eq!(resources.instance_type, "far");
    }
}
