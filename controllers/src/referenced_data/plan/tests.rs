use std::slice;

use api::references::references;

use super::*;
use crate::fixtures::{deployment, now, object};

const SOURCE: &str = "ConfigMap/settings";

fn version(number: u64) -> SourceVersion {
    let metadata = json!({"uid": "u", "resourceVersion": number.to_string()});
    SourceVersion::of(&object(metadata)).unwrap()
}

/// Returns a WorkloadDeployment that uses one ConfigMap, with these annotations.
fn using(annotations: &Value) -> WorkloadDeployment {
    let mut body = json!(deployment("default", "web-us-dfw", "DFW", 1));
    body["metadata"]["annotations"] = annotations.clone();
    let all = json!([{"configMapRef": {"name": "settings"}}]);
    body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    object(body)
}

fn planned(deployment: &WorkloadDeployment, resolved: Result<u64, Problem>) -> Plan {
    planned_while(deployment, resolved, None)
}

/// Returns the plan while the content of the companion is that of this version.
fn planned_with(deployment: &WorkloadDeployment, current: u64, copied: Option<u64>) -> Plan {
    let contents = copied.map(|number| (Source::parse(SOURCE).unwrap(), version(number)));
    planned_for(
        deployment,
        Ok(current),
        None,
        &contents.into_iter().collect(),
    )
}

/// Returns the plan while the source is being released, or not.
fn planned_while(
    deployment: &WorkloadDeployment,
    resolved: Result<u64, Problem>,
    release: Option<Release>,
) -> Plan {
    let contents = resolved
        .as_ref()
        .ok()
        .map(|number| (Source::parse(SOURCE).unwrap(), version(*number)));
    planned_for(
        deployment,
        resolved,
        release,
        &contents.into_iter().collect(),
    )
}

fn planned_for(
    deployment: &WorkloadDeployment,
    resolved: Result<u64, Problem>,
    release: Option<Release>,
    contents: &BTreeMap<Source, SourceVersion>,
) -> Plan {
    let references = references(&deployment.spec.template.spec);
    let resolved = resolved.map(|number| Resolved {
        sources: references
            .keys()
            .map(|it| (it.clone(), version(number)))
            .collect(),
        unusable: BTreeSet::new(),
    });
    plan(&Observed {
        deployment,
        references: &references,
        resolved,
        contents,
        template_hash: "v1-a",
        releases: &release
            .map(|it| (Source::parse(SOURCE).unwrap(), it))
            .into_iter()
            .collect(),
        not_copied: Vec::new(),
        now: now(),
    })
}

fn listed(template: &str, number: u64) -> Value {
    let versions = MeantVersions {
        template: template.to_owned(),
        sources: BTreeMap::from([(SOURCE.to_owned(), version(number))]),
    };
    json!({
        annotations::EXPECTED_REFERENCED_DATA: json!([SOURCE]).to_string(),
        annotations::REFERENCED_DATA_VERSIONS: json!(versions).to_string(),
    })
}

/// Returns the versions that the plan writes.
fn written(plan: &Plan) -> Option<MeantVersions> {
    let metadata = plan.metadata.as_ref()?;
    let text = metadata["annotations"].get(annotations::REFERENCED_DATA_VERSIONS)?;
    serde_json::from_str(text.as_str()?).ok()
}

#[test]
fn the_list_and_the_finalizer_are_one_write() {
    let plan = planned(&using(&json!({})), Ok(7));
    let metadata = plan.metadata.clone().unwrap();
    assert_eq!(metadata["finalizers"], json!([finalizers::REFERENCED_DATA]));
    let list = &metadata["annotations"][annotations::EXPECTED_REFERENCED_DATA];
    assert_eq!(list, &json!([SOURCE]).to_string());
    assert_eq!(written(&plan).unwrap().sources[SOURCE], version(7));
    assert_eq!(plan.release, []);
}

/// Returns the WorkloadDeployment with or without the annotation of its template.
fn rolling(mut deployment: WorkloadDeployment, rolls: &str) -> WorkloadDeployment {
    deployment.spec.template.metadata = Some(object(
        json!({"annotations": {annotations::ROLL_ON_DATA_CHANGE: rolls}}),
    ));
    deployment
}

