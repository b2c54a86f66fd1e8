//! The customization that compute-federation replaces, beside the native interpreter.

use std::collections::BTreeMap;
use std::env;

use super::*;
use crate::lua::Limits;
use crate::review::InterpretedKind;
use api::karmada::ResourceInterpreterCustomization;

const NOW: &str = "2026-11-21T10:00:00Z";
/// Number of generated objects of each kind, if `COMPARED_OBJECTS` is not set.
const OBJECTS: u64 = 2_000;
/// The scripts of the replaced customization, after a line with the name of the operation.
const SCRIPTS: &str = include_str!("../../../tests/tools/karmada/customization.lua");

fn script(rule: &str) -> &'static str {
    let (_, rest) = SCRIPTS.split_once(&format!("-- {rule}\n")).unwrap();
    rest.split_once("\n-- ").map_or(rest, |(script, _)| script)
}

fn customization(
    kind: InterpretedKind,
    rules: &[(&str, &str)],
) -> ResourceInterpreterCustomization {
    let rules: Map<_, _> = rules
        .iter()
        .map(|(rule, script)| ((*rule).to_owned(), json!({"luaScript": script})))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "former"},
        "spec": {
            "target": {"apiVersion": api::API_VERSION, "kind": kind.as_str()},
            "customizations": rules,
        },
    }))
    .unwrap()
}

/// The replaced customization, for a kind.
fn replaced(kind: InterpretedKind) -> LuaInterpreter {
    let rules = [
        "retention",
        "statusReflection",
        "statusAggregation",
        "dependencyInterpretation",
    ];
    let rules = rules.map(|rule| (rule, script(rule)));
    LuaInterpreter::new(&[customization(kind, &rules)], Limits::default()).unwrap()
}

fn without_scripts() -> LuaInterpreter {
    LuaInterpreter::new(&[], Limits::default()).unwrap()
}

fn compare(scripts: &LuaInterpreter, operation: Operation, subject: &Subject) -> Vec<Difference> {
    let comparison = Comparison {
        scripts,
        now: NOW.parse().unwrap(),
        stop: &StopFlag::default(),
    };
    comparison.compare(operation, &WrittenSubject::new(subject.clone()).unwrap())
}

/// Returns the differences of all operations, as text with the name of the law.
fn texts(scripts: &LuaInterpreter, operation: Operation, subject: &Subject) -> Vec<String> {
    let found = compare(scripts, operation, subject);
    let text = |difference: &Difference| {
        let law = difference.law.map_or("UNEXPLAINED", |law| law.name);
        let Difference {
            path,
            former,
            native,
            ..
        } = difference;
        format!("{law}: {path}: {former} -> {native}")
    };
    found.iter().map(text).collect()
}

