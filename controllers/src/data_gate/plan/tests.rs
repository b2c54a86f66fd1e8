use api::instance::REFERENCED_DATA_GATE;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{deployment, instance, now, object};

const SOURCE: &str = "Secret/token";

fn version(number: u64) -> SourceVersion {
    let metadata = json!({"uid": "u", "resourceVersion": number.to_string()});
    SourceVersion::of(&object(metadata)).unwrap()
}

/// Returns a WorkloadDeployment that uses a Secret, and has these annotations.
fn using(annotations: &Value) -> WorkloadDeployment {
    let mut body = json!(deployment("ns-1", "web", "DFW", 1));
    body["metadata"]["annotations"] = annotations.clone();
    let all = json!([{"secretRef": {"name": "token"}}]);
    body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] = all;
    object(body)
}

/// Returns the annotations of a WorkloadDeployment that needs this version of the Secret.
fn needing(number: u64) -> Value {
    let versions = MeantVersions {
        template: "hash of the project".to_owned(),
        sources: BTreeMap::from([(SOURCE.to_owned(), version(number))]),
    };
    json!({
        annotations::UPSTREAM_GENERATION: "1",
        annotations::EXPECTED_REFERENCED_DATA: json!([SOURCE]).to_string(),
        annotations::REFERENCED_DATA_VERSIONS: json!(versions).to_string(),
    })
}

/// Returns an Instance of the template, with or without the gate.
fn of(deployment: &WorkloadDeployment, is_closed: bool) -> Instance {
    let mut body = json!(instance("ns-1", "web-0"));
    body["spec"] = json!(deployment.spec.template.spec);
    let gates: &[_] = if is_closed {
        &[json!({"name": REFERENCED_DATA_GATE})]
    } else {
        &[]
    };
    body["spec"]["controller"] =
        json!({"templateHash": template_hash(deployment), "schedulingGates": gates});
    object(body)
}

fn observed<'a>(
    instance: &'a Instance,
    needs: &'a Result<Needed, Unmet>,
    companions: &'a BTreeMap<Source, SourceVersion>,
    cell: &'a CellName,
) -> Observed<'a> {
    Observed {
        instance,
        needs,
        companions,
        awaits_data: true,
        cell,
        now: now(),
    }
}

/// Returns the status and the reason that the plan writes, and whether companions are awaited.
fn shown(
    annotations: &Value,
    there: Option<u64>,
    change: impl FnOnce(&mut Instance),
) -> (Option<String>, bool) {
    let deployment = using(annotations);
    let mut instance = of(&deployment, true);
    change(&mut instance);
    let there = there.map(|number| (Source::parse(SOURCE).unwrap(), version(number)));
    let there = there.into_iter().collect();
    let cell = CellName::new("dfw1").unwrap();
    let needs = needs(&instance, Some(&deployment));
    let plan = plan(&observed(&instance, &needs, &there, &cell));
    let step = plan.step.map(|step| match step {
        GateStep::Write(conditions) => {
            let condition = conditions.last().unwrap();
            format!("{:?}/{}", condition.status, condition.reason)
        }
        GateStep::Open => "open".to_owned(),
    });
    (step, plan.look_again.is_some())
}

/// I-33: an older companion does not open the gate.
#[test]
fn the_gate_waits_for_the_version_that_the_template_needs() {
    let awaiting = (Some("False/AwaitingPropagation".to_owned()), true);
    let ready = (Some("True/Ready".to_owned()), false);
    assert_eq!(shown(&needing(7), None, |_| {}), awaiting);
    assert_eq!(shown(&needing(7), Some(6), |_| {}), awaiting);
    assert_eq!(shown(&needing(7), Some(7), |_| {}), ready);
    assert_eq!(shown(&needing(7), Some(8), |_| {}), ready);
}

#[test]
fn the_gate_stays_closed_until_the_data_of_this_template_are_determined() {
    let resolving = (Some("Unknown/Resolving".to_owned()), false);
    assert_eq!(shown(&json!({}), Some(9), |_| {}), resolving);
    let mut undetermined = needing(7);
    let annotations = undetermined.as_object_mut().unwrap();
    annotations.remove(annotations::REFERENCED_DATA_VERSIONS);
    assert_eq!(shown(&undetermined, Some(9), |_| {}), resolving);
    let of_another_template = |instance: &mut Instance| {
        instance.spec.controller.as_mut().unwrap().template_hash = "v1-other".into();
    };
    assert_eq!(shown(&needing(7), Some(9), of_another_template), resolving);
    let mut without = needing(7);
    without[annotations::EXPECTED_REFERENCED_DATA] = json!("[]");
    assert_eq!(shown(&without, Some(9), |_| {}), resolving);
}

