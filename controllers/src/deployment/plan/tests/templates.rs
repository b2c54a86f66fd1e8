//! Tests of the hash of templates, and of fields that the types do not know.

use std::collections::BTreeSet;

use apiserver::objects;
use serde_json::{Value, json};

use super::*;
use crate::deployment::plan::observed::FIELD_MANAGER;
use crate::template::template_hash;

/// A changed hash replaces the machines of customers. These hashes were recorded before templates kept unknown fields.
#[test]
fn hashes_of_templates_without_unknown_fields_stay() {
    let hash = |template| {
        let mut deployment = deployment(1);
        deployment.spec.template = fixtures::object(template);
        template_hash(&deployment)
    };
    assert_eq!(hash(objects::template("app:1")), "v1-vxw8hnldpd");
    assert_eq!(hash(objects::complete_template()), "v1-jqnwxs2thc");
}

/// A field that the types do not know is a part of the template.
#[test]
fn an_unknown_field_changes_the_hash_at_every_level() {
    let hash = |template: Value| {
        let mut deployment = deployment(1);
        deployment.spec.template = fixtures::object(template);
        template_hash(&deployment)
    };
    let mut later = objects::later_template();
    let mut hashes = BTreeSet::from([hash(later.clone())]);
    let fields = later_fields(&later);
    assert!(fields.len() > 40, "{fields:?}");
    for pointer in &fields {
        *later.pointer_mut(pointer).unwrap() = json!(pointer);
        assert!(hashes.insert(hash(later.clone())), "{pointer}");
    }
}

/// Returns the names of the Instances to replace and to refresh.
fn rollout(deployment: &WorkloadDeployment, instance: &Instance) -> (Vec<String>, usize) {
    let instances = shared([instance.clone()]);
    let plan = plan_for(deployment, &instances);
    let steps = steps_for(deployment, vec![instance.clone()]);
    assert_eq!(steps.len(), plan.steps.len());
    (steps, plan.refresh.len())
}

/// I-22: the API server adds a default of a newer CRD to the template and to the Instance.
#[test]
fn a_new_default_replaces_nothing() {
    let mut deployment = deployment(1);
    deployment.spec.template = fixtures::object(objects::complete_template());
    let mut instance = made(&deployment, "web-0", true);
    instance
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .extend([("tier".to_owned(), "web".to_owned())]);
    let metadata = deployment.spec.template.metadata.clone().unwrap();
    assert_eq!(
        metadata.labels,
        [("tier".to_owned(), "web".to_owned())].into()
    );
    instance.metadata.annotations = Some(metadata.annotations);
    assert_eq!(rollout(&deployment, &instance), (vec![], 0));
    let with_default = |mut spec: Value| {
        spec["runtime"]["later"] = json!({"mode": "Always"});
        spec["volumes"][0]["later"] = json!(7);
        fixtures::object::<InstanceSpec>(spec)
    };
    deployment.spec.template.spec = with_default(json!(deployment.spec.template.spec));
    let replaced = || vec!["replace web-0".to_owned()];
    // The Instance does not have the field: a customer may have added it.
    assert_eq!(rollout(&deployment, &instance), (replaced(), 0));
    instance.spec = with_default(json!(instance.spec));
    assert_eq!(rollout(&deployment, &instance), (vec![], 1));
    // A change of the template replaces the Instance, whatever the change is.
    let changes: [fn(&mut Value); 6] = [
        |template| template["spec"]["runtime"]["later"]["mode"] = json!("Never"),
        |template| {
            let runtime = template["spec"]["runtime"].as_object_mut();
            runtime.unwrap().remove("later");
        },
        |template| template["metadata"]["labels"]["tier"] = json!("db"),
        |template| template["metadata"]["labels"]["more"] = json!("x"),
        |template| template["metadata"]["labels"] = json!({}),
        |template| template["metadata"]["annotations"] = json!({"a": "changed"}),
    ];
    for change in changes {
        let mut template = json!(deployment.spec.template);
        change(&mut template);
        let mut other = deployment.clone();
        other.spec.template = fixtures::object(template.clone());
        assert_eq!(rollout(&other, &instance), (replaced(), 0), "{template}");
    }
}