/// An object in one cell, which all Instances of the customer use.
#[test]
fn an_object_in_one_cell_has_few_differences() {
    let scripts = replaced(InterpretedKind::WorkloadDeployment);
    let subject = Subject::sample(InterpretedKind::WorkloadDeployment);
    for (operation, expected) in [
        (
            Operation::InterpretReplica,
            vec![
                r#"replicas-are-counted: answer: no answer -> {"replicaRequirements":{"resourceRequest":{"cpu":"1","memory":"2Gi"}},"replicas":2}"#,
            ],
        ),
        (
            Operation::ReviseReplica,
            vec![
                r#"share-is-recorded: metadata.annotations.compute.datumapis.com/assigned-replicas: absent -> "{\"field\":\"spec.scaleSettings.minReplicas\",\"generation\":3,\"share\":2,\"total\":2}""#,
            ],
        ),
        (Operation::Retain, vec![]),
        (
            Operation::AggregateStatus,
            vec![r#"cells-are-remembered: status.reportingCell: absent -> "dfw1""#],
        ),
        (Operation::InterpretDependency, vec![]),
        (
            Operation::InterpretStatus,
            vec![
                "helpers-are-added: status.assignedReplicas: absent -> 2",
                "helpers-are-added: status.cellRulesStamp: absent -> 0",
                "helpers-are-added: status.generation: absent -> 2",
                "helpers-are-added: status.resourceTemplateGeneration: absent -> 3",
            ],
        ),
        (Operation::InterpretHealth, vec![]),
    ] {
        assert_eq!(
            texts(&scripts, operation, &subject),
            expected,
            "{operation:?}"
        );
    }
}

#[test]
fn several_cells_and_silent_cells_are_named() {
    let scripts = replaced(InterpretedKind::WorkloadDeployment);
    let mut subject = Subject::sample(InterpretedKind::WorkloadDeployment);
    subject
        .items
        .push(json!({"clusterName": "dfw2", "applied": false}));
    let found = texts(&scripts, Operation::AggregateStatus, &subject);
    for (law, path) in [
        ("cells-are-remembered", "status.cells"),
        (
            "silent-cells-are-named",
            "status.conditions[CellsReporting]",
        ),
        (
            "conditions-are-joined",
            "status.conditions[Available].message",
        ),
    ] {
        let start = format!("{law}: {path}: ");
        assert!(
            found.iter().any(|text| text.starts_with(&start)),
            "{start}: {found:#?}"
        );
    }
}

/// No law explains a script that does something else than the replaced customization.
#[test]
fn other_scripts_are_unexplained() {
    for (rule, script, operation, expected) in [
        (
            "healthInterpretation",
            "function InterpretHealth(o) return false end",
            Operation::InterpretHealth,
            "UNEXPLAINED: healthy: false -> true",
        ),
        (
            "replicaResource",
            "function GetReplicas(o) return 7, nil end",
            Operation::InterpretReplica,
            "UNEXPLAINED: replicas: 7 -> 2",
        ),
        (
            "replicaRevision",
            "function ReviseReplica(o, n) o.spec.scaleSettings.minReplicas = n + 1 return o end",
            Operation::ReviseReplica,
            "UNEXPLAINED: spec.scaleSettings.minReplicas: 3 -> 2",
        ),
        (
            "retention",
            "function Retain(d, o) d.spec.replicas = 9 return d end",
            Operation::Retain,
            "UNEXPLAINED: spec.replicas: 9 -> absent",
        ),
        (
            "statusAggregation",
            "function AggregateStatus(d, items) d.status = {replicas = 5} return d end",
            Operation::AggregateStatus,
            "UNEXPLAINED: status.replicas: 5 -> 2",
        ),
        (
            "statusReflection",
            "function ReflectStatus(o) return {replicas = o.status.replicas} end",
            Operation::InterpretStatus,
            "UNEXPLAINED: status.readyReplicas: absent -> 1",
        ),
        (
            "dependencyInterpretation",
            "function GetDependencies(o) return {{apiVersion = 'v1', kind = 'Secret', namespace = 'ns-1', name = 'other'}} end",
            Operation::InterpretDependency,
            r#"UNEXPLAINED: Secret[ns-1/other]: {"apiVersion":"v1","kind":"Secret","name":"other","namespace":"ns-1"} -> absent"#,
        ),
        (
            "dependencyInterpretation",
            "function GetDependencies(o) return {{apiVersion = 'example.com/v1', kind = 'ConfigMap', namespace = 'sample', name = 'settings'}} end",
            Operation::InterpretDependency,
            r#"UNEXPLAINED: ConfigMap[sample/settings]: {"apiVersion":"example.com/v1""#,
        ),
        (
            "statusReflection",
            "function ReflectStatus(o) return o.cells.a end",
            Operation::InterpretStatus,
            "UNEXPLAINED: answer: error: ",
        ),
        (
            "componentResource",
            "function GetComponents(o) return {} end",
            Operation::InterpretComponent,
            "UNEXPLAINED: answer: [] -> no answer",
        ),
    ] {
        let kind = InterpretedKind::WorkloadDeployment;
        let scripts = [customization(kind, &[(rule, script)])];
        let scripts = LuaInterpreter::new(&scripts, Limits::default()).unwrap();
        let found = texts(&scripts, operation, &Subject::sample(kind));
        assert!(
            found.iter().any(|text| text.starts_with(expected)),
            "{rule}: {found:#?}"
        );
    }
}

/// A law needs the behaviour of the replaced customization, also if the native answer follows its rule.
#[test]
fn a_law_does_not_explain_the_difference_of_another_script() {
    let deployment = Subject::sample(InterpretedKind::WorkloadDeployment);
    let mut divided = deployment.clone();
    divided.share = 1;
    let mut terminating = deployment.clone();
    terminating.in_cell["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut unlisted = deployment.clone();
    unlisted.object["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "v", "secret": {"secretName": "used"}}]);
    let mut gated = Subject::sample(InterpretedKind::Instance);
    gated.in_cell["spec"]["controller"] =
        json!({"templateHash": "a", "schedulingGates": [{"name": "x"}]});
    for (rule, script, operation, subject, expected) in [
        (
            "replicaRevision",
            "function ReviseReplica(o, n) return o end",
            Operation::ReviseReplica,
            &divided,
            vec![
                "spec.scaleSettings.maxReplicas",
                "spec.scaleSettings.minReplicas",
            ],
        ),
        (
            "replicaRevision",
            "function ReviseReplica(o, n) o.spec.scaleSettings.minReplicas = n return o end",
            Operation::ReviseReplica,
            &divided,
            vec!["spec.scaleSettings.maxReplicas"],
        ),
        (
            "retention",
            "function Retain(d, o) d.spec.controller = {templateHash = o.spec.controller.templateHash} return d end",
            Operation::Retain,
            &gated,
            vec!["spec.controller.schedulingGates"],
        ),
        (
            "statusReflection",
            "function ReflectStatus(o) if o.metadata.deletionTimestamp then return {phase = 'Deleting'} end return o.status end",
            Operation::InterpretStatus,
            &terminating,
            vec!["status.phase"],
        ),
        (
            "dependencyInterpretation",
            "function GetDependencies(o) return {} end",
            Operation::InterpretDependency,
            &unlisted,
            vec!["ConfigMap[sample/settings]", "Secret[sample/used]"],
        ),
    ] {
        let kind = subject.object["kind"].as_str().unwrap();
        let kind = InterpretedKind::from_name(kind).unwrap();
        let scripts = [customization(kind, &[(rule, script)])];
        let scripts = LuaInterpreter::new(&scripts, Limits::default()).unwrap();
        let found = compare(&scripts, operation, subject);
        let unexplained = found.iter().filter(|difference| difference.law.is_none());
        let paths: Vec<_> = unexplained
            .map(|difference| difference.path.to_string())
            .collect();
        assert_eq!(paths, expected, "{script}");
    }
}

/// The largest number of replicas, and a status that only the hub has.
#[test]
fn rare_objects_have_only_intended_differences() {
    let kind = InterpretedKind::WorkloadDeployment;
    let scripts = replaced(kind);
    let mut largest = Subject::sample(kind);
    largest.object["spec"]["scaleSettings"] =
        json!({"minReplicas": 1, "maxReplicas": 2_000_000_000});
    let mut silent = Subject::sample(kind);
    silent.items = vec![json!({"clusterName": "dfw1"})];
    silent.in_cell["status"].take();
    silent.object["status"] = json!({
        "replicas": 0, "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0,
        "conditions": [{"type": "CellsReporting", "status": "False", "reason": "CellNotApplied",
            "message": "dfw1: not applied yet", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    for base in [largest, silent] {
        for seed in 0..300 {
            let subject = varied(&base, seed, NOW.parse().unwrap());
            for operation in Operation::ALL {
                let found = texts(&scripts, operation, &subject);
                let unexplained: Vec<_> = found
                    .iter()
                    .filter(|text| text.starts_with("UNEXPLAINED"))
                    .collect();
                assert!(unexplained.is_empty(), "{seed}: {unexplained:#?}");
            }
        }
    }
}

/// Every difference over generated objects has a law, and every law occurs.
#[test]
fn every_difference_from_the_replaced_customization_is_intended() {
    let asked = env::var("COMPARED_OBJECTS")
        .ok()
        .and_then(|objects| objects.parse().ok());
    let objects: u64 = asked.unwrap_or(OBJECTS);
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let mut unexplained: BTreeMap<String, String> = BTreeMap::new();
    for kind in InterpretedKind::ALL {
        let first = Subject::sample(kind);
        for (scripted, scripts) in [(true, replaced(kind)), (false, without_scripts())] {
            for seed in 0..objects {
                let subject = varied(&first, seed, NOW.parse().unwrap());
                for operation in Operation::ALL {
                    for difference in compare(&scripts, operation, &subject) {
                        if let Some(law) = difference.law {
                            *found.entry(law.name).or_default() += 1;
                            continue;
                        }
                        let path = difference.path.without_indexes();
                        let group = format!("{kind:?} {operation:?} scripted {scripted} {path}");
                        let text = || {
                            format!(
                                "{} -> {}, seed {seed}, {}",
                                difference.former,
                                difference.native,
                                json!(subject.items)
                            )
                        };
                        unexplained.entry(group).or_insert_with(text);
                    }
                }
            }
        }
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    eprintln!("{found:?}");
    let missing: Vec<_> = LAWS
        .iter()
        .map(|law| law.name)
        .filter(|law| !found.contains_key(law))
        .collect();
    assert_eq!(missing, [""; 0]);
}
