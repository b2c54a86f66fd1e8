//! Tests of Instances whose ConfigMaps and Secrets have changed.

use api::annotations::{REFERENCED_DATA_VERSIONS, ROLL_ON_DATA_CHANGE};
use serde_json::json;

use super::*;

/// Returns a deployment with two Instances whose data have these versions. `rolls` is the annotation of the template.
fn using(rolls: &str, versions: &[(&str, u64)]) -> WorkloadDeployment {
    let mut deployment = deployment(2);
    deployment.spec.template.metadata = Some(fixtures::object(
        json!({"annotations": {ROLL_ON_DATA_CHANGE: rolls}}),
    ));
    mean(&mut deployment, versions);
    deployment
}

fn mean(deployment: &mut WorkloadDeployment, versions: &[(&str, u64)]) {
    deployment
        .annotations_mut()
        .insert(REFERENCED_DATA_VERSIONS.into(), text(versions));
}

fn text(versions: &[(&str, u64)]) -> String {
    let sources = versions
        .iter()
        .map(|(source, version)| ((*source).to_owned(), json!(format!("u/{version}"))));
    let sources: serde_json::Map<_, _> = sources.collect();
    json!({"template": "v1-of-the-project", "sources": sources}).to_string()
}

/// Returns both Instances with this record. They have no closed gate.
fn recorded(deployment: &WorkloadDeployment, record: Option<&str>) -> Vec<Instance> {
    let instances = ["web-0", "web-1"].map(|name| {
        let mut instance = made(deployment, name, true);
        let template = deployment.spec.template.metadata.clone();
        *instance.annotations_mut() = template.unwrap_or_default().annotations;
        let record = record.map(|it| (REFERENCED_DATA_VERSIONS.to_owned(), it.to_owned()));
        instance.annotations_mut().extend(record);
        instance
    });
    instances.into()
}

#[test]
fn changed_data_replace_instances_one_at_a_time_if_the_template_asks() {
    let former: &[_] = &[("ConfigMap/a", 5), ("Secret/b", 7)];
    let replaced = &["replace web-1", "replace web-0"][..];
    for (rolls, meant, expected) in [
        ("true", former, &[][..]),
        ("true", &[("ConfigMap/a", 5), ("Secret/b", 8)], replaced),
        // A source is no longer listed, or the project was restored. The record follows.
        ("true", &[("ConfigMap/a", 5)], &[]),
        ("true", &[("ConfigMap/a", 5), ("Secret/b", 6)], &[]),
        // An optional source exists now.
        (
            "true",
            &[("ConfigMap/a", 5), ("Secret/b", 7), ("Secret/c", 9)],
            replaced,
        ),
        ("false", &[("ConfigMap/a", 6), ("Secret/b", 8)], &[]),
        ("", &[("ConfigMap/a", 6), ("Secret/b", 8)], &[]),
    ] {
        let deployment = using(rolls, meant);
        let instances = recorded(&deployment, Some(&text(former)));
        let steps = steps_for(&deployment, instances.clone());
        assert_eq!(steps, expected, "{rolls} {meant:?}");
        let plan = plan_for(&deployment, &shared(instances));
        assert_eq!(plan.refresh, [], "{rolls} {meant:?}");
        let follows = rolls == "true" && meant != former && expected.is_empty();
        assert_eq!(
            plan.record.len(),
            if follows { 2 } else { 0 },
            "{rolls} {meant:?}"
        );
        let updated = plan.status.unwrap().updated_replicas;
        assert_eq!(updated, Some(if expected.is_empty() { 2 } else { 0 }));
    }
}

/// The first versions can be determined after an Instance was made. It is not replaced because of them.
#[test]
fn an_instance_without_a_record_gets_the_versions_that_are_meant() {
    let versions: &[_] = &[("ConfigMap/a", 5)];
    for (rolls, expected) in [("true", 2), ("false", 0)] {
        let deployment = using(rolls, versions);
        let plan = plan_for(&deployment, &shared(recorded(&deployment, None)));
        assert_eq!((plan.steps, plan.record.len()), (Vec::new(), expected));
    }
    let mut unknown = using("true", versions);
    unknown.annotations_mut().clear();
    let plan = plan_for(&unknown, &shared(recorded(&unknown, None)));
    assert_eq!((plan.steps, plan.record), (Vec::new(), Vec::new()));
}

/// I-22: the record is not a part of the template.
#[test]
fn a_record_is_no_difference_from_the_template() {
    let deployment = using("true", &[("ConfigMap/a", 5)]);
    let mut instances = recorded(&deployment, Some(&text(&[("ConfigMap/a", 5)])));
    for instance in &mut instances {
        // A new default of the CRD has changed the hash.
        instance.spec.controller.as_mut().unwrap().template_hash = "v1-former".into();
    }
    let plan = plan_for(&deployment, &shared(instances));
    assert_eq!((plan.steps, plan.refresh.len()), (Vec::new(), 2));
}

/// An Instance of another template is replaced at once, and a surplus one is deleted.
#[test]
fn the_status_names_only_an_instance_that_stays_for_its_data() {
    let deployment = using("true", &[("ConfigMap/a", 6)]);
    let older = recorded(&deployment, Some(&text(&[("ConfigMap/a", 5)])));
    let says = |deployment: &WorkloadDeployment, instances: &[Instance]| {
        let plan = plan_with(
            deployment,
            &shared(instances.to_vec()),
            &DataVersions::new(),
        );
        json!(plan.status)
            .to_string()
            .contains("stays until the cell has the newer data")
    };
    assert!(says(&deployment, &older));
    let mut other = deployment.clone();
    other.spec.template.spec = changed(&deployment).spec.template.spec;
    assert!(!says(&other, &older));
    let mut none = deployment.clone();
    none.spec.scale_settings.min_replicas = 0;
    assert!(!says(&none, &older));
    let mut suspended = deployment;
    let annotation = (api::annotations::SUSPENDED.to_owned(), "true".to_owned());
    suspended.annotations_mut().extend([annotation]);
    assert!(!says(&suspended, &older));
}