/// I-22: only labels and annotations that the controller has written can have left the template.
#[test]
fn a_new_default_replaces_nothing_that_others_have_labelled() {
    let mut deployment = deployment(1);
    deployment.spec.template.metadata = Some(fixtures::object(
        json!({"labels": {"tier": "web"}, "annotations": {"a": "own"}}),
    ));
    let mut value = json!(made(&deployment, "web-0", true));
    let metadata = &mut value["metadata"];
    metadata["labels"]["tier"] = json!("web");
    metadata["labels"]["rack"] = json!("r7");
    metadata["annotations"] = json!({"a": "own", "provider.example/vm": "vm-1"});
    let unknown: Instance = fixtures::object(value.clone());
    value["metadata"]["managedFields"] = json!([
        {
            "manager": "provider", "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {
                "f:labels": {"f:rack": {}}, "f:annotations": {"f:provider.example/vm": {}},
            }},
        },
        {
            "manager": FIELD_MANAGER, "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:tier": {}}, "f:annotations": {"f:a": {}}}},
        },
    ]);
    let instance: Instance = fixtures::object(value);
    // A new default has changed the hash.
    let mut defaulted = [unknown, instance];
    for instance in &mut defaulted {
        instance.spec.controller.as_mut().unwrap().template_hash = "v1-former".into();
    }
    let [unknown, instance] = defaulted;
    assert_eq!(rollout(&deployment, &instance), (vec![], 1));
    let replaced = || (vec!["replace web-0".to_owned()], 0);
    // A cache does not have the writers.
    assert_eq!(rollout(&deployment, &unknown), replaced());
    let changes: [fn(&mut Value); 6] = [
        |metadata| metadata["labels"] = json!({}),
        |metadata| metadata["annotations"] = json!({}),
        |metadata| metadata["labels"]["tier"] = json!("db"),
        |metadata| metadata["labels"]["rack"] = json!("r8"),
        |metadata| metadata["labels"]["more"] = json!("x"),
        |metadata| metadata["annotations"]["a"] = json!("changed"),
    ];
    for change in changes {
        let mut template = json!(deployment.spec.template);
        change(&mut template["metadata"]);
        let mut other = deployment.clone();
        other.spec.template = fixtures::object(template.clone());
        assert_eq!(rollout(&other, &instance), replaced(), "{template}");
    }
}

/// I-22: after a new default, the provider reports the former hash until it has observed the refreshed Instance.
#[test]
fn a_report_with_the_hash_from_before_a_default_counts_until_the_template_changes() {
    let mut deployment = deployment(1);
    let mut instance = made(&deployment, "web-0", true);
    let with_default = |mut spec: Value| {
        spec["later"] = json!("default");
        fixtures::object::<InstanceSpec>(spec)
    };
    let template = &mut deployment.spec.template.spec;
    *template = with_default(json!(template));
    instance.spec = with_default(json!(instance.spec));
    let current = |deployment: &WorkloadDeployment, instance: &Instance| {
        let plan = plan_for(deployment, &shared([instance.clone()]));
        plan.status.unwrap().current_replicas
    };
    let mut refreshed = instance.clone();
    let controller = refreshed.spec.controller.as_mut().unwrap();
    controller.template_hash = template_hash(&deployment);
    let changed = changed(&deployment);
    for instance in [&instance, &refreshed] {
        assert_eq!(current(&deployment, instance), 1);
        assert_eq!(current(&changed, instance), 0);
    }
    // The Instance was created again from the new template. The provider has not reported it yet.
    let mut recreated = made(&changed, "web-0", true);
    for unreported in [Some(InstanceControllerStatus::default()), None] {
        recreated.status.as_mut().unwrap().controller = unreported;
        assert_eq!(current(&changed, &recreated), 0);
    }
}

/// Returns the JSON pointers of all fields `later`.
fn later_fields(value: &Value) -> Vec<String> {
    let children: Vec<_> = match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    let below = children.into_iter().flat_map(|(key, child)| {
        let below = if key == "later" {
            vec![String::new()]
        } else {
            later_fields(child)
        };
        below.into_iter().map(move |rest| format!("/{key}{rest}"))
    });
    below.collect()
}

#[test]
fn an_instance_without_a_field_of_its_template_is_reported() {
    let mut deployment = deployment(1);
    deployment.spec.template = fixtures::object(objects::later_template());
    let says = |instance: Instance| {
        let plan = plan_for(&deployment, &shared([instance]));
        assert!(plan.steps.is_empty() && plan.refresh.is_empty());
        let conditions = plan.status.unwrap().conditions;
        let available = condition::find(&conditions, AVAILABLE).unwrap();
        available
            .message
            .contains("web-0 lacks parts of the template")
    };
    let complete = made(&deployment, "web-0", true);
    assert!(!says(complete.clone()));
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut value = json!(complete);
        edit(&mut value["spec"]);
        fixtures::object::<Instance>(value)
    };
    // An API server adds defaults, and other controllers add fields.
    assert!(!says(with(&|spec| spec["runtime"]["added"] = json!(1))));
    let container = "/runtime/sandbox/containers/0";
    assert!(says(with(&|spec| {
        let container = spec.pointer_mut(container).unwrap();
        container.as_object_mut().unwrap().remove("later");
    })));
    assert!(says(with(&|spec| spec["volumes"] = json!([]))));
}

#[test]
fn the_order_of_unknown_fields_does_not_change_the_hash() {
    let hash = |fields: &str| {
        let text = objects::template("app:1").to_string();
        let text = text.replacen('{', &format!("{{{fields},"), 1);
        let mut deployment = deployment(1);
        deployment.spec.template = serde_json::from_str(&text).unwrap();
        template_hash(&deployment)
    };
    let one = hash(r#""a":{"c":1,"d":2},"b":3"#);
    assert_eq!(one, hash(r#""b":3,"a":{"d":2,"c":1}"#));
    assert_ne!(one, hash(r#""a":{"c":1,"d":2},"b":4"#));
}