/// The cells replace the Instances when the versions change.
#[test]
fn the_versions_follow_the_companion_if_the_template_asks() {
    for (rolls, current, copied, expected) in [
        ("true", 9, Some(9), Some(9)),
        ("true", 7, Some(7), None),
        // The companion does not have the content yet, or only the labels have changed.
        ("true", 9, None, None),
        ("true", 9, Some(7), None),
        // The project was restored. The companion follows later.
        ("true", 3, Some(7), Some(3)),
        ("true", 3, Some(3), Some(3)),
        ("false", 9, Some(9), None),
    ] {
        let deployment = rolling(using(&listed("v1-a", 7)), rolls);
        let plan = planned_with(&deployment, current, copied);
        let versions = written(&plan).map(|it| it.sources[SOURCE].clone());
        assert_eq!(
            versions,
            expected.map(version),
            "{rolls} {current} {copied:?}"
        );
    }
    // The companion of a restored project has the former content until it is written.
    let restored = rolling(using(&listed("v1-a", 3)), "true");
    assert_eq!(written(&planned_with(&restored, 3, Some(7))), None);
}

/// A source that cannot be copied must not keep the others from being followed.
#[test]
fn a_new_source_is_meant_once_its_companion_is_there() {
    let mut former = listed("v1-a", 7);
    let versions = json!({"template": "v1-a", "sources": {}}).to_string();
    former[annotations::REFERENCED_DATA_VERSIONS] = json!(versions);
    let deployment = rolling(using(&former), "true");
    assert_eq!(written(&planned_with(&deployment, 9, None)), None);
    let versions = written(&planned_with(&deployment, 9, Some(8))).unwrap();
    assert_eq!(versions.sources[SOURCE], version(8));
}

#[test]
fn the_versions_are_written_for_another_template_and_after_a_restore_only() {
    for (template, former, current, expected) in [
        ("v1-a", 7, 7, None),
        // A changed source is written to the companion alone.
        ("v1-a", 7, 9, None),
        ("v1-b", 7, 9, Some(9)),
        // The project was restored.
        ("v1-a", 7, 5, Some(5)),
    ] {
        let plan = planned(&using(&listed(template, former)), Ok(current));
        let versions = written(&plan).map(|it| it.sources[SOURCE].clone());
        assert_eq!(
            versions,
            expected.map(version),
            "{template} {former} {current}"
        );
    }
}

#[test]
fn a_problem_keeps_the_list() {
    let problem = Problem {
        reason: reason::NOT_FOUND.to_owned(),
        message: "m".to_owned(),
    };
    let plan = planned(&using(&listed("v1-a", 7)), Err(problem.clone()));
    assert_eq!(plan.release, []);
    let annotations = plan.metadata.unwrap()["annotations"].clone();
    let expected = json!({annotations::REFERENCED_DATA_ERROR: json!(problem).to_string()});
    assert_eq!(annotations, expected);
}

#[test]
fn nothing_is_released_before_the_federator_has_finished() {
    let mut deployment = using(&listed("v1-a", 7));
    deployment.metadata.deletion_timestamp = Some(object(json!("2026-11-21T10:00:00Z")));
    let both = [finalizers::FEDERATOR, finalizers::REFERENCED_DATA];
    deployment.metadata.finalizers = Some(both.map(str::to_owned).to_vec());
    assert_eq!(planned(&deployment, Ok(7)), Plan::default());
    deployment.metadata.finalizers = Some(vec![finalizers::REFERENCED_DATA.to_owned()]);
    let source = Source::parse(SOURCE).unwrap();
    for (release, metadata) in [
        (None, None),
        (Some(Release::Begun), None),
        (Some(Release::Proved), Some(json!({"finalizers": []}))),
    ] {
        let plan = planned_while(&deployment, Ok(7), release);
        assert_eq!(plan.release, slice::from_ref(&source));
        assert_eq!(plan.metadata, metadata, "{release:?}");
    }
}

#[test]
fn a_source_is_listed_until_no_companion_names_the_deployment() {
    let mut deployment = using(&listed("v1-a", 7));
    deployment.metadata.finalizers = Some(vec![finalizers::REFERENCED_DATA.to_owned()]);
    deployment.spec = crate::fixtures::deployment("default", "web-us-dfw", "DFW", 1).spec;
    deployment.metadata.generation = Some(2);
    deployment.status = Some(object(json!({
        "observedGeneration": 2, "replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1,
    })));
    let list = |release| {
        let plan = planned_while(&deployment, Ok(7), release);
        assert_eq!(plan.release, [Source::parse(SOURCE).unwrap()]);
        let metadata = plan.metadata?;
        Some(
            metadata["annotations"]
                .get(annotations::EXPECTED_REFERENCED_DATA)
                .cloned(),
        )
    };
    // The versions are those of another template.
    assert_eq!(list(None), Some(None));
    assert_eq!(list(Some(Release::Begun)), Some(None));
    assert_eq!(list(Some(Release::Proved)), Some(Some(Value::Null)));
}