#[test]
fn the_list_of_the_go_manager_has_no_versions() {
    let list = json!({annotations::EXPECTED_REFERENCED_DATA: json!([SOURCE]).to_string()});
    assert_eq!(shown(&list, Some(1), |_| {}).0.unwrap(), "True/Ready");
    assert_eq!(
        shown(&list, None, |_| {}).0.unwrap(),
        "False/AwaitingPropagation"
    );
}

#[test]
fn a_problem_of_the_project_is_shown_also_while_the_instance_runs() {
    let mut failed = needing(7);
    let problem = json!({"reason": "SourceNotFound", "message": "m"}).to_string();
    failed[annotations::REFERENCED_DATA_ERROR] = json!(problem);
    let not_found = (Some("False/SourceNotFound".to_owned()), false);
    assert_eq!(shown(&failed, Some(9), |_| {}), not_found);
    let runs = |instance: &mut Instance| {
        instance
            .spec
            .controller
            .as_mut()
            .unwrap()
            .scheduling_gates
            .clear();
        let ready = Condition::new(
            REFERENCED_DATA.condition,
            ConditionStatus::True,
            reason::READY,
            "m",
            now(),
        );
        instance.status.get_or_insert_default().conditions = vec![ready];
    };
    assert_eq!(shown(&failed, None, runs), not_found);
    // A companion that is gone does not stop a machine that runs.
    assert_eq!(shown(&needing(7), None, runs).0.unwrap(), "True/Ready");
}

#[test]
fn an_instance_without_the_gate_is_left_alone() {
    let deployment = using(&needing(7));
    let instance = of(&deployment, false);
    let (none, cell) = (BTreeMap::new(), CellName::new("dfw1").unwrap());
    let needs = needs(&instance, Some(&deployment));
    assert_eq!(
        plan(&observed(&instance, &needs, &none, &cell)),
        Plan::default()
    );
}

#[test]
fn a_cell_that_does_not_wait_opens_the_gate() {
    let deployment = using(&json!({}));
    let instance = of(&deployment, true);
    let (none, cell) = (BTreeMap::new(), CellName::new("dfw1").unwrap());
    let needs = needs(&instance, Some(&deployment));
    let observed = Observed {
        awaits_data: false,
        ..observed(&instance, &needs, &none, &cell)
    };
    let Some(GateStep::Write(conditions)) = plan(&observed).step else {
        panic!("no condition");
    };
    assert!(conditions[0].is_true() && conditions[0].reason == reason::DISABLED);
}

#[test]
fn the_cell_looks_less_often_for_an_old_instance() {
    let aged = |seconds: i64| {
        let mut instance = instance("ns-1", "web-0");
        let created = now() - jiff::SignedDuration::from_secs(seconds);
        instance.metadata.creation_timestamp = Some(object(json!(created)));
        interval(&instance, now()).as_secs()
    };
    assert_eq!([0, 59, 60, 599, 600].map(aged), [1, 1, 5, 5, 15]);
}

/// The record tells later whether the Instance has older data.
#[test]
fn the_gate_of_a_template_that_rolls_waits_for_the_record() {
    let mut deployment = using(&needing(7));
    deployment.spec.template.metadata = Some(object(
        json!({"annotations": {annotations::ROLL_ON_DATA_CHANGE: "true"}}),
    ));
    for (record, expected) in [(None, false), (Some(6), false), (Some(7), true)] {
        let mut instance = of(&deployment, true);
        let key = annotations::REFERENCED_DATA_VERSIONS;
        let record = record.map(|number| needing(number)[key].as_str().unwrap().to_owned());
        let record = record.map(|text| (key.to_owned(), text));
        instance.annotations_mut().extend(record);
        let needs = needs(&instance, Some(&deployment));
        assert_eq!(needs.is_ok(), expected);
    }
}
