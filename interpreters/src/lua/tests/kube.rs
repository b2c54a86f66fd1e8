//! The functions of the library `kube` beside Karmada's rules.

use super::*;

const REQUIREMENTS: &str = "return require('kube').accuratePodRequirements(obj.t) or {}";
const DEPENDENCIES: &str =
    "return {found = require('kube').getPodDependencies(obj.t, obj.namespace)}";

fn requirements(template: &Value) -> Value {
    reflected(REQUIREMENTS, &json!({"kind": "Thing", "t": template}))
}

fn dependencies(template: &Value, namespace: &Value) -> Value {
    let object = json!({"kind": "Thing", "t": template, "namespace": namespace});
    reflected(DEPENDENCIES, &object)["found"].take()
}

/// Returns the message of a function that refuses a template.
fn refusal(script: &str, template: &Value) -> String {
    let script = format!("function ReflectStatus(obj) {script} end");
    let interpreter = interpreter(&json!({"statusReflection": script}));
    let object = json!({"kind": "Thing", "t": template});
    failure(&interpreter, "InterpretStatus", &object)
}

/// Quantities are texts or numbers, and spaces around them do not count.
#[test]
fn resources_are_summed() {
    let template = json!({"spec": {"containers": [
        {"resources": {"requests": {"cpu": " 500m", "memory": "1Gi "}}},
        {"resources": {"requests": {"cpu": 1.5, "memory": 1024}}},
    ]}});
    assert_eq!(
        requirements(&template),
        json!({"resourceRequest": {"cpu": "2", "memory": "1048577Ki"}})
    );
}

/// Only valid names of extended resources count.
#[test]
fn resources_have_valid_names() {
    let long = format!("example.com/{}", "x".repeat(64));
    for (name, counts) in [
        ("nvidia.com/gpu", true),
        ("example.com/A.b-c_d", true),
        ("hugepages-2Mi", true),
        ("attachable-volumes-aws-ebs", true),
        ("Nvidia.com/gpu", false),
        ("nvidia..com/gpu", false),
        ("nvidia.com/gpu-", false),
        ("nvidia.com/a/b", false),
        ("nvidia.com/", false),
        ("/gpu", false),
        ("requests.nvidia.com/gpu", false),
        ("gpu", false),
        (long.as_str(), false),
    ] {
        let template =
            json!({"spec": {"containers": [{"resources": {"requests": {name: "2", "cpu": 1}}}]}});
        let found = requirements(&template);
        let resources = found["resourceRequest"].as_object().unwrap();
        assert_eq!(resources.contains_key(name), counts, "{name}");
    }
}

/// Karmada decodes tolerations and affinities into types, so unknown fields are gone.
#[test]
fn the_node_claim_has_the_fields_of_kubernetes() {
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
    let template = json!({"spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "unknown": 1, "tolerationSeconds": 3},
        ],
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms, "unknown": 1},
        }},
    }});
    assert_eq!(
        requirements(&template),
        json!({"nodeClaim": {
            "hardNodeAffinity": {"nodeSelectorTerms": terms},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 3}],
        }})
    );
    // A toleration without any known field is an empty table, which is removed.
    let template = json!({"spec": {"tolerations": [{"unknown": 1}]}});
    assert_eq!(
        requirements(&template),
        json!({"nodeClaim": {"tolerations": []}})
    );
}

#[test]
fn dependencies_are_named() {
    let template = json!({"spec": {
        "containers": [{
            "env": [
                {"valueFrom": {"configMapKeyRef": {"name": "c1"}}},
                {"valueFrom": {"secretKeyRef": {"name": "s1"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "c2"}}, {"secretRef": {"name": "s2"}}],
        }],
        "imagePullSecrets": [{"name": "s3"}],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "c3"}}]}],
        "serviceAccountName": "account",
        "volumes": [
            {"configMap": {"name": "c4"}},
            {"csi": {"nodePublishSecretRef": {"name": "s4"}}},
            {"persistentVolumeClaim": {"claimName": "claim"}},
            {"projected": {"sources": [{"secret": {"name": "s5"}}, {"configMap": {"name": "c1"}}]}},
            {"scaleIO": {"secretRef": {"name": "s6"}}},
            {"secret": {"secretName": "s7"}},
            {"emptyDir": {}},
        ],
    }});
    let found = dependencies(&template, &json!("ns"));
    let found = found.as_array().unwrap().iter().map(|it| {
        assert_eq!(it["namespace"], "ns");
        format!(
            "{} {}",
            it["kind"].as_str().unwrap(),
            it["name"].as_str().unwrap()
        )
    });
    let expected = "ConfigMap c1, ConfigMap c2, ConfigMap c3, ConfigMap c4, Secret s1, Secret s2, Secret s3, Secret s4, \
        Secret s5, Secret s6, Secret s7, ServiceAccount account, PersistentVolumeClaim claim";
    assert_eq!(found.collect::<Vec<_>>().join(", "), expected);

    let template = json!({"spec": {"serviceAccountName": "default"}});
    assert_eq!(dependencies(&template, &Value::Null), Value::Null);
    // A number is a text, and no namespace is the default one.
    let template = json!({"spec": {"serviceAccountName": "a"}});
    for (namespace, text) in [
        (json!(2.5), "2.5"),
        (json!(7), "7"),
        (json!(null), "default"),
    ] {
        assert_eq!(dependencies(&template, &namespace)[0]["namespace"], text);
    }
}

/// A template whose fields have wrong types does not look like one without these fields.
#[test]
fn a_malformed_template_is_refused() {
    for (script, template, problem) in [
        (DEPENDENCIES, json!([1]), "the template: invalid type"),
        (DEPENDENCIES, json!([{}]), "the template: invalid type"),
        (
            DEPENDENCIES,
            json!({"spec": {"volumes": [{"secret": {"secretName": 5}}]}}),
            "the template: spec.volumes[0].secret.secretName: invalid type",
        ),
        (
            DEPENDENCIES,
            json!({"spec": {"containers": {"a": 1}}}),
            "the template: spec.containers: invalid type",
        ),
        (
            REQUIREMENTS,
            json!({"spec": {"tolerations": [{"key": 5}]}}),
            "the template: spec.tolerations[0].key: invalid type",
        ),
        (
            REQUIREMENTS,
            json!({"spec": {"containers": [{"resources": {"limits": {"unknown": "x"}}}]}}),
            "\"x\" is not a quantity",
        ),
    ] {
        let message = refusal(script, &template);
        assert!(message.contains(problem), "{template}: {message}");
    }
}

/// Each dependency repeats the namespace, so a long one would need much memory.
#[test]
fn a_namespace_that_is_too_long_is_refused() {
    let script = format!("function ReflectStatus(obj) {DEPENDENCIES} end");
    let interpreter = interpreter(&json!({"statusReflection": script}));
    let template = json!({"spec": {"serviceAccountName": "web"}});
    let object = json!({"kind": "Thing", "t": template, "namespace": "n".repeat(64)});
    let message = failure(&interpreter, "InterpretStatus", &object);
    let expected = "getPodDependencies: the namespace has more than 63 bytes";
    assert!(message.contains(expected), "{message}");
}
